"""Cursors: sent back as they are, empty ones, the last page, circles, and cursors that are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from tools_search_conformance.clients.generated import Shifting, cursors
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Pages, Refusal, Reply, Script, found, tool
from tools_search_conformance.target.properties import explore
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.wire.codec import JsonObject

__all__: list[str] = []

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
_LOOP_ENDS: Final = 120
_STARTS_END: Final = 10
_MOST_STARTS: Final = 2
_HOUR: Final = 3_600_000


@client_check(
    "cursor-verbatim",
    title="A cursor is sent back as it was issued",
    sends="Searches of three pages whose cursors have white space at their ends, look like numbers, addresses or "
    "base64, hold control characters, are not normalised, or are long; and generated ones.",
    passes="The requests carry the cursors, character by character.",
)
async def sends_cursors_back(bench: ClientBench) -> None:
    shifting = Shifting()
    async with bench.connected(Script(search=shifting)) as session:
        for issued in _ODD_CURSORS:
            if not await _expect_cursors(bench, session, shifting, issued):
                return  # a client that does one thing for each connection, and tells nothing

        async def judge(issued: Sequence[str]) -> None:
            await _expect_cursors(bench, session, shifting, issued)

        await explore(bench, st.lists(cursors(), min_size=2, max_size=2, unique=True), judge, cost=2)


async def _expect_cursors(bench: ClientBench, session: Session, shifting: Shifting, issued: Sequence[str]) -> bool:
    """Expect the cursors of one search, in their order; return whether the client says what it made of it."""
    shifting.now = Pages(LISTED[:1], LISTED[1:2], LISTED[2:3], cursors=issued)
    before = len(session.followed)
    told = await session.search_all(shifting.next_query())
    followed = session.followed[before:]
    bench.require(bool(followed), "the client did not read on from the first page", session.latest)
    message = f"the cursors were {json.dumps(issued)}, and the client sent {json.dumps(followed)}"
    bench.expect(followed[: len(issued)] == list(issued), session.last_search, message, case=json.dumps(issued))
    return told.heard


@client_check(
    "empty-cursor-followed",
    title="An empty `nextCursor` is a cursor",
    sends="A search whose first page has an empty string as `nextCursor`.",
    passes='A request with `"cursor": ""`, before the client is done with it.',
    eras=(MODERN,),
)
async def follows_an_empty_cursor(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(LISTED[:1], LISTED[5:6], cursors=("",)))) as session:
        await session.search_all("fold a crane")
        message = "an empty nextCursor was taken for the end"
        bench.expect("" in session.followed, session.last_search, message, case=f"cursors followed: {session.followed}")


@client_check(
    "last-page-ends",
    title="A page without `nextCursor` is the last one",
    sends="Searches of one page, and of two.",
    passes="No further request for the same `query`.",
    level="SHOULD",
)
async def ends_with_the_last_page(bench: ClientBench) -> None:
    for pages in (Pages(LISTED[:1]), Pages(LISTED[:1], LISTED[1:2])):
        async with bench.connected(Script(search=pages)) as session:
            await session.search_all("keep the books")
            wanted, sent = len(pages.cursors) + 1, len(session.peer.searches)
            message = f"the search had {wanted} pages, and the client sent {sent} requests"
            bench.expect(sent <= wanted, session.last_search, message, case=f"{wanted} pages")


@client_check(
    "cursor-loop",
    title="A search whose pages lead in a circle ends",
    sends="Searches whose pages lead to themselves, or to each other in a circle of two or three; after "
    f"{_LOOP_ENDS} requests the peer ends them.",
    passes=f"Fewer than {_LOOP_ENDS} requests, however the client ends the search.",
    level="ADVICE",
)
async def stops_at_a_cursor_loop(bench: ClientBench) -> None:
    for length in (1, 2, 3):
        await _expect_end_of_circle(bench, length)


async def _expect_end_of_circle(bench: ClientBench, length: int) -> None:
    count = 0

    def go_round(params: JsonObject) -> Reply:
        nonlocal count
        count += 1
        return found(LISTED[count % 2], cursor=None if count >= _LOOP_ENDS else f"loop{count % length}")

    case = f"a circle of {length}"
    async with bench.connected(Script(search=go_round)) as session:
        await session.search_all("keep the books")
        sent = len(session.peer.searches)
        bench.require(sent > 1, "the client did not read on from the first page", session.latest)
        message = f"the client followed {case} for {sent} requests"
        bench.expect(sent < _LOOP_ENDS, session.last_search, message, case=case)


@client_check(
    "refused-cursor-discards",
    title="After a refused cursor the pages of that search are discarded",
    sends="A search whose second page is refused with -32602, since the catalog has changed; a new search finds "
    "another tool. Once more, where the first page may be cached for an hour.",
    passes="An error, or what the search found after it started over, and nothing of the discarded pages.",
)
async def discards_pages_of_a_refused_cursor(bench: ClientBench) -> None:
    refused = await _expect_discarded(bench, {})
    bench.require(refused, "the client did not read on from the first page")
    await _expect_discarded(bench, {"ttlMs": _HOUR, "cacheScope": "public"})


async def _expect_discarded(bench: ClientBench, hints: JsonObject) -> bool:
    """Expect nothing of the pages before a refused cursor; return whether the client got that far."""
    gone, there = (tool("old_one"), tool("old_two")), tool("new_one")
    refused = False

    def change(params: JsonObject) -> Reply:
        nonlocal refused
        if "cursor" in params:
            refused = True
            raise Refusal(-32602, "the cursor has expired", {"field": "cursor", "reason": "expired"})
        return found(there) if refused else found(*gone, cursor="before", **hints)

    async with bench.connected(Script(search=change, listed=(there,))) as session:
        told = await session.search_all("keep the books")
        if refused:
            kept = [name for name in told.names if name in {"old_one", "old_two"}]
            message = f"the cursor was refused, and the client still has {kept} of the pages before"
            bench.expect(not kept, session.last_search, message, case=json.dumps(hints))
    return refused


@client_check(
    "refused-cursor-once",
    title="After a refused cursor a search starts over at most once",
    sends="A search whose first page has a `nextCursor`, with every cursor refused, until it was begun "
    f"{_STARTS_END} times. Once more, where the first page may be cached for an hour.",
    passes="At most two requests without `cursor`.",
)
async def starts_over_once(bench: ClientBench) -> None:
    refused = await _expect_few_starts(bench, {})
    bench.require(refused, "the client did not read on from the first page")
    await _expect_few_starts(bench, {"ttlMs": _HOUR, "cacheScope": "public"})


async def _expect_few_starts(bench: ClientBench, hints: JsonObject) -> bool:
    """Expect two starts of a search at most; return whether the client got as far as a refused cursor."""
    starts = refused = 0

    def refuse_cursors(params: JsonObject) -> Reply:
        nonlocal starts, refused
        if "cursor" in params:
            refused += 1
            raise Refusal(-32602, "invalid cursor", {"field": "cursor", "reason": "not honored"})
        starts += 1
        return found(tool(f"start_{starts}"), cursor=None if starts >= _STARTS_END else f"after{starts}", **hints)

    async with bench.connected(Script(search=refuse_cursors)) as session:
        told = await session.search_all("keep the books")
        message = f"every cursor was refused, and the client began its search {starts} times: it has {told.describe()}"
        bench.expect(starts <= _MOST_STARTS, session.last_search, message, case=json.dumps(hints))
    return refused > 0
