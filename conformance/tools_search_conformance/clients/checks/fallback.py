"""When there is no search, or none that works: all pages of `tools/list`, ranked by the client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Reply, Script, Search, found, refuses, serves, tool
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_WANTED: Final = LISTED[6]
_NEED: Final = "graft an orchid"
"""What fits only the tool on the last page of the listing."""
_PAGES: Final = 3
_MANY: Final = tuple(tool(f"mend_{number}", f"Mends part {number} of a clock.") for number in range(2000))


async def _expect_fallback(bench: ClientBench, script: Script, case: str, *, all_pages: bool = False) -> None:
    """Expect every page of `tools/list`, and the tool on the last of them, which alone fits, as the client's first."""
    number = _PAGES + script.list_starts_empty
    async with bench.connected(script) as session:
        told = await (session.search_all(_NEED) if all_pages else session.search(_NEED, limit=3))
        where = _evidence(session)
        pages = {str(params_of(exchange).get("cursor", "")) for exchange in session.peer.listings}
        message = f"{case}, and the client asked for {len(pages)} of {number} pages of tools/list"
        bench.expect(len(pages) == number, where, f"{message}; the search came to {told.describe()}", case=case)
        message = f"{case}, all tools were listed, and the one that fits is not the first: {told.describe()}"
        bench.expect(not told.heard or told.names[:1] == [_WANTED["name"]], where, message, case=case)


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
)
async def lists_where_nothing_is_advertised(bench: ClientBench) -> None:
    for all_pages in (False, True):
        case = f"the server does not advertise the extension, the client is to find {'all' if all_pages else 'three'}"
        await _expect_fallback(bench, Script(advertised={}), case, all_pages=all_pages)
    case = "the server does not advertise the extension, and its listing begins with an empty page"
    await _expect_fallback(bench, Script(advertised={}, list_starts_empty=True), case)


@client_check(
    "fallback-after-refusal",
    title="After -32601 or -32021 all tools are listed and ranked",
    sends="Peers that advertise the extension and refuse the search with error -32601, and with -32021, at once or at "
    "its second page.",
    passes="Requests for all pages of `tools/list`, and as the first tool the one on the last page, which alone fits.",
)
async def lists_after_a_refusal(bench: ClientBench) -> None:
    for code in (-32601, -32021):
        refusal = refuses(code)
        await _expect_fallback(bench, Script(search=refusal), f"the search was refused with {code}")
        later = Script(search=_second_page(lambda refusal=refusal: refusal({})))
        await _expect_fallback(bench, later, f"the second page was refused with {code}", all_pages=True)


@client_check(
    "fallback-after-invalid-result",
    title="After an invalid result all tools are listed and ranked",
    sends="Results without `tools`, with `tools` that are no array or hold something that is no tool, and with a "
    "`nextCursor` that is no string; modern ones of another `resultType`; and such a result as second page.",
    passes="Requests for all pages of `tools/list`, and as the first tool the one on the last page, which alone fits.",
)
async def lists_after_an_invalid_result(bench: ClientBench) -> None:
    invalid: tuple[dict[str, Any], ...] = (
        {"matches": [tool("wrong_place")]},
        {"tools": {"name": "no_array"}},
        {"tools": None},
        {"tools": ["a_name"]},
        {"tools": [{"description": "nameless"}]},
        {"tools": [tool("odd_cursor")], "nextCursor": 7},
    )
    if bench.cell.era == MODERN:
        invalid += tuple({"tools": [tool("odd_kind")], "resultType": kind} for kind in ("surprise", "input_required"))
    for result in invalid:
        await _expect_fallback(
            bench, Script(search=serves(Reply(result=result))), f"the result was {json.dumps(result)}"
        )
    later = Script(search=_second_page(lambda: Reply(result=invalid[0])))
    await _expect_fallback(bench, later, f"the second page was {json.dumps(invalid[0])}", all_pages=True)


@client_check(
    "large-catalogue-searched",
    title="A large catalogue is searched",
    sends="Peers that list 2,000 tools: one tells that it has a million, one advertises an empty object.",
    passes="`tools/search`, at once or when the listing turns out long.",
    level="SHOULD",
)
async def searches_a_large_catalogue(bench: ClientBench) -> None:
    for settings in ({"catalogSize": 1_000_000}, {}):
        places = ("extensions",) if bench.cell.era == MODERN else ("extensions", "experimental")
        case = f"the server advertised {json.dumps(settings)}"
        script = Script(advertised=dict.fromkeys(places, settings), listed=_MANY, list_page=20)
        async with bench.connected(script) as session:
            await session.search("mend a clock", limit=5)
            sent, pages = session.peer.searches, len(session.peer.listings)
            message = f"{case}, and the client read {pages} pages of tools/list and did not send tools/search"
            bench.expect(bool(sent), sent[0] if sent else _evidence(session), message, case=case)
