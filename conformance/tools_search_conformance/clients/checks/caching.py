"""Caching: which answers a client may give from what it keeps. A client that keeps nothing passes."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from typing import Any, Final

import anyio

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, Session, client_check
from tools_search_conformance.clients.driver import NoDriverFeatureError
from tools_search_conformance.clients.peer import TOOLS_CHANGED, params_of
from tools_search_conformance.clients.script import TOOLS, Reply, Script, found, serves, tool
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import Exchange

_NEED: Final = "fold a crane"
_LIMIT: Final = 12
_SIMILAR: Final = (
    (_NEED, 2),
    ("Fold a crane", _LIMIT),
    ("fold a crane ", _LIMIT),
    ("\uff46old a crane", _LIMIT),
    ("fold a crane1", 2),
)
"""Searches that a careless cache key confuses with the first one."""
_HOUR: Final = 3_600_000
_SHORT: Final = 50
_UNLISTED: Final = tool("fold_swan", "Folds a swan.")
_MALFORMED_HINTS: Final[tuple[JsonObject, ...]] = (
    *({"ttlMs": ttl, "cacheScope": "public"} for ttl in (-1, -_HOUR, None, "3600000")),
    {"cacheScope": "public"},
    {},
    *({"ttlMs": _HOUR, "cacheScope": scope} for scope in (None, "shared")),
    {"ttlMs": _HOUR},
)
_NOTIFICATION_SECONDS: Final = 2.0
"""How long a client may take to act on a notification."""


def _cacheable(*tools: JsonObject, scope: str = "public", cursor: str | None = None) -> Reply:
    return found(*tools, cursor=cursor, ttlMs=_HOUR, cacheScope=scope)


_ONE_PAGE: Final = serves(_cacheable(TOOLS[5]))


@client_check(
    title="A cached page answers only its own request",
    sends="Results that may be cached for an hour, of several pages; the client searches for one need, with another "
    "limit, for another need, for all, and for needs that differ in case, white space or form. Elsewhere it searches "
    "on a modern connection, and then on a legacy one to the same address.",
    passes="A request for each page that differs from those before in protocol revision, `query`, `limit` or `cursor`.",
)
async def cache_key(bench: ClientBench) -> None:
    def by_params(params: JsonObject) -> Reply:
        page = {"": 1, "p2": 2, "p3": 3}.get(params.get("cursor", ""), 1)
        name = f"tool_{len(params['query'])}_{params.get('limit', 'none')}_{page}"
        return _cacheable(tool(name), cursor={1: "p2", 2: "p3"}.get(page))

    async with bench.connected(Script(search=by_params)) as session:
        await _expect_request(bench, session, "a search", "fold a crane", 1)
        if params_of(session.last_search).get("limit") == 1:  # not so where a client asks for more and cuts
            await _expect_request(bench, session, "the same search with another limit", "fold a crane", 2)
        await _expect_request(bench, session, "a search for something else", "graft an orchid", 1)
        outcome = await session.search_all("brew a pot of coffee")
        pages = {name.rpartition("_")[2] for name in outcome.names}
        message = f"of three pages the client has {outcome.describe()}"
        bench.expect(pages == {"1", "2", "3"}, session.last_search, message, case="three pages, by cursor")
    for query, limit in _SIMILAR:
        await _expect_queries_apart(bench, query, limit)
    if bench.cell.era == MODERN:
        with suppress(NotConnectedError, NoDriverFeatureError):  # a client of one era confuses none
            await _expect_revisions_apart(bench)


async def _expect_revisions_apart(bench: ClientBench) -> None:
    script, address = Script(search=_ONE_PAGE), secrets.token_hex(16)
    async with bench.connected(script, address=address) as session:
        await session.search(_NEED, limit=_LIMIT)
        session.require_search()
    async with bench.connected(script, address=address, era=LEGACY) as session:
        await session.search(_NEED, limit=_LIMIT)
        message = "a search on a legacy connection was answered from the cache of a modern one"
        sent = session.peer.searches
        bench.expect(bool(sent), sent[0] if sent else session.opening, message, case="two revisions, one address")


async def _expect_queries_apart(bench: ClientBench, query: str, limit: int) -> None:
    """Expect two requests for two searches that differ, as far as the client sends the two differently at all."""
    script = Script(search=_ONE_PAGE)
    async with bench.connected(script) as session:
        await session.search(query, limit=limit)
        alone = [_key(exchange) for exchange in session.peer.searches]
    async with bench.connected(script) as session:
        await session.search(_NEED, limit=_LIMIT)
        before = [_key(exchange) for exchange in session.peer.searches]
        if not alone or not before or alone[0] in before:
            return
        await session.search(query, limit=limit)
        sent = [_key(exchange) for exchange in session.peer.searches[len(before) :]]
        case = f"query {_NEED!r} with limit {_LIMIT}, then {query!r} with limit {limit}"
        message = f"a search was answered from the cached page of another: {case}"
        bench.expect(alone[0] in sent, session.last_search, message, case=case)


def _key(exchange: Exchange) -> tuple[Any, ...]:
    return tuple(params_of(exchange).get(member) for member in ("query", "limit", "cursor"))


async def _expect_request(bench: ClientBench, session: Session, case: str, query: str, limit: int) -> None:
    before = len(session.peer.searches)
    await session.search(query, limit=limit)
    sent = [params_of(exchange) for exchange in session.peer.searches[before:]]
    message = f"{case} was answered without a request"
    bench.expect(any(params.get("query") == query for params in sent), session.last_search, message, case=case)


@client_check(
    title="A page is requested again when its `ttlMs` is over",
    sends=f"The same search twice, where a result may be cached for no time, once an empty one, and where for {_SHORT} "
    "ms, after that time.",
    passes="A request for each.",
    level="SHOULD",
    eras=(MODERN,),
)
async def cache_stale(bench: ClientBench) -> None:
    for ttl, tools in ((0, TOOLS[5:6]), (0, ()), (_SHORT, TOOLS[5:6])):
        async with bench.connected(Script(search=serves(found(*tools, ttlMs=ttl, cacheScope="public")))) as session:
            await session.search(_NEED, limit=5)
            session.require_search()
            before = len(session.peer.searches)
            await anyio.sleep(2 * ttl / 1000)
            await session.search(_NEED, limit=5)
            case = f"ttlMs {ttl}, tools: {len(tools)}"
            message = f"a result with {case} was still given out {2 * ttl} ms later"
            bench.expect(len(session.peer.searches) > before, session.last_search, message, case=case)


@client_check(
    title="Missing or malformed cache hints are read as 0 and private",
    sends="The same search twice, where `ttlMs` is absent, negative, `null` or a string; then where `cacheScope` is "
    "absent or no scope, and `ttlMs` is an hour.",
    passes="The client has the tool and does not list. Without a valid `ttlMs` it sends a request for each search.",
    level="SHOULD",
    eras=(MODERN,),
)
async def cache_hints_malformed(bench: ClientBench) -> None:
    for hints in _MALFORMED_HINTS:
        case = f"the hints were {json.dumps(hints)}"
        page = Reply(result={"tools": [_UNLISTED], "resultType": "complete", **hints}, plain=True)
        async with bench.connected(Script(search=serves(page))) as session:
            for number in (1, 2):
                outcome = await session.search(_NEED, limit=5)
                where, asked = session.last_search, len(session.peer.searches)
                message = f"{case}, and the search returned {outcome.describe()}"
                taken = not outcome.reported or _UNLISTED["name"] in outcome.names
                bench.expect(taken, where, message, case=case)
                bench.expect(not session.peer.listings, where, f"{case}, and the client sent tools/list", case=case)
                is_fresh = hints.get("ttlMs") == _HOUR
                message = f"{case}, and the second of two searches was answered from the cache"
                bench.expect(is_fresh or asked >= number, where, message, case=case)


@client_check(
    driver_feature="authorization",
    title="A private page is not given to another user",
    sends="A result that may be cached for an hour and is `private`; the client searches as one user, then as another.",
    passes="A request for each of them.",
    eras=(MODERN,),
)
async def cache_private(bench: ClientBench) -> None:
    await bench.require_features("authorization")
    async with bench.connected(Script(search=serves(_cacheable(TOOLS[5], scope="private")))) as session:
        await session.ask("authorize", **{"as": "alice"})
        await session.search(_NEED, limit=5)
        before = len(session.peer.searches)
        await session.ask("authorize", **{"as": "bob"})
        await session.search(_NEED, limit=5)
        message = "a private result of one user was given to another"
        bench.expect(len(session.peer.searches) > before, session.last_search, message)


@client_check(
    title="Search results are not presented as a listing",
    sends="Results that may be cached for an hour; the client searches, then lists.",
    passes="`tools/list` for the listing, unless the client had listed before.",
)
async def cache_not_crossed(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_ONE_PAGE)) as session:
        await session.search_all(_NEED)
        where = session.last_search
        if not session.peer.listings:  # a client that has listed before may keep that
            outcome = await session.list_tools()
            listed = session.peer.listings
            message = f"after a search the client listed without tools/list: {outcome.describe()}"
            bench.expect(bool(listed), listed[-1] if listed else where, message, case="a search, then a listing")


@client_check(
    title="A list change makes cached results stale",
    sends="A search of two pages that may be cached for an hour, then `notifications/tools/list_changed`, then the "
    "same search.",
    passes="New requests for both pages.",
)
async def list_change_drops_cache(bench: ClientBench) -> None:
    def by_cursor(params: JsonObject) -> Reply:
        return _cacheable(TOOLS[5]) if "cursor" in params else _cacheable(TOOLS[4], cursor="p2")

    async with bench.connected(Script(search=by_cursor)) as session:
        await session.search_all(_NEED)
        session.require_search()
        before = len(session.peer.searches)
        held = {params_of(exchange).get("cursor") for exchange in session.peer.searches}
        await session.search_all(_NEED)
        keeps = len(session.peer.searches) == before
        # A client that keeps nothing need not listen; one that keeps pages and does not listen is never notified.
        bench.applies(not keeps or await _listens(session), "the client does not listen to list changes")
        before = len(session.peer.searches)
        await session.peer.notify(TOOLS_CHANGED)
        asked: set[Any] = set()
        with anyio.move_on_after(_NOTIFICATION_SECONDS):
            while not held <= asked:
                await session.search_all(_NEED)
                asked |= {params_of(exchange).get("cursor") for exchange in session.peer.searches[before:]}
        for cursor in held:
            page = "first page" if cursor is None else "second page"
            message = f"{_NOTIFICATION_SECONDS:g} s after a list change the {page} was still answered from the cache"
            bench.expect(cursor in asked, session.last_search, message, case=page)


async def _listens(session: Session) -> bool:
    """Wait a moment for a subscription that the client may be about to open."""
    with anyio.move_on_after(_NOTIFICATION_SECONDS):
        await session.peer.subscribed.wait()
    return session.peer.subscribed.is_set()
