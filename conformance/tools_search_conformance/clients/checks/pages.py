"""Reading a search page by page: the query with every cursor, empty pages, scores of different pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.generated import Cut, Shifting, cuts
from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Pages, Script
from tools_search_conformance.target.properties import explore, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.contract import Told
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.wire.codec import JsonObject

__all__: list[str] = []

_PLAIN_QUERY: Final = "  Export  THE almanac & =? "
_ODD_QUERIES: Final = (
    "e\u0301xport \u212bngstr\u00f6m \uff21lmanac \ufb01le",
    "export\u0000the\u0001\u001f\u0085 al\u200emanac\u202e \U0001f4d6\u2028\ufeff",
    "almanac " * 127 + "almanac!",
)
"""Not normalised; with control characters, marks of direction and more than 16 bits; of 1,024 characters."""


@client_check(
    "query-repeated",
    title="The query is repeated unchanged with every cursor",
    sends="A search of three pages, for a query with white space at its ends, for queries that are not normalised, "
    "hold control characters, or are long, and for generated ones.",
    passes="The requests with a cursor carry the `query` of the first one, character by character.",
)
async def repeats_the_query(bench: ClientBench) -> None:
    async with bench.connected(_three_pages()) as session:
        told = await _expect_repeated(bench, session, _PLAIN_QUERY)
        bench.require(len(session.peer.searches) > 1, "the client did not read on from the first page", session.latest)
    for query in _ODD_QUERIES:  # which a client may refuse to search for
        async with bench.connected(_three_pages()) as session:
            await _expect_repeated(bench, session, query)
    if told.heard:
        async with bench.connected(_three_pages()) as session:

            async def judge(query: str) -> None:
                await _expect_repeated(bench, session, query)

            await explore(bench, texts(), judge, cost=2)


def _three_pages() -> Script:
    return Script(search=Pages(LISTED[:2], LISTED[2:4], LISTED[4:5]))


async def _expect_repeated(bench: ClientBench, session: Session, query: str) -> Told:
    """Expect one query in all requests of a search, whatever its first request made of it."""
    before = len(session.peer.searches)
    told = await session.search_all(query)
    sent = session.peer.searches[before:]
    for exchange in sent[1:]:
        first, later = (params_of(each).get("query") for each in (sent[0], exchange))
        message = f"the query was {first!r}, and with a cursor {later!r}"
        bench.expect(later == first, exchange, message, case=f"query {json.dumps(query)}")
    return told


@client_check(
    "empty-page-not-end",
    title="An empty page is not the end",
    sends="Searches with an empty first page, with two empty pages in the middle, and with generated pages of no tool "
    "to three.",
    passes="The client asks for the pages after the empty ones, and has the tools of all pages.",
)
async def reads_on_after_an_empty_page(bench: ClientBench) -> None:
    for cut in (Cut((0, 1)), Cut((1, 0, 0, 1))):
        pages = cut.pages()
        async with bench.connected(Script(search=pages)) as session:
            told = await session.search_all("fold a crane")
            last = pages.cursors[-1] in session.followed
            message = "a page after an empty one was not asked for"
            bench.expect(last, session.last_search, message, case=f"cursors followed: {session.followed}")
            _expect_all(bench, session, told, cut)
    if told.heard:
        shifting = Shifting()
        async with bench.connected(Script(search=shifting)) as session:

            async def judge(cut: Cut) -> None:
                shifting.now = cut.pages()
                _expect_all(bench, session, await session.search_all(shifting.next_query()), cut)

            await explore(bench, cuts(), judge, cost=2)


def _expect_all(bench: ClientBench, session: Session, told: Told, cut: Cut) -> None:
    """Expect that the client has the tools of all pages, in whatever order."""
    missing = sorted(cut.names - set(told.names)) if told.heard else []
    message = f"of {cut.describe()} the client lacks {missing}: it has {told.describe()}"
    bench.expect(not missing, session.last_search, message, case=cut.describe())


@client_check(
    "scores-not-compared",
    title="Scores of different pages are not compared",
    sends="The same search of two pages twice: once the tools of the first page have the higher scores, once those of "
    "the second. All else is equal.",
    passes="The same tools in the same order both times.",
)
async def compares_no_scores(bench: ClientBench) -> None:
    orders: list[list[str]] = []
    for first, second in ((0.9, 0.2), (0.2, 0.9)):
        pages = Pages(_scored(LISTED[:2], first), _scored(LISTED[2:4], second))
        async with bench.connected(Script(search=pages)) as session:
            told = await session.search_all("keep the books")
            bench.require(len(session.peer.searches) > 1, "the client did not read on from the first page")
            orders.append(told.names)
            message = f"with the scores of two pages exchanged, {orders[0]} became {orders[-1]}"
            bench.expect(orders[0] == orders[-1], session.last_search, message)


def _scored(tools: Sequence[JsonObject], score: float) -> list[JsonObject]:
    return [
        {**each, "_meta": {EXTENSION_ID: {"score": round(score - rank / 20, 2)}}} for rank, each in enumerate(tools)
    ]
