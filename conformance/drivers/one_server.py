"""The driver of a host that is the plain SDK and the one file to copy, `tools_search_client/one_server.py`.

    tools-search-conformance client -- python conformance/drivers/one_server.py

What it keeps of the protocol it keeps by these alone: no cache, no supervision, one server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_ext_tools_search.client import TOOLS_SEARCH, ToolsSearchError
from mcp_types import Tool
from pydantic import ValidationError
from tools_search_client.one_server import find_tools, list_tools
from tools_search_client.version import VERSION

Json: TypeAlias = dict[str, Any]
Operation: TypeAlias = Callable[[Json], Awaitable[Json]]

FEATURES: Final = ["stdio", "http", "concurrent", "cancel"]


async def read_request() -> Json | None:
    line = await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True)
    return json.loads(line) if line else None


def answer(request: Json, **outcome: Any) -> None:
    sys.stdout.write(json.dumps({"id": request["id"], **outcome}) + "\n")
    sys.stdout.flush()


def told(tools: list[Tool]) -> Json:
    return {"tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]}


def operations(client: Client) -> dict[str, Operation]:
    async def search(request: Json) -> Json:
        return told(await find_tools(client, request["query"], limit=request.get("limit", 10)))

    async def search_all(request: Json) -> Json:
        return told(await find_tools(client, request["query"], limit=None))

    async def listed(_: Json) -> Json:
        return told(await list_tools(client))

    async def call(request: Json) -> Json:
        result = await client.call_tool(request["name"], request["arguments"])
        return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}

    return {"search": search, "search_all": search_all, "list_tools": listed, "call": call}


async def outcome(operation: Operation, request: Json) -> Json:
    try:
        return {"ok": await operation(request)}
    except (MCPError, ToolsSearchError, ValidationError, ValueError) as error:
        return {"error": {"message": str(error) or type(error).__name__}}


class Begun:
    """A search that runs by itself."""

    def __init__(self) -> None:
        self.scope, self.ended = anyio.CancelScope(), anyio.Event()
        self.outcome: Json = {}

    async def run(self, search: Operation, request: Json) -> None:
        with self.scope:
            self.outcome = await outcome(search, request)
        self.ended.set()


async def serve_connected(client: Client, request: Json) -> Json:
    """Serve the connection that was asked for, and return the request that ends it."""
    begun: dict[str, Begun] = {}
    own = operations(client)
    async with anyio.create_task_group() as tasks:
        while (request := await read_request() or {"op": "bye", "id": 0})["op"] not in {"close", "bye"}:
            op = request["op"]
            if op == "begin":
                begun[request["as"]] = Begun()
                tasks.start_soon(begun[request["as"]].run, own["search"], request)
                answer(request, ok={})
            elif op in {"await", "cancel"}:
                search = begun.pop(request["of"])
                if op == "cancel":
                    search.scope.cancel()
                await search.ended.wait()
                answer(request, **({"ok": {}} if op == "cancel" else search.outcome))
            elif op in own:
                answer(request, **await outcome(own[op], request))
            else:
                answer(request, unsupported=True)
        tasks.cancel_scope.cancel()
    return request


async def serve() -> None:
    while (request := await read_request()) is not None:
        op = request["op"]
        if op == "hello":
            answer(request, ok={"sdk": "mcp and one file", "version": VERSION, "features": FEATURES})
        elif op == "connect":
            given = request["target"]
            server: Any = given.get("url")
            if given["transport"] == "stdio":
                parameters = StdioServerParameters(command=given["command"], args=given["args"], env=given["env"])
                server = stdio_client(parameters)
            mode = "legacy" if request["era"] == "2025-11-25" else "auto"
            try:
                async with Client(server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
                    answer(request, ok={})
                    request = await serve_connected(client, request)
            except Exception as error:  # noqa: BLE001, RUF100 - the SDK wraps what a server does wrong in groups of many kinds
                answer(request, error={"message": str(error) or type(error).__name__})
                continue
            answer(request, ok={})
            if request["op"] == "bye":
                return
        elif op in {"bye", "close"}:
            answer(request, ok={})
            if op == "bye":
                return
        else:
            answer(request, unsupported=True)


if __name__ == "__main__":
    anyio.run(serve)
