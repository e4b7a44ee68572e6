"""Clients of the SDK, and the requests that many tests make with them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import CallToolResult, TextContent, ToolListChangedNotification

UPSTREAMS = Path(__file__).parent / "servers"


def server_entry(program: str, *arguments: str | Path) -> dict[str, Any]:
    """Return the configuration of one of the upstream servers of these tests."""
    return {"command": sys.executable, "args": [str(UPSTREAMS / program), *map(str, arguments)]}


def library(era: str, name: str, *more: str) -> dict[str, Any]:
    """Return the configuration of an upstream with more than tools."""
    return server_entry("library.py", era, name, *more)


@asynccontextmanager
async def with_token(url: str, token: str, mode: str = "auto", **more: Any) -> AsyncGenerator[Client]:
    """Connect over HTTP with a bearer token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=None) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, extensions=[TOOLS_SEARCH], **more) as client,
    ):
        yield client


@asynccontextmanager
async def compat_client(
    servers: Any, connect: Any, transport: str, mode: str, compat: str, *arguments: str, **options: Any
) -> AsyncGenerator[Client]:
    """Connect to the endpoint of a gateway's compatibility mode."""
    arguments = ("--compat", compat, "--start-deadline", "60", *arguments)
    if transport == "stdio":
        async with connect("stdio", mode, *arguments, **options) as client:
            yield client
        return
    url = await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments))
    async with Client(f"{url}/{compat.partition(':')[0]}", mode=mode, **options) as client:
        yield client


async def names(client: Client) -> list[str]:
    """Return the names of the listed tools, without the client's cache."""
    return [tool.name for tool in (await client.session.list_tools()).tools]


async def wait_for(client: Client, wanted: list[str] | set[str]) -> None:
    """Wait until these tools are listed: in this order, or in any order if it is a set."""
    while type(wanted)(await names(client)) != wanted:  # noqa: ASYNC110 - a listing is the only thing to look at
        await anyio.sleep(0.05)


def text_of(result: Any) -> str:
    """Return the only content of a tool's result, which is a text."""
    assert isinstance(result, CallToolResult)
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def call(client: Client, name: str, **arguments: Any) -> tuple[bool, str]:
    """Call a tool, and return whether it failed, and the text."""
    result: Any = await client.session.call_tool(name, arguments)
    return bool(result.is_error), text_of(result)


class ToolListChanges:
    """A message handler that counts the changes of the list of tools."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = anyio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.count += 1
            self._changed.set()

    def forget(self) -> None:
        """Wait only for changes after this one."""
        self._changed = anyio.Event()

    async def once_more(self) -> None:
        """Wait for a change since the last wait, and those that come at the same time."""
        await self._changed.wait()
        self.forget()
