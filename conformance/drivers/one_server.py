"""The driver of a host that is the plain SDK and the one file to copy, `tools_search_client/one_server.py`.

    tools-search-conformance client -- python conformance/drivers/one_server.py

It has no cache, no supervision and one server: the rest of the protocol it keeps by that file alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from _loop import Driver, Json, Operation, dump, dump_tools, sdk_server
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, ToolsSearchError
from pydantic import ValidationError
from tools_search_client.one_server import find_tools, list_tools
from tools_search_client.version import VERSION


@asynccontextmanager
async def connect(request: Json) -> AsyncGenerator[Mapping[str, Operation]]:
    mode = "legacy" if request["era"] == "2025-11-25" else "auto"
    async with Client(sdk_server(request["target"]), mode=mode, extensions=[TOOLS_SEARCH]) as client:

        async def search(request: Json) -> Json:
            return dump_tools(await find_tools(client, request["query"], limit=request.get("limit", 10)))

        async def search_all(request: Json) -> Json:
            return dump_tools(await find_tools(client, request["query"], limit=None))

        async def list_all(_: Json) -> Json:
            return dump_tools(await list_tools(client))

        async def call(request: Json) -> Json:
            return {"result": dump(await client.call_tool(request["name"], request["arguments"]))}

        yield {"search": search, "search_all": search_all, "list_tools": list_all, "call": call}


DRIVER = Driver(
    hello={"sdk": "mcp and one file", "version": VERSION, "features": ["stdio", "http", "concurrent", "cancel"]},
    connecting={"connect": connect},
    errors=(MCPError, ToolsSearchError, ValidationError, ValueError),
)

if __name__ == "__main__":
    anyio.run(DRIVER.run)
