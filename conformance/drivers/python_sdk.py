"""A driver of the plain Python SDK: a host that adds `tools/search` to `mcp.Client` in an afternoon.

    tools-search-conformance client -- python conformance/drivers/python_sdk.py

It uses no package of this repository. The checks that it fails show the limits of the SDK, or of the small host below.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from _loop import Driver, Json, Operation, call, sdk_server, tools_of
from mcp import Client, MCPError
from mcp.client import advertise
from pydantic import ValidationError

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
MODERN: Final = "2026-07-28"


class SearchParams(types.PaginatedRequestParams):
    query: str
    limit: int | None = None


class SearchRequest(types.Request[SearchParams, Literal["tools/search"]]):
    method: Literal["tools/search"] = "tools/search"
    params: SearchParams


class SearchResult(types.PaginatedResult):
    tools: list[types.Tool]
    result_type: Any = "complete"


class CursorLoopError(Exception):
    """The pages of a server have no end."""


class ResultTypeError(Exception):
    """The `resultType` is not one of a search."""


class Host:
    def __init__(self, client: Client, era: str) -> None:
        self.client, self.era = client, era

    @property
    def offered(self) -> bool:
        capabilities = self.client.server_capabilities
        places = [capabilities.extensions] + ([capabilities.experimental] if self.era != MODERN else [])
        return any(EXTENSION_ID in (place or {}) for place in places)

    async def page(self, query: str, limit: int | None = None, cursor: str | None = None) -> SearchResult:
        params = SearchParams(query=query, limit=limit, cursor=cursor)
        result = await self.client.session.send_request(SearchRequest(params=params), SearchResult)
        if self.era == MODERN and result.result_type != "complete":
            raise ResultTypeError(f"a result of the type {result.result_type!r}")
        return result

    async def search(self, query: str, limit: int | None = None, *, every_page: bool = False) -> list[types.Tool]:
        if self.offered:
            try:
                page = await self.page(query, limit)
                tools, cursor, seen = list(page.tools), page.next_cursor, set[str]()
                while every_page and cursor is not None:
                    if cursor in seen:
                        raise CursorLoopError("the server repeats a cursor")
                    seen.add(cursor)
                    page = await self.page(query, limit, cursor)
                    tools, cursor = [*tools, *page.tools], page.next_cursor
                return tools
            except (ValidationError, ResultTypeError):
                pass
            except MCPError as error:
                if error.code not in {types.METHOD_NOT_FOUND, types.MISSING_REQUIRED_CLIENT_CAPABILITY}:
                    raise
        return ranked(query, await self.list_tools())[:limit]

    async def list_tools(self) -> list[types.Tool]:
        page = await self.client.list_tools()
        tools = list(page.tools)
        while page.next_cursor is not None:
            page = await self.client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        return tools


def ranked(query: str, tools: list[types.Tool]) -> list[types.Tool]:
    wanted = set(re.findall(r"[^\W_]+", query.lower()))

    def fits(tool: types.Tool) -> int:
        return len(wanted & set(re.findall(r"[^\W_]+", f"{tool.name} {tool.title} {tool.description}".lower())))

    return sorted(filter(fits, tools), key=fits, reverse=True)


@asynccontextmanager
async def connect(request: Json) -> AsyncGenerator[Mapping[str, Operation]]:
    mode = "auto" if request["era"] == MODERN else "legacy"
    async with Client(sdk_server(request["target"]), extensions=[advertise(EXTENSION_ID)], mode=mode) as client:
        host = Host(client, request["era"])
        yield {
            "search": lambda wanted: tools_of(host.search(wanted["query"], wanted.get("limit"))),
            "search_all": lambda wanted: tools_of(host.search(wanted["query"], every_page=True)),
            "list_tools": lambda _: tools_of(host.list_tools()),
            "call": lambda wanted: call(client.call_tool, wanted),
        }


DRIVER = Driver(
    hello={"sdk": "mcp", "version": "2", "features": ["stdio", "http", "concurrent", "cancel"]},
    connecting={"connect": connect},
    errors=(MCPError, ValidationError, CursorLoopError),
)

if __name__ == "__main__":
    anyio.run(DRIVER.run)
