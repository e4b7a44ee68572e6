"""Transports for configured targets, set up for servers that nobody vouches for."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final, TextIO

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client.endings import Ending
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.bounded_http import ACCEPTED_ENCODING, BoundedHttp
from tools_search_hosts.child_process import child_streams

from tools_search_client.errors import ServerUnavailable
from tools_search_client.servers.wire import Streams, WireObserver, exchanged, mended, watched

__all__ = ["open_transport"]

_HTTP_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)


@asynccontextmanager
async def open_transport(
    target: Target, ended: Ending, *, diagnostics: TextIO, observer: WireObserver | None = None
) -> AsyncGenerator[Streams]:
    """Reach `target` and hand over the two streams.

    Args:
        target: A program to start or an address.
        ended: Given the reason why the connection ended, where that can be seen.
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

    if isinstance(target, StdioTarget):
        opened = child_streams(target, ended, errors=diagnostics)
    else:
        opened = _over_http(target, ended, note)
    async with opened as streams:
        yield mended(streams if observer is None else watched(streams, observer))


@asynccontextmanager
async def _over_http(target: HttpTarget, ended: Ending, note: Callable[[str], None]) -> AsyncGenerator[Streams]:
    is_old = target.transport == "sse"
    # Where each request has a response of its own, one that is too long ends that request and not the connection.
    on_excess = partial(ended.set, is_excess=True) if is_old else note
    bounded = BoundedHttp(on_excess=on_excess, on_malformed=lambda _: None, answers_in_body=not is_old)
    if is_old:
        opened = sse_client(target.url, dict(target.headers), httpx_client_factory=partial(_http_client, bounded, note))
    else:
        opened = _streamable_http(target, bounded, note)
    async with opened as streams:
        yield exchanged(streams, bounded)


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
