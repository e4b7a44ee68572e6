"""Generated searches, walked once in a cell and judged by every check that is about pages.

Sharing them is what lets seven invariants be tried on as many cases as one. Only what fails is sent anew, to shrink it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from tools_search_conformance.target.pages import Listing, Walk
from tools_search_conformance.target.properties import explore, limits, queries
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.verdict import ViolationError

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__ = ["explore_walks", "shared_whole"]

_MOST_PAGES: Final = 12


async def explore_walks(bench: Bench, judge: Callable[[Walk, Listing], Awaitable[None]]) -> None:
    """Judge the walks of generated queries and limits over a listing that did not change meanwhile.

    Raises:
        ViolationError: of the smallest query and limit that were found to break the rule.
        UnverifiableError: as `Bench.sandwich`.
    """

    async def search(listing: Listing) -> None:
        if bench.walked_over is None or not bench.walked_over.same_as(listing):
            bench.walked_over, bench.walked = listing, {}

        async def walk(case: tuple[str, int]) -> None:
            if case not in bench.walked:
                bench.walked[case] = await bench.walk(*case, most=_MOST_PAGES)
            try:
                await judge(bench.walked[case], listing)
            except ViolationError:
                # Sent anew the next time, so that what breaks only sometimes is told as such.
                bench.walked.pop(case)
                bench.walked.pop((case[0], None), None)
                raise

        cases = st.tuples(queries(Vocabulary.of(listing.tools)), limits())
        await explore(bench, cases, walk, shared="walks")

    await bench.sandwich(search)


async def shared_whole(bench: Bench, query: str) -> Walk:
    """Return all pages of a search that `explore_walks` found, large ones, walked once.

    Raises:
        UnverifiableError: as `Link.whole`.
    """
    if (query, None) not in bench.walked:
        bench.walked[query, None] = await bench.whole(query)
    return bench.walked[query, None]
