"""Servers whose connection the host manages: its own `mcp.Client` or `ClientSession`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from mcp import Client, ClientSession
from tools_search_hosts import ServerEntry, Target, UnusableTarget

from tools_search_client.errors import HostError, ServerUnavailableError
from tools_search_client.servers.connection import ConnectionOptions, follow_changes
from tools_search_client.servers.faults import host_faults
from tools_search_client.servers.server_tools import ServerTools, is_connected

_logger = logging.getLogger(__name__)

OwnConnection: TypeAlias = Client | ClientSession
"""A connection that the host opens and closes."""


@dataclass(frozen=True, slots=True)
class ConnectedServer(ServerEntry):
    """A server for a `Configuration` whose connection the host manages, in addition to the servers in a file.

    The connection is neither opened nor closed here. If it is lost, the server is reported as failed until the host has
    a new one. For search, the client must declare the extension: `Client(…, extensions=[TOOLS_SEARCH])`. The host's
    transport determines the limits on answer sizes.
    """

    target: Target = field(default=UnusableTarget(("the host connects to it",)), init=False, repr=False)
    connection: OwnConnection | Callable[[], OwnConnection | None] = field(kw_only=True)
    """The open connection, or a function that returns the current one, or `None` if there is none."""

    def current(self) -> Client | None:
        """Return the current connection, or `None` if there is none.

        Raises:
            HostError: It is not a connection, or the function for it raised.
        """
        with host_faults("`connection`"):
            held: Any = self.connection() if callable(self.connection) else self.connection
        if not isinstance(held, OwnConnection | None):
            name = f"{type(held).__module__}.{type(held).__qualname__}"
            remedy = "pass an `mcp.Client`, an `mcp.ClientSession`, or a function that returns one or `None`"
            raise HostError("`connection`", TypeError(name), f"it is of type `{name}`: {remedy}")
        client = _SessionClient(held) if isinstance(held, ClientSession) else held
        return client if client is not None and is_connected(client) else None


class _SessionClient(Client):
    """A client over an existing session; it is never entered."""

    def __init__(self, session: ClientSession) -> None:
        super().__init__("http://session.invalid", cache=None)  # `Client` requires a target; this is never opened
        self._held = session

    @property
    def session(self) -> ClientSession:
        return self._held


@dataclass(eq=False, slots=True)
class HostConnection:
    """The counterpart of `SupervisedServer` for a server whose connection the host manages."""

    entry: ConnectedServer
    options: ConnectionOptions
    """Search options; connecting is up to the host."""
    on_change: Callable[[], None] = field(kw_only=True)
    """Called after the caches are cleared because the server's tools, prompts or resources changed."""
    _tools: ServerTools | None = None
    _session: ClientSession | None = None
    _fault: HostError | None = None
    _renewed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def connected(self) -> ServerTools | None:
        """The tools, if the host currently has a connection."""
        try:
            client, self._fault = self.entry.current(), None
        except HostError as error:
            client, self._fault = None, error
        if client is None:
            return None
        if self._tools is None or self._session is not client.session:
            self._tools, self._session = ServerTools(client, self.options.discovery), client.session
            self._renewed.set()
        return self._tools

    def quotation(self) -> str:
        """Return an empty string, because only the host has the server's diagnostics."""
        return ""

    async def tools(self, *, instead_of: ServerTools | None = None) -> ServerTools:
        """Return the server's tools; raises if the host has no connection, or only the one that is lost."""
        if (tools := self.connected) is None or tools is instead_of:
            raise self._fault or ServerUnavailableError("the host is not connected to it")
        return tools

    async def run(self) -> None:
        """Follow the list changes on the current connection until cancelled, if the server offers subscriptions."""
        while self.options.follow_changes is not False:
            await self._renewed.wait()
            self._renewed = anyio.Event()
            async with anyio.create_task_group() as following:
                if self._tools is not None:
                    following.start_soon(self._follow, self._tools)
                await self._renewed.wait()
                following.cancel_scope.cancel()

    async def _follow(self, tools: ServerTools) -> None:
        def changed(setting: str | None) -> None:
            tools.forget(setting)
            self.on_change()

        try:
            await follow_changes(tools.client, changed)
        except RuntimeError:  # the SDK's error for a client that was closed meanwhile
            return
        except Exception:  # one server's failure must not end the others
            _logger.exception("cannot follow changes to the tools of %r", self.entry.name)
