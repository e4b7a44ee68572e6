"""Connecting to one configured server, in either era, and following its list changes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, Literal, TextIO

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.client.endings import Ending
from mcp_types import Implementation, JSONRPCMessage, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts import HttpTarget, StdioTarget, Target, UnusableTarget
from tools_search_hosts.bounded_http import ACCEPTED_ENCODING, BoundedHttp
from tools_search_hosts.child_process import StrayLineError, child_streams

from tools_search_client.errors import ServerError, ServerRefusedError, ServerUnavailableError
from tools_search_client.servers.diagnostics import Diagnostics, kept_diagnostics
from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools
from tools_search_client.servers.faults import as_server_error
from tools_search_client.servers.wire import Streams, WireObserver, exchanged, mended, watched
from tools_search_client.text import shorten
from tools_search_client.version import VERSION

_RELISTEN_SECONDS: Final = 5.0
"""Between a subscription that was lost and the next attempt."""


class ListChanges:
    """Calls `on_change` whenever a server says, or may have failed to say, that its tools changed."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = _nothing

    async def on_message(self, message: IncomingMessage) -> None:
        """Take note of a notification; for `Client(message_handler=…)`."""
        if isinstance(message, ToolListChangedNotification):
            self.on_change()

    async def listen(self, client: Client) -> None:
        """Keep a modern subscription open until cancelled, or until the server does not grant one."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _event in subscription:
                        self.on_change()
                return
            except SubscriptionLost:
                self.on_change()  # whatever was said meanwhile went unheard
            except (MCPError, TimeoutError):
                return
            await anyio.sleep(_RELISTEN_SECONDS)


def announces_changes(client: Client) -> bool:
    """Tell whether a subscription to list changes is worth opening."""
    tools = client.server_capabilities.tools
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and tools is not None and bool(tools.list_changed)


def _nothing() -> None:
    """Nobody listens yet."""


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
        ServerUnavailableError: The target cannot be used as it is configured.
        httpx2.HTTPError: The address cannot be reached (often inside an `ExceptionGroup`).
    """
    if isinstance(target, UnusableTarget):
        raise ServerUnavailableError(str(target))

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


Negotiation = Literal["auto", "legacy"]
"""`auto` speaks the newest era that the server knows; `legacy` always shakes hands as before 2026."""

_STRAY_CHARS: Final = 80

_CLIENT_INFO: Final = Implementation(name="tools-search-client", version=VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a server is spoken to; the defaults suit a host."""

    discovery: DiscoveryOptions = field(default_factory=DiscoveryOptions)

    negotiation: Negotiation = "auto"

    follow_changes: bool = True
    """Whether to subscribe to list changes; without, modern servers are believed for as long as they said."""

    observer: WireObserver | None = None
    """Told of every message."""


@asynccontextmanager
async def open_server(
    target: Target,
    options: ConnectionOptions | None = None,
    *,
    on_change: Callable[[], None] | None = None,
    on_close: Callable[[], None] | None = None,
    diagnostics: Diagnostics | None = None,
) -> AsyncGenerator[ServerTools]:
    """Connect to `target`, negotiate, and offer its tools until the block ends.

    A started program ends with the block. The block must be left by the task that entered it, and a server reached over
    HTTP that dies cancels that task: `supervision` shows how to live with both. What the block raises is passed on.

    Args:
        target: A program to start, or an address.
        options: How to speak to it.
        on_change: Called after what was kept has been dropped because the server's tools changed.
        on_close: Called when the server will say nothing more, perhaps more than once.
        diagnostics: Where a started program's standard error goes; a place of its own unless given.

    Raises:
        ServerError: The server could not be started or reached, or died; its last diagnostics are quoted.
    """
    options = options or ConnectionOptions()
    changes = ListChanges()
    raised: Exception | None = None
    with nullcontext(diagnostics) if diagnostics else kept_diagnostics() as kept:
        ended = Ending()
        transport = open_transport(
            target, ended, diagnostics=kept.file, observer=_Watch(options.observer, on_close or _nothing)
        )
        try:
            async with (
                _client(transport, options, _listener(changes, kept)) as client,
                anyio.create_task_group() as tasks,
            ):
                tools = ServerTools(client, options.discovery, ended=partial(_reason, ended, kept))
                changes.on_change = _both(tools.forget, on_change or _nothing)
                if options.follow_changes and announces_changes(client):
                    tasks.start_soon(changes.listen, client)
                try:
                    yield tools
                except Exception as error:  # the block's own, passed on as it is below
                    raised = error
                tasks.cancel_scope.cancel()
        except Exception as error:
            if raised is None:
                raise _explained(as_server_error(error, ended.reason), kept) from error
    if raised is not None:
        raise raised


def _client(
    transport: AbstractAsyncContextManager[Streams], options: ConnectionOptions, on_message: MessageHandlerFnT
) -> Client:
    return Client(
        transport,
        extensions=[TOOLS_SEARCH],
        client_info=_CLIENT_INFO,
        mode=options.negotiation,
        message_handler=on_message,
    )


def _listener(changes: ListChanges, diagnostics: Diagnostics) -> MessageHandlerFnT:
    """Return what hears the notifications of a server, and the lines of it that are no messages."""

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, StrayLineError):
            diagnostics.note_stray(shorten(message.line, _STRAY_CHARS))
        await changes.on_message(message)

    return on_message


def _reason(ended: Ending, diagnostics: Diagnostics) -> str:
    """Return why the connection ended, in the words of the server as well; empty where that cannot be seen."""
    return ended.reason and f"{ended.reason}{diagnostics.quotation()}"


def _explained(error: ServerError, diagnostics: Diagnostics) -> ServerError:
    """Return why there is no connection, in the words of the server as far as there are any."""
    if isinstance(error, ServerRefusedError):
        error = ServerUnavailableError(f"does not accept the connection as an MCP server: {error}")
    said = diagnostics.quotation()
    return type(error)(f"{error}{said}") if said else error


class _Watch:
    """Passes on to the observer of the messages, and tells whoever waits for the end."""

    def __init__(self, observer: WireObserver | None, on_close: Callable[[], None]) -> None:
        self._observer = observer
        self._on_close = on_close

    def sent(self, message: JSONRPCMessage) -> None:
        if self._observer is not None:
            self._observer.sent(message)

    def received(self, message: JSONRPCMessage) -> None:
        if self._observer is not None:
            self._observer.received(message)

    def closed(self) -> None:
        self._on_close()
        if self._observer is not None:
            self._observer.closed()


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call
