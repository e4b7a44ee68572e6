"""A server that lists the tools of one server of a file, and does not know the extension: `listing.py FILE SERVER`."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool


async def main(file: str, name: str) -> None:
    text = await anyio.Path(file).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    tools = [Tool.model_validate(line) for line in lines if line["server"] == name]

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    server = Server(name, on_list_tools=list_tools)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
