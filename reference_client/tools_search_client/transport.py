"""Transports for configured targets: the SDK's own, set up for servers that nobody vouches for."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final, TextIO

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client.bounded_http import ACCEPTED_ENCODING, BoundedHttp
from mcp_ext_tools_search.hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from mcp_ext_tools_search.hosts.descendants import Descendants
from mcp_ext_tools_search.hosts.environment import handed_down

from tools_search_client.errors import ServerUnavailable
from tools_search_client.wire import Streams, WireObserver, mended, read_whole, watched

__all__ = ["open_transport"]

_GRACE_SECONDS: Final = 0.8
"""How long what a server started and left behind has to end before it is killed."""

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

    def note(text: str) -> None:
        diagnostics.write(f"{text}\n")
        diagnostics.flush()

    is_old = isinstance(target, HttpTarget) and target.transport == "sse"
    bounded = BoundedHttp(on_excess=note, on_malformed=lambda _: None, answers_in_body=not is_old)
    if isinstance(target, StdioTarget):
        opened = _started(target, diagnostics)
    elif is_old:
        opened = sse_client(target.url, dict(target.headers), httpx_client_factory=partial(_http_client, bounded, note))
    else:
        opened = _streamable_http(target, bounded, note)
    async with opened as opened_streams:
        streams = read_whole(opened_streams, bounded)
        yield mended(streams if observer is None else watched(streams, observer))


@asynccontextmanager
async def _started(target: StdioTarget, diagnostics: TextIO) -> AsyncGenerator[Streams]:
    family = Descendants()
    parameters = StdioServerParameters(
        command=target.command,
        args=list(target.args),
        env=handed_down() | dict(target.env) | family.environment,
        cwd=target.cwd,
        encoding_error_handler="replace",
    )
    try:
        async with stdio_client(parameters, errlog=diagnostics) as streams:
            try:
                yield streams
            finally:
                family.find()
    finally:
        with anyio.CancelScope(shield=True):
            await family.end(_GRACE_SECONDS)


@asynccontextmanager
async def _streamable_http(
    target: HttpTarget, bounded: BoundedHttp, note: Callable[[str], None]
) -> AsyncGenerator[Any]:
    async with (
        _http_client(bounded, note, dict(target.headers), _HTTP_TIMEOUT) as http,
        streamable_http_client(target.url, http_client=http) as streams,
    ):
        yield streams


def _http_client(
    bounded: BoundedHttp,
    note: Callable[[str], None],
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    async def note_status(response: httpx2.Response) -> None:
        """Keep what the SDK leaves out of its errors: whether a key was missing or the path wrong."""
        if response.is_error:
            note(f"HTTP {response.status_code} {response.reason_phrase}")

    return httpx2.AsyncClient(
        headers={"Accept-Encoding": ACCEPTED_ENCODING, **(headers or {})},
        timeout=timeout,
        auth=auth,
        event_hooks={"response": [note_status, bounded.guard]},
        verify=_certificates(),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Return what all connections trust: reading it takes 25 ms and more, in which nothing else is done."""
    return httpx2.create_ssl_context()
