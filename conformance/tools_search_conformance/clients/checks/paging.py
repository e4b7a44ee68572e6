"""Paging: the query with every cursor, empty pages, cursors of every kind, loops, and cursors that are refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, Final

import anyio
from hypothesis import strategies as st
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ONE_PAGE, ClientBench, Session, client_check
from tools_search_conformance.clients.driver import NoDriverFeatureError, Outcome
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import (
    BUSY,
    CACHEABLE,
    EXPIRED,
    MANY,
    TOOLS,
    Pages,
    RefusalError,
    Reply,
    Script,
    Search,
    SwitchedSearch,
    Troubled,
    found,
    is_as_sent,
    tool,
    two_pages,
)
from tools_search_conformance.target.primitives import EVERY_METHOD
from tools_search_conformance.target.properties import cursors, explore, texts
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_PLAIN_QUERY: Final = "  Export  THE almanac & =? "
_OTHER_QUERY: Final = "fold a crane"
_ODD_QUERIES: Final = (
    "e\u0301xport \u212bngstr\u00f6m \uff21lmanac \ufb01le \u0130\u0131",
    "export\u0000the\u0001\u001f\u0085 al\u200emanac\u202e \U0001f4d6\u2028\ufeff\ufffe\ufdd0\U0010ffff",
    "al m a n a c " * 78 + "almanacs !",
    "\U0001f4d6" * 1023 + "!",
    "\ufeff\u201cHTTPS://Example.com/A?b=c+d%20e\u201d &amp; it\u2019s \\u0041\\n\r\n\u00a0stra\u00dfe\t\u0662\u00ad?",
    '"export the almanac"',
    "e\u0302xport \u2764\ufe0f \u200d\u845b\U000e0100 \u3000\u2026 \u2013 a-b\u2011c \u03c3\u03c2 \u0968 \ue000\n",
    "<b>export</b> \u001b[1mthe\u000b almanac\u000c \u007f",
    "0012.50",
    "HTTPS://Example.com/" + "Almanac/$& $1 {0} {query} %s $$ \\\\ %% {{" * 50,
)
"""Queries that are not normalized, have control characters, direction marks, noncharacters or characters beyond 16
bits, or have 1,024 characters of one or four bytes; with characters that are escaped or quoted elsewhere; in quotation
marks; and a longer address."""
_ODD_CURSORS: Final = (
    (" at  1 =&? ", "a+b%20c/d?e=f#g"),
    ("0", "0012"),
    ("bnVsbA==", "-_~."),
    ("bnVsbB==", "bnVsbA"),
    ("1e3", "12345678901234567890"),
    ("&lt;&amp;", "\\u0041\\n"),
    ("\u0000\u001f\u007fte\u0301", "\ufefft\u00e9\u0301"),
    ("a\r\nb", "a\nb\n\u212b\uff21"),
    ("__proto__", "constructor"),
    ('"quoted"', "{}"),
    ('{"page": 2, "of": [1, 2]}', "page=2&of=3;4"),
    ("null", "TRUE"),
    ("end", "none"),
    ("false", "undefined"),
    ("-1", "None"),
    (" ", "\t\u3000"),
    ("k" * 300 + "1", "k" * 300 + "2"),
    ("c" * 4000, "C" * 4000),
    ("\U0001f4d6" * 3000, "x" * 20_000),
)
_AT_ONCE: Final = ("dispatch a courier", "brew a pot of coffee")
_MANY: Final = 20
_MAX_PAGES: Final = 6
_MAX_ON_PAGE: Final = 3
_MANY_PAGES: Final = 12
_FULL: Final = 100
"""The most tools on a page that is as full as the client wants it."""
_LOW: Final = 0.001
_LOOP_END: Final = 120
_WITHOUT_TOOLS: Final = 2
"""The length of the loop with empty pages."""
_STARTS_END: Final = 10
_READ_ON_SECONDS: Final = 1
"""How long to wait for a request that a client need not send: for a second page, or after a busy refusal."""
_CACHE_HINTS: Final[tuple[Mapping[str, Any], ...]] = ({}, CACHEABLE)


@client_check(
    title="The query is repeated unchanged with every cursor",
    sends=f"Searches of three, seven or {_MANY_PAGES} pages for queries that have leading and trailing white space, "
    "are not normalized, contain control characters, escapes or placeholders, or are long, and for generated "
    "queries; for all tools, with a limit, and with one that leaves pages unread before a search for something else; "
    "with an empty page in the middle and an empty cursor. Once the server is too busy for the second page at first, "
    "once it refuses the cursor, and once the first page may be cached. If the driver has `authorization` and "
    "`concurrent`, also for another user and with two concurrent searches, of which one "
    "repeats its request for the second page after it was too busy; if it has `federation`, also of several servers.",
    passes="Each request with a cursor has exactly the `query` for which the cursor was issued.",
    methods=EVERY_METHOD,
)
async def query_repeated(bench: ClientBench) -> None:
    script = Script(search=Pages(TOOLS[:2], (), TOOLS[4:5], cursors=("page2", "")))
    each_tool = Pages(*([each] for each in TOOLS))
    many = each_tool if bench.primitive.setting else _pages((1,) * _MANY_PAGES)
    searches = {_PLAIN_QUERY: many, _OTHER_QUERY: Pages(TOOLS[:2], TOOLS[2:3], cursors=("other page",))}
    async with bench.connected(
        Script(search=lambda params: searches.get(params["query"], each_tool)(params))
    ) as session:
        outcome = await _expect_repeated(session, _PLAIN_QUERY)
        session.require_second_page()
        if outcome.reported:
            await _expect_repeated(session, f"{_PLAIN_QUERY} ", _MANY)
            for query in (_PLAIN_QUERY, _OTHER_QUERY, _PLAIN_QUERY):  # with a cursor left over from each
                await _expect_repeated(session, query, 1)
    # A client may refuse to search for them. One that is not asked over a connection takes one for each.
    for query in () if outcome.reported else _ODD_QUERIES:
        async with bench.connected(script) as session:
            await _expect_repeated(session, query)
    for refusal in (BUSY, EXPIRED):
        troubled = Troubled(Pages(TOOLS[:2], TOOLS[2:4], TOOLS[4:5]), first=(), later=[refusal])
        async with bench.connected(Script(search=troubled)) as session:
            await _expect_repeated(session, _PLAIN_QUERY)
    if outcome.reported:
        first_page_kept = two_pages(found(TOOLS[0], cursor="page2", **CACHEABLE), found(TOOLS[1]))
        async with bench.connected(Script(search=first_page_kept)) as session:
            for _ in range(2):
                await _expect_repeated(session, _PLAIN_QUERY)
        async with bench.connected(script) as session:

            async def judge(query: str) -> None:
                await _expect_repeated(session, query)

            for query in _ODD_QUERIES:
                await judge(query)
            await explore(bench, texts(), judge, cost=2)
        await bench.where_named("authorization", _expect_repeated_for_users)
        await bench.where_named("concurrent", _expect_repeated_at_once)
        await bench.where_named("concurrent", _expect_repeated_after_another_began)
        await bench.where_named("federation", _expect_repeated_of_servers)


async def _expect_repeated(session: Session, query: str, limit: int | None = None) -> Outcome:
    outcome = await session.find(query, limit)
    for peer in session.peers.values():
        _expect_repeated_to(session, peer, outcome, query)
    return outcome


def _expect_repeated_to(session: Session, peer: Peer, outcome: Outcome, query: str) -> None:
    new = {exchange.number for exchange in outcome.searches}
    issued: dict[Any, Any] = {}
    """The query for which each cursor was issued last."""
    for exchange in peer.searches:
        cursor, later = (exchange.params.get(member) for member in ("cursor", "query"))
        if isinstance(cursor, str) and cursor in issued and exchange.number in new:
            message = f"the client sent the query {issued[cursor]!r} first, and {later!r} with the cursor {cursor!r}"
            session.expect(later == issued[cursor], message, exchange, case=f"query {json.dumps(query)}")
        issued[(exchange.result or {}).get("nextCursor")] = later


async def _expect_repeated_of_servers(bench: ClientBench) -> None:
    scripts = {name: Script(search=Pages(*([each] for each in TOOLS))) for name in ("a", "b")}
    async with bench.federated(scripts) as session:
        for query in (_PLAIN_QUERY, _OTHER_QUERY, _PLAIN_QUERY):
            await _expect_repeated(session, query, _MANY)


async def _expect_repeated_for_users(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(TOOLS[:2], TOOLS[2:4]))) as session:
        await session.ask("authorize", **{"as": "somebody"})
        await _expect_repeated(session, _PLAIN_QUERY)


async def _expect_repeated_at_once(bench: ClientBench) -> None:
    """Expect two concurrent searches to continue with their own queries after an empty first page."""
    released = {query: anyio.Event() for query in _AT_ONCE}

    def search(params: JsonObject) -> Reply:
        query = params["query"]
        if "cursor" in params or query not in released:
            return found(TOOLS[5])
        return replace(found(cursor=query), held=released[query])

    async with bench.connected(Script(search=search)) as session:
        for query in released:
            await session.begin(query, query)
        for query in reversed(released):
            released[query].set()
            await session.ask("await", of=query)
        _expect_own_cursors(session)


async def _expect_repeated_after_another_began(bench: ClientBench) -> None:
    """Expect a search that is refused as too busy to go on with its own cursor when another one has one too."""
    _, second = _AT_ONCE
    busy, repeated = anyio.Event(), anyio.Event()

    def search(params: JsonObject) -> Reply:
        query = params["query"]
        if "cursor" not in params:
            return found(TOOLS[3], cursor=query)
        if query == second:
            return replace(found(TOOLS[5]), held=repeated)
        if busy.is_set():
            repeated.set()
            return found(TOOLS[5])
        return replace(BUSY, held=busy)

    async with bench.connected(Script(search=search)) as session:
        for query in _AT_ONCE:
            await session.ask("begin", query=query, **{"as": query})
            await bench.until(session.peer, lambda query=query: session.peer.holds(query), seconds=_READ_ON_SECONDS)
        busy.set()
        await bench.until(session.peer, repeated.is_set, seconds=_READ_ON_SECONDS)
        repeated.set()
        for query in _AT_ONCE:
            await session.ask("await", of=query)
        _expect_own_cursors(session)


def _expect_own_cursors(session: Session) -> None:
    """Expect each search with a cursor, which is the query for which it was issued, to have that query."""
    for exchange in session.peer.searches:
        cursor, query = (exchange.params.get(member) for member in ("cursor", "query"))
        message = f"of two concurrent searches, the client sent the cursor of {cursor!r} with the query {query!r}"
        session.expect(cursor in (None, query), message, exchange, case="two concurrent searches")


@client_check(
    title="An empty page with a `nextCursor` does not end a search",
    sends="Searches with an empty first page, which may be cached on a modern connection; with two, four and "
    f"{_MANY_PAGES - 2} empty pages in the middle; with one after {_MANY} tools; with a page without valid tools; with "
    "an empty cursor on an empty page; with generated pages of zero to three tools; and with an empty page between "
    "pages of as many tools as the client asks for. Also after a refused cursor, with a limit, and, if the driver has "
    "`concurrent`, with a search that runs in the background.",
    passes="The client requests the pages after the empty ones and returns the tools of all pages. A way of searching"
    " in which it does not read as many pages with tools is not judged.",
    methods=EVERY_METHOD,
)
async def empty_page_not_end(bench: ClientBench) -> None:
    await _expect_empty_page_passed_between_full(bench)
    read = _reading_on_new_connections(bench)
    bench.require(await _expect_all_read(read, (0, 1)), ONE_PAGE)
    for sizes in ((1, 0, 0, 1), (1, 0, 0, 0, 0, 1)):
        await _expect_all_read(read, sizes)
    if _has_last((await read(many := _pages((_MANY, 1, 1))))[1], many):  # a client may stop when it has enough
        await _expect_all_read(read, (_MANY, 0, 1))
    for sizes in bench.some(((0, 1), (1, 0, 1)), 1):
        await _expect_all_read(read, sizes, cursors=("page2", "")[1 - len(sizes) :])
    if bench.options.one_shot:
        return
    if bench.cell.era == MODERN:
        await _expect_all_read(_reading_on_new_connections(bench, _search_twice), (0, 1), **CACHEABLE)
    await _expect_all_read(
        _reading_on_new_connections(bench, lambda session: session.search(_OTHER_QUERY, _MANY)), (0, 1, 0, 1)
    )
    await bench.where_named(
        "concurrent", lambda bench: _expect_all_read(_reading_on_new_connections(bench, _begin_and_await), (0, 1, 0, 1))
    )
    invalid: JsonObject = {"description": "nameless"}
    for before in ([[invalid]], [TOOLS[:1], [invalid, invalid]]):
        pages = Pages(*before, TOOLS[5:6])
        session, outcome = await read(pages)
        # A client may take the page for an unusable one, and list or report that.
        gave_up = bool(session.peer.listings) or outcome.error is not None
        right = gave_up or _has_last(outcome, pages) or not await _reads(read, len(before) + 1)
        case = f"a page without valid tools; the client sent the cursors {session.followed}"
        session.expect(right, "the client did not request the page after one without valid tools", case=case)
    searching = SwitchedSearch()
    async with bench.connected(Script(search=searching)) as session:
        read_on = _reading_on_one_connection(session, searching)
        await _expect_all_read(read_on, (1, *(0,) * (_MANY_PAGES - 2), 1))
        await _expect_all_read_if_begun_again(read_on)
        # The last page is not empty.
        before = st.lists(st.integers(0, _MAX_ON_PAGE), min_size=1, max_size=_MAX_PAGES - 1)
        sizes = st.tuples(before, st.integers(1, _MAX_ON_PAGE)).map(lambda drawn: (*drawn[0], drawn[1]))
        await explore(bench, sizes, lambda sizes: _expect_all_read(read_on, sizes), cost=2)


_Read = Callable[[Search], Awaitable[tuple[Session, Outcome]]]
"""Has the client search a peer, and returns the outcome with every search that this took."""


def _reading_on_new_connections(
    bench: ClientBench, search: Callable[[Session], Awaitable[Outcome]] | None = None
) -> _Read:
    """Return how the client reads pages on a connection of their own; by default, to find all tools."""

    async def read(pages: Search) -> tuple[Session, Outcome]:
        async with bench.connected(Script(search=pages)) as session:
            outcome = await (search(session) if search else session.search_all(_OTHER_QUERY))
            return session, replace(outcome, searches=tuple(session.peer.searches))

    return read


def _reading_on_one_connection(session: Session, searching: SwitchedSearch) -> _Read:
    """Return how the client reads the pages of one search after the other on the same connection."""

    async def read(pages: Search) -> tuple[Session, Outcome]:
        return session, await session.search_all(searching.switch(pages))

    return read


async def _search_twice(session: Session) -> Outcome:
    await session.search_all(_OTHER_QUERY)
    return await session.search_all(_OTHER_QUERY)


async def _begin_and_await(session: Session) -> Outcome:
    await session.ask("begin", **{"as": "one", "query": _OTHER_QUERY})
    return await session.ask("await", of="one")


def _has_last(outcome: Outcome, pages: Pages) -> bool:
    """Return whether the client has requested the last page."""
    return any(exchange.params.get("cursor") == pages.cursors[-1] for exchange in outcome.searches)


async def _reads(read: _Read, number: int, cursors: Sequence[str] | None = None) -> bool:
    """Return whether the client reads this many pages of one tool each."""
    pages = _pages((1,) * number, cursors=cursors)
    return _has_last((await read(pages))[1], pages)


async def _expect_all_read(
    read: _Read, sizes: Sequence[int], cursors: Sequence[str] | None = None, **members: Any
) -> bool:
    """Expect the tools of all pages, if the client reads as many pages when each has a tool; return whether it does."""
    pages = _pages(sizes, cursors=cursors, **members)
    session, outcome = await read(pages)
    last = _has_last(outcome, pages)
    if not last and not await _reads(read, len(sizes), cursors):
        return False
    case = f"pages of {', '.join(map(str, sizes))} tools with the cursors {', '.join(map(repr, pages.cursors))}"
    followed = [exchange.params.get("cursor") for exchange in outcome.searches if "cursor" in exchange.params]
    session.expect(last, f"the client did not request the last of {case}: it sent the cursors {followed}", case=case)
    _expect_all_tools(session, outcome, sizes)
    return True


async def _expect_all_read_if_begun_again(read: _Read) -> None:
    """Expect the tools of all pages, two of them empty, from a client that starts over after a refused cursor."""
    sizes = (0, 0, 1)
    pages = _pages(sizes)
    session, outcome = await read(Troubled(pages, first=(), later=[EXPIRED]))
    begun_again = sum("cursor" not in exchange.params for exchange in outcome.searches) > 1
    if begun_again and (_has_last(outcome, pages) or await _reads(read, len(sizes))):
        _expect_all_tools(session, outcome, sizes)


async def _expect_empty_page_passed_between_full(bench: ClientBench) -> None:
    """Expect a client that reads on from pages as full as it wants them to read on from an empty page as well."""
    for middle in (_FULL, 0):

        def search(params: JsonObject, middle: int = middle) -> Reply:
            most = [min(integer(params.get("limit")) or 1, each) for each in (_FULL, middle, _FULL)]
            return Pages(*(MANY[number * _FULL :][:each] for number, each in enumerate(most)))(params)

        async with bench.connected(Script(search=search)) as session:
            await session.search_all(_OTHER_QUERY)
            session.require_search()
            reads_on = "page3" in session.followed
            if not middle:
                message = f"the client took an empty page for the last one: it sent the cursors {session.followed}"
                session.expect(reads_on, message, case="an empty page between full ones")
            elif not reads_on:
                return


def _tool_names(sizes: Sequence[int]) -> list[list[str]]:
    """Return the names of the tools on each page of a search with these page sizes."""
    return [[f"tool_{page}_{n}" for n in range(size)] for page, size in enumerate(sizes)]


def _pages(sizes: Sequence[int], **members: Any) -> Pages:
    return Pages(*([tool(name) for name in names] for names in _tool_names(sizes)), **members)


def _expect_all_tools(session: Session, outcome: Outcome, sizes: Sequence[int]) -> None:
    """Expect the client to return the tools of all pages, in any order."""
    names = {name for page in _tool_names(sizes) for name in page}
    missing = sorted(names - set(outcome.names)) if outcome.reported else []
    case = f"pages of {', '.join(map(str, sizes))} tools"
    session.expect(not missing, f"of {case}, the client returned {outcome.describe()} without {missing}", case=case)


@client_check(
    title="Scores of different pages are not compared",
    sends="The same search of three pages twice, for all tools and with limits: once the tools of the first page have "
    "much higher scores than the others, once those of the second; the scores of the third are in between. Everything "
    "else is equal. Then a search of two pages, of which one or the other has scores that fall steeply, and a search "
    "where two pages have the same tool with different descriptions.",
    passes="The client returns the same tools in the same order both times. If it drops tools with low scores on any "
    "page, or reads no page after them, only the order of the other tools counts.",
    methods=EVERY_METHOD,
)
async def scores_not_compared(bench: ClientBench) -> None:
    async def names(
        pages: Sequence[Sequence[JsonObject]], limit: int | None = None, *, reads_on: bool = False
    ) -> list[str]:
        async with bench.connected(Script(search=Pages(*pages))) as session:
            outcome = await session.find("keep the books", limit)
            if reads_on:
                session.require_second_page()
            latest.append((session.last_search, outcome))
            return outcome.names

    latest: list[tuple[Exchange, Outcome]] = []
    low = _scored(TOOLS[:2], _LOW), _scored(TOOLS[2:4], _LOW)
    leaves_out = len(await names(low)) < sum(map(len, low))
    for limit in bench.some((None, _MANY, 3), 2):
        orders: list[list[str]] = []
        for first, second in ((0.9, _LOW), (_LOW, 0.9)):
            pages = _scored(TOOLS[:2], first), _scored(TOOLS[2:4], second), _scored(TOOLS[4:6], 0.6)
            orders.append(await names(pages, limit, reads_on=limit is None and first > second))
        if leaves_out:
            if limit is None and all(len(outcome.searches) == len(pages) for _, outcome in latest[-2:]):
                _expect_high_scores_taken(bench, latest[-1][0], *orders)
            orders = _of_both(*orders)
        message = f"the client returned {orders[0]}, but with the scores of two pages swapped {orders[1]}"
        bench.expect(orders[0] == orders[1], latest[-1][0], message, case=f"limit {limit or 'none'}")
    # A client may leave out tools with a much lower score than the best one on the same page.
    steep, flat = (0.9, 0.5), (0.9, 0.88)
    orders = _of_both(
        *[
            await names([_with_scores(TOOLS[:2], first), _with_scores(TOOLS[2:4], second)])
            for first, second in ((steep, flat), (flat, steep))
        ]
    )
    message = f"the client returned {orders[0]}, but {orders[1]} where the scores of the other page fall steeply"
    bench.expect(orders[0] == orders[1], latest[-1][0], message, case="scores that fall steeply on one page")
    if not leaves_out:
        texts = ("Keeps the books.", "Keeps the books in order.")
        for scores in ((0.9, 0.2), (0.2, 0.9)):
            pages = [_scored([tool("keep_books", text)], score) for text, score in zip(texts, scores, strict=True)]
            await names(pages, reads_on=True)
        kept = [{str(each.get("description")) for each in outcome.tools} for _, outcome in latest[-2:]]
        message = (
            f"of a tool on two pages, the client returned the definition {kept[0]}, but with scores swapped {kept[1]}"
        )
        bench.expect(kept[0] == kept[1], latest[-1][0], message, case="a tool on two pages")


def _of_both(first: Sequence[str], second: Sequence[str]) -> list[list[str]]:
    """Return two orders with only the names that both have."""
    return [[name for name in order if name in first and name in second] for order in (first, second)]


def _expect_high_scores_taken(bench: ClientBench, at: Exchange, first: Sequence[str], second: Sequence[str]) -> None:
    """Expect a client that leaves out low scores to keep the same high ones from each page that it reads."""
    one, other, third = ([str(each["name"]) for each in TOOLS[start : start + 2]] for start in (0, 2, 4))
    fine = (not {*one} <= {*first} or {*other} <= {*second}) and ({*third} & {*first} == {*third} & {*second})
    message = f"with high scores on the first page, the client returned {first}, but with those on the second {second}"
    bench.expect(fine, at, message, case="low scores left out")


def _scored(tools: Sequence[JsonObject], score: float) -> list[JsonObject]:
    return _with_scores(tools, [round(score * (1 - rank / 20), 6) for rank in range(len(tools))])


def _with_scores(tools: Sequence[JsonObject], scores: Sequence[float]) -> list[JsonObject]:
    return [{**each, "_meta": {EXTENSION_ID: {"score": score}}} for each, score in zip(tools, scores, strict=True)]


@client_check(
    title="A cursor is sent back exactly as it was issued",
    sends="Searches of three pages whose cursors have white space at their ends or nothing else, look like numbers, "
    "URLs or base64, contain control characters, are not normalized, are long, or are names that every JavaScript "
    f"object has; and generated cursors; one of {_MANY_PAGES} pages with such cursors.",
    passes="The client sends exactly the issued cursors, or those of fewer pages if it reads fewer of every search.",
    methods=EVERY_METHOD,
)
async def cursor_verbatim(bench: ClientBench) -> None:
    searching = SwitchedSearch()
    async with bench.connected(Script(search=searching)) as session:

        async def judge(issued: Sequence[str]) -> None:
            before = len(session.followed)
            await session.search_all(searching.switch(_pages((1,) * (len(issued) + 1), cursors=issued)))
            sent = session.followed[before:]
            followed = [cursor for place, cursor in enumerate(sent) if cursor not in sent[:place]]  # it may repeat one
            read_on = bool(followed) or issued != _ODD_CURSORS[0]
            bench.require(read_on, ONE_PAGE, session.latest)
            message = f"the server issued the cursors {json.dumps(issued)}, but the client sent {json.dumps(followed)}"
            right = followed[: len(issued)] == list(issued)
            if not right and followed == list(issued[: len(followed)]):
                _, usual = await _reading_on_one_connection(session, searching)(_pages((1,) * (len(issued) + 1)))
                pages = {str(exchange.params.get("cursor")) for exchange in usual.searches}  # each may be sent twice
                right = len(pages) == len(followed) + 1  # the client never reads more pages
            session.expect(right, message, case=json.dumps(issued))

        await judge(_ODD_CURSORS[0])
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            for issued in _ODD_CURSORS[1:]:
                await judge(issued)
            if not bench.primitive.setting:
                await judge([*chain(*_ODD_CURSORS)][_MANY_PAGES - 2 :: -1])
            await explore(bench, st.lists(cursors(), min_size=2, max_size=2, unique=True), judge, cost=2)


@client_check(
    title="An empty string as `nextCursor` is a cursor",
    sends="A search whose first page has an empty string as `nextCursor`; then one whose second page has it.",
    passes='The client sends a request with `"cursor": ""` before the search ends.',
    eras=(MODERN,),
    methods=EVERY_METHOD,
)
async def empty_cursor_followed(bench: ClientBench) -> None:
    for issued in (("",), ("page2", "")):
        pages = Pages(TOOLS[:1], TOOLS[1:2], TOOLS[5:6], cursors=(*issued, "end")[:2])
        async with bench.connected(Script(search=pages)) as session:
            await session.search_all("fold a crane")
        case = f"the client sent the cursors {session.followed}"
        if all(cursor in session.followed for cursor in issued[:-1]):  # a client may send anything as a cursor
            right = "" in session.followed or not await _reads(_reading_on_new_connections(bench), len(issued) + 1)
            bench.require(not right or bool(session.followed), ONE_PAGE, session.latest)
            session.expect(right, "the client took an empty nextCursor for the end of the search", case=case)


@client_check(
    title="A page without `nextCursor` is the last one",
    sends="Searches of one page and of two; then the same with a `nextCursor` of `null` on the last page.",
    passes="The client sends no further request for this `query`, unless it repeats one at once, or the whole "
    "search, and returns the tools of all pages.",
    methods=EVERY_METHOD,
)
async def last_page_ends(bench: ClientBench) -> None:
    for pages in (Pages(TOOLS[:1]), Pages(TOOLS[:1], TOOLS[1:2])):
        for end in ("no nextCursor", "a nextCursor of null"):

            def search(params: JsonObject, pages: Pages = pages, null: bool = "null" in end) -> Reply:
                page = pages(params)
                return replace(page, result={"nextCursor": None, **(page.result or {})}) if null else page

            async with bench.connected(Script(search=search)) as session:
                outcome = await session.search_all("keep the books")
                # A request that is sent again at once is no further one.
                asked = [
                    cursor for cursor, _ in groupby(str(each.params.get("cursor")) for each in session.peer.searches)
                ]
                wanted, sent = len(pages.cursors) + 1, len(asked)
                times = min(Counter(asked).values(), default=1)
                case = f"{wanted} pages, {end} on the last"
                message = f"the search had {wanted} pages with {end} on the last,"
                message += f" but the client sent {number_of(sent, 'request')}"
                session.expect(sent <= wanted * times, message, case=case)
                if outcome.reported and sent == wanted * times:
                    message = f"of {case}, the client returned {outcome.describe()}"
                    session.expect(len({*outcome.names}) == wanted, message, case=case)


@client_check(
    title="A search whose cursors form a loop ends",
    sends="Searches whose cursors lead back to the same page, or form a loop of two empty pages or of three; after "
    f"{_LOOP_END} requests the peer ends them.",
    passes=f"The client sends fewer than {_LOOP_END} requests, however it ends the search.",
    methods=EVERY_METHOD,
)
async def cursor_loop(bench: ClientBench) -> None:
    def loop_of(length: int) -> Script:
        count = 0

        def loop(_: JsonObject) -> Reply:
            nonlocal count
            count += 1
            tools = () if length == _WITHOUT_TOOLS else TOOLS[count % 2 : count % 2 + 1]
            return found(*tools, cursor=None if count >= _LOOP_END else f"loop{count % length}")

        return Script(search=loop)

    for length in bench.some((1, 2, 3), 1):
        async with bench.connected(loop_of(length)) as session:
            await session.search_all("keep the books")
            if length != _WITHOUT_TOOLS:  # empty-page-not-end judges whether the client reads on from an empty page
                session.require_second_page()
            case, sent = f"a loop of {number_of(length, 'cursor')}", len(session.peer.searches)
            session.expect(sent < _LOOP_END, f"the client followed {case} for {number_of(sent, 'request')}", case=case)


class _RefusedCursors:
    """A search that refuses all cursors except the first `good` ones after each start; `page` makes its first page."""

    def __init__(
        self,
        page: Callable[[int, int], Reply],
        *,
        good: Callable[[int], int] = lambda _: 0,
        follows: Sequence[Reply] = (),
        data: bool = True,
    ) -> None:
        self.refused = self.starts = self.starts_over = self._followed = 0
        self._refused_since = False
        self._page, self._good, self._follows = page, good, follows
        self._data = {"field": "cursor", "reason": "expired"} if data else None

    def __call__(self, params: JsonObject) -> Reply:
        if "cursor" not in params:
            self.starts, self._followed = self.starts + 1, 0
            self.starts_over, self._refused_since = self.starts_over + self._refused_since, False
            return self._page(self.refused, self.starts)
        if self._followed < self._good(self.starts):
            self._followed += 1
            return self._follows[self._followed - 1]
        self.refused, self._refused_since = self.refused + 1, True
        # Without `data`, nothing but the code says what was refused.
        raise RefusalError(-32602, "the cursor has expired" if self._data else "Invalid params", self._data)


@client_check(
    title="A search that starts over after a refused cursor discards the pages before it",
    sends="A search whose second page is refused with error -32602 because the catalog has changed; a new search finds "
    "another tool. Then one whose fourth page is refused. The same with pages that may be cached for an hour; with a "
    "limit; without `data` in the error and with a new search that finds nothing; and with every cursor refused, so "
    "that the new search ends early too; and with pages that may be cached and a new search with the same cursors.",
    passes="The client returns an error, or only the results of the search that started over. If it does not start"
    " over, it may return the pages that it has.",
    methods=EVERY_METHOD,
)
async def refused_cursor_discards(bench: ClientBench) -> None:
    for hints, good in bench.some([(hints, good) for hints in _CACHE_HINTS for good in (0, 2)], 2):
        await _expect_discarded(bench, hints, good)
    different: tuple[JsonObject, ...] = ({"data": False, "finds": False}, {"all_refused": True}, {"limit": _MANY})
    for each in bench.some(different, 1):
        await _expect_discarded(bench, {}, 0, **each)
    await _expect_cached_pages_discarded(bench)


async def _expect_cached_pages_discarded(bench: ClientBench) -> None:
    """Expect no page of a refused search in the new one, although the server issues the same cursor again."""
    following = {"page1": "page2", "page2": "page3"}
    refused, starts_over = False, 0

    def search(params: JsonObject) -> Reply:
        nonlocal refused, starts_over
        page = str(params.get("cursor", "page1"))
        if page not in following and not refused:
            refused = True
            raise RefusalError(-32602, "the cursor has expired")
        starts_over += refused and "cursor" not in params
        which = "new" if refused else "old"
        return found(tool(f"{which}_{page}"), cursor=following.get(page), **CACHEABLE)

    async with bench.connected(Script(search=search)) as session:
        outcome = await session.search_all("keep the books")
        session.require_search()
        kept = [name for name in outcome.names if name.startswith("old")] if starts_over else []
        message = f"after a refused cursor, the client started over, but returned {kept} from the pages before it"
        session.expect(not kept, message, case="pages that may be cached for an hour, with the same cursors again")


async def _expect_discarded(
    bench: ClientBench,
    hints: Mapping[str, Any],
    good: int,
    *,
    data: bool = True,
    finds: bool = True,
    all_refused: bool = False,
    limit: int | None = None,
) -> None:
    """Expect the client to discard the pages before a cursor that is refused after `good` others.

    The new search finds one tool, or nothing.
    """
    gone = ["old_one", "old_two", *(f"old_page_{number}" for number in range(good))]
    outdated = tool("new_one", "As it was before.")
    first = found(tool("old_one"), tool("old_two"), outdated, cursor="before", **hints)
    follows = [found(tool(f"old_page_{number}"), cursor=f"before{number}", **hints) for number in range(good)]

    def start(refused: int, _: int) -> Reply:
        more = all_refused and refused < _STARTS_END
        now = [tool("new_one")] if finds else []
        return found(*now, cursor="again" if more else None) if refused else first

    search = _RefusedCursors(start, good=lambda _: good, follows=follows, data=data)
    async with bench.connected(Script(search=search, tools=(tool("new_one"),))) as session:
        outcome = await session.find("keep the books", limit)
        session.require_search()
        read_on = bool(search.refused or hints or limit or good)  # the client may read fewer pages
        bench.require(read_on, ONE_PAGE)
        if search.refused:
            # A client may also stop and keep its pages: without a new search, nothing is mixed.
            kept = [str(each["name"]) for each in outcome.tools if each["name"] in gone or is_as_sent(each, outdated)]
            kept = kept if search.starts_over else []
            message = f"after a refused cursor, the client started over, but returned {kept} from the pages before it"
            case = f"{good + 2} pages, cache hints {json.dumps(hints)}{', with a limit' if limit else ''}"
            session.expect(not kept, message, case=case)
            has_new = not finds or not search.starts_over or not outcome.reported or "new_one" in outcome.names
            message = "after a refused cursor, the client started over and found 'new_one',"
            message += f" but returned {outcome.describe()}"
            session.expect(has_new or outcome.error is not None, message, case=case)


@client_check(
    title="After refused cursors, a search starts over at most once",
    sends="A search whose first page has a `nextCursor`, with every cursor refused until the search was begun "
    f"{_STARTS_END} times. The same with the second cursor of each attempt refused, or of every other attempt if the "
    "pages may be cached for an hour; with a limit; without tools; and without `data` in the error.",
    passes="A refused cursor is followed by a request without `cursor` at most once.",
    methods=EVERY_METHOD,
)
async def refused_cursor_once(bench: ClientBench) -> None:
    for hints in _CACHE_HINTS:
        for good in (0, 1):
            await _expect_few_starts(bench, hints, good)
    await _expect_few_starts(bench, {}, _MAX_ON_PAGE)
    await _expect_few_starts(bench, {}, 0, data=False)
    await _expect_few_starts(bench, {}, 0, tools=False)
    with suppress(NoDriverFeatureError):
        await _expect_few_starts(bench, {}, 0, limit=_MANY)


async def _expect_few_starts(
    bench: ClientBench,
    hints: Mapping[str, Any],
    good: int,
    *,
    data: bool = True,
    tools: bool = True,
    limit: int | None = None,
) -> None:
    def good_at(start: int) -> int:
        return (good + start - 1) % 2 if hints else good

    def page(_: int, starts: int) -> Reply:
        of_start = (tool(f"start_{starts}"),) if tools else ()
        return found(*of_start, cursor=None if starts >= _STARTS_END else f"after{starts}", **hints)

    follows = [found(tool(f"page_{number}"), cursor=f"later{number}", **hints) for number in range(good or 1)]
    search = _RefusedCursors(page, good=good_at, follows=follows, data=data)
    async with bench.connected(Script(search=search)) as session:
        outcome = await session.find("keep the books", limit)
        message = f"after refused cursors, the client started over {search.starts_over} times"
        message += f" and returned {outcome.describe()}"
        case = (
            f"{number_of(good, 'cursor')} accepted, cache hints {json.dumps(hints)}{', with a limit' if limit else ''}"
            f"{'' if tools else ', without tools'}"
        )
        session.expect(search.starts_over <= 1, message, case=case)
    bench.require(bool(search.refused or hints or limit or good or not tools), ONE_PAGE)
