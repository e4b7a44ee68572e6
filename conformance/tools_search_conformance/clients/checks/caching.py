"""Caching: which answers a client may give from what it keeps. A client that keeps nothing passes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import anyio

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, Session, client_check
from tools_search_conformance.clients.driver import NoDriverFeatureError
from tools_search_conformance.clients.peer import TOOLS_CHANGED
from tools_search_conformance.clients.script import (
    SETTINGS,
    TOOLS,
    RefusalError,
    Reply,
    Script,
    Search,
    found,
    serves,
    tool,
)
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.display import cut
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import Exchange

_NEED: Final = "fold a crane"
_OTHER: Final = "export the almanac"
_LIMIT: Final = 12
_LONG: Final = "fold a crane " * 24
_SIMILAR: Final[tuple[tuple[str, int | None], ...]] = (
    (_NEED, 2),
    (_NEED, 13),
    (_NEED, None),
    *((_NEED, limit) for limit in (1, 5, 10, 20, 50)),
    ("Fold a crane", _LIMIT),
    ("fold a crane ", _LIMIT),
    ("fold  a crane", _LIMIT),
    ("a crane fold", _LIMIT),
    ("fold a crane!", _LIMIT),
    ("\uff46old a crane", _LIMIT),
    ("fold a cran\u00e9", _LIMIT),
    ("fold a crane\u0301", _LIMIT),
    ("fold a crane1", 2),
    (f"{_LONG}of paper", _LIMIT),
    (f"{_LONG}of cloth", _LIMIT),
)
"""Searches that a careless cache key confuses with the first one, or with each other."""
_CURSORS: Final = ("2", "next", "Next", "next.2")  # the first one is a limit that is searched with, too
_USERS: Final = ("alice", "Alice", "alice2", "ali", "bob")
_HOUR: Final = 3_600_000
_SHORT: Final = 50
_SLIDING: Final = 200
_UNLISTED: Final = tool("fold_swan", "Folds a swan.")
_MALFORMED_HINTS: Final[tuple[JsonObject, ...]] = (
    *({"ttlMs": ttl, "cacheScope": "public"} for ttl in (-1, -_HOUR, None, "3600000")),
    {"ttlMs": [], "cacheScope": "public"},
    {"ttlMs": {}, "cacheScope": "public"},
    {"cacheScope": "public"},
    {},
    *({"ttlMs": _HOUR, "cacheScope": scope} for scope in (None, "shared")),
    {"ttlMs": _HOUR},
)
_NOTIFICATION_SECONDS: Final = 2.0
"""How long a client may take to act on a notification."""


def _cacheable(*tools: JsonObject, scope: str = "public", cursor: str | None = None) -> Reply:
    return found(*tools, cursor=cursor, ttlMs=_HOUR, cacheScope=scope)


_ONE_PAGE: Final = Script(search=serves(_cacheable(TOOLS[5])))


@client_check(
    title="A cached page answers only its own request",
    sends="Results that may be cached for an hour, of several pages; the client searches for one need, with another "
    "limit, for another need, for all, and for needs that differ in case, white space or form. Elsewhere it searches "
    "on a modern connection, and then on a legacy one to the same address.",
    passes="A request for each page that differs from those before in protocol revision, `query`, `limit` or `cursor`.",
)
async def cache_key(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_five_pages(_HOUR))) as session:
        await _expect_request(session, "a search", "fold a crane", 1)
        if session.last_search.params.get("limit") == 1:  # not so where a client asks for more and cuts
            await _expect_request(session, "the same search with another limit", "fold a crane", 2)
        await _expect_request(session, "a search for something else", "graft an orchid", 1)
        outcome = await session.search_all(_NEED)
        if len({name.rpartition("_")[2] for name in outcome.names}) <= len(_CURSORS) and await _reads_every_page(bench):
            message = f"of five pages the client has {outcome.describe()}"
            session.expect(False, message, case="five pages, by cursor")
    await _expect_queries_apart(bench)
    if bench.cell.era == MODERN:
        with suppress(NotConnectedError, NoDriverFeatureError):  # a client of one era confuses none
            await _expect_revisions_apart(bench)


def _five_pages(ttl: int) -> Search:
    """Return a search whose pages say in the names of their tools which request they answer."""

    def by_params(params: JsonObject) -> Reply:
        cursor = params.get("cursor")
        if cursor not in {None, *_CURSORS}:
            raise RefusalError(-32602, "invalid cursor", {"field": "cursor", "reason": "not issued here"})
        page = 0 if cursor is None else _CURSORS.index(cursor) + 1
        name = f"tool_{len(params['query'])}_{params.get('limit', 'none')}_{page}"
        return found(tool(name), cursor=(*_CURSORS, None)[page], ttlMs=ttl, cacheScope="public")

    return by_params


async def _reads_every_page(bench: ClientBench) -> bool:
    """Return whether the client sends every cursor as it was issued, where it has nothing to answer from."""
    async with bench.connected(Script(search=_five_pages(0))) as session:
        await session.search_all(_NEED)
        return session.followed == [*_CURSORS]


async def _expect_request(session: Session, case: str, query: str, limit: int) -> None:
    outcome = await session.search(query, limit)
    asked = any(exchange.params.get("query") == query for exchange in outcome.searches)
    session.expect(asked, f"{case} was answered without a request", case=case)


async def _expect_queries_apart(bench: ClientBench) -> None:
    """Expect a request for each of the searches that differ, as far as the client sends them differently at all."""
    silent: list[tuple[str, int | None, list[_Key]]] = []
    async with bench.connected(_ONE_PAGE) as session:
        before = _keys((await session.search(_NEED, _LIMIT)).searches)
        for query, limit in _SIMILAR if before else ():
            sent = _keys((await session.search(query, limit)).searches)
            if not sent:
                silent.append((query, limit, [*before]))
            before += sent
    for query, limit, kept in silent:
        # What the client sends where it has nothing to answer from shows whether it may answer from what it kept.
        async with bench.connected(_ONE_PAGE) as session:
            for wanted in _keys((await session.search(query, limit)).searches)[:1]:
                case = f"the query {json.dumps(cut(query, 80))} with limit {limit or 'none'}, after others like it"
                message = f"a search was answered from the cached page of another: {case}"
                session.expect(wanted in kept, message, case=case)


_Key = tuple[Any, Any, Any]


def _keys(searches: Iterable[Exchange]) -> list[_Key]:
    """Return what each valid page that was requested may be kept under: `query`, `limit` and `cursor`."""
    asked = [exchange.params for exchange in searches]
    keys = [(params.get("query"), params.get("limit"), params.get("cursor")) for params in asked]
    # No valid param is an object or an array.
    return [key for key in keys if not any(isinstance(value, dict | list) for value in key)]


async def _expect_revisions_apart(bench: ClientBench) -> None:
    address = secrets.token_hex(16)
    async with bench.connected(_ONE_PAGE, address=address) as session:
        await session.search(_NEED, _LIMIT)
        session.require_search()
    async with bench.connected(_ONE_PAGE, address=address, era=LEGACY) as session:
        await session.search(_NEED, _LIMIT)
        message = "a search on a legacy connection was answered from the cache of a modern one"
        session.expect_search(True, message, case="two revisions, one address")


@client_check(
    title="A page is requested again when its `ttlMs` is over",
    sends=f"The same search twice, where a result may be cached for no time, once an empty one, and where for {_SHORT} "
    f"ms, after that time. The same search of two pages twice, of which one may be cached for an hour and the other "
    f"for no time. The same search three times, where a result may be cached for {_SLIDING} ms.",
    passes="A request for each page whose time is over; reading a cached page does not prolong it.",
    eras=(MODERN,),
)
async def cache_stale(bench: ClientBench) -> None:
    for ttl, tools in ((0, TOOLS[5:6]), (0, ()), (_SHORT, TOOLS[5:6])):
        async with bench.connected(Script(search=serves(found(*tools, ttlMs=ttl, cacheScope="public")))) as session:
            await session.search(_NEED, 5)
            session.require_search()
            await anyio.sleep(2 * ttl / 1000)
            again = await session.search(_NEED, 5)
            case = f"ttlMs {ttl}, tools: {len(tools)}"
            message = f"a result with {case} was still given out {2 * ttl} ms later"
            session.expect(bool(again.searches), message, case=case)
    with suppress(NoDriverFeatureError):
        for kept in (None, "page2"):
            await _expect_stale_page(bench, kept)
        await _expect_time_not_prolonged(bench)


async def _expect_stale_page(bench: ClientBench, kept: str | None) -> None:
    """Expect a second request for the one of two pages that may not be kept; the page of the cursor `kept` may be."""

    def by_cursor(params: JsonObject) -> Reply:
        cursor = params.get("cursor")
        hints: JsonObject = {"ttlMs": _HOUR if cursor == kept else 0, "cacheScope": "public"}
        return found(TOOLS[4], cursor="page2", **hints) if cursor is None else found(TOOLS[5], **hints)

    async with bench.connected(Script(search=by_cursor)) as session:
        await session.search_all(_NEED)
        if len(session.peer.searches) > 1:
            again = await session.search_all(_NEED)
            asked = [exchange.params.get("cursor") for exchange in again.searches]
            stale, fresh, held = ("second", "first", TOOLS[5]) if kept is None else ("first", "second", TOOLS[4])
            case = f"ttlMs of the {fresh} page {_HOUR}, of the {stale} one 0"
            message = f"{case}, and the {stale} page was given out again without a request"
            given = not again.reported or held["name"] in again.names  # or else another page was, in its place
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
            message = f"a result with {case} was still given out {1.4 * _SLIDING:g} ms after it came"
            session.expect(bool(again.searches), message, case=case)


@client_check(
    title="Missing or malformed cache hints are read as 0 and private",
    sends="The same search twice, where `ttlMs` is absent, negative, `null` or a string; then where `cacheScope` is "
    "absent or no scope, and `ttlMs` is an hour.",
    passes="The client has the tool and does not list. Without a valid `ttlMs` it sends a request for each search.",
    eras=(MODERN,),
)
async def cache_hints_malformed(bench: ClientBench) -> None:
    for hints in bench.share(_MALFORMED_HINTS):
        case = f"the hints were {json.dumps(hints)}"
        page = Reply(result={"tools": [_UNLISTED], "resultType": "complete", **hints}, plain=True)
        async with bench.connected(Script(search=serves(page))) as session:
            listed = len(session.peer.listings)  # by a client that lists wherever it connects
            for number in (1, 2):
                outcome = await session.search(_NEED, 5)
                taken = not outcome.reported or _UNLISTED["name"] in outcome.names
                session.expect(taken, f"{case}, and the search returned {outcome.describe()}", case=case)
                relisted = len(session.peer.listings) > listed
                session.expect(not relisted, f"{case}, and the client sent tools/list", case=case)
                may_keep = hints.get("ttlMs") == _HOUR
                message = f"{case}, and the second of two searches was answered from the cache"
                session.expect(may_keep or len(session.peer.searches) >= number, message, case=case)


@client_check(
    driver_feature="authorization",
    title="A private page is not given to another user",
    sends="A result of two pages that may be cached for an hour, with a `cacheScope` of `private`, none, or one that "
    "is not valid; the client searches for nobody in particular, and then as users whose names are much alike. Then as "
    "one user, and on another connection to the same address as another.",
    passes="A request for each page and each of them.",
    eras=(MODERN,),
)
async def cache_private(bench: ClientBench) -> None:
    await bench.require_features("authorization")
    for hints in ({"cacheScope": "private"}, {}, {"cacheScope": "Public"}, {"cacheScope": None}):
        async with bench.connected(_private(hints)) as session:
            first = await session.search_all(_NEED)
            session.require_search()
            held = {cursor for _, _, cursor in _keys(first.searches)}
            for user in _USERS:
                await session.ask("authorize", **{"as": user})
                again = await session.search_all(_NEED)
                missing = held - {cursor for _, _, cursor in _keys(again.searches)}
                page = "first" if None in missing else "second"
                message = f"the {page} page, {json.dumps(hints)}, was given to {user!r}, and had been sent to another"
                session.expect(not missing, message, case=f"{json.dumps(hints)}, as {user}")
    address = secrets.token_hex(16)
    for user in _USERS[:2]:
        async with bench.connected(_private({"cacheScope": "private"}), address=address) as session:
            await session.ask("authorize", **{"as": user})
            await session.search_all(_NEED)
            message = f"on a new connection to the same address, {user!r} was given the private result of another"
            session.expect_search(True, message, case="two connections")


def _private(hints: JsonObject) -> Script:
    """Return a server with two pages that may be kept for an hour, by `hints` in what other ways."""

    def by_cursor(params: JsonObject) -> Reply:
        page: JsonObject = {"tools": [TOOLS[5]]} if "cursor" in params else {"tools": [TOOLS[4]], "nextCursor": "p2"}
        return Reply(result={"resultType": "complete", "ttlMs": _HOUR, **page, **hints}, plain=True)

    return Script(search=by_cursor)


@client_check(
    title="Search results are not presented as a listing",
    sends="Results of two pages that may be cached for an hour, with a tool that is listed otherwise, with one that is "
    "not listed, and with a cursor that the listing has, too; the client searches, then lists. Once more, where "
    "`catalogSize` is the number of the tools that were found.",
    passes="`tools/list` for the listing, or before the search; the tools of the listing only, as they are listed.",
)
async def cache_not_crossed(bench: ClientBench) -> None:
    altered = tool(str(TOOLS[5]["name"]), "Folds a crane as it is found.")
    script = Script()
    cursor = str((script.reply(LEGACY, {"method": "tools/list"}).result or {})["nextCursor"])

    def two_pages(params: JsonObject) -> Reply:
        return _cacheable(_UNLISTED) if "cursor" in params else _cacheable(altered, cursor=cursor)

    for settings in (SETTINGS, {**SETTINGS, "catalogSize": 2}):
        async with bench.connected(replace(script, search=two_pages, settings=settings)) as session:
            await session.search_all(_NEED)
            if settings is not SETTINGS and not session.peer.searches:
                return  # it lists a small catalog
            outcome = await session.ask("list_tools")
            listed = session.peer.listings  # from before the search, too: a client may keep what it listed
            case = f"a search, then a listing; catalogSize {settings['catalogSize']}"
            message = f"after a search the client listed without tools/list: {outcome.describe()}"
            session.expect(bool(listed), message, case=case)
            crossed = [each for each in outcome.tools if _is_only_found(each, altered)]
            message = f"a listing has what the search before it found: {cut(json.dumps(crossed), 200)}"
            session.expect(not crossed, message, listed[-1], case=case)


def _is_only_found(reported: JsonObject, altered: JsonObject) -> bool:
    """Return whether a tool is one that is not listed, or is `altered`, which is listed with another description."""
    same = reported.get("name") == altered["name"] and reported.get("description") == altered["description"]
    return same or reported.get("name") == _UNLISTED["name"]


@client_check(
    title="A list change makes cached results stale",
    sends="A search of two pages, and one with a limit, that may be cached for an hour, then "
    "`notifications/tools/list_changed`, then the same searches; all that twice. Then the notification comes while the "
    "client waits for the second page.",
    passes="New requests for all pages; in the last case for the first page.",
)
async def list_change_drops_cache(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_two_pages)) as session:
        first = await session.search_all(_NEED)
        session.require_search()
        subscribed = session.peer.subscribed
        if not (await session.search_all(_NEED)).searches:
            # A client that keeps nothing need not listen; one that keeps pages and does not listen is never notified.
            with anyio.move_on_after(_NOTIFICATION_SECONDS):  # it may be about to subscribe
                await subscribed.wait()
            bench.applies(subscribed.is_set(), "the client does not listen to list changes")
        held = {*_keys(first.searches)}
        with suppress(NoDriverFeatureError):
            held |= {*_keys((await session.search(_OTHER, _LIMIT)).searches)}
        for time in ("a", "a second"):
            await session.peer.notify(TOOLS_CHANGED)
            await _expect_requested(session, held, f"after {time} list change")
    if len(first.searches) > 1:
        await _expect_change_between_pages(bench)


def _two_pages(params: JsonObject) -> Reply:
    return _cacheable(TOOLS[5]) if "cursor" in params else _cacheable(TOOLS[4], cursor="p2")


async def _expect_requested(session: Session, held: set[_Key], when: str) -> None:
    """Expect that pages which the client has had are requested again, as soon as it has acted on a notification."""
    asked: set[_Key] = set()
    with anyio.move_on_after(_NOTIFICATION_SECONDS):
        while not held <= asked:
            asked |= {*_keys((await session.search_all(_NEED)).searches)}
            if any(query == _OTHER for query, *_ in held):
                asked |= {*_keys((await session.search(_OTHER, _LIMIT)).searches)}
    for query, limit, cursor in held:
        page = f"{'first' if cursor is None else 'second'} page for {query!r}, limit {limit}"
        message = f"{_NOTIFICATION_SECONDS:g} s {when} the {page} was still answered from the cache"
        session.expect((query, limit, cursor) in asked, message, case=f"{page}, {when}")


async def _expect_change_between_pages(bench: ClientBench) -> None:
    """Expect that a first page is stale after a list change that comes before the second page."""
    released = anyio.Event()
    reached = False

    def search(params: JsonObject) -> Reply:
        return replace(_two_pages(params), held=released if "cursor" in params else None)

    async with bench.connected(Script(search=search)) as session:

        async def change() -> None:
            nonlocal reached
            await session.peer.until(lambda: bool(session.peer.waiting))
            with anyio.move_on_after(_NOTIFICATION_SECONDS):
                await session.peer.subscribed.wait()
                reached = True
            await session.peer.notify(TOOLS_CHANGED)
            await anyio.sleep(_SHORT / 1000)  # over HTTP it has a stream of its own
            released.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            await session.search_all(_NEED)
            tasks.cancel_scope.cancel()
        if reached:
            firsts = [exchange for exchange in session.peer.searches if "cursor" not in exchange.params]
            await _expect_requested(session, {*_keys(firsts)}, "after a list change before the second page")
