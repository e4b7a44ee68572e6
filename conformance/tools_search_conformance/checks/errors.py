"""Errors: what a refusal carries besides its code."""

from __future__ import annotations

from typing import Any, Final

from tools_search_conformance.target.bench import INVALID_PARAMS, Bench, server_check
from tools_search_conformance.target.pages import complaint
from tools_search_conformance.wire.codec import as_object, json_text
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_BAD: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("query", {"query": 5}),
    ("query", {"query": " "}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": "3"}),
    ("cursor", {"cursor": 5}),
    ("cursor", {"cursor": "no such cursor"}),
)


async def _refusals(bench: Bench) -> list[tuple[str, Exchange]]:
    """Return the member at fault and the exchange of each invalid request that was refused as such."""
    good = {"query": await bench.name_query()}
    exchanges = [("query", await bench.server.search({}))]
    exchanges += [(field, await bench.server.search({**good, **bad})) for field, bad in _BAD]
    refusals = [
        (field, found) for field, found in exchanges if found.error is not None and found.error.code == INVALID_PARAMS
    ]
    bench.require(bool(refusals), f"no invalid request was refused with {INVALID_PARAMS}", exchanges[-1][1])
    return refusals


@server_check(
    title="A refusal says which member is wrong, and why",
    sends="Searches with one invalid member each.",
    passes="`data` with the strings `field`, the member at fault, and `reason` in each -32602.",
    level="SHOULD",
)
async def error_data(bench: Bench) -> None:
    for field, exchange in await _refusals(bench):
        data = exchange.error.data if exchange.error else None
        wrong = complaint(data, "InvalidParamsData")
        params = {name: value for name, value in exchange.sent.get("params", {}).items() if name != "_meta"}
        case = f"params {json_text(params)}"
        bench.expect(wrong is None, exchange, f"the error's data is malformed at {wrong}", case=case)
        named = (as_object(data) or {}).get("field")
        bench.expect(
            named == field,
            exchange,
            f"the error's data blames {named!r} for `{field}`",
            case=case,
        )


@server_check(
    title="A refusal has HTTP status 400",
    sends="Searches with one invalid member each, over modern Streamable HTTP.",
    passes="HTTP status 400 with each -32602.",
    level="ADVICE",
    eras=(MODERN,),
    transports=("http",),
)
async def invalid_params_status(bench: Bench) -> None:
    for _, exchange in await _refusals(bench):
        status = exchange.answer.status
        bench.expect(status == 400, exchange, f"HTTP status {status} with error {INVALID_PARAMS}")
