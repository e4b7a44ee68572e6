"""Transports for configured targets: the SDK's own, set up for servers that nobody vouches for."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final, TextIO

import httpx2
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from mcp_ext_tools_search.hosts.environment import handed_down

from tools_search_client.errors import ServerUnavailable
from tools_search_client.wire import Streams, WireObserver, mended, watched

__all__ = ["MAX_EVENT_BYTES", "open_transport"]

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""A large listing passes, an endless event does not; the SDK's own bound of 1 MiB is some 1,250 tools."""

_HTTP_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)


@asynccontextmanager
async def open_transport(
    target: Target, *, diagnostics: TextIO, observer: WireObserver | None = None
) -> AsyncGenerator[Streams]:
    """Reach `target` and hand over the two streams.

    Args:
        target: A program to start or an address.
        diagnostics: A real file, for the standard error of a started program and the HTTP errors of an address.
        observer: Told of every message and of the end.

    Raises:
        OSError: The program cannot be started.
        ServerUnavailable: The target cannot be used as it is configured.
        httpx2.HTTPError: The address cannot be reached (often inside an `ExceptionGroup`).
    """
    if isinstance(target, UnusableTarget):
        raise ServerUnavailable(str(target))
    if isinstance(target, StdioTarget):
        opened = stdio_client(_parameters(target), errlog=diagnostics)
    elif target.transport == "sse":
        opened = sse_client(target.url, headers=dict(target.headers))
    else:
        opened = _streamable_http(target, diagnostics)
    async with opened as streams:
        yield mended(streams if observer is None else watched(streams, observer))


def _parameters(target: StdioTarget) -> StdioServerParameters:
    return StdioServerParameters(
        command=target.command,
        args=list(target.args),
        env=handed_down() | dict(target.env),
        cwd=target.cwd,
        encoding_error_handler="replace",
    )


@asynccontextmanager
async def _streamable_http(target: HttpTarget, diagnostics: TextIO) -> AsyncGenerator[Streams]:
    async def note(response: httpx2.Response) -> None:
        """Keep what the SDK leaves out of its errors: whether a key was missing or the path wrong."""
        if response.is_error:
            diagnostics.write(f"HTTP {response.status_code} {response.reason_phrase}\n")
            diagnostics.flush()

    hooks = {"response": [note]}
    headers = dict(target.headers)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_HTTP_TIMEOUT, event_hooks=hooks, verify=_certificates()) as http,
        streamable_http_client(target.url, http_client=http, max_sse_event_size=MAX_EVENT_BYTES) as streams,
    ):
        yield streams


@cache
def _certificates() -> ssl.SSLContext:
    """Return what all connections trust: reading it takes 25 ms and more, in which nothing else is done."""
    return httpx2.create_ssl_context()
