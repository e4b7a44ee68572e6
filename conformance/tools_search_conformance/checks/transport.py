"""Streamable HTTP: the headers that mirror a search, and those of its answer."""

from __future__ import annotations

from typing import Final

from tools_search_spec import METHOD

from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.wire.eras import META_PREFIX, MODERN
from tools_search_conformance.wire.record import Exchange

_HEADER_MISMATCH: Final = -32020
_UNSUPPORTED_VERSION: Final = -32022
_ANSWERED_AS: Final = frozenset({"application/json", "text/event-stream"})


def _expect_status_400(bench: Bench, refusal: Exchange, case: str) -> None:
    status = refusal.answer.status
    bench.expect(status == 400, refusal, f"{case} was refused with HTTP status {status} instead of 400", case=case)


@server_check(
    title="`Mcp-Method` names the method, or the request is refused",
    sends="A search whose `Mcp-Method` header is absent, or names `tools/list`.",
    passes=f"Error {_HEADER_MISMATCH} for each, with HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_method_header(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for value in (None, "tools/list"):
        case = f"Mcp-Method {value or 'absent'}"
        exchange = await bench.refused(good, good, case, code=_HEADER_MISMATCH, headers={"Mcp-Method": value})
        _expect_status_400(bench, exchange, case)


@server_check(
    title="`Mcp-Name` is not required",
    sends=f"`{METHOD}` without an `Mcp-Name` header.",
    passes="A result.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_name_not_required(bench: Bench) -> None:
    await bench.served({"query": await bench.name_query()}, "a search without an Mcp-Name header")


@server_check(
    title="Answers are JSON or an event stream, and say so",
    sends="A search, and one that is refused.",
    passes="`Content-Type` is `application/json` or `text/event-stream`, with whatever parameters.",
    transports=("http",),
)
async def http_content_type(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for params, case in ((good, "a search"), ({**good, "limit": 0}, "a refusal")):
        exchange = await bench.server.search(params)
        if exchange.replied:
            named = exchange.answer.headers.get("content-type", "none")
            kind = named.partition(";")[0].strip().lower()
            bench.expect(kind in _ANSWERED_AS, exchange, f"{case} came with the content type {named!r}", case=case)


@server_check(
    title="`MCP-Protocol-Version` and `_meta` agree, or the request is refused",
    sends="A search whose header names the version `1900-01-01`, and one whose `_meta` does.",
    passes=f"Error {_HEADER_MISMATCH}, or {_UNSUPPORTED_VERSION} for the version itself, with HTTP status 400.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_version_header(bench: Bench) -> None:
    good, codes = {"query": await bench.name_query()}, (_HEADER_MISMATCH, _UNSUPPORTED_VERSION)
    header, meta = {"MCP-Protocol-Version": "1900-01-01"}, {f"{META_PREFIX}protocolVersion": "1900-01-01"}
    for case, dress in (("another version in the header", {"headers": header}), ("in _meta", {"meta": meta})):
        exchange = await bench.refused(good, good, case, code=codes, **dress)
        _expect_status_400(bench, exchange, case)


@server_check(
    title="Names of headers have no case, values have one",
    sends="Searches with the names of headers in capitals and in small letters; one with `Mcp-Method: TOOLS/SEARCH`.",
    passes=f"A result for the first two, error {_HEADER_MISMATCH} for the third.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_header_case(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    before = await bench.server.search(good)
    bench.require(before.result is not None, f"a search with ordinary headers got {before.describe()}", before)
    plain = {"MCP-Protocol-Version": MODERN, "Mcp-Method": METHOD}
    for change in (str.upper, str.lower):
        headers = {**dict.fromkeys(plain), **{change(name): value for name, value in plain.items()}}
        await bench.served(good, f"a search with the headers {', '.join(map(change, plain))}", headers=headers)
    other = await bench.server.search(good, headers={"Mcp-Method": "tools/list"})
    if other.error is None or other.error.code != _HEADER_MISMATCH:
        return  # how another method is refused is what http-method-header is about
    case = f"Mcp-Method {METHOD.upper()}"
    await bench.refused(good, good, case, code=_HEADER_MISMATCH, headers={"Mcp-Method": METHOD.upper()})
