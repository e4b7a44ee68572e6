"""Connections to the measured server: each transport, by the SDK's client and by one that does the least."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any, Final, Literal, Protocol

from mcp import Client
from mcp_ext_tools_search.client import raw_request, search_tools
from mcp_ext_tools_search.types import METHOD
from mcp_types import EmptyResult, ListToolsRequest, ListToolsResult, PaginatedRequestParams, Request, RequestParams

from benchmarks.endtoend.raw import RawHTTP, RawStdio, opened_stdio
from benchmarks.endtoend.server import NOTHING
from benchmarks.overhead.ways import accepting, connected, free_port, opened, running

__all__ = ["CLIENTS", "TRANSPORTS", "Answer", "Connection", "connection"]

TRANSPORTS: Final = ("stdio", "HTTP")
CLIENTS: Final = ("raw", "SDK")

_SERVER: Final = ("-m", "benchmarks.endtoend.server")

Answer = tuple[Mapping[str, Any], int]
"""A result, and how many bytes carried it; unknown with the SDK's client."""


class Connection(Protocol):
    """A client that is connected."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        """Send a request and read what is answered as this client reads it."""
        ...


class _NothingRequest(Request[RequestParams, Literal["com.example/nothing"]]):
    method: Literal["com.example/nothing"] = NOTHING
    params: RequestParams


class _SDK:
    """The SDK's client, which checks all that it is answered; `search_tools` makes what it finds callable as well."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        session = self._client.session
        match method:
            case "com.example/nothing":
                await session.send_request(_NothingRequest(params=RequestParams()), EmptyResult)
                return {}, 0
            case "tools/list":  # not by the client, which keeps the first page for a while
                asked = ListToolsRequest(params=PaginatedRequestParams(cursor=params.get("cursor")))
                listed = await session.send_request(asked, ListToolsResult)
                return {"tools": listed.tools, "nextCursor": listed.next_cursor}, 0
            case _ if method == METHOD:
                found = await search_tools(self._client, params["query"], limit=params["limit"])
                return {"tools": found.tools}, 0
            case _:
                return await raw_request(self._client, method, params, seconds=None), 0


class _Raw:
    def __init__(self, wire: RawHTTP | RawStdio) -> None:
        self._wire = wire

    async def ask(self, method: str, params: Mapping[str, Any]) -> Answer:
        return self._wire.ask(method, params)


@asynccontextmanager
async def connection(transport: str, client: str, server: Sequence[str]) -> AsyncGenerator[Connection]:
    """Start a server in a process of its own and connect to it.

    Args:
        transport: One of `TRANSPORTS`.
        client: One of `CLIENTS`.
        server: Arguments of `benchmarks.endtoend.server`.
    """
    argv = [*_SERVER, *server]
    if transport == "HTTP":
        port = free_port()
        with running([sys.executable, *argv, "--port", str(port)], port) as url:
            await accepting(port)
            if client == "raw":
                with closing(RawHTTP(port)) as wire:
                    yield _Raw(wire)
            else:
                async with opened(url) as connected_client:
                    yield _SDK(connected_client)
    elif client == "raw":
        with opened_stdio(argv) as wire:
            yield _Raw(wire)
    else:
        async with connected([sys.executable, *argv]) as connected_client:
            yield _SDK(connected_client)
