"""Streamable HTTP: the headers that mirror a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools_search_spec import METHOD

from tools_search_conformance.registry import check
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from tools_search_conformance.bench import Bench

__all__: list[str] = []

_HEADER_MISMATCH: Final = -32020


@check(
    "http-method-header",
    title="`Mcp-Method` names the method, or the request is refused",
    sends="A search whose `Mcp-Method` header is absent, or names `tools/list`.",
    passes=f"Error {_HEADER_MISMATCH} for each.",
    eras=(MODERN,),
    transports=("http",),
)
async def require_the_method_header(bench: Bench) -> None:
    good = {"query": await bench.plain()}
    for value in (None, "tools/list"):
        case = f"Mcp-Method {value or 'absent'}"
        await bench.refused(good, good, case, code=_HEADER_MISMATCH, headers={"Mcp-Method": value})


@check(
    "http-name-not-required",
    title="`Mcp-Name` is not required",
    sends=f"`{METHOD}` without an `Mcp-Name` header.",
    passes="A result.",
    eras=(MODERN,),
    transports=("http",),
)
async def require_no_name_header(bench: Bench) -> None:
    await bench.served({"query": await bench.plain()}, "a search without an Mcp-Name header")
