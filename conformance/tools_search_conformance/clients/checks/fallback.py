"""When there is no search, or none that works: all pages of `tools/list`, ranked by the client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Reply, Script, refuses, serves, tool
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench, Session
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_WANTED: Final = LISTED[6]
_NEED: Final = "graft an orchid"
"""What fits only the tool on the last page of the listing."""
_PAGES: Final = 3


async def _expect_fallback(bench: ClientBench, script: Script, case: str) -> None:
    """Expect every page of `tools/list`, and the tool on the last of them among what the client has."""
    async with bench.connected(script) as session:
        told = await session.search(_NEED, limit=3)
        where = _evidence(session)
        pages = {str(params_of(exchange).get("cursor", "")) for exchange in session.peer.listings}
        message = f"{case}, and the client asked for {len(pages)} of {_PAGES} pages of tools/list"
        bench.expect(len(pages) == _PAGES, where, f"{message}; the search came to {told.describe()}", case=case)
        message = f"{case}, all tools were listed, and the one that fits is missing: {told.describe()}"
        bench.expect(not told.heard or _WANTED["name"] in told.names, where, message, case=case)


def _evidence(session: Session) -> Exchange:
    return (session.peer.listings or session.peer.searches or [session.opening])[-1]


@client_check(
    "fallback-not-advertised",
    title="Without the extension all tools are listed and ranked",
    sends="A peer that does not advertise the extension and lists its tools on three pages.",
    passes="Requests for all three, and the tool on the last one, which alone fits.",
)
async def lists_where_nothing_is_advertised(bench: ClientBench) -> None:
    await _expect_fallback(bench, Script(advertised={}), "the server does not advertise the extension")


@client_check(
    "fallback-after-refusal",
    title="After -32601 or -32021 all tools are listed and ranked",
    sends="Peers that advertise the extension and refuse the search with error -32601, and with -32021.",
    passes="Requests for all pages of `tools/list`, and the tool on the last one, which alone fits.",
)
async def lists_after_a_refusal(bench: ClientBench) -> None:
    for code in (-32601, -32021):
        await _expect_fallback(bench, Script(search=refuses(code)), f"the search was refused with {code}")


@client_check(
    "fallback-after-invalid-result",
    title="After an invalid result all tools are listed and ranked",
    sends="Results without `tools`, with `tools` that are no array or hold something that is no tool, and with a "
    "`nextCursor` that is no string; modern ones of an unknown `resultType`.",
    passes="Requests for all pages of `tools/list`, and the tool on the last one, which alone fits.",
)
async def lists_after_an_invalid_result(bench: ClientBench) -> None:
    invalid: tuple[dict[str, Any], ...] = (
        {"matches": [tool("wrong_place")]},
        {"tools": {"name": "no_array"}},
        {"tools": [{"description": "nameless"}]},
        {"tools": [tool("odd_cursor")], "nextCursor": 7},
    )
    if bench.cell.era == MODERN:
        invalid += ({"tools": [tool("odd_kind")], "resultType": "surprise"},)
    for result in invalid:
        await _expect_fallback(
            bench, Script(search=serves(Reply(result=result))), f"the result was {json.dumps(result)}"
        )
