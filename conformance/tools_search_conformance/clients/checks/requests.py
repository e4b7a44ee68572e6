"""Requests: ids, params and HTTP headers of searches, and headers of calls."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote_plus

from tools_search_spec import METHOD

from tools_search_conformance.clients.bench import ClientBench, Session, client_check
from tools_search_conformance.clients.driver import NoDriverFeatureError
from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.script import TOOLS, Pages, Script, tool
from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import Exchange

_MIRRORED: Final = ("region", "floor", "lift")
_WORDS: Final = ("lumenquark", "visserbane")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{8,}")


@client_check(
    title="Every request has its own id",
    sends="An ordinary peer; the client searches two pages, and once more.",
    passes="Each id is a string or an integer; on a legacy connection no two requests have the same.",
)
async def request_ids(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(TOOLS[:2], TOOLS[2:4]))) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("dispatch a courier", limit=3)
        session.require_search()
        used: list[Any] = []
        for exchange in session.peer.exchanges:
            number = exchange.sent["id"]
            shown = f"a request had the id {json.dumps(number)[:100]}"
            bench.expect(isinstance(number, str) or integer(number) is not None, exchange, shown)
            repeated = bench.cell.era == LEGACY and (type(number), number) in used
            bench.expect(not repeated, exchange, f"{shown}, as another request did")
            used.append((type(number), number))


@client_check(
    title="Every search has valid params",
    sends="An ordinary peer; the client searches two pages, once with a limit, and once without.",
    passes="`query` is text that is not blank; `limit` is an integer of at least 1, or absent; `cursor` is one of the "
    "peer's, or absent.",
)
async def request_params(bench: ClientBench) -> None:
    pages = Pages(TOOLS[:2], TOOLS[2:4])
    async with bench.connected(Script(search=pages)) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("dispatch a courier", limit=3)
            await session.search("brew a pot of coffee")
        session.require_search()
        for exchange in session.peer.searches:
            params = params_of(exchange)
            query, limit, cursor = (params.get(member) for member in ("query", "limit", "cursor"))
            valid = {
                "query": cursor is not None or (isinstance(query, str) and bool(query.strip(WHITE_SPACE))),
                "limit": "limit" not in params or (integer(limit) or 0) >= 1,
                "cursor": "cursor" not in params or cursor in pages.cursors,
            }
            for member, fine in valid.items():
                message = f"the member {member} of a search was {json.dumps(params.get(member))}"
                bench.expect(fine, exchange, message, case=member)


def _headers(exchange: Exchange) -> Mapping[str, str]:
    return {name.lower(): value for name, value in exchange.headers.items()}


def _tool(name: str, **properties: Mapping[str, Any]) -> JsonObject:
    return tool(name, "Asks a region.", inputSchema={"type": "object", "properties": properties})


@client_check(
    title="`Mcp-Method` names the method",
    sends="An ordinary modern peer over Streamable HTTP, with a search of two pages.",
    passes=f"`Mcp-Method: {METHOD}` on every search.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_method_header(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages([_tool("a")], [_tool("b")]))) as session:
        await session.search_all("ask a region")
        session.require_search()
        for exchange in session.peer.searches:
            value = _headers(exchange).get("mcp-method")
            bench.expect(value == METHOD, exchange, f"the header Mcp-Method was {value!r}")


@client_check(
    title="The query appears in no header",
    sends="Peers over Streamable HTTP, one with a search of two pages, one without the extension; the client searches "
    "for two words that nobody else would send.",
    passes="Neither word in any header: not as it is, not percent-encoded, not in base64 or hexadecimal.",
    transports=("http",),
)
async def http_query_not_in_headers(bench: ClientBench) -> None:
    two_pages, plain = Script(search=Pages([_tool("a")], [_tool("b")])), Script(advertised={})
    for script in (two_pages, plain):
        async with bench.connected(script) as session:
            await session.search_all(" ".join(_WORDS))
            if script is two_pages:
                session.require_search()
            for exchange in session.peer.exchanges:
                for name, value in exchange.headers.items():
                    holds = any(word in reading.lower() for reading in _readings(value) for word in _WORDS)
                    bench.expect(not holds, exchange, f"the header {name} holds the query: {value[:200]}", case=name)


def _readings(value: str) -> list[str]:
    """Return a header's value as it is, and in every encoding that it may have."""
    decoded = [
        base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_" if set(part) & set("-_") else None)
        for part in (run.rstrip("=") for run in _BASE64.findall(value))
        if len(part) % 4 != 1
    ]
    decoded += [bytes.fromhex(run[: len(run) // 2 * 2]) for run in _HEX.findall(value)]
    return [value, unquote_plus(value), *(each.decode("utf-8", errors="replace") for each in decoded)]


@client_check(
    title="A found tool with an invalid `x-mcp-header` is left out",
    sends="A search of two pages. Tools of each have an `x-mcp-header` that is empty, no token or no string, stands "
    "twice, or stands on a number, an object or the items of an array; one tool is valid.",
    passes="The client has the valid ones only.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_invalid_tool_left_out(bench: ClientBench) -> None:
    valid = _tool("valid", region={"type": "string", "x-mcp-header": "Region"})
    also = _tool("also_valid", region={"type": "string", "x-mcp-header": "Region"})
    invalid = _invalid_tools()
    pages = Pages([invalid[0], valid, *invalid[1::2]], [*invalid[2::2], also])
    async with bench.connected(Script(search=pages)) as session:
        outcome = await session.search_all("ask a region")
        exchange = session.last_search
        bench.expect("valid" in outcome.names, exchange, f"the valid tool is missing: {outcome.describe()}")
        kept = [name for name in outcome.names if name not in {"valid", "also_valid"}]
        bench.expect(not kept, exchange, f"the client has tools whose x-mcp-header is invalid: {kept}")


def _invalid_tools() -> list[JsonObject]:
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
    title="A call has the headers of the definition that was found",
    sends="A tool with `x-mcp-header` on three of its parameters, on the second page of a search; the client calls it "
    "without having listed it, and after a listing, before the search, in which it had another header.",
    passes="`Mcp-Param-*` headers with the values of those arguments that were given; text beyond ASCII in base64. A "
    "client that lists in between, so that what it listed decides, is not judged.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_param_headers(bench: ClientBench) -> None:
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
        async with bench.connected(Script(search=pages, tools=(outdated,))) as session:
            if listed:
                await session.list_tools()
            await session.search_all("ask a region")
            case = "listed with other headers, then found" if listed else "found, never listed"
            for arguments in ({"region": "north", "floor": 7, "lift": True, "note": "x"}, {"region": "c\u00f4te"}):
                await session.call("ask_region", arguments)
                _expect_headers(bench, session, arguments, case)


def _expect_headers(bench: ClientBench, session: Session, arguments: Mapping[str, Any], case: str) -> None:
    calls = [call for call in session.peer.requests("tools/call") if params_of(call).get("arguments") == arguments]
    bench.require(bool(calls), "the client did not call the tool", session.latest)
    listed = any(session.last_search.number < listing.number < calls[0].number for listing in session.peer.listings)
    bench.applies(not listed, "the client lists before it calls, so that the listed definition decides")
    sent = {name: value for name, value in _headers(calls[0]).items() if name.startswith("mcp-param-")}
    wanted = {f"mcp-param-{name}": _header_value(arguments[name]) for name in _MIRRORED if name in arguments}
    bench.expect(sent == wanted, calls[0], f"the call has the headers {sent} instead of {wanted}", case=case)


def _header_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isascii() else f"=?base64?{base64.b64encode(text.encode()).decode('ascii')}?="
