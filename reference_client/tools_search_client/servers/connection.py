"""Connecting to one configured server, in either era, and following its list changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import anyio
from mcp import Client
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.client.endings import Ending
from mcp_types import Implementation, JSONRPCMessage
from tools_search_hosts import Target
from tools_search_hosts.child_process import StrayLineError

from tools_search_client.errors import ServerError, ServerRefused, ServerUnavailable
from tools_search_client.servers.changes import ListChanges, announces_changes
from tools_search_client.servers.diagnostics import Diagnostics, kept_diagnostics
from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools
from tools_search_client.servers.faults import as_server_error
from tools_search_client.servers.transport import open_transport
from tools_search_client.servers.wire import Streams, WireObserver
from tools_search_client.text import shorten
from tools_search_client.version import VERSION

__all__ = ["ConnectionOptions", "Negotiation", "open_server"]

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
    if isinstance(error, ServerRefused):
        error = ServerUnavailable(f"does not accept the connection as an MCP server: {error}")
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


def _nothing() -> None:
    """Nobody asked to be told."""
