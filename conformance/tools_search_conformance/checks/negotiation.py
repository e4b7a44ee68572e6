"""Negotiation: the server's advertisement and settings, and which clients it serves."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import MISSING_CAPABILITY, Bench, server_check
from tools_search_conformance.target.pages import advertised_settings, complaint, settings_in
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, as_object, json_text, same
from tools_search_conformance.wire.eras import DECLARED, LEGACY, MODERN, UNDECLARED
from tools_search_conformance.wire.record import Exchange

_METHOD_NOT_FOUND: Final = -32601
_HEADER_MISMATCH: Final = -32020
_NON_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", [], [{}], 1)
_UNDECLARED: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({}, "no capability"),
    ({"extensions": {"com.example/other": {}}}, "another extension only"),
    ({"experimental": {EXTENSION_ID: {}}}, "it where only legacy clients do"),
    ({"extensions": {}, "tools": {"search": {}}, "sampling": {}, "roots": {}}, "other capabilities"),
    ({EXTENSION_ID: {}}, "it outside of extensions"),
    ({"extensions": {EXTENSION_ID.upper(): {}}}, "it in capitals"),
    ({"extensions": {f"{EXTENSION_ID}/": {}, f"{EXTENSION_ID}-2": {}, f" {EXTENSION_ID}": {}}}, "longer identifiers"),
    ({"extensions": {EXTENSION_ID.partition("/")[0]: {}, EXTENSION_ID[:-1]: {}}}, "the beginning of the identifier"),
    ({"extensions": {EXTENSION_ID.partition("/")[2]: {}, "com.example/tools-search": {}}}, "the identifier's end"),
    ({"extensions": {"com.example/other": {EXTENSION_ID: {}}}}, "it within another extension"),
)
_MALFORMED: Final[tuple[JsonObject, ...]] = (
    {"extensions": None}, {"extensions": [EXTENSION_ID]}, {"extensions": EXTENSION_ID}, {"extensions": True},
)  # fmt: skip
"""Capabilities that a server may refuse as a whole, with any error."""
_DECLARATIONS: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({"future": [1, {"deep": None}], "x": True}, "unknown members"),
    ({"enabled": False, "version": "2", "maxLimit": "many", "": None}, "members that might mean something"),
)


@server_check(
    title="The extension and `tools` are advertised",
    sends="`server/discover` or `initialize`.",
    passes="`capabilities.extensions` of a discovery holds the settings object; `capabilities.tools` is declared too.",
)
async def advertised(bench: Bench) -> None:
    connection, exchange = await bench.server.opening()
    present = advertised_settings(connection) is not None
    bench.applies(present or bench.cell.era != LEGACY, "nothing is advertised; see advertised-legacy-both")
    bench.expect(present, exchange, f"capabilities.extensions holds no object at {EXTENSION_ID!r}")
    tools = as_object((as_object(connection.server.get("capabilities")) or {}).get("tools"))
    bench.expect(tools is not None, exchange, "the extension is advertised without the tools capability")


@server_check(
    title="Both legacy places hold equal settings",
    sends="`initialize`.",
    passes="`capabilities.extensions` and `capabilities.experimental` hold equal objects.",
    eras=(LEGACY,),
)
async def advertised_legacy_both(bench: Bench) -> None:
    connection, exchange = await bench.server.opening()
    places = ("extensions", "experimental")
    held = [settings_in(connection.server.get("capabilities"), place) for place in places]
    for place, settings in zip(places, held, strict=True):
        bench.expect(settings is not None, exchange, f"capabilities.{place} holds no object at {EXTENSION_ID!r}")
    bench.expect(same(*held), exchange, "capabilities.extensions and capabilities.experimental hold different settings")


@server_check(
    title="A server that advertises the extension serves searches",
    sends="First of all, searches for a tool by its name, for a word of its tools and for nothing that there is.",
    passes="A result for one of them at least; otherwise the checks that follow have nothing to judge. The server has"
    " not ended by itself before, as at the first search of all.",
)
async def served_where_advertised(bench: Bench) -> None:
    words = await bench.vocabulary()
    exchange = await bench.server.search({"query": words.name_query})
    for query in (*words.broad(1), NONSENSE):
        bench.require(exchange.replied, f"a search got {exchange.describe()}", exchange)
        if exchange.result is not None:
            break
        exchange = await bench.server.search({"query": query})
    answer = exchange.describe()
    if exchange.error is not None and exchange.error.code == _HEADER_MISMATCH:
        with_name = await bench.server.search({"query": words.name_query}, headers={"Mcp-Name": words.name_query})
        message = "a search is only served with an Mcp-Name header"
        bench.require(with_name.result is None, message, exchange, consequence_of="http-name-not-required")
    unknown = exchange.error is not None and exchange.error.code == _METHOD_NOT_FOUND
    hint = ": is the method registered?" if unknown else ""
    message = f"the extension is advertised, but each plain search was answered by {answer}{hint}"
    bench.expect(exchange.result is not None, exchange, message)
    bench.has_served = True
    if bench.early_death is not None:
        ended, last = bench.early_death
        bench.expect(False, last, f"at the first {last.sent['method']} of all, {ended}; later searches are served")


@server_check(
    title="The settings have the shape of the draft",
    sends="`server/discover` or `initialize`.",
    passes="`catalogSize`, `topics` and `maxLimit` have their types where present; unknown members are free.",
)
async def settings_shape(bench: Bench) -> None:
    connection, exchange = await bench.server.opening()
    settings = advertised_settings(connection)
    bench.applies(settings is not None, "nothing is advertised; see advertised")
    wrong = complaint(settings, "ServerSettings")
    bench.expect(wrong is None, exchange, f"the settings are malformed at {wrong}")


async def _require_declared_served(bench: Bench, query: str) -> None:
    control = await bench.server.search({"query": query}, capabilities=DECLARED)
    failed = f"the same search by a declaring client failed: {control.describe()}"
    bench.require(control.result is not None, failed, control)


async def _require_undeclared_refused(bench: Bench) -> None:
    exchange = await bench.server.search({"query": "anything, undeclared"}, capabilities=UNDECLARED)
    served = "a client that declares nothing is served; see undeclared-client-refused"
    bench.require(exchange.error is not None, served, exchange)


@server_check(
    title="A client that did not declare the extension is refused",
    sends="`tools/search` whose client capabilities have no extensions, other ones only, the extension elsewhere or"
    " nearly its identifier; as the first search of a connection and, with a cursor, after one that declares it.",
    passes=f"Error {MISSING_CAPABILITY} with `data.requiredCapabilities.extensions` naming the extension.",
    eras=(MODERN,),
)
async def undeclared_client_refused(bench: Bench) -> None:
    async with bench.undeclaring() if bench.can_start("core") else nullcontext(bench) as other:

        async def expect_missing(undeclared: tuple[JsonObject, str]) -> None:
            capabilities, case = undeclared
            params = {"query": f"anything for a client that declares {case}"}
            _expect_missing(other, await other.server.search(params, capabilities=capabilities), case)

        async def expect_error(capabilities: JsonObject) -> None:
            shown = json_text(capabilities)
            exchange = await other.server.search({"query": f"anything for {shown}"}, capabilities=capabilities)
            message = f"a client with the capabilities {shown} was answered by {exchange.describe()}"
            other.expect(exchange.error is not None, exchange, message, case=f"capabilities {shown}")

        await other.each(bench.some(_UNDECLARED, 4), expect_missing)
        await other.each(_MALFORMED, expect_error)
        await _require_declared_served(bench, await bench.name_query())  # `other` has to be unknown to the server
    await _refuse_undeclared_pages(bench)


async def _refuse_undeclared_pages(bench: Bench) -> None:
    for query in (await bench.vocabulary()).broad(2):
        cursor = (await bench.server.page(query, limit=1)).next_cursor
        plain = await bench.server.search({"query": query, "limit": 1}, capabilities=UNDECLARED)
        if cursor and plain.error is not None:  # that a first page is served then is for declaration-per-request
            params = {"query": query, "limit": 1, "cursor": cursor}
            exchange = await bench.server.search(params, capabilities=UNDECLARED)
            # Where the cursor no longer holds, two errors apply.
            served = "a client declaring no capability was served a second page"
            bench.expect(exchange.error is not None, exchange, served, case="no capability, with a cursor")
            return


def _expect_missing(bench: Bench, exchange: Exchange, case: str) -> None:
    error, answer = exchange.error, exchange.describe()
    message = f"a client declaring {case} was answered by {answer} instead of error {MISSING_CAPABILITY}"
    bench.expect(error is not None and error.code == MISSING_CAPABILITY, exchange, message, case=case)
    required: Any = error.data if error else None
    for member in ("requiredCapabilities", "extensions", EXTENSION_ID):
        required = (as_object(required) or {}).get(member)
    place = f"requiredCapabilities.extensions[{EXTENSION_ID!r}]"
    bench.expect(same(required, {}), exchange, f"the refusal's data has no empty object at {place}", case=case)


@server_check(
    title="The refusal of an undeclared client has HTTP status 400",
    sends="`tools/search` whose client capabilities lack the extension, over modern Streamable HTTP.",
    passes="HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
)
async def undeclared_client_status(bench: Bench) -> None:
    exchange = await bench.server.search({"query": "anything, with a status"}, capabilities=UNDECLARED)
    bench.require(exchange.error is not None, f"the search was answered by {exchange.describe()}", exchange)
    status = exchange.answer.status
    bench.expect(status == 400, exchange, f"HTTP status {status} instead of 400")


@server_check(
    title="A declaration that is not an object is treated as absent, or refused",
    sends="`tools/search`, or `initialize`, with `true`, `null`, a string or an array at the extension's key.",
    passes=f"Error {MISSING_CAPABILITY}, or another one where an SDK refuses such capabilities as a whole; for a"
    " handshake, a result or an error.",
)
async def declaration_not_object(bench: Bench) -> None:
    if bench.cell.era == LEGACY:
        # On stdio each handshake is a start; where HTTP is judged as well, most of them are sent there.
        costly = bench.cell.transport == "stdio" and bench.options.http_argv
        for value in _NON_OBJECTS[1:2] if costly else _NON_OBJECTS[:4]:
            await _expect_handshake(bench, value)
        return
    async with bench.another() as other:

        async def expect_error(value: Any) -> None:
            shown = json_text(value)
            params = {"query": f"anything for a client that declares {shown}"}
            exchange = await other.server.search(params, capabilities={"extensions": {EXTENSION_ID: value}})
            message = f"a client declaring {shown} was answered by {exchange.describe()}"
            other.expect(exchange.error is not None, exchange, message, case=f"declaration {shown}")

        await _require_undeclared_refused(other)
        await other.each(_NON_OBJECTS, expect_error)
        await _require_declared_served(other, await bench.name_query())


async def _expect_handshake(bench: Bench, value: Any) -> None:
    try:
        async with bench.fresh(capabilities={"extensions": {EXTENSION_ID: value}}) as other:
            _, exchange = await other.server.opening()
    except UnverifiableError as error:
        if error.exchange is None:
            raise
        exchange = error.exchange
    answered = exchange.error is not None or exchange.result is not None
    message = f"a client declaring {json_text(value)} was answered by {exchange.describe()}"
    bench.expect(answered, exchange, message, case=f"declaration {json_text(value)}")


@server_check(
    title="Each modern request declares for itself",
    sends="A search that declares the extension, then on the same connection one that does not.",
    passes=f"A result for the first, error {MISSING_CAPABILITY} for the second, a result for one that declares again.",
    eras=(MODERN,),
)
async def declaration_per_request(bench: Bench) -> None:
    query = await bench.name_query()
    async with bench.undeclaring() as other:
        await _require_undeclared_refused(other)
        await _require_declared_served(other, query)
        late = await other.server.search({"query": query}, capabilities=UNDECLARED)
        served = "once a client had declared the extension, one that did not was served"
        other.expect(late.error is not None, late, served)
        again = await other.server.search({"query": query}, capabilities=DECLARED)
        other.expect(again.result is not None, again, f"a later search that declares it got {again.describe()}")


@server_check(
    title="Unknown members of a declaration are ignored",
    sends="`tools/search` whose declaration has members that this draft does not know, among other capabilities.",
    passes="A result.",
)
async def declaration_unknown_members(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for members, what in _DECLARATIONS if bench.cell.era == MODERN else _DECLARATIONS[:1]:
        declared: JsonObject = {
            "extensions": {"com.example/other": {}, EXTENSION_ID: members},
            "experimental": {"x": {}},
        }
        case = f"a search whose declaration has {what}"
        if bench.cell.era == MODERN:
            await bench.served(good, case, capabilities=declared)
            continue
        async with bench.fresh(capabilities=declared) as other:
            await other.served(good, case)


@server_check(
    title="A legacy client is served even if it declared nothing",
    sends="`initialize` without the extension, then `tools/search`.",
    passes="A result: a stateless legacy server cannot know what was declared.",
    eras=(LEGACY,),
)
async def undeclared_legacy_served(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    async with bench.fresh(capabilities=UNDECLARED) as other:
        await other.served(good, "a search by a legacy client that declared nothing")
