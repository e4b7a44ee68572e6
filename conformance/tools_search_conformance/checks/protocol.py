"""The base protocol beneath a search: ids, responses, notifications, stdio, and the headers of Streamable HTTP."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tools_search_spec import METHOD

from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.list_bench import INVALID_PARAMS, MISSING_CAPABILITY, once
from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.target.server import busy_seconds
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, id_key, integer, json_text
from tools_search_conformance.wire.eras import META_PREFIX, MODERN
from tools_search_conformance.wire.record import Exchange

_HEADER_MISMATCH: Final = -32020
_UNSUPPORTED_VERSION: Final = -32022
_ACCEPTED: Final = 202
_REFUSED: Final = 400
_LARGEST: Final = 2**53 - 1
_NUMBERS: Final = (0, -1, _LARGEST, 2**31, 2**32 + 1, -_LARGEST)
_TEXTS: Final = (
    "", "seventh", "0", "007", "1e3", "null", "né 発票 🧾", ' a\n"\\\x00', "true", "1.0", "[1]", "Seventh ", "e\u0301",
    "__proto__", "x" * 1000,
)  # fmt: skip
_WIDE: Final = "\U0001f9fe"
"""A character of four bytes."""
_PAIR: Final[tuple[str | int, ...]] = (_LARGEST - 1, str(_LARGEST - 1))
_IDS_OF_OTHERS: Final[tuple[tuple[str | int, str | int], ...]] = (("007", 0), (-1, "e\u0301 1e3"), ("1e3", 2**32 + 1))
"""The ids of a valid and an invalid search for each other method."""
_UNKNOWN_VERSION: Final = "1900-01-01"
_PROMPT_SECONDS: Final = 5.0


@server_check(
    title="A response has the id of its request, with the same JSON type",
    sends="Searches with various ids: words, Unicode, digits in a string, an empty string, zero, negative and large"
    " numbers; in the modern era, two concurrent searches whose ids differ only in type. Two invalid searches. By each"
    " other method, a search and an invalid one with such ids.",
    passes="A result with exactly its id for each search, or an error if the concurrent ones are too many; each refusal"
    " has its id too.",
    methods=(TOOLS.method,),
)
async def id_echoed(bench: Bench) -> None:
    params = {"query": await bench.key_query(), "limit": 1}

    async def expect_answered(value: str | int) -> None:
        await _expect_answered(bench, await bench.server.search(params, with_id=value))

    for ids in (_NUMBERS, _TEXTS):  # separately, because a server may confuse 7 and "7"
        await bench.each(ids, expect_answered)
    for value in ("refused", _LARGEST - 2):
        refused = await bench.server.search({**params, "limit": 0}, with_id=value)
        if refused.replied:  # limit-invalid finds silence
            _expect_same_id(bench, refused)
    for exchange in await _searches_of_others(bench):
        if exchange.replied:  # other checks judge whether it is served, and the error
            _expect_same_id(bench, exchange)
    if bench.cell.era != MODERN:
        return  # many sessions key requests by the text of their ids, and no real client provokes a collision
    for exchange in await bench.server.at_once([params, params], seconds=bench.options.timeout, ids=_PAIR):
        if exchange.error is None:  # busy-refusal judges the errors of a busy server
            await _expect_answered(bench, exchange)


@once
async def _searches_of_others(bench: Bench) -> list[Exchange]:
    """Send a valid and an invalid search by each other method, with unusual ids, in half of four cells."""
    exchanges = list[Exchange]()
    for other, ids in zip(bench.others_served if bench.has_turn(0) else (), _IDS_OF_OTHERS, strict=False):
        query = (await other.vocabulary()).key_query
        for limit, number in enumerate(reversed(ids)):
            exchanges.append(await other.server.search({"query": query, "limit": limit}, with_id=number))
    return exchanges


async def _expect_answered(bench: Bench, exchange: Exchange) -> None:
    shown = json.dumps(exchange.sent["id"], ensure_ascii=False)
    # An HTTP response answers its own request, even with another id.
    if exchange.result is None and not (bench.cell.transport == "http" and exchange.answer.has_other_id):
        after = await bench.server.search({"query": await bench.key_query(), "limit": 1})
        bench.require_result(after, "a search with an ordinary id")
    bench.expect_result(exchange, f"a search with the id {shown}", case=f"id {shown}")
    _expect_same_id(bench, exchange)


def _expect_same_id(bench: Bench, exchange: Exchange) -> None:
    sent, received = exchange.sent["id"], (exchange.answer.message or {}).get("id")
    shown, other = (json.dumps(value, ensure_ascii=False) for value in (sent, received))
    message = f"the response to the {exchange.method} with the id {shown} has the id {other}"
    bench.expect(id_key(received) == id_key(sent), exchange, message, case=f"id {shown}")


@server_check(
    title="A response has either a result or an error",
    sends="A search, invalid searches, and a request with an unknown method; a search and an invalid one by each other"
    " method.",
    passes="Each response has either an object `result`, or an `error` with an integer `code` and a string `message`.",
    methods=(TOOLS.method,),
)
async def response_shape(bench: Bench) -> None:
    good = {"query": await bench.key_query()}
    exchanges = [await bench.server.search(params) for params in (good, {}, {**good, "limit": 0})]
    exchanges.append(await bench.server.ask("tools/no-such-method", {}))
    bench.require(exchanges[0].replied, f"a search got {exchanges[0].describe()}", exchanges[0])
    exchanges += await _searches_of_others(bench)
    for exchange in exchanges:
        message = exchange.answer.message
        if message is not None:
            found = sorted({"result", "error"} & message.keys())
            has = " and ".join(found) or "neither result nor error"
            response = f"the response to {exchange.method} has"
            bench.expect(len(found) == 1, exchange, f"{response} {has} instead of one of both")
            wrong = _wrong_outcome(message)
            bench.expect(wrong is None, exchange, f"{response} {wrong}")


def _wrong_outcome(message: dict[str, Any]) -> str | None:
    if "result" in message:
        return None if as_object(message["result"]) is not None else "a result that is not an object"
    error = as_object(message["error"])
    if error is None:
        return "an error that is not an object"
    if integer(error.get("code")) is None:
        return f"the error code {json.dumps(error.get('code'))}, which is not an integer"
    return None if isinstance(error.get("message"), str) else "an error without a string message"


@server_check(
    title="A notification gets no response",
    sends="An unknown notification, and a search after it; then searches without an id, one by each method, and a"
    " search after them.",
    passes="No response to any; over HTTP, status 202 or an HTTP error. A result for each search.",
    methods=(TOOLS.method,),
)
async def notification_unanswered(bench: Bench) -> None:
    params = {"query": await bench.key_query(), "limit": 1}
    bench.require_result(await bench.server.search(params), "a search")
    searches = [METHOD, *(other.method for other in bench.others_served if bench.has_turn(1))]
    for methods in (["notifications/com.example.unknown"], searches):
        case, strays = f"{' or '.join(methods)} without an id", len(bench.server.transport.strays)
        exchanges = [await bench.server.notify(method, params) for method in methods]
        after = await bench.server.search(params)
        answers = [stray for stray in bench.server.transport.strays[strays:] if stray.get("id") is None]
        shown = f"{case} got the response {json.dumps(answers[:1])[1:-1]}"
        bench.expect(not answers, exchanges[-1], shown, case=case)
        for notified in exchanges:
            status = notified.answer.status or 0
            fitting = bench.cell.transport == "stdio" or status == _ACCEPTED or status >= _REFUSED
            received = f"HTTP status {status}" if status else notified.describe()
            message = f"{notified.method} without an id got {received} instead of HTTP status {_ACCEPTED}"
            bench.expect(fitting, notified, message, case=case)
        bench.expect_result(after, f"a search after {case}", case=case)


@server_check(
    title="A request without client capabilities is refused",
    sends="A search by each method whose `_meta` has no member for the client capabilities.",
    passes=f"Error {INVALID_PARAMS}, or {MISSING_CAPABILITY} if the server takes this for no capabilities.",
    eras=(MODERN,),
    methods=(TOOLS.method,),
)
async def capabilities_required(bench: Bench) -> None:
    good = {"query": await bench.key_query()}
    without = {f"{META_PREFIX}clientCapabilities": None}
    codes = (INVALID_PARAMS, MISSING_CAPABILITY)
    await bench.refused(good, good, "a request without client capabilities", codes=codes, meta=without)
    if bench.has_turn(0):
        await _refused_by_others(bench, "a request without client capabilities", codes, {"meta": without})


@server_check(
    title="A search with an unknown protocol version is refused",
    sends=f"A search by each method with the protocol version `{_UNKNOWN_VERSION}` in `_meta` and, over HTTP, in the"
    " header.",
    passes=f"Error {_UNSUPPORTED_VERSION} whose `data.supported` has the supported versions.",
    eras=(MODERN,),
    methods=(TOOLS.method,),
)
async def unknown_version_refused(bench: Bench) -> None:
    good = {"query": await bench.key_query()}
    named = {
        "headers": {"MCP-Protocol-Version": _UNKNOWN_VERSION},
        "meta": {f"{META_PREFIX}protocolVersion": _UNKNOWN_VERSION},
    }
    case = f"a search with protocol version {_UNKNOWN_VERSION}"
    exchange = await bench.refused(good, good, case, codes=[_UNSUPPORTED_VERSION], **named)
    data = as_object(exchange.error.data if exchange.error else None) or {}
    listed = MODERN in (as_array(data.get("supported")) or [])
    bench.expect(listed, exchange, f"the error's `data.supported` does not have {MODERN}")
    if bench.has_turn(1):
        await _refused_by_others(bench, case, [_UNSUPPORTED_VERSION], named)


async def _refused_by_others(
    bench: Bench, case: str, codes: Sequence[int], overrides: Mapping[str, Any], *, status: int | None = None
) -> None:
    """Expect searches by other methods that were served before to be refused with `overrides`."""
    for other in bench.others_served:
        exchange = await other.server.search({"query": (await other.vocabulary()).key_query}, **overrides)
        other.expect_code(exchange, f"{other.method}: {case}", codes)
        message = f"{other.method}: {case} was refused with HTTP status {exchange.answer.status} instead of {status}"
        other.expect(status in (None, exchange.answer.status), exchange, message, case=case)


@server_check(
    title="The server writes only messages to stdout",
    sends="To another process, `tools/list`, a search, invalid searches, an unknown method, and the end of stdin."
    " Earlier output of the process that all checks share counts too.",
    passes="Every line on stdout is a message: no banner, no log, no empty line. `valid-json` judges invalid JSON.",
    transports=("stdio",),
    methods=(TOOLS.method,),
)
async def stdout_messages_only(bench: Bench) -> None:
    last = await bench.server.search({"query": await bench.key_query()})
    bench.expect(not bench.server.transport.noise, last, f"stdout has {''.join(bench.server.transport.noise[:1])}")
    last, noise, _ = await _hang_up(bench)
    bench.expect(not noise, last, f"stdout has {''.join(noise[:1])}")


@once
async def _hang_up(bench: Bench) -> tuple[Exchange, list[str], bool]:
    """Return the last search to another process, what it printed, and whether it ended in time."""
    good = {"query": await bench.key_query()}
    async with bench.another() as other:
        await other.server.listing()
        for params in (good, {}, {**good, "limit": 0}):
            await other.server.search(params)
        await other.server.ask("tools/no-such-method", {})
        last = await other.server.search(good)
        other.require(last.replied, f"a search got {last.describe()}", last)
        transport = other.server.transport
        ended = await other.server.hang_up(_PROMPT_SECONDS)
        await other.server.aclose()  # so that the end of this process is not a fault
        return last, transport.noise, ended


@server_check(
    title="A message is read as a whole, wherever its bytes are divided",
    sends="Searches divided in the middle of a character. On stdio, writes that each contain the rest of one search and"
    " the beginning of the next, the first one also a cancellation of no request; over HTTP, bodies of requests in two"
    " parts, in the legacy era after such a cancellation.",
    passes="A result with its own id for each.",
    methods=(TOOLS.method,),
)
async def messages_in_pieces(bench: Bench) -> None:
    params = {"query": await bench.key_query(), "limit": 1}
    # If an id with such a character comes back changed, that is no sign of the pieces: id-echoed finds it.
    whole = await bench.server.search(params, with_id=_WIDE)
    amid = _WIDE if (whole.answer.message or {}).get("id") == _WIDE else METHOD
    searches = dict.fromkeys([f"{amid} {number}" for number in range(4)], params)
    for exchange in await bench.server.in_pieces(searches, amid):
        if busy_seconds(exchange) is not None:
            continue  # a server may be too busy for any search
        bench.expect_result(exchange, "a search sent in two parts", case="a search in two parts")


@server_check(
    title="The server does not log queries to stderr",
    sends="Four searches for unique words, one of them with an invalid `limit`, one with a made-up `cursor`, one with a"
    " word of the catalog, and then another search.",
    passes="The server writes none of the unique words to stderr or, over HTTP, to stdout. The suite cannot see other"
    " logs.",
)
async def query_not_logged(bench: Bench) -> None:
    name, query = await bench.key_query(), await bench.query_with_matches()
    words = [secrets.token_hex(5) for _ in range(4)]
    all_params: list[JsonObject] = [{"query": f"{word} quixotic zephyr"} for word in words]
    all_params[1]["limit"], all_params[2]["query"] = 0, f"{words[2]} {query}"
    all_params[3]["cursor"] = "no such cursor"
    exchanges = [await bench.server.search(params) for params in all_params]
    bench.require_result(await bench.server.search({"query": name}), "a search after them")
    logged = bench.server.transport.logged
    bench.applies(logged is not None, "the suite cannot see what a server writes that it did not start")
    for word, exchange in zip(words, exchanges, strict=True):
        message = f"the server wrote the word {word!r} of a query to stderr or stdout"
        seen = word in (logged or "").lower()
        bench.expect(not seen, exchange, message, case=f"query {exchange.params['query']!r}")


@server_check(
    title="A server exits once its stdin is closed",
    sends="Searches to another process, and the end of its stdin.",
    passes=f"The process exits within {_PROMPT_SECONDS:g} seconds, without a signal.",
    eras=(MODERN,),
    transports=("stdio",),
    methods=(TOOLS.method,),
)
async def stdin_closed_exits(bench: Bench) -> None:
    last, _, ended = await _hang_up(bench)
    bench.expect(ended, last, f"the process was still running {_PROMPT_SECONDS:g} s after its stdin was closed")


async def _refused_with_400(bench: Bench, case: str, *codes: int, **overrides: Any) -> None:
    good = {"query": await bench.key_query()}
    exchange = await bench.refused(good, good, case, codes=codes, **overrides)
    status = exchange.answer.status
    bench.expect(status == 400, exchange, f"{case} was refused with HTTP status {status} instead of 400", case=case)


@server_check(
    title="A request whose `Mcp-Method` header is not its method is refused",
    sends="A search whose `Mcp-Method` header is absent, `tools/list`, or a longer or shorter text than the method."
    f" Searches by each other method without the header, and with `{METHOD}` in it.",
    passes=f"Error {_HEADER_MISMATCH} for each, with HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
    methods=(TOOLS.method,),
)
async def http_method_header(bench: Bench) -> None:
    async def refuse(value: str | None) -> None:
        case = f"a search with {f'Mcp-Method: {value}' if value else 'no Mcp-Method header'}"
        await _refused_with_400(bench, case, _HEADER_MISMATCH, headers={"Mcp-Method": value})

    await bench.each((None, "tools/list", "tools", f"{METHOD}/more", METHOD[:-1]), refuse)
    for value, shown in ((None, "no Mcp-Method header"), (METHOD, f"Mcp-Method: {METHOD}")):
        case, codes = f"a search with {shown}", (_HEADER_MISMATCH,)
        await _refused_by_others(bench, case, codes, {"headers": {"Mcp-Method": value}}, status=400)


@server_check(
    title="`Mcp-Name` is not required",
    sends="Searches without an `Mcp-Name` header: for a name, with a limit, with characters that a header cannot have,"
    " and with a cursor.",
    passes="A result for each.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_name_not_required(bench: Bench) -> None:
    name = await bench.key_query()
    for params in ({"query": name}, {"query": name, "limit": 3}, {"query": f"{name} 🧾"}):
        await bench.served(params, f"a search with the params {json_text(params)} and no Mcp-Name header")
    query = await bench.query_with_matches()
    await bench.next_served(
        await bench.server.page(query, limit=1), "a second page requested without an Mcp-Name header"
    )
    for other in bench.offered if bench.primitive is TOOLS else ():
        if not other.has_served:
            wanted, exchange = await other.wants_name_header()
            bench.expect(
                not wanted, exchange, f"{other.method}: the server serves a search only with an Mcp-Name header"
            )


@server_check(
    title="The content type of a response is JSON or an event stream",
    sends="A search, and an invalid search; a search by each other method.",
    passes="`Content-Type` is `application/json` or `text/event-stream`, with or without parameters.",
    transports=("http",),
    methods=(TOOLS.method,),
)
async def http_content_type(bench: Bench) -> None:
    good = {"query": await bench.key_query()}
    cases = [(await bench.server.search(good), "a search")]
    cases.append((await bench.server.search({**good, "limit": 0}), "an invalid search"))
    others = [(other.first_answer, other.method) for other in bench.offered]
    for exchange, case in [*cases, *((exchange, method) for exchange, method in others if exchange is not None)]:
        if exchange.replied:
            named = exchange.answer.headers.get("content-type", "none")
            fitting = named.partition(";")[0].strip().lower() in {"application/json", "text/event-stream"}
            bench.expect(fitting, exchange, f"the response to {case} has the content type {named!r}", case=case)


@server_check(
    title="A request whose `MCP-Protocol-Version` header differs from `_meta` is refused",
    sends=f"A search with the version `{_UNKNOWN_VERSION}` only in the header, and one with it only in `_meta`; by each"
    " other method, the former.",
    passes=f"Error {_HEADER_MISMATCH}, or {_UNSUPPORTED_VERSION} for the unknown version, with HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
    methods=(TOOLS.method,),
)
async def http_version_header(bench: Bench) -> None:
    header, meta = ({name: _UNKNOWN_VERSION} for name in ("MCP-Protocol-Version", f"{META_PREFIX}protocolVersion"))
    for place, overrides in (("the header", {"headers": header}), ("_meta", {"meta": meta})):
        case = f"a search with version {_UNKNOWN_VERSION} only in {place}"
        codes = _HEADER_MISMATCH, _UNSUPPORTED_VERSION
        await _refused_with_400(bench, case, *codes, **overrides)
        if "headers" in overrides:
            await _refused_by_others(bench, case, codes, overrides, status=400)


@server_check(
    title="Header names are case-insensitive, header values are not",
    sends="Searches with header names in uppercase and in lowercase; one with `Mcp-Method: TOOLS/SEARCH`.",
    passes=f"A result for the first two, error {_HEADER_MISMATCH} for the third.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_header_case(bench: Bench) -> None:
    good = {"query": await bench.key_query()}
    bench.require_result(await bench.server.search(good), "a search with ordinary headers")
    usual = {"MCP-Protocol-Version": MODERN, "Mcp-Method": bench.method}
    for change in (str.upper, str.lower):
        headers = {**dict.fromkeys(usual), **{change(name): value for name, value in usual.items()}}
        await bench.served(good, f"a search with the headers {', '.join(map(change, usual))}", headers=headers)
    other = await bench.server.search(good, headers={"Mcp-Method": "tools/list"})
    if other.error is None or other.error.code != _HEADER_MISMATCH:
        return  # http-method-header judges how other methods are refused
    case = f"a search with Mcp-Method: {bench.method.upper()}"
    await bench.refused(good, good, case, codes=[_HEADER_MISMATCH], headers={"Mcp-Method": bench.method.upper()})
