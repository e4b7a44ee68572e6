"""Streamable HTTP: the headers of a search, and those of a call of what it found."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from tools_search_spec import METHOD

from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Pages, Script, tool
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_MIRRORED: Final = ("region", "floor", "lift")
_WORDS: Final = ("lumenquark", "visserbane")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{8,}")


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
    "http-query-not-in-headers",
    title="The query is in no header",
    sends="Peers over Streamable HTTP, one with a search of two pages, one without the extension; the client searches "
    "for two words that nobody else would send.",
    passes="Neither word in any header: not as it is, not percent-encoded, not in base64 or hexadecimal.",
    transports=("http",),
)
async def keeps_the_query_out_of_headers(bench: ClientBench) -> None:
    two_pages, plain = Script(search=Pages([_tool("a")], [_tool("b")])), Script(advertised={})
    for script in (two_pages, plain):
        async with bench.connected(script) as session:
            await session.search_all(" ".join(_WORDS))
            searched = bool(session.peer.searches) or script is plain
            bench.require(searched, "the client did not send tools/search", session.latest)
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
    decoded += [bytes.fromhex(run[: len(run) // 2 * 2]) for run in _HEX.findall(value)]
    return [value, unquote_plus(value), *(each.decode("utf-8", errors="replace") for each in decoded)]


@client_check(
    "http-invalid-tool-left-out",
    title="A found tool with an invalid `x-mcp-header` is left out",
    sends="A search of two pages. Tools of each have an `x-mcp-header` that is empty, no token or no string, stands "
    "twice, or stands on a number, an object or the items of an array; one tool is sound.",
    passes="The client has the sound ones only.",
    eras=(MODERN,),
    transports=("http",),
)
async def leaves_out_invalid_tools(bench: ClientBench) -> None:
    sound = _tool("sound", region={"type": "string", "x-mcp-header": "Region"})
    also = _tool("also_sound", region={"type": "string", "x-mcp-header": "Region"})
    unsound = _unsound()
    pages = Pages([unsound[0], sound, *unsound[1::2]], [*unsound[2::2], also])
    async with bench.connected(Script(search=pages)) as session:
        told = await session.search_all("ask a region")
        exchange = session.last_search
        bench.expect("sound" in told.names, exchange, f"the sound tool is missing: {told.describe()}")
        kept = [name for name in told.names if name not in {"sound", "also_sound"}]
        bench.expect(not kept, exchange, f"the client has tools whose x-mcp-header is invalid: {kept}")


def _unsound() -> list[dict[str, Any]]:
    """Return tools whose annotations are each invalid in one way."""
    marked = {"type": "string", "x-mcp-header": "Region"}
    return [
        _tool("spaced", region={"type": "string", "x-mcp-header": "Re gion"}),
        _tool("broken", region={"type": "string", "x-mcp-header": "Region\r\nX: y"}),
        _tool("foreign", region={"type": "string", "x-mcp-header": "R\u00e9gion"}),
        _tool("empty", region={"type": "string", "x-mcp-header": ""}),
        _tool("no_text", region={"type": "string", "x-mcp-header": 7}),
        _tool("twice", a=marked, b=marked),
        _tool("twice_in_other_case", a=marked, b={"type": "string", "x-mcp-header": "region"}),
        _tool("on_number", region={"type": "number", "x-mcp-header": "Region"}),
        _tool("on_object", region={"type": "object", "x-mcp-header": "Region"}),
        _tool("on_items", regions={"type": "array", "items": marked}),
    ]


@client_check(
    "http-param-headers",
    title="A call has the headers of the definition that was found",
    sends="A tool with `x-mcp-header` on three of its parameters, on the second page of a search; the client calls it "
    "without having listed it, and after a listing, before the search, in which it had another header.",
    passes="`Mcp-Param-*` headers with the values of those arguments that were given; text beyond ASCII in base64. A "
    "client that lists in between, so that what it listed decides, is not judged.",
    eras=(MODERN,),
    transports=("http",),
)
async def mirrors_parameters_of_found_tools(bench: ClientBench) -> None:
    marked = _tool(
        "ask_region",
        region={"type": "string", "x-mcp-header": "Region"},
        floor={"type": "integer", "x-mcp-header": "Floor"},
        lift={"type": "boolean", "x-mcp-header": "Lift"},
        note={"type": "string"},
    )
    outdated = _tool("ask_region", region={"type": "string", "x-mcp-header": "Zone"}, floor={"type": "integer"})
    pages = Pages([_tool("first_page")], [marked])
    for listed in (False, True):
        async with bench.connected(Script(search=pages, listed=(outdated,))) as session:
            if listed:
                await session.list_tools()
            await session.search_all("ask a region")
            case = "listed with other headers, then found" if listed else "found, never listed"
            for arguments in ({"region": "north", "floor": 7, "lift": True, "note": "x"}, {"region": "c\u00f4te"}):
                await session.call("ask_region", arguments)
                _expect_headers(bench, session, arguments, case)


def _expect_headers(bench: ClientBench, session: Session, arguments: Mapping[str, Any], case: str) -> None:
    calls = [call for call in session.peer.asked("tools/call") if params_of(call).get("arguments") == arguments]
    bench.require(bool(calls), "the client did not call the tool", session.latest)
    listed = any(session.last_search.number < listing.number < calls[0].number for listing in session.peer.listings)
    bench.applies(not listed, "the client lists before it calls, so that not what it found decides")
    sent = {name: value for name, value in _headers(calls[0]).items() if name.startswith("mcp-param-")}
    wanted = {f"mcp-param-{name}": _header_value(arguments[name]) for name in _MIRRORED if name in arguments}
    bench.expect(sent == wanted, calls[0], f"the call has the headers {sent} instead of {wanted}", case=case)


def _header_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isascii() else f"=?base64?{base64.b64encode(text.encode()).decode('ascii')}?="
