"""Results: how a client reads them, and its fallback to `tools/list` if it cannot use search."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, METHOD

from tools_search_conformance.clients.bench import ClientBench, client_check
from tools_search_conformance.clients.driver import DriverError, NoDriverFeatureError, Outcome
from tools_search_conformance.clients.script import (
    HOUR_MS,
    MANY,
    SETTINGS,
    TOOLS,
    RefusalError,
    Reply,
    Script,
    Search,
    SwitchedSearch,
    Troubled,
    found,
    refuses,
    serves,
    tool,
    two_pages,
)
from tools_search_conformance.target.primitives import EVERY_METHOD
from tools_search_conformance.target.properties import explore, unknown_members
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.eras import LEGACY, MODERN

_NO_CURSOR: Final = "page9"
_MISLEADING: Final[JsonObject] = {
    "error": {"code": -32603, "message": "none"}, "isError": True, "success": False, "status": "error",
    "hasMore": False, "isLast": True, "end": True, "done": True, "pages": 1, "total": 1, "count": 0,
    "names": [], "hits": [], "results": [], "items": [], "data": [], "query": "another one", "limit": 1, "ok": False,
    "code": -32601, "next": _NO_CURSOR, "next_cursor": _NO_CURSOR, "nextPageToken": _NO_CURSOR, "nextPage": 2,
    "Tools": [], "Resources": [], "ResourceTemplates": [], "Prompts": [], "NextCursor": _NO_CURSOR,
    "ResultType": "none", "cursor": _NO_CURSOR, "before": "page0",
}  # fmt: skip
"""Members that the draft does not define, but that have a meaning elsewhere, or for a case-insensitive parser."""
_MORE: Final[JsonObject] = {"hasMore": True, "isLast": False, "end": False, "done": False, "pages": 9, "total": 9}
"""Members that mean elsewhere that more pages follow."""
_UNLISTED: Final = tool("mend_clock", "Mends a clock.")
"""A tool that no peer lists, so a client that returns it has accepted the result."""
_WANTED: Final = TOOLS[6]
_NEED: Final = "graft an orchid"
"""A need that only the tool on the last page of the listing fits."""
_LISTED_PAGES: Final = 3
_NEEDS: Final = ("graft a rose", "graft a lily", "graft a fern", "graft an elm")
_SERVED: Final = "graft a palm"
"""A need for which a server searches before it refuses others."""
_BUSY: Final = 12
_RETRY_AFTER_MS: Final = 20
_LONG_MS: Final = 2500
"""More than many clients wait."""
_STATUSES: Final = {-32601: (200, 400, 429, 500), -32021: (200, 404, 502, 503)}
_REFUSAL_DATA: Final[JsonObject] = {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}, "method": METHOD}
_KINDS: Final = {-32601: "application/json", -32021: "application/json; charset=utf-8"}
"""The content types of refusals with these codes."""


async def _expect_found(bench: ClientBench, result: JsonObject, case: str) -> Outcome:
    async with bench.connected(Script(search=serves(found(_UNLISTED).adding(result)))) as session:
        outcome = await session.search("mend a clock")
        message = f"{case}; the search returned {outcome.describe()} instead of {_UNLISTED['name']!r}"
        session.expect(_UNLISTED["name"] in outcome.names, message, case=case)
        return outcome


async def _expect_second_page(bench: ClientBench, tools: list[JsonObject], extra: JsonObject) -> None:
    """Expect the tool of a second page with `extra` members, also after such a first page, if the client reads on."""
    reads_on, most = False, 0
    first, second = found(tool("first_page"), cursor="page2"), found(*tools).adding(extra)
    for which, search in (
        ("the second page and its tool", two_pages(first, second)),
        ("both pages and the tool", two_pages(first.adding(extra), second.adding(_MORE))),
    ):
        async with bench.connected(Script(search=search)) as session:
            outcome = await session.search_all("mend a clock")
            case = f"{which} had unknown members"
            message = f"{case}, and the client took {_NO_CURSOR!r} in one of them for a cursor"
            session.expect(_NO_CURSOR not in session.followed, message, case=case)
            if reads_on := reads_on or bool(session.followed):
                message = f"{case}; the client sent the cursors {session.followed} and returned {outcome.describe()}"
                there = not outcome.reported or _UNLISTED["name"] in outcome.names
                session.expect(there and bool(session.followed), message, case=case)
                message = f"{case}, and the client requested a page after the last one; its cursors: {session.followed}"
                # If it always does so, last-page-ends judges that.
                searches, most = len(session.peer.searches), most or max(2, len(session.peer.searches))
                session.expect(searches <= most, message, case=case)


@client_check(
    title="Unknown members of a result are ignored",
    sends=f"A result of `{METHOD}` with unknown members, some of them generated, some that mean an error, the last "
    "page or another page in other APIs, and some with the names of known members in another case; and with a tool "
    "that has unknown members.",
    passes="The client returns the tool, takes no result for an invalid one and no page for the last one, and requests "
    "no page after the last one.",
    methods=EVERY_METHOD,
)
async def result_unknown_members(bench: ClientBench) -> None:
    extra: JsonObject = {"facets": {"group": ["a"]}, "future": None, "warnings": ["x"], "_meta": {"example.com/x": [1]}}
    await _expect_found(bench, {**extra, **_MISLEADING}, "the result had unknown members")
    hit = {"score": 0.5, "why": ["x"], "matched": ["name", "keywords"], "group": "clocks"}
    odd = {**_UNLISTED, "future": {"deep": [1, None]}, "_meta": {EXTENSION_ID: hit, "example.com/x": None}}
    odd |= {"annotations": {"readOnlyHint": True, "costHint": "low", "cost": [3]}}
    odd |= {"icons": [{"src": "https://example.com/clock.svg", "future": 1}]}
    odd |= {"inputSchema": {"type": "object", "$comment": "x", "x-future": {"deep": []}, "additionalProperties": False}}
    odd |= {"Name": "other", "Uri": "docs://other", "UriTemplate": "docs://other/{x}", "InputSchema": None, "_Meta": 5}
    odd |= {"enabled": False, "disabled": True, "hidden": True, "deprecated": True}
    outcome = await _expect_found(bench, {"tools": [odd]}, "the tool had unknown members")
    await _expect_second_page(bench, [odd], {**extra, **_MISLEADING})
    if outcome.reported:
        searching = SwitchedSearch()
        async with bench.connected(Script(search=searching)) as session:

            async def judge(members: JsonObject) -> None:
                outcome = await session.search(searching.switch(serves(found(_UNLISTED).adding(members))))
                case = f"members {json.dumps(members, ensure_ascii=False)}"
                message = f"the result had the unknown {case}; the search returned {outcome.describe()}"
                session.expect(_UNLISTED["name"] in outcome.names, message, case=case)

            await explore(bench, unknown_members(), judge, cost=2)


@client_check(
    title="Modern members of a legacy result are ignored",
    sends="Legacy results with an invalid `resultType`, `ttlMs` or `cacheScope`; then the same search twice, without "
    "`ttlMs`, with one of an hour, and with one of 0.",
    passes="The client returns the tool each time, and sends the same number of requests whatever `ttlMs` is.",
    eras=(LEGACY,),
)
async def legacy_members_ignored(bench: ClientBench) -> None:
    invalid: tuple[JsonObject, ...] = (
        {"resultType": "surprise"},
        {"resultType": "input_required"},
        {"resultType": None, "ttlMs": None, "cacheScope": None},
        {"ttlMs": "soon"},
        {"ttlMs": -5},
        {"cacheScope": "everyone"},
    )
    for members in bench.share(invalid):
        await _expect_found(bench, members, f"a legacy result had {json.dumps(members)}")
    hints: tuple[JsonObject, ...] = ({}, {"ttlMs": HOUR_MS}, {"ttlMs": 0})
    asked: list[int] = []
    for hint in hints:
        async with bench.connected(Script(search=serves(found(_UNLISTED, **hint)))) as session:
            await session.search("mend a clock")
            await session.search("mend a clock")
            asked.append(len(session.peer.searches))
            message = f"for the same search twice, the client sent {number_of(asked[0], 'request')} without ttlMs"
            message += f" and {asked[-1]} with {json.dumps(hint)}"
            session.expect(asked[-1] == asked[0], message)


async def _expect_fallback(
    bench: ClientBench,
    script: Script,
    case: str,
    *,
    all_pages: bool = False,
    ranked: bool = False,
    after: str | None = None,
) -> None:
    """Expect all pages of `tools/list` to be requested, and the tool on the last one to be found; first, if `ranked`.

    If `after` is given, the client searches for it before.
    """
    number = _LISTED_PAGES + script.list_starts_empty
    async with bench.connected(script) as session:
        limit = 3 if ranked else len(TOOLS)
        if after is not None and not bench.options.one_shot:
            await session.find(after, None if all_pages else 3)
        outcome = await session.find(_NEED, None if all_pages else limit)
        where = session.last_request_for_tools
        pages = {str(exchange.params.get("cursor", "")) for exchange in session.peer.listings}
        message = f"{case}, but the client requested {len(pages)} of {number} pages of {bench.primitive.list_method}"
        session.expect(len(pages) == number, f"{message}; the search returned {outcome.describe()}", where, case=case)
        place = "first" if ranked else "found"
        message = f"{case}; the client listed all tools, but {_WANTED['name']!r} is not {place}: {outcome.describe()}"
        fits = not outcome.reported or _WANTED["name"] in outcome.names[: 1 if ranked else None]
        session.expect(fits, message, where, case=case)
        if outcome.reported:  # the client may cache the listing
            again = await session.find(_NEED, len(TOOLS))
            message = f"{case}; a second time, the same search returned {again.describe()}"
            session.expect(_WANTED["name"] in again.names, message, where, case=f"{case}, a second time")


@client_check(
    title="Without the extension, the client lists all tools and ranks them",
    sends="Peers that do not advertise the extension and list their tools on three pages, once after an empty page.",
    passes="The client requests all pages, and its first tool is the only one that fits, which is on the last page.",
)
async def fallback_not_advertised(bench: ClientBench) -> None:
    for all_pages in (False, True):
        case = "the server does not advertise the extension, the client has to find "
        case += "all tools" if all_pages else "three tools"
        await _expect_fallback(bench, Script(advertised={}), case, all_pages=all_pages, ranked=True)
    case = "the server does not advertise the extension and its list begins with an empty page"
    await _expect_fallback(bench, Script(advertised={}, list_starts_empty=True), case, ranked=True)


@client_check(
    title="After error -32601 or -32021, the client lists all tools",
    sends="Peers that advertise the extension and refuse the search with error -32601 or -32021, with or without "
    "`data`, and once after another search that the peer answered; the client has to find some tools, and all tools, "
    "each twice. On a modern connection over HTTP, also with other HTTP statuses, and with a content type that names a "
    "charset.",
    passes="The client requests all pages of `tools/list` and finds the only tool that fits, which is on the last"
    " page.",
    methods=EVERY_METHOD,
)
async def fallback_after_refusal(bench: ClientBench) -> None:
    for code in _STATUSES:
        for all_pages in (False, True):
            case = f"the search got error {code}, the client has to find {'all' if all_pages else 'some'} tools"
            refused, served = refuses(code, data=None if all_pages else _REFUSAL_DATA), serves(found(_UNLISTED))

            def search(params: JsonObject, refused: Search = refused, served: Search = served) -> Reply:
                return (served if params["query"] == _SERVED else refused)(params)

            after = _SERVED if all_pages and code == -32601 else None
            await _expect_fallback(bench, Script(search=search), case, all_pages=all_pages, after=after)
        for status in _STATUSES[code] if bench.cell.is_modern_http else ():
            case = f"the search got error {code} with HTTP status {status} and content type {_KINDS[code]}"
            await _expect_fallback(bench, Script(search=refuses(code, status=status, kind=_KINDS[code])), case)


@client_check(
    title="After an unusable result, the client lists all tools",
    sends="Results without `tools`, with `tools` that is not an array, or with a `nextCursor` that is neither a string "
    "nor `null`; a modern result that asks for input. Then a page with one valid tool among invalid entries.",
    passes="The client requests all pages of `tools/list` and finds the only tool that fits, which is on the last page."
    " From the page with invalid entries, it returns only the valid tool, or else the listed tools.",
    methods=EVERY_METHOD,
)
async def fallback_after_invalid_result(bench: ClientBench) -> None:
    # A result that is not an object is not sent. It is not a response in the base protocol, so SDKs drop it, and their
    # clients only see a timeout, after which the draft requires nothing.
    unusable: tuple[JsonObject, ...] = (
        {"matches": [tool("wrong_place")]},
        {"tools": {"name": "no_array"}},
        {"tools": None},
        {"tools": "graft_orchid"},
        {"tools": {}},
        {"tools": 0},
        {"tools": [tool("odd_cursor")], "nextCursor": 7},
        {"tools": [tool("odd_cursor")], "nextCursor": {"page": 2}},
        {"tools": [tool("odd_cursor")], "nextCursor": False},
        {"tools": [], "nextCursor": 0},
    )
    if bench.cell.era == MODERN:
        odd_type = {"tools": [tool("odd_type")]}
        unusable += ({"resultType": "input_required", "requestState": "more"}, {**odd_type, "resultType": "partial"})
        unusable += tuple(
            {**odd_type, "resultType": kind} for kind in ("Complete", "input_required", None, "", ["complete"])
        )
    for number, result in bench.some(bench.share(tuple(enumerate(unusable))), 3):
        script = Script(search=serves(Reply(result=result)))
        await _expect_fallback(bench, script, f"the result was {json.dumps(result)}", all_pages=number % 4 in {1, 2})
    if bench.primitive.setting:  # the page below has tools
        return
    invalid: list[Any] = ["a_name", None, {"description": "nameless"}, {**tool("x"), "name": 7}, {"name": "no_schema"}]
    page: JsonObject = {"tools": [*invalid[:2], tool("graft_rose", "Grafts a rose."), *invalid[2:]]}
    async with bench.connected(Script(search=serves(Reply(result=page)))) as session:
        outcome = await session.search(_NEED, 10)
        case = f"the page was {json.dumps(page)}"
        # A client may list instead, although it does not have to.
        right = not outcome.reported or outcome.names == ["graft_rose"] or bool(session.peer.listings)
        session.expect(right, f"{case}; the search returned {outcome.describe()} instead of 'graft_rose'", case=case)


@client_check(
    title="If the server is too busy, the client does not list all tools instead",
    sends=f"Peers that answer {_BUSY} searches, or as many requests for a second page, with error -32603 and "
    f"`data.retryAfterMs` next to another member, once with 0, {float(_RETRY_AFTER_MS)} and {_LONG_MS}, and once with "
    "an hour; they advertise a large catalog, then a small one. On a modern connection over HTTP, also with status 429 "
    "and 503, with that error and with a proxy's text in its place. The client searches for several needs.",
    passes="The client sends no `tools/list` after such an error. When it searches again is not judged.",
    methods=EVERY_METHOD,
)
async def busy_not_listed(bench: ClientBench) -> None:
    for settings in (SETTINGS, {**SETTINGS, "catalogSize": len(TOOLS)}):
        async with bench.connected(Script(search=_Busy(0).search(), settings=settings)) as session:
            await session.search_all(_NEED)
            searched, listed = bool(session.peer.searches), bool(session.peer.listings)
        if settings is not SETTINGS and not searched:
            return  # a small catalog may be listed in the first place
        bench.require(searched, f"the client did not send {bench.method}", session.latest)
        bench.applies(not listed, "the client also lists the tools of a server that is not busy")
        large = settings is SETTINGS
        busy = [_Busy(), _Busy(later=True), _Busy(after=0), _Busy(after=float(_RETRY_AFTER_MS))]
        busy += [_Busy(times=1, after=_LONG_MS)] * (large and not bench.primitive.setting and bench.cell.era == MODERN)
        busy += [_Busy(times=1, after=HOUR_MS)] * (large and not bench.primitive.setting)
        if bench.cell.is_modern_http and large:
            busy += [_Busy(status=status, proxy=proxy) for status in (429, 503) for proxy in (False, True)]
        for each in busy:
            case = f"catalogSize {settings['catalogSize']}, {each}"
            async with bench.connected(Script(search=each.search(), settings=settings)) as session:
                try:
                    with suppress(NoDriverFeatureError):  # a one-shot client does one thing
                        for need in _NEEDS if each.status is None and each.times > 1 else _NEEDS[:1]:
                            await session.search_all(need)
                        await session.search(_NEED, 5)
                except DriverError as error:
                    if each.after < HOUR_MS or not isinstance(error.__cause__, TimeoutError):
                        raise
                    bench.recorder.deaths.clear()  # a client that waits as long as that does not list
                where = session.last_request_for_tools
                message = f"the server was too busy ({case}), and the client sent {bench.primitive.list_method}"
                session.expect(not session.peer.listings, message, where, case=case)


@dataclass(frozen=True)
class _Busy:
    """A server that is too busy for a number of searches of two pages, at the first page or the `later` one."""

    times: int = _BUSY
    later: bool = False
    status: int | None = None
    after: float = _RETRY_AFTER_MS
    proxy: bool = False
    """Whether a proxy answers in the server's place, without an error in JSON."""

    def __str__(self) -> str:
        if self.proxy:
            return f"HTTP status {self.status} of a proxy"
        status = f", HTTP status {self.status}" if self.status else ""
        return f"{'second' if self.later else 'first'} page, retryAfterMs {self.after}{status}"

    def search(self) -> Search:
        """Return the search."""
        data = {"retryAfterMs": self.after, "searches": {"under way": 9}}
        busy = replace(RefusalError(-32603, "too many searches at once", data).reply, status=self.status)
        if self.proxy:
            busy = Reply(status=self.status, kind="text/plain", text="Too many requests\n")
        pages, times = two_pages(found(tool("first_page"), cursor="page2"), found(_WANTED)), [busy] * self.times
        return Troubled(pages, first=(), later=times) if self.later else Troubled(pages, first=times, later=())


@client_check(
    title="A large catalog is searched",
    sends="Peers that list 2,000 tools: one advertises a `catalogSize` of a million, the other empty settings.",
    passes="The client sends `tools/search`, at once or when the list turns out to be long.",
)
async def large_catalog_searched(bench: ClientBench) -> None:
    for settings in ({"catalogSize": 1_000_000}, {}):
        case = f"the server advertised {json.dumps(settings)}"
        async with bench.connected(Script(settings=settings, tools=MANY, list_page=20)) as session:
            await session.search("mend a clock", 5)
            where = (session.peer.searches or [session.last_request_for_tools])[0]
            pages = f"{number_of(len(session.peer.listings), 'page')} of {bench.primitive.list_method}"
            message = f"{case}, but the client requested {pages} and did not send tools/search"
            session.expect(bool(session.peer.searches), message, where, case=case)
