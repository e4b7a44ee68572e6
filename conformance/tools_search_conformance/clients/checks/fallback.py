"""When there is no search, or none that works: all pages of `tools/list`, ranked by the client; and when not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import (
    LISTED,
    SETTINGS,
    Refusal,
    Reply,
    Script,
    Search,
    found,
    refuses,
    serves,
    tool,
)
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.wire.codec import JsonObject
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_WANTED: Final = LISTED[6]
_NEED: Final = "graft an orchid"
"""What fits only the tool on the last page of the listing."""
_PAGES: Final = 3
_NEEDS: Final = ("graft a rose", "graft a lily", "graft a fern", "graft an elm")
_BUSY: Final = 12
_RETRY_AFTER_MS: Final = 20
_MANY: Final = tuple(tool(f"mend_{number}", f"Mends part {number} of a clock.") for number in range(2000))


async def _expect_fallback(
    bench: ClientBench, script: Script, case: str, *, all_pages: bool = False, ranked: bool = False
) -> None:
    """Expect every page of `tools/list`, and the tool on the last of them among the found ones, or as the first."""
    number = _PAGES + script.list_starts_empty
    async with bench.connected(script) as session:
        limit = 3 if ranked else len(LISTED)
        told = await (session.search_all(_NEED) if all_pages else session.search(_NEED, limit=limit))
        where = _evidence(session)
        pages = {str(params_of(exchange).get("cursor", "")) for exchange in session.peer.listings}
        message = f"{case}, and the client asked for {len(pages)} of {number} pages of tools/list"
        bench.expect(len(pages) == number, where, f"{message}; the search came to {told.describe()}", case=case)
        place = "the first" if ranked else "there"
        message = f"{case}, all tools were listed, and the one that fits is not {place}: {told.describe()}"
        fits = not told.heard or _WANTED["name"] in told.names[: 1 if ranked else None]
        bench.expect(fits, where, message, case=case)


def _second_page(reply: Callable[[], Reply]) -> Search:
    """Return a search whose first page is in order, and whose second page is `reply`."""
    return lambda params: reply() if "cursor" in params else found(tool("first_page"), cursor="page2")


def _evidence(session: Session) -> Exchange:
    return (session.peer.listings or session.peer.searches or [session.opening])[-1]


@client_check(
    "fallback-not-advertised",
    title="Without the extension all tools are listed and ranked",
    sends="Peers that do not advertise the extension and list their tools on three pages, one of them after an empty "
    "page.",
    passes="Requests for all of them, and as the first tool the one on the last page, which alone fits.",
    level="ADVICE",
)
async def lists_where_nothing_is_advertised(bench: ClientBench) -> None:
    for all_pages in (False, True):
        case = f"the server does not advertise the extension, the client is to find {'all' if all_pages else 'three'}"
        await _expect_fallback(bench, Script(advertised={}), case, all_pages=all_pages, ranked=True)
    case = "the server does not advertise the extension, and its listing begins with an empty page"
    await _expect_fallback(bench, Script(advertised={}, list_starts_empty=True), case, ranked=True)


@client_check(
    "fallback-after-refusal",
    title="After -32601 or -32021 all tools are listed",
    sends="Peers that advertise the extension and refuse the search with error -32601, and with -32021.",
    passes="Requests for all pages of `tools/list`, and the tool on the last page, which alone fits, is found.",
    level="SHOULD",
)
async def lists_after_a_refusal(bench: ClientBench) -> None:
    for code in (-32601, -32021):
        await _expect_fallback(bench, Script(search=refuses(code)), f"the search was refused with {code}")


@client_check(
    "fallback-after-invalid-result",
    title="After an unusable result all tools are listed",
    sends="Results without `tools`, with `tools` that is not an array, or with a `nextCursor` that is neither a string "
    "nor `null`; a modern result that asks for input. Elsewhere a page with one valid tool among entries that are not.",
    passes="Requests for all pages of `tools/list`, and the tool on the last page, which alone fits, is found. Of the "
    "page with the invalid entries, the valid tool and nothing else, or what listing finds.",
    level="SHOULD",
)
async def lists_after_an_unusable_result(bench: ClientBench) -> None:
    unusable: tuple[dict[str, Any], ...] = (
        {"matches": [tool("wrong_place")]},
        {"tools": {"name": "no_array"}},
        {"tools": None},
        {"tools": "graft_orchid"},
        {"tools": [tool("odd_cursor")], "nextCursor": 7},
        {"tools": [tool("odd_cursor")], "nextCursor": {"page": 2}},
    )
    if bench.cell.era == MODERN:
        unusable += ({"resultType": "input_required", "requestState": "more"},)
    for result in unusable:
        await _expect_fallback(
            bench, Script(search=serves(Reply(result=result))), f"the result was {json.dumps(result)}"
        )
    await _expect_valid_tool_only(bench)


async def _expect_valid_tool_only(bench: ClientBench) -> None:
    """Expect what is valid of a page; a client that lists instead does more than it has to."""
    invalid: list[Any] = ["a_name", None, {"description": "nameless"}, {**tool("x"), "name": 7}, {"name": "no_schema"}]
    page: JsonObject = {"tools": [*invalid[:2], tool("graft_rose", "Grafts a rose."), *invalid[2:]]}
    async with bench.connected(Script(search=serves(Reply(result=page)))) as session:
        told = await session.search(_NEED, limit=10)
        case = f"the page was {json.dumps(page)}"
        right = not told.heard or told.names == ["graft_rose"] or bool(session.peer.listings)
        bench.expect(right, session.last_search, f"{case}, and the search came to {told.describe()}", case=case)


@client_check(
    "busy-not-listed",
    title="A server that is too busy is not listed",
    sends=f"Peers that answer {_BUSY} searches, or as many requests for a second page, with error -32603 and "
    "`data.retryAfterMs`; they advertise a large catalog, then a small one. The client searches for several needs.",
    passes="No `tools/list` after such an answer. When the client searches again is not judged.",
    level="SHOULD",
)
async def does_not_list_a_busy_server(bench: ClientBench) -> None:
    places = ("extensions",) if bench.cell.era == MODERN else ("extensions", "experimental")
    for settings in (SETTINGS, {**SETTINGS, "catalogSize": len(LISTED)}):
        advertised: dict[str, Any] = dict.fromkeys(places, settings)
        async with bench.connected(Script(search=_busy(0), advertised=advertised)) as session:
            await session.search_all(_NEED)
            searched, listed = bool(session.peer.searches), bool(session.peer.listings)
        if settings is not SETTINGS and not searched:
            return  # a small catalog may be listed in the first place
        bench.require(searched, "the client did not send tools/search", session.latest)
        bench.applies(not listed, "the client lists a server that it searches, busy or not")
        for later in (False, True):
            case = f"catalogSize {settings['catalogSize']}, busy at {'the second page' if later else 'once'}"
            await _expect_no_listing(bench, Script(search=_busy(_BUSY, later=later), advertised=advertised), case)


async def _expect_no_listing(bench: ClientBench, script: Script, case: str) -> None:
    async with bench.connected(script) as session:
        for need in _NEEDS:
            told = await session.search_all(need)
            if not told.heard:
                break  # a client that does one thing for each connection
        where = (session.peer.listings or session.peer.searches or [session.opening])[-1]
        bench.expect(not session.peer.listings, where, f"{case}, and the client sent tools/list", case=case)


def _busy(times: int, *, later: bool = False) -> Search:
    """Return a search of two pages that the server is too busy for so many times, at the first page or the `later`."""

    def search(params: JsonObject) -> Reply:
        nonlocal times
        if times and ("cursor" in params) == later:
            times -= 1
            raise Refusal(-32603, "too many searches at once", {"retryAfterMs": _RETRY_AFTER_MS})
        return _second_page(lambda: found(_WANTED))(params)

    return search


@client_check(
    "large-catalog-searched",
    title="A large catalog is searched",
    sends="Peers that list 2,000 tools: one tells that it has a million, one advertises an empty object.",
    passes="`tools/search`, at once or when the listing turns out long.",
    level="ADVICE",
)
async def searches_a_large_catalog(bench: ClientBench) -> None:
    for settings in ({"catalogSize": 1_000_000}, {}):
        places = ("extensions",) if bench.cell.era == MODERN else ("extensions", "experimental")
        case = f"the server advertised {json.dumps(settings)}"
        script = Script(advertised=dict.fromkeys(places, settings), listed=_MANY, list_page=20)
        async with bench.connected(script) as session:
            await session.search("mend a clock", limit=5)
            sent, pages = session.peer.searches, len(session.peer.listings)
            message = f"{case}, and the client read {pages} pages of tools/list and did not send tools/search"
            bench.expect(bool(sent), sent[0] if sent else _evidence(session), message, case=case)
