"""What search found is called at once: no listing behind the caller's back, and the headers that HTTP wants."""

from __future__ import annotations

import runpy
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.client import iter_pages, list_page, search_tools
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
ServeHttp = Callable[..., AbstractAsyncContextManager[str]]

SERVER = Path(__file__).parents[1] / "recording_server.py"


class Seen(BaseModel):
    """What has come to the recording server."""

    asked: list[str]
    headers: dict[str, str]


@pytest.fixture(params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def _connected(connect: Connect, serve_http: ServeHttp, transport: str) -> AsyncGenerator[Client]:
    if transport == "stdio":
        async with connect(StdioServerParameters(command=sys.executable, args=[str(SERVER)])) as client:
            yield client
        return
    server = runpy.run_path(str(SERVER))["make_server"]()
    async with serve_http(server.streamable_http_app()) as url, connect(url) as client:
        yield client


def _seen(result: CallToolResult) -> Seen:
    (text,) = result.content
    assert isinstance(text, TextContent)
    return Seen.model_validate_json(text.text)


async def test_a_found_tool_is_called_without_a_listing_and_with_its_headers(
    connect: Connect, serve_http: ServeHttp, transport: str, era: str
) -> None:
    async with _connected(connect, serve_http, transport) as client:
        found = await search_tools(client, "send invoice", limit=1)
        assert [tool.name for tool in found.tools] == ["send_invoice"]
        await client.call_tool("send_invoice", {"region": "eu-1"})
        seen = _seen(await client.call_tool("send_invoice", {"region": "eu-1"}))
    assert "tools/list" not in seen.asked
    assert seen.asked[-3:] == ["tools/search", "tools/call", "tools/call"]
    headers = {name: value for name, value in seen.headers.items() if name.startswith("mcp-param-")}
    assert headers == ({"mcp-param-region": "eu-1"} if (transport, era) == ("http", "auto") else {})


async def test_without_a_search_the_same_call_lists_behind_the_callers_back(
    connect: Connect, serve_http: ServeHttp, transport: str
) -> None:
    """The reason for absorbing what was found: should the SDK stop doing this, the adapter can go."""
    async with _connected(connect, serve_http, transport) as client:
        await client.call_tool("send_invoice")
        seen = _seen(await client.call_tool("send_invoice"))
    assert "tools/list" in seen.asked


async def test_a_tool_with_an_invalid_header_is_left_out_on_modern_connections(
    connect: Connect, serve_http: ServeHttp, era: str
) -> None:
    async with _connected(connect, serve_http, "http") as client:
        found = {tool.name async for page in iter_pages(client, "invoice") for tool in page.tools}
    assert found == ({"send_invoice"} if era == "auto" else {"send_invoice", "print_invoice"})


async def test_the_output_schema_of_a_found_tool_is_held_against_what_it_returns(
    connect: Connect, serve_http: ServeHttp
) -> None:
    async with _connected(connect, serve_http, "http") as client:
        (tool,) = (await search_tools(client, "send_invoice", limit=1)).tools
        assert tool.output_schema == {"type": "object", "required": ["number"]}
        with pytest.raises(RuntimeError, match="number"):
            await client.session.validate_tool_result(
                tool.name, CallToolResult(content=[], structured_content={"amount": 7})
            )


async def test_a_definition_that_was_listed_since_takes_the_place_of_the_found_one(
    connect: Connect, lying: Callable[..., Server[Any]]
) -> None:
    def definition(member: str) -> dict[str, Any]:
        output = {"type": "object", "required": [member]}
        return {"name": "send_invoice", "inputSchema": {"type": "object"}, "outputSchema": output}

    async def lists_otherwise(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            assert isinstance(result, dict)
            result["tools"] = [definition("listed")]
        return result

    server = lying({"tools": [definition("found")]})
    server.middleware.append(lists_otherwise)
    async with connect(server) as client:

        async def require(member: str) -> None:
            for sent in ("found", "listed"):
                result = CallToolResult(content=[], structured_content={sent: 1})
                with nullcontext() if sent == member else pytest.raises(RuntimeError, match=member):
                    await client.session.validate_tool_result("send_invoice", result)

        await search_tools(client, "invoice")
        await require("found")
        await list_page(client, None)
        await require("listed")
        await search_tools(client, "invoice")
        await require("found")
