"""Sequences of requests: whatever came before, each is answered as if it had come alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tools_search_conformance.checks.changes import changing, other_catalog
from tools_search_conformance.run.registry import check
from tools_search_conformance.target.sequences import explore_sequences
from tools_search_conformance.wire.codec import JsonObject

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__: list[str] = []

_CONTINUED: Final = 2
"""How often each fixed search is continued: what is kept of a search may last for one more page."""


@check(
    "any-sequence",
    title="No request changes what another one is answered, in any sequence",
    sends="Searches that are interleaved, continued, repeated, mixed up, cancelled, and listings; generated sequences"
    " of them, with changes of the catalog where the fixture can be reloaded.",
    passes="Each answer is what a model of the listing and of the searches so far allows.",
    efforts=("deep",),
)
async def answers_any_sequence(bench: Bench) -> None:
    bench.require(bool((await bench.stocked()).tools), "the list is empty")
    one, other = [*(await bench.vocabulary()).broad(2), "anything"][:2]
    listing = await bench.listing()
    betweens: tuple[JsonObject, ...] = ({"query": other, "limit": 1}, {"query": " "}, {"query": one, "limit": 2})
    for between in betweens:
        page, found = await bench.page(one, limit=1), set[str]()
        for _ in range(_CONTINUED):
            found.update(page.names)
            await bench.search(between)
            if not page.next_cursor:
                break
            case = f"query {one!r}, limit 1, continued after {between}"
            page = await bench.served({"query": one, "limit": 1, "cursor": page.next_cursor}, case)
            again = sorted(found.intersection(page.names))
            bench.expect(not again, page.exchange, f"{again} on an earlier page already", case=case)
    after = await bench.listing()
    bench.expect(after.same_as(listing), after.exchange, "tools/list returned something else after searches")
    await explore_sequences(bench)
    if "reload" in bench.setting.features:
        async with changing(bench) as other:
            await explore_sequences(other, partial(other_catalog, other))
