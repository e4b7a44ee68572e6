"""The driver of a host that is the plain SDK and the one file to copy, `tools_search_client/one_server.py`.

    tools-search-conformance client -- python conformance/drivers/one_server.py

It has no cache, no supervision and one server: the rest of the protocol it keeps by that file alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from _loop import Driver, Json, Operation, call, sdk_server, tools_of
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, ToolsSearchError
from pydantic import ValidationError
from tools_search_client.one_server import find_tools, list_tools
from tools_search_client.version import VERSION


@asynccontextmanager
async def connect(request: Json) -> AsyncGenerator[Mapping[str, Operation]]:
    mode = "legacy" if request["era"] == "2025-11-25" else "auto"
    async with Client(sdk_server(request["target"]), mode=mode, extensions=[TOOLS_SEARCH]) as client:
        yield {
            "search": lambda wanted: tools_of(find_tools(client, wanted["query"], limit=wanted.get("limit", 10))),
            "search_all": lambda wanted: tools_of(find_tools(client, wanted["query"], limit=None)),
            "list_tools": lambda _: tools_of(list_tools(client)),
            "call": lambda wanted: call(client.call_tool, wanted),
        }


DRIVER = Driver(
    hello={"sdk": "mcp and one file", "version": VERSION, "features": ["stdio", "http", "concurrent", "cancel"]},
    connecting={"connect": connect},
    errors=(MCPError, ToolsSearchError, ValidationError, ValueError),
)

if __name__ == "__main__":
    anyio.run(DRIVER.run)
