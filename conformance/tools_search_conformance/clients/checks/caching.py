"""Caching: which answers a client may give from what it keeps. A client that keeps nothing passes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

import anyio
from tools_search_spec import EXTENSION_ID, PRIMITIVES

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, Session, client_check
from tools_search_conformance.clients.driver import DriverError, NoDriverFeatureError, Outcome
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import (
    CACHEABLE,
    HOUR_MS,
    SETTINGS,
    TOOLS,
    HeldSearch,
    RefusalError,
    Reply,
    Script,
    found,
    is_as_sent,
    serves,
    tool,
    two_pages,
)
from tools_search_conformance.target.primitives import EVERY_METHOD
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.display import cut, number_of
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.record import Exchange

_NEED: Final = "fold a crane"
_OTHER: Final = "export the almanac"
_NOTHING: Final = "praise nobody"
_LIMIT: Final = 12
_LONG: Final = "fold a crane " * 78
_ALL: Final = 0
"""In place of a limit: search for all tools."""
_TWICE: Final[tuple[tuple[str, int | None], ...]] = ((_NEED, _LIMIT), (_NEED, _ALL), ("Fold a crane", _LIMIT))
"""Searches that are sent twice first, to find out whether the client caches anything."""
_LIMITS: Final[tuple[tuple[str, int | None], ...]] = (
    (_NEED, None),
    *((_NEED, limit) for limit in (1, 2, 3, 5, 8, 10, 13, 20, 25, 50, 100, 257, 1000)),
    ("fold a crane1", 2),
    (_OTHER, 2),
    (_OTHER, _ALL),
    ("find the file", _ALL),
    ("find the file", 7),
)
"""Searches that a cache key confuses with earlier ones if it mishandles limits or cursors."""
_OF_SERVERS: Final = ((_NEED, 2), (_NEED, _LIMIT), (_OTHER, _LIMIT), ("Fold a crane", _LIMIT), (_NEED, 5))
"""Searches of several servers."""
_QUERIES: Final = tuple(
    (query, _LIMIT)
    for query in (
        "fold a crane ", "fold  a crane", "fold a\u00a0crane", "fold a\ncrane", "fold a crane\n", "fold a crane\r\n",
        "a crane fold", "fold a crane!", "fold the crane", "folding a crane",
        "\uff46old a crane", "fold a cran\u00e9", "fold a crane\u0301", "fold a\u200b crane", "fold a crane\u0000",
        "fold a crane\U0001f9a2", "fold a cranes", "fold a crane crane", "fold-a-crane", "fold_a_crane", "fold+a+crane",
        "fold%20a%20crane", '"fold a crane"', "fold a stra\u00dfe", "fold a strasse", "fold 2 cranes",
        "fold \u0662 cranes", "fold a\tcrane", "fold & glue", "fold and glue", f"{_LONG}of paper", f"{_LONG}of cloth",
        f"{_LONG}Aa", f"{_LONG}BB",  # equal in the usual hash function of some languages
        f"re{_LONG}of cloth",  # ends like another one
        "10", "1e1", "010",
    )
)  # fmt: skip
"""Searches that a key confuses if it normalizes or truncates queries. Each finds tools that no other search finds."""
_FEWER: Final = 4
"""For lists other than tools, only every fourth of these searches is sent."""
_CURSORS: Final = (
    "2", "next", "Next", "next.2", " next", "next=", "n\u00e9xt", "ne\u0301xt", f"{'n' * 300}Aa", f"{'n' * 300}BB", "",
)  # fmt: skip
"""Cursors that a key confuses. One of them is also the limit of a search."""
_SEPARATORS: Final = ("|", ":", ",", "\n", "\u0000")
"""Possible separators of the parts of a key. They are also sent as cursors."""
_JOINED: Final = tuple(
    (query, None)
    for query in (
        *(f"{_OTHER}{separator}{_LIMIT}" for separator in _SEPARATORS),
        *(f"{separator}{_OTHER}" for separator in _SEPARATORS),
        f"{_OTHER}&limit={_LIMIT}",
    )
)
"""Searches that a key confuses if it joins its parts with a separator that queries can contain."""
_NO_SCOPES: Final = (None, "Public", " public", "public, max-age=60", ["public"])
_USERS: Final = ("alice", "Alice", *(f"alice.{'0123456789' * 7}.{end}" for end in "ab"), "ali")
_SHORT: Final = 50
_SLIDING: Final = 200
_UNLISTED: Final = tool("fold_swan", "Folds a swan.")
_MALFORMED_HINTS: Final[tuple[JsonObject, ...]] = (
    # The first ones are divided among the lists (see `ClientBench.some`).
    *({"ttlMs": ttl, "cacheScope": "public"} for ttl in (-1, -HOUR_MS, None, "3600000", HOUR_MS + 0.5)),
    {"cacheScope": "public"},
    *({"ttlMs": ttl, "cacheScope": "public"} for ttl in ([HOUR_MS], True)),
    {"ttlMs": [], "cacheScope": ["public"]},
    {"ttlMs": {}, "cacheScope": 5},
    {},
    *({"ttlMs": HOUR_MS, "cacheScope": scope} for scope in (None, "shared")),
    {"ttlMs": HOUR_MS},
)
_NOTIFICATION_SECONDS: Final = 2.0
"""How long a client may take to act on a notification."""
_PAUSE: Final = 0.3
"""Minimum seconds that it gets for this, if it took much less before."""
_CHANGED: Final = ((_NEED, _ALL), (_OTHER, _LIMIT), (_NOTHING, _LIMIT))
"""Searches whose results change with each list change."""
_MORE_CHANGES: Final = 10
"""List changes in a row, after the first ones."""
_SHORT_LIVED_MS: Final = 10_000
"""The `ttlMs` of results that would still be fresh when the client has acted on a notification."""

_ODD_PARAMS: Final[Sequence[JsonObject]] = (
    {},
    {"reason": "deployed", "count": 7},
    {"_meta": {"org.example/reason": "deployed"}},
)
"""Params of list changes; a receiver ignores fields that it does not recognize."""


_ONE_PAGE: Final = Script(search=serves(found(TOOLS[5], **CACHEABLE)))


@client_check(
    title="A cached page answers only its own request",
    sends="Results of several pages that may be cached for an hour, whose tools identify the request that they "
    "answer; the client sends the same searches twice, and some of them to several servers if the driver has "
    "`federation`. If it caches anything, it then searches with many limits, for "
    "all tools, for another need, and for needs that differ in case, white space, punctuation, Unicode form, or their "
    "beginning or end, and for one that found nothing and then a longer one. It searches for the name of a found tool. "
    "If the driver has `concurrent`, two searches that differ in case run concurrently. The client also searches on a "
    "connection of one era and then on one of the other era to the same address. If it searches for resources, "
    "templates or prompts, it has searched for tools with the same query before.",
    passes="Each search returns the tools that it returns if nothing may be cached. The client sends a request for a "
    "search on the connection of the other era, and for one by another method.",
    methods=EVERY_METHOD,
)
async def cache_key(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_named_by_request)) as session:
        found_for = [(each, await _find(session, *each)) for each in _TWICE * 2]
        session.require_search()
        bench.require(any(outcome.names for _, outcome in found_for), "the client found nothing", session.latest)
        asked = [len(outcome.searches) for _, outcome in found_for]
        keeps = sum(asked[len(_TWICE) :]) < sum(asked[: len(_TWICE)])
        found_for += [(each, await _find(session, *each)) for each in ((_OTHER, _LIMIT),) if keeps]
        step = _FEWER if bench.primitive.setting else 1
        for searches in bench.share((_LIMITS, (*_QUERIES, *_JOINED))) if keeps else ():
            found_for += [(each, await _find(session, *each)) for each in searches[::step]]
        first = next(outcome.names[0] for _, outcome in found_for if outcome.names)
        longer = ((_NOTHING, _LIMIT), (f"{_NOTHING} here", _LIMIT)) if keeps else ()
        # Compared first, before the client finds anything on the other connection.
        found_for[:0] = [(each, await _find(session, *each)) for each in ((first, _LIMIT), *longer)]
        at = session.last_search
    async with bench.connected(Script(search=_named_by_request_only_now)) as session:
        for (query, limit), outcome in found_for:
            wanted, named = outcome.names, {_name_for(exchange.params) for exchange in outcome.searches}
            # If requests are equal, the client may answer parts of a search from its cache.
            if not named or not named >= {*wanted} or (query in (_NEED, _OTHER) and limit in (_LIMIT, _ALL)):
                wanted = (await _find(session, query, limit)).names
            how = {None: "without a limit", _ALL: "for all tools"}.get(limit, f"with limit {limit}")
            case = f"the query {json.dumps(cut(query, 80))} {how}, after similar searches"
            message = f"the client answered a search from the cached page of another: {case}, returned {outcome.names}"
            bench.expect(outcome.names == wanted, at, f"{message} instead of {wanted}", case=case)
    await bench.where_named("concurrent", _expect_apart_at_once)
    await bench.where_named("federation", _expect_apart_of_servers)
    await _expect_methods_apart(bench)
    with suppress(NotConnectedError, NoDriverFeatureError):  # a client of one era confuses none
        await _expect_revisions_apart(bench)


async def _find(session: Session, query: str, limit: int | None) -> Outcome:
    return await (session.search_all(query) if limit == _ALL else session.search(query, limit))


def _named_by_request(params: JsonObject) -> Reply:
    """Return a page with a tool whose name is unique to the request. Some needs have several pages."""
    cursors = (*_SEPARATORS, *_CURSORS) if params["query"] in (_NEED, _OTHER) else ()
    if "cursor" in params and params["cursor"] not in cursors:
        raise RefusalError(-32602, "invalid cursor", {"field": "cursor", "reason": "not issued here"})
    page = cursors.index(params["cursor"]) + 1 if "cursor" in params else 0
    if params["query"] == _NOTHING:
        return found(**CACHEABLE)
    return found(tool(_name_for(params)), cursor=(*cursors, None)[page], **CACHEABLE)


def _named_by_request_only_now(params: JsonObject) -> Reply:
    return _named_by_request(params).adding({"ttlMs": 0})


def _name_for(params: JsonObject) -> str:
    asked = [params.get(member) for member in ("query", "limit", "cursor")]
    return f"tool_{crc32(json.dumps(asked).encode()):08x}"


async def _expect_apart_at_once(bench: ClientBench) -> None:
    """Expect two concurrent searches that differ only in case to find different tools."""
    queries = (_NEED, _NEED.upper())
    searching = HeldSearch({query: found(tool(f"tool_{number}")) for number, query in enumerate(queries)})
    async with bench.connected(Script(search=searching)) as session:
        await session.begin("0", queries[0])
        await session.ask("begin", query=queries[1], **{"as": "1"})
        for query in queries:
            searching.release(query)
        outcomes = [await session.ask("await", of=str(number)) for number in range(len(queries))]
        if len(session.peer.searches) > 1:
            return  # responses-matched judges this
        for number, (query, outcome) in enumerate(zip(queries, outcomes, strict=True)):
            message = f"of two concurrent searches, the one for {query!r} returned {outcome.describe()}"
            message += f" instead of 'tool_{number}'"
            session.expect(outcome.names == [f"tool_{number}"], message, case="two concurrent searches")


async def _expect_apart_of_servers(bench: ClientBench) -> None:
    """Expect a federated search to return only tools of pages that it requests if nothing may be cached."""
    returned: list[set[str]] = []
    async with bench.federated(dict.fromkeys(("a", "b"), Script(search=_named_by_request))) as session:
        for query, limit in _OF_SERVERS:
            outcome = await session.search(query, limit)
            returned.append({str(item.get("tool")) for item in outcome.tools})
        at = session.evidence
    async with bench.federated(dict.fromkeys(("a", "b"), Script(search=_named_by_request_only_now))) as session:
        for (query, limit), names in zip(_OF_SERVERS, returned, strict=True):
            searches = (await session.search(query, limit)).searches
            wanted = {each["name"] for exchange in searches for each in (exchange.result or {}).get("tools", ())}
            case = f"several servers, the query {query!r} with limit {limit}, after similar searches"
            message = f"the client answered a search from the cached page of another: {case}, returned {sorted(names)}"
            bench.expect(not names or bool(names & wanted), at, f"{message}, none of {sorted(wanted)}", case=case)


def _cursors(searches: Iterable[Exchange]) -> set[Any]:
    """Return the cursors that were sent, without invalid ones; `None` for a first page."""
    cursors = [exchange.params.get("cursor") for exchange in searches]
    return {cursor for cursor in cursors if cursor is None or isinstance(cursor, str)}


async def _expect_methods_apart(bench: ClientBench) -> None:
    """Expect a request, even though other lists were searched with the same query before; nothing for tools."""
    others = [each for each in PRIMITIVES if each.setting in ("", bench.primitive.setting) and each != bench.primitive]
    if bench.primitive.setting:
        async with bench.connected(_ONE_PAGE) as session:
            for other in others:
                await session.searching(other).search(_NEED, _LIMIT)
            await session.search(_NEED, _LIMIT)
            message = f"the client answered {bench.method} from what it cached for another method"
            session.expect_search(True, message, case="the same query by several methods")


async def _expect_revisions_apart(bench: ClientBench) -> None:
    address = secrets.token_hex(16)
    eras: tuple[Era, ...] = (MODERN, LEGACY) if bench.cell.era == MODERN else (LEGACY, MODERN)
    for era in eras:
        async with bench.connected(_ONE_PAGE, address=address, era=era) as session:
            await session.search(_NEED, _LIMIT)
            if era == bench.cell.era:
                session.require_search()
            message = f"on a connection of {era}, the client answered a search from its cache of {bench.cell.era}"
            session.expect_search(True, message, case="two revisions at the same address")


@client_check(
    title="A page is requested again once its `ttlMs` has passed",
    sends=f"The same search twice, with a `ttlMs` of 0, also with an empty result, and after a `ttlMs` of {_SHORT}. The"
    " same search of two pages twice, with a `ttlMs` of an hour for one page and of 0 for the other. The same search "
    f"three times with a `ttlMs` of {_SLIDING}.",
    passes="The client requests each page whose `ttlMs` has passed; reading a cached page does not prolong it.",
    eras=(MODERN,),
    methods=EVERY_METHOD,
)
async def cache_stale(bench: ClientBench) -> None:
    for ttl, tools in ((0, TOOLS[5:6]), (0, ()), (_SHORT, TOOLS[5:6])):
        async with bench.connected(Script(search=serves(found(*tools, ttlMs=ttl, cacheScope="public")))) as session:
            await session.search(_NEED, 5)
            session.require_search()
            await anyio.sleep(2 * ttl / 1000)
            again = await session.search(_NEED, 5)
            case = f"ttlMs {ttl}, tools: {len(tools)}"
            message = f"the client returned a result with ttlMs {ttl} and {len(tools)} tools again {2 * ttl} ms later"
            session.expect(bool(again.searches), message, case=case)
    with suppress(NoDriverFeatureError):
        for kept in (None, "page2"):
            await _expect_stale_page(bench, kept)
        await _expect_time_not_prolonged(bench)


async def _expect_stale_page(bench: ClientBench, kept: str | None) -> None:
    """Expect a second request for the stale one of two pages; only the page at the cursor `kept` may be cached."""
    first, second = found(TOOLS[4], cursor="page2", **CACHEABLE), found(TOOLS[5], **CACHEABLE)
    at_once: JsonObject = {"ttlMs": 0}
    search = two_pages(first.adding(at_once), second) if kept else two_pages(first, second.adding(at_once))
    async with bench.connected(Script(search=search)) as session:
        await session.search_all(_NEED)
        if len(session.peer.searches) > 1:
            again = await session.search_all(_NEED)
            asked = [exchange.params.get("cursor") for exchange in again.searches]
            stale, fresh, held = ("second", "first", TOOLS[5]) if kept is None else ("first", "second", TOOLS[4])
            case = f"ttlMs {HOUR_MS} for the {fresh} page and 0 for the {stale} one"
            message = f"{case}, but the client returned the {stale} page again without a request"
            given = not again.reported or held["name"] in again.names  # the client may have dropped the page instead
            session.expect((None if kept else "page2") in asked or not given, message, case=case)


async def _expect_time_not_prolonged(bench: ClientBench) -> None:
    page = found(TOOLS[5], ttlMs=_SLIDING, cacheScope="public")
    async with bench.connected(Script(search=serves(page))) as session:
        await session.search(_NEED, 5)
        await anyio.sleep(0.7 * _SLIDING / 1000)
        if not (await session.search(_NEED, 5)).searches:
            await anyio.sleep(0.7 * _SLIDING / 1000)
            again = await session.search(_NEED, 5)
            case = f"ttlMs {_SLIDING}, read from the cache in the meantime"
            message = f"a result with {case}, was still returned {1.4 * _SLIDING:g} ms after it arrived"
            session.expect(bool(again.searches), message, case=case)


@client_check(
    title="Missing or malformed cache hints count as `ttlMs` 0 and `cacheScope` private",
    sends="The same search twice, with a `ttlMs` that is absent, negative, `null`, a string or the like; then with a "
    "`cacheScope` that is absent or invalid, and a `ttlMs` of an hour.",
    passes="The client returns the tool and does not list. Without a valid `ttlMs`, it sends a request for each"
    " search.",
    eras=(MODERN,),
    methods=EVERY_METHOD,
)
async def cache_hints_malformed(bench: ClientBench) -> None:
    usual = 0
    for hints in bench.some(bench.share(_MALFORMED_HINTS), 3):
        case = f"the cache hints were {json.dumps(hints)}"
        page = Reply(result={"tools": [_UNLISTED], "resultType": "complete", **hints}, plain=True)
        listed = False
        async with bench.connected(Script(search=serves(page))) as session:
            for number in (1, 2):
                outcome = await session.search(_NEED, 5)
                taken = not outcome.reported or _UNLISTED["name"] in outcome.names
                session.expect(taken, f"{case}; the search returned {outcome.describe()}", case=case)
                # A client may list when it connects, or before it searches.
                listed = listed or any(each.number > session.last_search.number for each in session.peer.listings)
                may_keep = hints.get("ttlMs") == HOUR_MS
                message = f"{case}; the client answered the second of two searches from its cache"
                session.expect(may_keep or len(session.peer.searches) >= number, message, case=case)
        begun = _listings_begun(session.peer)
        if listed and begun > usual:
            usual = await _usual_listings(bench, begun)
            message = f"{case}; the client then sent {bench.primitive.list_method}"
            session.expect(begun <= usual, message, case=case)


def _listings_begun(peer: Peer) -> int:
    return sum("cursor" not in each.params for each in peer.listings)


async def _usual_listings(bench: ClientBench, most: int) -> int:
    """Return how many listings the client starts if hints are well-formed, since it may list in the background."""
    async with bench.connected(Script(search=serves(found(_UNLISTED)))) as session:
        for _ in range(2):
            await session.search(_NEED, 5)
        await bench.until(session.peer, lambda: _listings_begun(session.peer) >= most, _NOTIFICATION_SECONDS)
        return _listings_begun(session.peer)


@client_check(
    driver_feature="authorization",
    title="A private page is not returned to another user",
    sends="A result of two pages that may be cached for an hour, with a `cacheScope` that is `private`, absent or "
    "invalid, or `public` for one page, and once with an empty page; the client searches without a user and then as "
    "users with similar names, for all tools and with a limit. Then as one user, without a user, and as another user, "
    "each on another connection to the same address. If the driver has `concurrent`, two users search concurrently, "
    "and one search is in progress when the user changes; if it has `federation`, over HTTP, they also search several "
    "servers. On a legacy connection, results without cache hints, without a user and as one user, and the concurrent "
    "searches.",
    passes="The client sends a request for each page and each user.",
    methods=EVERY_METHOD,
)
async def cache_private(bench: ClientBench) -> None:
    await bench.require_features("authorization")
    private: JsonObject = {"cacheScope": "private"}
    public: JsonObject = {"cacheScope": "public"}
    hints = [(each, each) for each in (private, {}, *({"cacheScope": scope} for scope in _NO_SCOPES))]
    is_modern = bench.cell.era == MODERN
    for first, later in (*hints, (public, {}), (private, public)) if is_modern else hints[1:2]:
        scopes = f"cache hints {json.dumps(first)}, on the second page {json.dumps(later)}"
        async with bench.connected(_private(first, later, modern=is_modern)) as session:
            before = await session.search_all(_NEED)
            session.require_search()
            cursors = _cursors(before.searches)
            held = {cursor for cursor in cursors if (first if cursor is None else later) is not public}
            every = first is later is private
            if every:
                await session.search(_OTHER, _LIMIT)
            for user in _USERS if every else _USERS[:1]:
                await session.ask("authorize", **{"as": user})
                if every:
                    limited = await session.search(_OTHER, _LIMIT)
                    message = f"the client returned to {user!r} what a search with a limit had found for another user"
                    session.expect(bool(limited.searches), message, case=f"a limit, as {user}")
                again = await session.search_all(_NEED)
                missing = held - _cursors(again.searches)
                page = "first" if None in missing else "second"
                message = f"the client returned to {user!r} the {page} page that it had received for another user"
                message += f" ({scopes})"
                session.expect(not missing, message, case=f"{scopes}, as {user}")
    address = secrets.token_hex(16)
    for user in (_USERS[0], None, _USERS[1]) if is_modern else ():
        async with bench.connected(_private(private, private), address=address) as session:
            if user is not None:
                await session.ask("authorize", **{"as": user})
            await session.search_all(_NEED)
            if user == _USERS[0]:
                session.require_search()
            message = f"on a new connection to the same address, the client returned to {user!r} another user's page"
            session.expect_search(True, message, case="three connections")
    await bench.where_named("concurrent", _expect_users_apart_at_once)
    if bench.cell.is_modern_http:
        await bench.where_named("federation", _expect_users_apart_of_servers)


async def _expect_users_apart_of_servers(bench: ClientBench) -> None:
    """Expect requests to several servers for each user, if the client acts for users there."""
    script = _private({"cacheScope": "private"}, {"cacheScope": "private"})
    async with bench.federated({"a": script, "b": script}) as session:
        for user, needs in zip(_USERS[:2], ((_NEED,), (_OTHER, _NEED)), strict=True):
            try:
                await session.ask("authorize", **{"as": user})
            except DriverError as error:  # it need not support this for several servers
                bench.recorder.deaths.clear()
                raise NoDriverFeatureError(str(error)) from error
            for need in needs:
                outcome = await session.search(need, _LIMIT)
                token = f"Bearer {user}"
                acts = all(any(value == token for _, value in peer.header_fields) for peer in session.peers.values())
                if not acts:
                    return
                asked = len(outcome.searches)
                if asked <= 1 and len((await session.search(f"{need} again", _LIMIT)).searches) <= 1:
                    return  # cache-key judges a client that confuses the user's own needs
                message = f"the client returned to {user!r} what several servers had found for another user"
                bench.expect(asked > 1, session.evidence, message, case=f"several servers, as {user}, {need!r}")


async def _expect_users_apart_at_once(bench: ClientBench) -> None:
    """Expect a request for each of two users who send the same search concurrently."""
    searching = HeldSearch({_NEED: found(TOOLS[5], ttlMs=HOUR_MS, cacheScope="private")})
    async with bench.connected(Script(search=searching)) as session:
        for user in _USERS[:2]:
            await session.ask("authorize", **{"as": user})
            await session.begin(user, _NEED)
        searching.release(_NEED)
        for user in _USERS[:2]:
            await session.ask("await", of=user)
        asked = len(session.peer.searches)
        message = "two users sent the same search concurrently,"
        message += f" and the client sent {number_of(asked, 'request')} instead of 2"
        session.expect(asked >= 2, message, case="two concurrent users")
    searching = HeldSearch({_NEED: found(TOOLS[5], ttlMs=HOUR_MS, cacheScope="private")})
    async with bench.connected(Script(search=searching)) as session:
        first, second = _USERS[:2]
        await session.ask("authorize", **{"as": first})
        await session.begin(first, _NEED)
        await session.ask("authorize", **{"as": second})
        searching.release(_NEED)
        await session.ask("await", of=first)
        again = await session.search(_NEED)
        message = f"the client returned to {second!r} a page for {first!r}, which arrived after the user had changed"
        session.expect(bool(again.searches), message, case="a search in progress when the user changes")


def _private(first: JsonObject, later: JsonObject, *, modern: bool = True) -> Script:
    """Return a server with two pages that may be cached for an hour, each with the given hints."""
    kept: JsonObject = {"resultType": "complete", "ttlMs": HOUR_MS} if modern else {}
    last = () if first is later else (TOOLS[5],)
    pages = found(TOOLS[4], cursor="p2", **kept, **first), found(*last, **kept, **later)
    return Script(search=two_pages(*(replace(page, plain=True) for page in pages)))


@client_check(
    title="Search results are not returned as the list of tools",
    sends="Results of two pages that may be cached for an hour, with a tool whose listed definition is different, a"
    " tool that is not listed, and a cursor that the list has too; the client searches, then lists. The same if"
    " `catalogSize` is the number of found tools, if `tools/list` is refused or returns no tool, and if the client has"
    " listed before and may cache that.",
    passes="The client sends `tools/list` to list or before the search, and returns the listed tools alone, with their "
    "listed definitions. It need not connect if `tools/list` is refused.",
)
async def cache_not_crossed(bench: ClientBench) -> None:
    altered = tool(str(TOOLS[5]["name"]), "Folds a crane as it is found.", _meta={EXTENSION_ID: {"score": 1}})
    script = Script()
    cursor = str((script.reply(LEGACY, {"method": "tools/list"}).result or {})["nextCursor"])
    pages = two_pages(found(altered, cursor=cursor, **CACHEABLE), found(_UNLISTED, **CACHEABLE))
    scripts = {
        "a search, then a listing": script,
        "a search that finds as many tools as catalogSize says, then a listing": replace(
            script, settings={**SETTINGS, "catalogSize": 2}
        ),
        "a listing that may be cached, a search, and another listing": replace(script, list_hints={**CACHEABLE}),
        "a search, then a listing that is refused": replace(script, refuses={"tools/list": -32603}),
        "a search, then a listing without tools": replace(script, tools=()),
    }

    async def judge(case: str, each: Script) -> None:
        async with bench.connected(replace(each, search=pages)) as session:
            if each.list_hints:
                await session.ask("list_tools")
            await session.search_all(_NEED)
            if each is not script and not session.peer.searches:
                return  # it lists a small catalog, or ranks what it has listed
            outcome = await session.ask("list_tools")
            listed = session.peer.listings  # including earlier ones, which the client may have cached
            message = f"after a search, the client listed {outcome.describe()} without sending tools/list"
            session.expect(bool(listed), message, case=case)
            crossed = [
                t
                for t in outcome.tools
                if is_as_sent(t, altered)
                or t["name"] == _UNLISTED["name"]
                or EXTENSION_ID in (as_object(t.get("_meta")) or {})
            ]
            message = f"the client's list contains tools from the search before it: {cut(json.dumps(crossed), 200)}"
            session.expect(not crossed, message, listed[-1], case=case)
            held = [t["name"] for page in listed for t in (page.result or {}).get("tools", ())]
            lost = [name for name in held if outcome.reported and name not in outcome.names]
            message = f"the client's list after a search lacks tools of the list that it received: {lost}"
            session.expect(not lost, message, listed[-1], case=case)

    for case, each in bench.share([*scripts.items()]):
        with suppress(*((NotConnectedError,) if each.refuses else ())):  # a client may list when it connects
            await judge(case, each)


@client_check(
    title="A list change makes cached results stale",
    sends="Searches whose results may be cached for an hour: one of two pages, one without matches at first; and one"
    f" with a limit, whose results may be cached for {_SHORT_LIVED_MS // 1000} s. Their tools have new names after each"
    " `notifications/tools/list_changed`; the client repeats the searches twice, and another one after each of"
    f" {_MORE_CHANGES} further notifications, some of which have unknown params. After one more, the client connects to"
    " the same address again and repeats a search. Then a notification arrives while the client waits for the second"
    " page. If the driver has `authorization` and `federation`, also for other users and for several servers.",
    passes=f"The client returns the new names, at the latest {_NOTIFICATION_SECONDS:g} s after the notification.",
    methods=EVERY_METHOD,
)
async def list_change_drops_cache(bench: ClientBench) -> None:
    changing, address, pause = _Changing(), secrets.token_hex(16), _NOTIFICATION_SECONDS
    async with bench.connected(Script(search=changing), address=address) as session:
        first = await session.search_all(_NEED)
        session.require_search()
        if keeps := not (await session.search_all(_NEED)).searches:
            # A client that caches nothing need not subscribe. One that caches but never subscribes is not notified.
            bench.applies(await _listens(session.peer), "the client does not subscribe to list changes")
        with suppress(NoDriverFeatureError):
            for query in (_OTHER, _NOTHING):
                await session.search(query, _LIMIT)
        await changing.change(session.peer)
        seconds = await changing.expect_current(session, "after a list change")
        if keeps:
            pause = min(max(_PAUSE, 5 * seconds), _NOTIFICATION_SECONDS)
            await changing.expect_dropped(session, pause)
            for number, _ in enumerate(bench.some(range(_MORE_CHANGES), 2), 1):
                await changing.change(session.peer, **_ODD_PARAMS[number % len(_ODD_PARAMS)])
                await changing.expect_current(session, f"after list change {number} in a row", ((_OTHER, 1),))
            await changing.change(session.peer)
            await anyio.sleep(pause)
    if not keeps:
        return
    if not bench.primitive.setting:  # other lists are in the same cache
        async with bench.connected(Script(search=changing), address=address) as session:
            when = "after a list change that came on an earlier connection to the same address"
            await changing.expect_current(session, when, ((_OTHER, 1),))
    if len(first.searches) > 1:
        await _expect_change_between_pages(bench)
    await bench.where_named("authorization", _expect_current_for_users)
    await bench.where_named("federation", _expect_current_of_servers)


async def _expect_current_for_users(bench: ClientBench) -> None:
    changing = _Changing("private")
    async with bench.connected(Script(search=changing)) as session:
        for user in _USERS[:2]:
            await session.ask("authorize", **{"as": user})
            await session.search_all(_NEED)
        if await _listens(session.peer):
            await changing.change(session.peer)
            for user in _USERS[:2]:
                await session.ask("authorize", **{"as": user})
                await changing.expect_current(session, f"after a list change, for {user!r}")


async def _expect_current_of_servers(bench: ClientBench) -> None:
    changing = _Changing()
    async with bench.federated({"a": Script(search=_Changing()), "b": Script(search=changing)}) as session:
        await session.search(_OTHER, _LIMIT)
        if await _listens(session.peers["b"]):
            await changing.change(session.peers["b"])
            await changing.expect_current(session, "after a list change on the server b")


async def _listens(peer: Peer) -> bool:
    with anyio.move_on_after(_NOTIFICATION_SECONDS):  # it may be about to subscribe
        await peer.subscribed.wait()
    return peer.subscribed.is_set()


class _Changing:
    """A server with other tools after each list change."""

    def __init__(self, scope: str = "public") -> None:
        self._scope = scope
        self._changes = 0

    def __call__(self, params: JsonObject) -> Reply:
        hints: JsonObject = {
            "ttlMs": _SHORT_LIVED_MS if params["query"] == _OTHER else HOUR_MS,
            "cacheScope": self._scope,
        }
        if params["query"] == _NOTHING and not self._changes:
            return found(**hints)
        page, cursor = (2, None) if "cursor" in params else (1, "p2")
        return found(tool(f"crane_{page}_{self._changes}"), cursor=cursor, **hints)

    async def change(self, peer: Peer, **params: Any) -> None:
        """Switch to other tools, and notify the client, with `params` added to the usual ones."""
        self._changes += 1
        await peer.notify_change(**params)

    async def outdated(self, session: Session, searches: Sequence[tuple[str, int]] = _CHANGED) -> str | None:
        """Return what a search returned if not all its tools are current: of the only server, or of server `b`."""
        for query, limit in searches if len(session.peers) == 1 else searches[1:2]:
            outcome = await _find(session, query, limit)
            names = [str(each.get("tool", each["name"])) for each in outcome.tools if each.get("server") != "a"]
            times = {name.rpartition("_")[2] for name in names if name.startswith("crane_")}
            if times != {str(self._changes)}:
                return f"the search for {query!r} still returned {outcome.describe()}"
        return None

    async def expect_current(
        self, session: Session, when: str, searches: Sequence[tuple[str, int]] = _CHANGED
    ) -> float:
        """Expect the current tools soon after a notification, and return how long that took."""
        began = anyio.current_time()
        while outdated := await self.outdated(session, searches):
            if anyio.current_time() > began + _NOTIFICATION_SECONDS:
                break
        message = f"{_NOTIFICATION_SECONDS:g} s {when}, {outdated}"
        session.expect(not outdated, message, session.evidence, case=when)
        return anyio.current_time() - began

    async def expect_dropped(self, session: Session, pause: float) -> None:
        """Expect the current tools from the first search after a `pause`, or else after the maximum time.

        Nothing else reveals a client that returns a cached page while it requests the new one.
        """
        for seconds in (pause, _NOTIFICATION_SECONDS):
            await self.change(session.peer)
            await anyio.sleep(seconds)
            if not (outdated := await self.outdated(session)):
                break
        session.expect(not outdated, f"some time after another list change, {outdated}", case="another list change")


async def _expect_change_between_pages(bench: ClientBench) -> None:
    """Expect that a first page is stale after a list change that comes before the second page."""
    changing, released = _Changing(), anyio.Event()
    reached = False

    def search(params: JsonObject) -> Reply:
        return replace(changing(params), held=released if "cursor" in params else None)

    async with bench.connected(Script(search=search)) as session:

        async def change() -> None:
            nonlocal reached
            await session.peer.until(lambda: bool(session.peer.waiting))
            reached = await _listens(session.peer)
            await changing.change(session.peer)
            await anyio.sleep(_SHORT / 1000)  # over HTTP, the notification is on a separate stream
            released.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            await session.search_all(_NEED)
            tasks.cancel_scope.cancel()
        began = anyio.current_time()
        while reached:
            outcome = await session.search_all(_NEED)
            stale = "crane_1_0" in outcome.names
            if not stale or anyio.current_time() > began + _NOTIFICATION_SECONDS:
                message = f"a list change came before the second page, but the client still returned {outcome.names}"
                session.expect(not stale, message, case="a list change between two pages")
                break
