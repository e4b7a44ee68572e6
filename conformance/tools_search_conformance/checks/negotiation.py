"""Negotiation: what the server says of itself, and whom it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.run.registry import check
from tools_search_conformance.target.bench import MISSING_CAPABILITY
from tools_search_conformance.target.shape import advertised, complaint, settings_in
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject, as_object, json_text, same
from tools_search_conformance.wire.eras import LEGACY, MODERN, UNDECLARED

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_NO_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", [], [{}], 1)
_UNDECLARED: Final[tuple[tuple[JsonObject, str], ...]] = (
    ({}, "no capability"),
    ({"extensions": {"com.example/other": {}}}, "another extension only"),
    ({"experimental": {EXTENSION_ID: {}}}, "it where only legacy clients do"),
)


@check(
    "advertised",
    title="The extension and `tools` are advertised",
    sends="`server/discover` or `initialize`.",
    passes="`capabilities.extensions` of a discovery holds the settings object; `capabilities.tools` is declared too.",
)
async def advertises(bench: Bench) -> None:
    connection, exchange = await bench.opening()
    capabilities: Any = connection.server.get("capabilities")
    present = advertised(connection) is not None
    bench.applies(present or bench.cell.era != LEGACY, "nothing is advertised; see advertised-legacy-both")
    bench.expect(present, exchange, f"capabilities.extensions holds no object at {EXTENSION_ID!r}")
    tools = capabilities.get("tools")
    bench.expect(isinstance(tools, dict), exchange, "the extension is advertised without the tools capability")


@check(
    "advertised-legacy-both",
    title="Both legacy places hold equal settings",
    sends="`initialize`.",
    passes="`capabilities.extensions` and `capabilities.experimental` hold equal objects.",
    eras=(LEGACY,),
)
async def advertises_in_both_legacy_places(bench: Bench) -> None:
    connection, exchange = await bench.opening()
    capabilities = connection.server.get("capabilities")
    places = {place: settings_in(capabilities, place) for place in ("extensions", "experimental")}
    for place, settings in places.items():
        bench.expect(settings is not None, exchange, f"capabilities.{place} holds no object at {EXTENSION_ID!r}")
    bench.expect(
        same(places["extensions"], places["experimental"]),
        exchange,
        "capabilities.extensions and capabilities.experimental hold different settings",
    )


@check(
    "settings-shape",
    title="The settings have the shape of the draft",
    sends="`server/discover` or `initialize`.",
    passes="`catalogSize`, `topics` and `maxLimit` have their types where present; unknown members are free.",
)
async def settings_have_their_shape(bench: Bench) -> None:
    connection, exchange = await bench.opening()
    settings = advertised(connection)
    bench.applies(settings is not None, "nothing is advertised; see advertised")
    wrong = complaint(settings, "ServerSettings")
    bench.expect(wrong is None, exchange, f"the settings are malformed at {wrong}")


@check(
    "undeclared-client-refused",
    title="A client that did not declare the extension is refused",
    sends="`tools/search` whose client capabilities have no extensions, or other ones only.",
    passes=f"Error {MISSING_CAPABILITY} with `data.requiredCapabilities.extensions` naming the extension.",
    eras=(MODERN,),
)
async def refuses_undeclared_clients(bench: Bench) -> None:
    async with bench.fresh() as other:
        for capabilities, case in _UNDECLARED:
            params = {"query": f"anything for a client that declares {case}"}
            _expect_refusal(other, await other.search(params, capabilities=capabilities), case)
        await _control(other, {"query": await bench.plain()})


def _expect_refusal(bench: Bench, exchange: Exchange, case: str) -> None:
    bench.expect(
        exchange.error is not None and exchange.error.code == MISSING_CAPABILITY,
        exchange,
        f"a client declaring {case} was answered by {exchange.describe()} instead of error {MISSING_CAPABILITY}",
        case=case,
    )
    required: Any = exchange.error.data if exchange.error else None
    for member in ("requiredCapabilities", "extensions", EXTENSION_ID):
        required = (as_object(required) or {}).get(member)
    bench.expect(
        same(required, {}),
        exchange,
        f"the refusal's data has no empty object at requiredCapabilities.extensions[{EXTENSION_ID!r}]",
        case=case,
    )


async def _require_gate(bench: Bench) -> None:
    exchange = await bench.search({"query": "anything, undeclared"}, capabilities=UNDECLARED)
    bench.require(
        exchange.error is not None,
        "a client that declares nothing is served; see undeclared-client-refused",
        exchange,
    )


async def _control(bench: Bench, params: JsonObject) -> None:
    control = await bench.search(params)
    bench.require(
        control.result is not None, f"the same search by a declaring client failed: {control.describe()}", control
    )


@check(
    "declaration-not-object",
    title="A declaration that is not an object is treated as absent, or refused",
    sends="`tools/search`, or `initialize`, with `true`, `null`, a string or an array at the extension's key.",
    passes=f"Error {MISSING_CAPABILITY}, or another one where an SDK refuses such capabilities as a whole; for a"
    " handshake, a result or an error.",
)
async def refuses_declarations_that_are_no_objects(bench: Bench) -> None:
    if bench.cell.era == LEGACY:
        for value in _NO_OBJECTS[:4]:
            await _expect_handshake(bench, value)
        return
    async with bench.fresh() as other:
        await _require_gate(other)
        for value in _NO_OBJECTS:
            params = {"query": f"anything for a client that declares {json_text(value)}"}
            exchange = await other.search(params, capabilities={"extensions": {EXTENSION_ID: value}})
            other.expect(
                exchange.error is not None,
                exchange,
                f"a client declaring {json_text(value)} was answered by {exchange.describe()}",
                case=f"declaration {json_text(value)}",
            )
        await _control(other, {"query": await bench.plain()})


async def _expect_handshake(bench: Bench, value: Any) -> None:
    try:
        async with bench.fresh(capabilities={"extensions": {EXTENSION_ID: value}}) as other:
            _, exchange = await other.opening()
    except UnverifiableError as error:
        if error.exchange is None:
            raise
        exchange = error.exchange
    bench.expect(
        exchange.error is not None or exchange.result is not None,
        exchange,
        f"a client declaring {json_text(value)} was answered by {exchange.describe()}",
        case=f"declaration {json_text(value)}",
    )


@check(
    "declaration-per-request",
    title="Each modern request declares for itself",
    sends="A search that declares the extension, then on the same connection one that does not.",
    passes=f"A result for the first, error {MISSING_CAPABILITY} for the second, a result for one that declares again.",
    eras=(MODERN,),
)
async def forgets_declarations(bench: Bench) -> None:
    params = {"query": await bench.plain()}
    async with bench.fresh() as other:
        await _require_gate(other)
        await _control(other, params)
        late = await other.search(params, capabilities=UNDECLARED)
        served = "once a client had declared the extension, one that did not was served"
        other.expect(late.error is not None, late, served)
        again = await other.search(params)
        other.expect(again.result is not None, again, f"a later search that declares it got {again.describe()}")


@check(
    "declaration-unknown-members",
    title="Unknown members of a declaration are ignored",
    sends="`tools/search` whose declaration has members that this draft does not know.",
    passes="A result.",
)
async def ignores_unknown_members_of_declarations(bench: Bench) -> None:
    declared = {"extensions": {EXTENSION_ID: {"future": [1, {"deep": None}], "x": True}}}
    good = {"query": await bench.plain()}
    if bench.cell.era == MODERN:
        await bench.served(good, "a search whose declaration has unknown members", capabilities=declared)
        return
    async with bench.fresh(capabilities=declared) as other:
        await other.served(good, "a search whose declaration has unknown members")


@check(
    "undeclared-client-status",
    title="That refusal has HTTP status 400",
    sends="`tools/search` whose client capabilities lack the extension, over modern Streamable HTTP.",
    passes="HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
)
async def refuses_undeclared_clients_with_400(bench: Bench) -> None:
    exchange = await bench.search({"query": "anything, with a status"}, capabilities=UNDECLARED)
    bench.require(exchange.error is not None, f"the search was answered by {exchange.describe()}", exchange)
    status = exchange.answer.status
    bench.expect(status == 400, exchange, f"HTTP status {status} instead of 400")


@check(
    "undeclared-legacy-served",
    title="A legacy client is served even if it declared nothing",
    sends="`initialize` without the extension, then `tools/search`.",
    passes="A result: a stateless legacy server cannot know what was declared.",
    eras=(LEGACY,),
)
async def serves_undeclared_legacy_clients(bench: Bench) -> None:
    good = {"query": await bench.plain()}
    async with bench.fresh(capabilities=UNDECLARED) as other:
        await other.served(good, "a search by a legacy client that declared nothing")
