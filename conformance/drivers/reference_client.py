"""The driver of the reference client, as an implementer would write it (see ../DRIVER.md).

    tools-search-conformance client -- python conformance/drivers/reference_client.py

One server is `ServerTools`, which searches or lists, keeps answers and follows list changes; several are a federation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
from mcp_types import Tool
from tools_search_client import (
    Configuration,
    ConnectionOptions,
    DiscoveryOptions,
    Federation,
    FederationOptions,
    ServerTools,
    ToolsSearchClientError,
    open_federation,
    open_server,
)
from tools_search_client.version import VERSION
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget, Target

Json: TypeAlias = dict[str, Any]
Operation: TypeAlias = Callable[[Json], Awaitable[Json]]

ALL: Final = 1000
"""How many tools "all of them" is for a client that wants a limit."""

SECONDS: Final = 3
"""How long one of several servers is waited for."""

FEATURES: Final = ["stdio", "http", "authorization", "federation", "concurrent", "cancel"]


async def read_request() -> Json | None:
    line = await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True)
    return json.loads(line) if line else None


def answer(request: Json, **outcome: Any) -> None:
    sys.stdout.write(json.dumps({"id": request["id"], **outcome}) + "\n")
    sys.stdout.flush()


async def outcome(operation: Operation, request: Json) -> Json:
    try:
        return {"ok": await operation(request)}
    except (ToolsSearchClientError, ValueError) as error:
        return refusal(error)


def refusal(error: Exception) -> Json:
    code = getattr(error, "code", None)
    told: Json = {"message": str(error) or type(error).__name__}
    return {"error": told | ({"code": code} if isinstance(code, int) else {})}


def target_of(given: Json) -> Target:
    if given["transport"] == "http":
        return HttpTarget(given["url"])
    return StdioTarget(given["command"], tuple(given["args"]), given["env"])


def definition(tool: Tool) -> Json:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


class User:
    """On whose behalf the client acts."""

    name = ""


class Begun:
    """A search that runs by itself."""

    def __init__(self) -> None:
        self.scope, self.ended = anyio.CancelScope(), anyio.Event()
        self.outcome: Json = {}

    async def run(self, search: Operation, request: Json) -> None:
        with self.scope:
            self.outcome = await outcome(search, request)
        self.ended.set()


def operations(tools: ServerTools, user: User) -> dict[str, Operation]:
    async def search(request: Json) -> Json:
        found = await tools.search(request["query"], limit=request.get("limit", 10))
        return {"tools": [definition(each.tool) for each in found.tools]}

    async def search_all(request: Json) -> Json:
        return await search({**request, "limit": ALL})

    async def list_tools(_: Json) -> Json:
        return {"tools": [definition(tool) for tool in await tools.list()]}

    async def call(request: Json) -> Json:
        result = await tools.call(request["name"], request["arguments"])
        return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}

    async def authorize(request: Json) -> Json:
        user.name = request["as"]
        return {}

    named = (search, search_all, list_tools, call, authorize)
    return {operation.__name__: operation for operation in named}


async def serve_server(request: Json) -> bool:
    era = "legacy" if request["era"] == "2025-11-25" else "auto"
    user = User()
    discovery = DiscoveryOptions(authorization=lambda: user.name, request_timeout=5)
    options = ConnectionOptions(negotiation=era, discovery=discovery)
    async with open_server(target_of(request["target"]), options) as tools:
        return await serve_connected(request, operations(tools, user))


def federated_operations(federation: Federation) -> dict[str, Operation]:
    async def search(request: Json) -> Json:
        found = await federation.search(request["query"], limit=request.get("limit", 10), deadline=SECONDS)
        return {
            "tools": [{"name": each.name, "server": each.server, "tool": each.tool.name} for each in found.tools],
            "failed": [report.server for report in found.servers if report.failure is not None],
        }

    async def call(request: Json) -> Json:
        result = await federation.call(request["name"], request["arguments"])
        return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}

    return {"search": search, "call": call}


async def serve_federation(request: Json) -> bool:
    era = "legacy" if request["era"] == "2025-11-25" else "auto"
    entries = tuple(ServerEntry(name, target_of(given)) for name, given in request["targets"].items())
    options = FederationOptions(connection=ConnectionOptions(negotiation=era))
    async with open_federation(Configuration(entries), options) as federation:
        return await serve_connected(request, federated_operations(federation))


async def serve_connected(request: Json, operations: dict[str, Operation]) -> bool:
    """Serve one connection until it is to be closed; tell whether there may be another."""
    answer(request, ok={})
    begun: dict[str, Begun] = {}
    async with anyio.create_task_group() as tasks:
        while (request := await read_request() or {"op": "bye", "id": 0})["op"] not in {"close", "bye"}:
            op = request["op"]
            if op == "begin":
                begun[request["as"]] = Begun()
                tasks.start_soon(begun[request["as"]].run, operations["search"], request)
                answer(request, ok={})
            elif op in {"await", "cancel"}:
                search = begun.pop(request["of"])
                if op == "cancel":
                    search.scope.cancel()
                await search.ended.wait()
                answer(request, **({"ok": {}} if op == "cancel" else search.outcome))
            elif op in operations:
                answer(request, **await outcome(operations[op], request))
            else:
                answer(request, unsupported=True)
        tasks.cancel_scope.cancel()
    answer(request, ok={})
    return request["op"] == "close"


async def serve() -> None:
    connecting = {"connect": serve_server, "federate": serve_federation}
    while (request := await read_request()) is not None:
        op = request["op"]
        if op == "hello":
            answer(request, ok={"sdk": "tools-search-client", "version": VERSION, "features": FEATURES})
        elif op in {"bye", "close"}:
            answer(request, ok={})
            if op == "bye":
                return
        elif op not in connecting:
            answer(request, unsupported=True)
        else:
            try:
                if not await connecting[op](request):
                    return
            except ToolsSearchClientError as error:
                answer(request, **refusal(error))


if __name__ == "__main__":
    anyio.run(serve)
