"""A driver of the plain Python SDK: what a host gets that adds `tools/search` to `mcp.Client` in an afternoon.

    tools-search-conformance client -- python conformance/drivers/python_sdk.py

It stands on nothing of this repository. Where it is found wanting, that is what the SDK alone cannot do, or what the
small host below leaves out.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final, Literal, TypeAlias

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import advertise
from mcp.client.stdio import stdio_client
from pydantic import ValidationError

Json: TypeAlias = dict[str, Any]

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
MODERN: Final = "2026-07-28"
FEATURES: Final = ["stdio", "http", "concurrent", "cancel"]


class SearchParams(types.PaginatedRequestParams):
    query: str
    limit: int | None = None


class SearchRequest(types.Request[SearchParams, Literal["tools/search"]]):
    method: Literal["tools/search"] = "tools/search"
    params: SearchParams


class SearchResult(types.PaginatedResult):
    tools: list[types.Tool]
    result_type: Any = "complete"


class Begun:
    """A search that runs by itself."""

    def __init__(self) -> None:
        self.scope, self.ended = anyio.CancelScope(), anyio.Event()
        self.outcome: Json = {}

    async def run(self, host: Host, request: Json) -> None:
        with self.scope:
            self.outcome = await safe_outcome(host, {"op": "search", "query": request["query"]})
        self.ended.set()


class CircleError(Exception):
    """The pages of a server have no end."""


class KindError(Exception):
    """A result of a kind that a search does not have."""


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
            raise KindError(f"a result of the kind {result.result_type!r}")
        return result

    async def search(self, query: str, limit: int | None = None, *, every_page: bool = False) -> list[types.Tool]:
        if self.offered:
            try:
                page = await self.page(query, limit)
                tools, cursor, seen = list(page.tools), page.next_cursor, set[str]()
                while every_page and cursor is not None:
                    if cursor in seen:
                        raise CircleError("the server repeats a cursor")
                    seen.add(cursor)
                    page = await self.page(query, limit, cursor)
                    tools, cursor = [*tools, *page.tools], page.next_cursor
                return tools
            except (ValidationError, KindError):
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


async def read_request() -> Json:
    line = await anyio.to_thread.run_sync(sys.stdin.buffer.readline, abandon_on_cancel=True)
    return json.loads(line) if line else {"id": 0, "op": "bye"}


def answer(request: Json, **outcome: Any) -> None:
    sys.stdout.write(json.dumps({"id": request["id"], **outcome}) + "\n")
    sys.stdout.flush()


def found(tools: list[types.Tool]) -> Json:
    return {"tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]}


async def outcome(host: Host, request: Json) -> Json:
    match request["op"]:
        case "search":
            return {"ok": found(await host.search(request["query"], request.get("limit")))}
        case "search_all":
            return {"ok": found(await host.search(request["query"], every_page=True))}
        case "list_tools":
            return {"ok": found(await host.list_tools())}
        case "call":
            result = await host.client.call_tool(request["name"], request["arguments"])
            return {"ok": {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}}
        case _:
            return {"unsupported": True}


async def safe_outcome(host: Host, request: Json) -> Json:
    try:
        return await outcome(host, request)
    except (MCPError, ValidationError, CircleError) as error:
        return {"error": {"message": str(error)}}


async def of_begun(host: Host, request: Json, begun: dict[str, Begun], tasks: TaskGroup) -> Json:
    if request["op"] == "begin":
        begun[request["as"]] = Begun()
        tasks.start_soon(begun[request["as"]].run, host, request)
        return {"ok": {}}
    search = begun.pop(request["of"])
    if request["op"] == "cancel":
        search.scope.cancel()
    await search.ended.wait()
    return {"ok": {}} if request["op"] == "cancel" else search.outcome


async def serve_connected(request: Json) -> Json:
    """Connect, and return the request that ended the connection."""
    target, era = request["target"], request["era"]
    if target["transport"] == "http":
        server: Any = target["url"]
    else:
        server = stdio_client(StdioServerParameters(command=target["command"], args=target["args"], env=target["env"]))
    mode = "auto" if era == MODERN else "legacy"
    begun: dict[str, Begun] = {}
    client = Client(server, extensions=[advertise(EXTENSION_ID)], mode=mode)
    async with client, anyio.create_task_group() as tasks:
        answer(request, ok={})
        while (request := await read_request())["op"] not in {"close", "bye"}:
            if request["op"] in {"begin", "await", "cancel"}:
                answer(request, **await of_begun(Host(client, era), request, begun, tasks))
            else:
                answer(request, **await safe_outcome(Host(client, era), request))
        tasks.cancel_scope.cancel()
    return request


async def serve() -> None:
    while (request := await read_request())["op"] != "bye":
        if request["op"] == "hello":
            answer(request, ok={"sdk": "mcp", "version": "2", "features": FEATURES})
        elif request["op"] == "connect":
            try:
                request = await serve_connected(request)
            except Exception as error:  # noqa: BLE001, RUF100 - the SDK wraps what a server does wrong in groups of many kinds
                answer(request, error={"message": str(error) or type(error).__name__})
                continue
            answer(request, ok={})
            if request["op"] == "bye":
                return
        else:
            answer(request, **({"ok": {}} if request["op"] == "close" else {"unsupported": True}))
    answer(request, ok={})


if __name__ == "__main__":
    anyio.run(serve)
