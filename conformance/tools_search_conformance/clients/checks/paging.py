"""Paging: the query with every cursor, empty pages, cursors of every kind, loops, and cursors that are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ClientBench, Session, client_check
from tools_search_conformance.clients.driver import Outcome
from tools_search_conformance.clients.generated import PageSizes, SwitchedSearch, cursors, page_sizes
from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.script import TOOLS, Pages, RefusalError, Reply, Script, found, tool
from tools_search_conformance.target.properties import explore, texts
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import MODERN

_PLAIN_QUERY: Final = "  Export  THE almanac & =? "
_ODD_QUERIES: Final = (
    "e\u0301xport \u212bngstr\u00f6m \uff21lmanac \ufb01le",
    "export\u0000the\u0001\u001f\u0085 al\u200emanac\u202e \U0001f4d6\u2028\ufeff",
    "almanac " * 127 + "almanac!",
)
"""Not normalized; with control characters, marks of direction and more than 16 bits; of 1,024 characters."""
_ODD_CURSORS: Final = (
    (" at 1 =&? ", "a+b%20c/d?e=f#g"),
    ("0", "0012"),
    ("bnVsbA==", "-_~."),
    ("\u0000\u001f\u007f", "\ufefft\u00e9\u0301"),
    ("te\u0301", "\u212b\uff21"),
    ('"quoted"', "{}"),
    ("null", "TRUE"),
    ("c" * 4000, "C" * 4000),
)
_LOOP_END: Final = 120
_STARTS_END: Final = 10
_MAX_STARTS: Final = 2
_CACHEABLE: Final[JsonObject] = {"ttlMs": 3_600_000, "cacheScope": "public"}


@client_check(
    title="The query is repeated unchanged with every cursor",
    sends="A search of three pages, for a query with white space at its ends, for queries that are not normalized, "
    "hold control characters, or are long, and for generated ones.",
    passes="The requests with a cursor carry the `query` of the first one, character by character.",
)
async def query_repeated(bench: ClientBench) -> None:
    script = Script(search=Pages(TOOLS[:2], TOOLS[2:4], TOOLS[4:5]))
    async with bench.connected(script) as session:
        outcome = await _expect_repeated(bench, session, _PLAIN_QUERY)
        session.require_second_page()
    for query in _ODD_QUERIES:  # which a client may refuse to search for
        async with bench.connected(script) as session:
            await _expect_repeated(bench, session, query)
    if outcome.reported:
        async with bench.connected(script) as session:

            async def judge(query: str) -> None:
                await _expect_repeated(bench, session, query)

            await explore(bench, texts(), judge, cost=2)


async def _expect_repeated(bench: ClientBench, session: Session, query: str) -> Outcome:
    """Expect the query of the first request of a search in all of its requests."""
    before = len(session.peer.searches)
    outcome = await session.search_all(query)
    sent = session.peer.searches[before:]
    for exchange in sent[1:]:
        first, later = (params_of(each).get("query") for each in (sent[0], exchange))
        message = f"the query was {first!r}, and with a cursor {later!r}"
        bench.expect(later == first, exchange, message, case=f"query {json.dumps(query)}")
    return outcome


@client_check(
    title="An empty page is not the end",
    sends="Searches with an empty first page, with two empty pages in the middle, and with generated pages of no tool "
    "to three.",
    passes="The client asks for the pages after the empty ones, and has the tools of all pages.",
)
async def empty_page_not_end(bench: ClientBench) -> None:
    for sizes in (PageSizes((0, 1)), PageSizes((1, 0, 0, 1))):
        pages = sizes.pages()
        async with bench.connected(Script(search=pages)) as session:
            outcome = await session.search_all("fold a crane")
            last = pages.cursors[-1] in session.followed
            case = f"cursors followed: {session.followed}"
            bench.expect(last, session.last_search, "a page after an empty one was not asked for", case=case)
            _expect_all_tools(bench, session, outcome, sizes)
    if outcome.reported:
        switched = SwitchedSearch()
        async with bench.connected(Script(search=switched)) as session:

            async def judge(sizes: PageSizes) -> None:
                switched.current = sizes.pages()
                _expect_all_tools(bench, session, await session.search_all(switched.next_query()), sizes)

            await explore(bench, page_sizes(), judge, cost=2)


def _expect_all_tools(bench: ClientBench, session: Session, outcome: Outcome, sizes: PageSizes) -> None:
    """Expect that the client has the tools of all pages, in any order."""
    missing = sorted(sizes.names - set(outcome.names)) if outcome.reported else []
    message = f"of {sizes.describe()} the client lacks {missing}: it has {outcome.describe()}"
    bench.expect(not missing, session.last_search, message, case=sizes.describe())


@client_check(
    title="Scores of different pages are not compared",
    sends="The same search of two pages twice: once the tools of the first page have the higher scores, once the "
    "tools of the second. All else is equal.",
    passes="The same tools in the same order both times.",
)
async def scores_not_compared(bench: ClientBench) -> None:
    orders: list[list[str]] = []
    for first, second in ((0.9, 0.2), (0.2, 0.9)):
        pages = Pages(_scored(TOOLS[:2], first), _scored(TOOLS[2:4], second))
        async with bench.connected(Script(search=pages)) as session:
            outcome = await session.search_all("keep the books")
            session.require_second_page()
            orders.append(outcome.names)
            message = f"with the scores of two pages exchanged, {orders[0]} became {orders[-1]}"
            bench.expect(orders[0] == orders[-1], session.last_search, message)


def _scored(tools: Sequence[JsonObject], score: float) -> list[JsonObject]:
    return [
        {**each, "_meta": {EXTENSION_ID: {"score": round(score - rank / 20, 2)}}} for rank, each in enumerate(tools)
    ]


@client_check(
    title="A cursor is sent back exactly as it was issued",
    sends="Searches of three pages whose cursors have white space at their ends, look like numbers, addresses or "
    "base64, hold control characters, are not normalized, or are long; and generated ones.",
    passes="The requests carry the cursors, character by character.",
)
async def cursor_verbatim(bench: ClientBench) -> None:
    switched = SwitchedSearch()
    async with bench.connected(Script(search=switched)) as session:

        async def judge(issued: Sequence[str]) -> None:
            await _expect_cursors(bench, session, switched, issued)

        for issued in _ODD_CURSORS:
            if not await _expect_cursors(bench, session, switched, issued):
                return  # a one-shot client does one thing
        await explore(bench, st.lists(cursors(), min_size=2, max_size=2, unique=True), judge, cost=2)


async def _expect_cursors(
    bench: ClientBench, session: Session, switched: SwitchedSearch, issued: Sequence[str]
) -> bool:
    """Expect the cursors of one search, in their order; return whether the client reports its outcome."""
    switched.current = Pages(TOOLS[:1], TOOLS[1:2], TOOLS[2:3], cursors=issued)
    before = len(session.followed)
    outcome = await session.search_all(switched.next_query())
    followed = session.followed[before:]
    bench.require(bool(followed), "the client did not read on from the first page", session.latest)
    message = f"the cursors were {json.dumps(issued)}, and the client sent {json.dumps(followed)}"
    bench.expect(followed[: len(issued)] == list(issued), session.last_search, message, case=json.dumps(issued))
    return outcome.reported


@client_check(
    title="An empty `nextCursor` is a cursor",
    sends="A search whose first page has an empty string as `nextCursor`.",
    passes='A request with `"cursor": ""`, before the client is done with it.',
    eras=(MODERN,),
)
async def empty_cursor_followed(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(TOOLS[:1], TOOLS[5:6], cursors=("",)))) as session:
        await session.search_all("fold a crane")
        message = "an empty nextCursor was taken for the end"
        bench.expect("" in session.followed, session.last_search, message, case=f"cursors followed: {session.followed}")


@client_check(
    title="A page without `nextCursor` is the last one",
    sends="Searches of one page, and of two.",
    passes="No further request for the same `query`.",
    level="SHOULD",
)
async def last_page_ends(bench: ClientBench) -> None:
    for pages in (Pages(TOOLS[:1]), Pages(TOOLS[:1], TOOLS[1:2])):
        async with bench.connected(Script(search=pages)) as session:
            await session.search_all("keep the books")
            wanted, sent = len(pages.cursors) + 1, len(session.peer.searches)
            message = f"the search had {wanted} pages, and the client sent {sent} requests"
            bench.expect(sent <= wanted, session.last_search, message, case=f"{wanted} pages")


@client_check(
    title="A search whose cursors form a loop ends",
    sends="Searches whose pages lead to themselves, or to each other in a circle of two or three; after "
    f"{_LOOP_END} requests the peer ends them.",
    passes=f"Fewer than {_LOOP_END} requests, however the client ends the search.",
    level="ADVICE",
)
async def cursor_loop(bench: ClientBench) -> None:
    for length in (1, 2, 3):
        await _expect_end_of_loop(bench, length)


async def _expect_end_of_loop(bench: ClientBench, length: int) -> None:
    count = 0

    def loop(params: JsonObject) -> Reply:
        nonlocal count
        count += 1
        return found(TOOLS[count % 2], cursor=None if count >= _LOOP_END else f"loop{count % length}")

    case = f"a circle of {length}"
    async with bench.connected(Script(search=loop)) as session:
        await session.search_all("keep the books")
        session.require_second_page()
        sent = len(session.peer.searches)
        message = f"the client followed {case} for {sent} requests"
        bench.expect(sent < _LOOP_END, session.last_search, message, case=case)


@client_check(
    title="The pages before a refused cursor are discarded",
    sends="A search whose second page is refused with -32602, since the catalog has changed; a new search finds "
    "another tool. Once more, where the first page may be cached for an hour.",
    passes="An error, or the results of the search that started over, and nothing of the discarded pages.",
)
async def refused_cursor_discards(bench: ClientBench) -> None:
    refused = await _expect_discarded(bench, {})
    bench.require(refused, "the client did not read on from the first page")
    await _expect_discarded(bench, _CACHEABLE)


async def _expect_discarded(bench: ClientBench, hints: JsonObject) -> bool:
    """Expect nothing of the pages before a refused cursor; return whether the client got that far."""
    gone, there = (tool("old_one"), tool("old_two")), tool("new_one")
    refused = False

    def change(params: JsonObject) -> Reply:
        nonlocal refused
        if "cursor" in params:
            refused = True
            raise RefusalError(-32602, "the cursor has expired", {"field": "cursor", "reason": "expired"})
        return found(there) if refused else found(*gone, cursor="before", **hints)

    async with bench.connected(Script(search=change, tools=(there,))) as session:
        outcome = await session.search_all("keep the books")
        if refused:
            kept = [name for name in outcome.names if name in {"old_one", "old_two"}]
            message = f"the cursor was refused, and the client still has {kept} of the pages before"
            bench.expect(not kept, session.last_search, message, case=json.dumps(hints))
    return refused


@client_check(
    title="After a refused cursor a search starts over at most once",
    sends="A search whose first page has a `nextCursor`, with every cursor refused, until it was begun "
    f"{_STARTS_END} times. Once more, where the first page may be cached for an hour.",
    passes="At most two requests without `cursor`.",
)
async def refused_cursor_once(bench: ClientBench) -> None:
    refused = await _expect_few_starts(bench, {})
    bench.require(refused, "the client did not read on from the first page")
    await _expect_few_starts(bench, _CACHEABLE)


async def _expect_few_starts(bench: ClientBench, hints: JsonObject) -> bool:
    """Expect two starts of a search at most; return whether the client got as far as a refused cursor."""
    starts = refused = 0

    def refuse_cursors(params: JsonObject) -> Reply:
        nonlocal starts, refused
        if "cursor" in params:
            refused += 1
            raise RefusalError(-32602, "invalid cursor", {"field": "cursor", "reason": "not honored"})
        starts += 1
        return found(tool(f"start_{starts}"), cursor=None if starts >= _STARTS_END else f"after{starts}", **hints)

    async with bench.connected(Script(search=refuse_cursors)) as session:
        outcome = await session.search_all("keep the books")
        reported = f"it has {outcome.describe()}"
        message = f"every cursor was refused, and the client began its search {starts} times: {reported}"
        bench.expect(starts <= _MAX_STARTS, session.last_search, message, case=json.dumps(hints))
    return refused > 0
