"""Servers and connections that the tests of this folder share."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types
import pytest
import uvicorn
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict
from starlette.applications import Starlette

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]
Send: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
MakeServer: TypeAlias = Callable[[Sequence[Tool]], Server[Any]]
ServeHttp: TypeAlias = Callable[[Starlette], AbstractAsyncContextManager[str]]
Post: TypeAlias = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]
Answer: TypeAlias = dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]
Lying: TypeAlias = Callable[..., Server[Any]]

DECLARED: dict[str, Any] = {"extensions": {EXTENSION_ID: {}}}


class _AnyResult(BaseModel):
    model_config = ConfigDict(extra="allow")


@pytest.fixture(params=["auto", "legacy"], ids=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """The SDK's name for how a client connects; `auto` ends at the modern protocol with these servers."""
    return request.param


@pytest.fixture
def connect(era: str) -> Connect:
    """A client of the era under test, that declares the extension by default."""

    @asynccontextmanager
    async def connected(target: Any, *, declares: bool = True, **options: Any) -> AsyncGenerator[Client]:
        with anyio.fail_after(30):
            async with Client(target, mode=era, extensions=[TOOLS_SEARCH] if declares else [], **options) as client:
                yield client

    return connected


@pytest.fixture
def send() -> Send:
    """Sends any request and returns the result as it came."""

    async def sent(client: Client, params: Mapping[str, Any] | None = None, method: str = METHOD) -> dict[str, Any]:
        request = mcp_types.Request[Any, str](method=method, params=params)
        answer = await client.session.send_request(request, _AnyResult)
        return answer.model_extra or {}

    return sent


@pytest.fixture
def make_server() -> MakeServer:
    """A low-level server that lists the given tools on one page and answers every call with the tool's name."""

    def made(tools: Sequence[Tool]) -> Server[Any]:
        async def list_tools(
            _ctx: ServerRequestContext[Any], _params: PaginatedRequestParams | None
        ) -> ListToolsResult:
            return ListToolsResult(tools=list(tools))

        async def call_tool(_ctx: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
            return CallToolResult(content=[TextContent(type="text", text=params.name)])

        return Server("catalog", on_list_tools=list_tools, on_call_tool=call_tool)

    return made


@pytest.fixture
def billing() -> MCPServer[Any]:
    """A decorator-built server with three tools."""
    mcp = MCPServer[Any]("billing")

    @mcp.tool()
    def send_invoice(customer: str, amount: int) -> str:  # pyright: ignore[reportUnusedFunction] - registered
        """Send an invoice to a customer."""
        return f"sent {amount} to {customer}"

    @mcp.tool()
    def cancel_invoice(number: int) -> str:  # pyright: ignore[reportUnusedFunction] - registered
        """Cancel an invoice that was sent."""
        return f"cancelled {number}"

    @mcp.tool()
    def admin_wipe_invoices() -> str:  # pyright: ignore[reportUnusedFunction] - registered
        """Delete every invoice of every customer."""
        return "wiped"

    return mcp


@pytest.fixture
def numbered() -> list[Tool]:
    """Twenty-five tools that all fit the query `ledger`."""
    return [
        Tool(name=f"ledger_{number:02}", description="Read the ledger.", input_schema={"type": "object"})
        for number in range(25)
    ]


@pytest.fixture
def serve_http() -> ServeHttp:
    """A real HTTP server on a free port; yields the URL of its endpoint."""

    @asynccontextmanager
    async def served(app: Starlette) -> AsyncGenerator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            # The socket listens from here on: a connection before uvicorn accepts waits in its backlog.
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="on"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listener])
                try:
                    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
                finally:
                    server.should_exit = True

    return served


@pytest.fixture
def post() -> Post:
    """Sends one modern request over HTTP by hand; returns the status and the JSON-RPC answer."""

    async def posted(
        url: str, params: Mapping[str, Any], capabilities: object = DECLARED, method: str = METHOD
    ) -> tuple[int, dict[str, Any]]:
        version = MODERN_PROTOCOL_VERSIONS[0]
        envelope = {
            mcp_types.PROTOCOL_VERSION_META_KEY: version,
            mcp_types.CLIENT_INFO_META_KEY: {"name": "by-hand", "version": "0"},
            mcp_types.CLIENT_CAPABILITIES_META_KEY: capabilities,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": envelope, **params}}
        headers = {
            "mcp-protocol-version": version,
            "mcp-method": method,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        # Escapes keep what is no valid Unicode, as a hostile client would send it.
        async with httpx2.AsyncClient() as http:
            response = await http.post(url, content=json.dumps(message).encode(), headers=headers)
        return response.status_code, response.json()

    return posted


@pytest.fixture
def lying(make_server: MakeServer) -> Lying:
    """A server that advertises the extension and answers each search as the test says."""

    def made(answer: Answer, settings: Any = None, place: str = "extensions") -> Server[Any]:
        async def handler(ctx: ServerRequestContext[Any], _: RequestParams) -> dict[str, Any]:
            params = {name: value for name, value in (ctx.params or {}).items() if name != "_meta"}
            return answer(params) if callable(answer) else answer

        async def advertise(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            result = await call_next(ctx)
            if ctx.method in {"initialize", "server/discover"}:
                assert isinstance(result, dict)
                result["capabilities"].setdefault(place, {})[EXTENSION_ID] = settings or {}
            return result

        server = make_server([])
        server.add_request_handler(METHOD, RequestParams, handler)
        server.middleware.append(advertise)
        return server

    return made
