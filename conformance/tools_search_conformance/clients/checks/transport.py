"""Streamable HTTP: the headers of a search, and those of a call of what it found."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from tools_search_spec import METHOD

from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Pages, Script, found, serves, tool
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools_search_conformance.clients.bench import ClientBench, Session
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_WORDS: Final = ("lumenquark", "visserbane")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")


def _headers(exchange: Exchange) -> Mapping[str, str]:
    return {name.lower(): value for name, value in exchange.headers.items()}


def _tool(name: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return tool(name, "Asks a region.", inputSchema={"type": "object", "properties": properties})


@client_check(
    "http-method-header",
    title="`Mcp-Method` names the method",
    sends="An ordinary modern peer over Streamable HTTP, with a search of two pages.",
    passes=f"`Mcp-Method: {METHOD}` on every search.",
    eras=(MODERN,),
    transports=("http",),
)
async def names_the_method(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages([_tool("a")], [_tool("b")]))) as session:
        await session.search_all("ask a region")
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        for exchange in session.peer.searches:
            value = _headers(exchange).get("mcp-method")
            bench.expect(value == METHOD, exchange, f"the header Mcp-Method was {value!r}")


@client_check(
    "http-no-name-header",
    title="A search has no `Mcp-Name`",
    sends="An ordinary modern peer over Streamable HTTP.",
    passes="No `Mcp-Name` header on a search.",
    eras=(MODERN,),
    transports=("http",),
)
async def names_nothing_else(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search("ask a region")
        exchange = session.last_search
        value = _headers(exchange).get("mcp-name")
        bench.expect(value is None, exchange, f"the search has the header Mcp-Name: {value}")


@client_check(
    "http-query-not-in-headers",
    title="The query is in no header",
    sends="An ordinary peer over Streamable HTTP; the client searches for two words that nobody else would send.",
    passes="Neither word in any header: not as it is, not percent-encoded, not in base64.",
    transports=("http",),
)
async def keeps_the_query_out_of_headers(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search(" ".join(_WORDS))
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        for exchange in session.peer.exchanges:
            for name, value in exchange.headers.items():
                told = any(word in reading.lower() for reading in _readings(value) for word in _WORDS)
                bench.expect(not told, exchange, f"the header {name} holds the query: {value[:200]}", case=name)


def _readings(value: str) -> list[str]:
    """Return a header's value as it is and as it may be meant."""
    decoded = [
        base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_" if set(part) & set("-_") else None)
        for part in (run.rstrip("=") for run in _BASE64.findall(value))
        if len(part) % 4 != 1
    ]
    return [value, unquote_plus(value), *(each.decode("utf-8", errors="replace") for each in decoded)]


@client_check(
    "http-invalid-tool-left-out",
    title="A found tool with an invalid `x-mcp-header` is left out",
    sends="Found tools whose `x-mcp-header` is no token, stands twice, or stands on an object; and one that is sound.",
    passes="The client has the sound one only.",
    eras=(MODERN,),
    transports=("http",),
)
async def leaves_out_invalid_tools(bench: ClientBench) -> None:
    sound = _tool("sound", region={"type": "string", "x-mcp-header": "Region"})
    unsound = (
        _tool("no_token", region={"type": "string", "x-mcp-header": "Re gion\r\n"}),
        _tool("twice", a={"type": "string", "x-mcp-header": "Region"}, b={"type": "string", "x-mcp-header": "region"}),
        _tool("on_object", region={"type": "object", "x-mcp-header": "Region"}),
    )
    async with bench.connected(Script(search=serves(found(unsound[0], sound, *unsound[1:])))) as session:
        told = await session.search("ask a region")
        exchange = session.last_search
        bench.expect("sound" in told.names, exchange, f"the sound tool is missing: {told.describe()}")
        kept = [name for name in told.names if name != "sound"]
        bench.expect(not kept, exchange, f"the client has tools whose x-mcp-header is invalid: {kept}")


@client_check(
    "http-param-headers",
    title="A call has the headers of the definition that was found",
    sends="A found tool with `x-mcp-header` on two of its parameters; the client calls it without having listed it, "
    "and after a listing, before the search, in which it had another header.",
    passes="`Mcp-Param-*` headers with the values of those two arguments.",
    eras=(MODERN,),
    transports=("http",),
)
async def mirrors_parameters_of_found_tools(bench: ClientBench) -> None:
    marked = _tool(
        "ask_region",
        region={"type": "string", "x-mcp-header": "Region"},
        floor={"type": "integer", "x-mcp-header": "Floor"},
        note={"type": "string"},
    )
    outdated = _tool("ask_region", region={"type": "string", "x-mcp-header": "Zone"}, floor={"type": "integer"})
    for listed in (False, True):
        async with bench.connected(Script(search=serves(found(marked)), listed=(outdated,))) as session:
            if listed:
                await session.list_tools()
            await session.search("ask a region")
            await session.call("ask_region", {"region": "north", "floor": 7, "note": "x"})
            case = "listed with other headers, then found" if listed else "found, never listed"
            _expect_headers(bench, session, case)


def _expect_headers(bench: ClientBench, session: Session, case: str) -> None:
    calls = session.peer.asked("tools/call")
    bench.require(bool(calls), "the client did not call the tool", session.latest)
    sent = {name: value for name, value in _headers(calls[0]).items() if name.startswith("mcp-param-")}
    wanted = {"mcp-param-region": "north", "mcp-param-floor": "7"}
    bench.expect(sent == wanted, calls[0], f"the call has the headers {sent} instead of {wanted}", case=case)
