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
from tools_search_conformance.clients.script import TOOLS, Pages, Reply, Script, found, tool
from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import Exchange

_WORDS: Final = ("lumenquark", "visserbane")
_TELLING: Final = 6
"""How many of its characters identify a word."""
_ARGUMENTS: Final[tuple[JsonObject, ...]] = (
    {"region": "north", "floor": 7, "lift": True, "note": "x"},
    {"region": "c\u00f4te", "floor": 0, "lift": False},
    {"region": "south", "inside": {"door": "left"}},
    {"region": "west", "lift": True},
)
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
            session.expect(isinstance(number, str) or integer(number) is not None, shown, exchange)
            repeated = bench.cell.era == LEGACY and (type(number), number) in used
            session.expect(not repeated, f"{shown}, as another request did", exchange)
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
            params = exchange.params
            query, limit, cursor = (params.get(member) for member in ("query", "limit", "cursor"))
            valid = {
                "query": cursor is not None or (isinstance(query, str) and bool(query.strip(WHITE_SPACE))),
                "limit": "limit" not in params or (integer(limit) or 0) >= 1,
                "cursor": "cursor" not in params or cursor in pages.cursors,
            }
            for member, fine in valid.items():
                message = f"the member {member} of a search was {json.dumps(params.get(member))}"
                session.expect(fine, message, exchange, case=member)


def _headers(exchange: Exchange) -> Mapping[str, str]:
    return {name.lower(): value for name, value in exchange.headers.items()}


def _tool(name: str, **properties: Mapping[str, Any]) -> JsonObject:
    return tool(name, "Asks a region.", inputSchema={"type": "object", "properties": properties})


@client_check(
    title="`Mcp-Method` names the method",
    sends="An ordinary modern peer over Streamable HTTP, with a search of two pages, and one with a limit.",
    passes=f"`Mcp-Method: {METHOD}` on every search, and no `Mcp-Name`.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_method_header(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages([_tool("a")], [_tool("b")]))) as session:
        await session.search_all("ask a region")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("ask a region", 5)
        session.require_search()
        for exchange in session.peer.searches:
            value = _headers(exchange).get("mcp-method")
            session.expect(value == METHOD, f"the header Mcp-Method was {value!r}", exchange)
            name = _headers(exchange).get("mcp-name")
            named = f"the search, which names nothing, had the header Mcp-Name: {name!r}"
            session.expect(name is None, named, exchange)


@client_check(
    title="The query appears in no header",
    sends="Peers over Streamable HTTP, one with a search of two pages, one without the extension; the client searches "
    "for two words that nobody else would send, for all tools and with a limit, and calls a tool that it found.",
    passes="Neither word, nor the beginning of one, in any header or its name: not as it is, not percent-encoded, not "
    "in base64 or hexadecimal.",
    transports=("http",),
)
async def http_query_not_in_headers(bench: ClientBench) -> None:
    two_pages, plain = Script(search=Pages([_tool("a")], [_tool("b")])), Script(advertised={})
    for script in (two_pages, plain):
        async with bench.connected(script) as session:
            if script is two_pages:
                with suppress(NoDriverFeatureError):  # the client reads no further pages, or calls nothing
                    await session.find_and_call(" ".join(_WORDS), "a", {})
                with suppress(NoDriverFeatureError):  # a one-shot client does one thing
                    await session.search(" ".join(_WORDS), 5)
                session.require_search()
            else:
                with suppress(NoDriverFeatureError):
                    await session.search_all(" ".join(_WORDS))
            for exchange in session.peer.exchanges:
                for name, value in exchange.headers.items():
                    readings = [name.lower(), *(reading.lower() for reading in _readings(value))]
                    holds = any(word[:_TELLING] in reading for reading in readings for word in _WORDS)
                    session.expect(not holds, f"the header {name} holds the query: {value[:200]}", exchange, case=name)


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
    def marked(name: Any, kind: str = "string") -> JsonObject:
        return {"type": kind, "x-mcp-header": name}

    invalid = [
        _tool("spaced", region=marked("Re gion")),
        _tool("broken", region=marked("Region\r\nX: y")),
        _tool("foreign", region=marked("R\u00e9gion")),
        _tool("empty", region=marked("")),
        _tool("no_text", region=marked(7)),
        _tool("twice", a=marked("Region"), b=marked("Region")),
        _tool("twice_in_other_case", a=marked("Region"), b=marked("region")),
        _tool("on_number", region=marked("Region", "number")),
        _tool("on_object", region=marked("Region", "object")),
        _tool("on_items", regions={"type": "array", "items": marked("Region")}),
    ]
    valid, also = (_tool(name, region=marked("Region")) for name in ("valid", "also_valid"))
    pages = Pages([invalid[0], valid, *invalid[1::2]], [*invalid[2::2], also])
    async with bench.connected(Script(search=pages)) as session:
        outcome = await session.search_all("ask a region")
        session.expect("valid" in outcome.names, f"the valid tool is missing: {outcome.describe()}")
        kept = [name for name in outcome.names if name not in {"valid", "also_valid"}]
        session.expect(not kept, f"the client has tools whose x-mcp-header is invalid: {kept}")


@client_check(
    title="A call has the headers of the definition that was found",
    sends="A tool with `x-mcp-header` on some of its parameters, on the second page of a search, beside one whose name "
    "differs by case; the client calls it without having listed it, and after a listing or a search, before that one, "
    "in which it had another header. The arguments are of each type, `false`, 0, left out where there is a default, "
    "and inside an object. Then another search that does not find the tool, and one more call.",
    passes="`Mcp-Param-*` headers with the values of those arguments that were given; text beyond ASCII in base64. A "
    "client that lists in between, so that what it listed decides, is not judged.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_param_headers(bench: ClientBench) -> None:
    marked = _tool(
        "ask_region",
        region={"type": "string", "x-mcp-header": "Area"},
        floor={"type": "integer", "x-mcp-header": "Level", "default": 1},
        lift={"type": "boolean", "x-mcp-header": "By-Lift"},
        inside={"type": "object", "properties": {"door": {"type": "string", "x-mcp-header": "Door"}}},
        note={"type": "string"},
    )
    outdated = _tool("ask_region", region={"type": "string", "x-mcp-header": "Zone"}, floor={"type": "integer"})
    other = {**outdated, "name": "Ask_Region"}
    pages = Pages([_tool("first_page")], [marked, other])
    needs = {"ask a zone": Pages([outdated]), "ask nobody": Pages([_tool("first_page")])}

    def search(params: JsonObject) -> Reply:
        return needs.get(params["query"], pages)(params)

    judged = False
    for before in ("never", "listed", "found"):
        async with bench.connected(Script(search=search, tools=(outdated,))) as session:
            if before == "listed":
                await session.ask("list_tools")
            if before == "found":
                await session.search_all("ask a zone")
            case = "found, never listed" if before == "never" else f"{before} with other headers, then found"
            await session.find_and_call("ask a region", "ask_region", _ARGUMENTS[0])
            judged |= _expect_headers(session, _ARGUMENTS[0], case)
            if bench.options.one_shot:
                break  # it does one thing
            for arguments in _ARGUMENTS[1:]:
                if arguments is _ARGUMENTS[-1]:
                    await session.search_all("ask nobody")
                    case = f"{case}, and another search since"
                await session.ask("call", name="ask_region", arguments=arguments)
                judged |= _expect_headers(session, arguments, case)
    bench.applies(judged, "the client lists before it calls, so that the listed definition decides")


@client_check(
    title="A call is validated by the definition that was found",
    sends="A tool that is found with an `outputSchema`; the client calls it without having listed it, after a listing, "
    "and after another search, in which it had another `outputSchema`. The result is valid by the latest definition.",
    passes="The result of the call, and no error. A client that lists in between is not judged.",
)
async def call_validated_by_found(bench: ClientBench) -> None:
    by_found, outdated = (
        tool(
            "weigh_parcel",
            "Weighs a parcel.",
            outputSchema={"type": "object", "properties": {unit: {"type": "integer"}}, "required": [unit]},
        )
        for unit in ("grams", "ounces")
    )

    def search(params: JsonObject) -> Reply:
        return found(outdated if params["query"] == "weigh a letter" else by_found)

    for before in ("never", "listed", "found"):
        script = Script(search=search, tools=(outdated,), structured={"weigh_parcel": {"grams": 5}})
        async with bench.connected(script) as session:
            if before == "listed":
                await session.ask("list_tools")
            if before == "found":
                await session.search("weigh a letter", 5)
            await session.search("weigh a parcel", 5)
            session.require_search()
            outcome = await session.ask("call", name="weigh_parcel", arguments={})
            listed = any(listing.number > session.last_search.number for listing in session.peer.listings)
            bench.applies(not listed, "the client lists when it calls, so that the listed definition decides")
            called = session.peer.requests("tools/call")
            bench.require(bool(called), "the client did not call the tool", session.latest)
            case = "found, never listed" if before == "never" else f"{before} with another outputSchema, then found"
            message = f"the result was valid by the found definition, and the call returned {outcome.describe()}"
            session.expect(outcome.error is None, message, called[-1], case=case)


def _expect_headers(session: Session, arguments: Mapping[str, Any], case: str) -> bool:
    """Expect the headers of a call, and return whether the definition that was found decides about them."""
    call = next((c for c in session.peer.requests("tools/call") if c.params.get("arguments") == arguments), None)
    if call is None:
        raise UnverifiableError("the client did not call the tool", session.latest)
    if any(session.last_search.number < listing.number < call.number for listing in session.peer.listings):
        return False
    sent = {name: value for name, value in _headers(call).items() if name.startswith("mcp-param-")}
    given = {
        "area": arguments.get("region"), "level": arguments.get("floor"), "by-lift": arguments.get("lift"),
        "door": arguments.get("inside", {}).get("door"),
    }  # fmt: skip
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    wanted = {
        f"mcp-param-{name}": text if text.isascii() else f"=?base64?{base64.b64encode(text.encode()).decode()}?="
        for name, text in texts.items()
        if given[name] is not None
    }
    session.expect(sent == wanted, f"the call has the headers {sent} instead of {wanted}", call, case=case)
    return True
