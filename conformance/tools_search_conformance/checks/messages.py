"""Messages of the base protocol: ids, results and errors, notifications, and what each request says of itself."""

from __future__ import annotations

import json
from typing import Any, Final

from tools_search_spec import METHOD

from tools_search_conformance.target.bench import INVALID_PARAMS, MISSING_CAPABILITY, Bench, server_check
from tools_search_conformance.wire.codec import as_array, as_object, id_key, integer
from tools_search_conformance.wire.eras import META_PREFIX, MODERN
from tools_search_conformance.wire.record import Exchange

_UNSUPPORTED_VERSION: Final = -32022
_ACCEPTED: Final = 202
_REFUSED: Final = 400
_BIG: Final = 2**53 - 1
_IDS: Final[tuple[str | int, ...]] = (
    0,
    -1,
    _BIG,
    "",
    "seventh",
    "0",
    "007",
    "1e3",
    "null",
    "né 発票 🧾",
    ' a\n"\\\x00',
)
_PAIR: Final[tuple[str | int, ...]] = (_BIG - 1, str(_BIG - 1))


@server_check(
    title="A response carries the id of its request, type and all",
    sends="Searches with ids of every kind: words, Unicode, digits as text, empty text, zero, negative, large; in the"
    " modern era two at once whose ids differ in type only. One that is refused.",
    passes="A result under exactly that id for each; for the two at once a response; the refusal under its id.",
)
async def id_echoed(bench: Bench) -> None:
    params = {"query": await bench.name_query(), "limit": 1}
    for value in _IDS:
        await _expect_answered(bench, await bench.server.search(params, with_id=value))
    refused = await bench.server.search({**params, "limit": 0}, with_id="refused")
    if refused.replied:  # silence is what limit-invalid is about
        _expect_same_id(bench, refused)
    if bench.cell.era != MODERN:
        return  # sessions that tell requests apart by the text of their ids are common, and no client provokes them
    for exchange in await bench.server.at_once([params, params], seconds=bench.options.timeout, ids=_PAIR):
        if exchange.error is None:  # what a server answers that is too busy is what busy-refusal is about
            await _expect_answered(bench, exchange)


async def _expect_answered(bench: Bench, exchange: Exchange) -> None:
    shown = json.dumps(exchange.sent["id"], ensure_ascii=False)
    if exchange.result is None:
        after = await bench.server.search({"query": await bench.name_query(), "limit": 1})
        bench.require(after.result is not None, f"a search with an ordinary id got {after.describe()}", after)
    message = f"a search with the id {shown} was answered by {exchange.describe()}"
    bench.expect(exchange.result is not None, exchange, message, case=f"id {shown}")
    _expect_same_id(bench, exchange)


def _expect_same_id(bench: Bench, exchange: Exchange) -> None:
    sent, came = exchange.sent["id"], (exchange.answer.message or {}).get("id")
    shown, other = (json.dumps(value, ensure_ascii=False) for value in (sent, came))
    bench.expect(
        id_key(came) == id_key(sent), exchange, f"the response to the id {shown} has the id {other}", case=f"id {shown}"
    )


@server_check(
    title="A response is a result or an error, never both",
    sends="A search, searches that are refused, and a method that no server has.",
    passes="In each response either an object `result` or an `error` with an integer `code` and a text `message`.",
)
async def response_shape(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    exchanges = [await bench.server.search(params) for params in (good, {}, {**good, "limit": 0})]
    exchanges.append(await bench.server.ask("tools/no-such-method", {}))
    bench.require(exchanges[0].replied, f"a search got {exchanges[0].describe()}", exchanges[0])
    for exchange in exchanges:
        message = exchange.answer.message
        if message is not None:
            found = sorted({"result", "error"} & message.keys())
            bench.expect(len(found) == 1, exchange, f"the response holds {' and '.join(found) or 'neither'}")
            wrong = _wrong_outcome(message)
            bench.expect(wrong is None, exchange, f"the response holds {wrong}")


def _wrong_outcome(message: dict[str, Any]) -> str | None:
    if "result" in message:
        return None if as_object(message["result"]) is not None else "a result that is no object"
    error = as_object(message["error"])
    if error is None:
        return "an error that is no object"
    if integer(error.get("code")) is None:
        return f"the error code {json.dumps(error.get('code'))}"
    return None if isinstance(error.get("message"), str) else "an error without a message"


@server_check(
    title="A notification gets no response",
    sends=f"A notification that no server knows, and `{METHOD}` without an id; a search after each.",
    passes="No response to either, over HTTP status 202 or an HTTP error; a result for each search.",
)
async def notification_unanswered(bench: Bench) -> None:
    params = {"query": await bench.name_query(), "limit": 1}
    before = await bench.server.search(params)
    bench.require(before.result is not None, f"a search got {before.describe()}", before)
    for method in ("notifications/com.example.unknown", METHOD):
        case, strays = f"{method} without an id", len(bench.server.strays)
        told = await bench.server.notify(method, params)
        after = await bench.server.search(params)
        answered = [stray for stray in bench.server.strays[strays:] if stray.get("id") is None]
        bench.expect(not answered, told, f"it was answered by {json.dumps(answered[:1])[1:-1]}", case=case)
        status = told.answer.status or 0
        fitting = bench.cell.transport == "stdio" or status == _ACCEPTED or status >= _REFUSED
        came = f"HTTP status {status}" if status else told.describe()
        bench.expect(fitting, told, f"it was answered by {came} instead of HTTP status {_ACCEPTED}", case=case)
        bench.expect(after.result is not None, after, f"the search after it got {after.describe()}", case=case)


@server_check(
    title="A request without client capabilities is refused",
    sends="A search whose `_meta` has no member for the client capabilities.",
    passes=f"Error {INVALID_PARAMS}, or {MISSING_CAPABILITY} where they count as none.",
    eras=(MODERN,),
)
async def capabilities_required(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    without = {f"{META_PREFIX}clientCapabilities": None}
    codes = (INVALID_PARAMS, MISSING_CAPABILITY)
    await bench.refused(good, good, "a request without client capabilities", code=codes, meta=without)


@server_check(
    title="A search of an unknown protocol version is refused",
    sends="A search whose protocol version is `1900-01-01`, in `_meta` and, over HTTP, in the header.",
    passes=f"Error {_UNSUPPORTED_VERSION} whose data has the versions that are served under `supported`.",
    eras=(MODERN,),
)
async def unknown_version_refused(bench: Bench) -> None:
    good, version = {"query": await bench.name_query()}, "1900-01-01"
    exchange = await bench.refused(
        good,
        good,
        f"a search of protocol version {version}",
        code=_UNSUPPORTED_VERSION,
        headers={"MCP-Protocol-Version": version},
        meta={f"{META_PREFIX}protocolVersion": version},
    )
    data = as_object(exchange.error.data if exchange.error else None) or {}
    listed = MODERN in (as_array(data.get("supported")) or [])
    bench.expect(listed, exchange, f"the refusal's data does not name {MODERN} under supported")
