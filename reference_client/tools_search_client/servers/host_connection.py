"""Servers to which the host itself holds the connection: an `mcp.Client` or `ClientSession` of its own."""

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
from tools_search_client.servers.discovery import ServerTools
from tools_search_client.servers.faults import host_faults

_logger = logging.getLogger(__name__)

OwnConnection: TypeAlias = Client | ClientSession | Callable[[], Client | ClientSession | None]
"""A connection that is open, or a function that returns the one of the moment, `None` while there is none."""


@dataclass(frozen=True, slots=True)
class ConnectedServer(ServerEntry):
    """A server to which the host holds the connection, for a `Configuration`, in addition to those of a file.

    It is neither opened nor closed here; where it is lost, the server is reported as failed until the host has another.
    The client declares the extension where tools are to be searched: `Client(…, extensions=[TOOLS_SEARCH])`. Bounds on
    the size of answers are those of the host's transport.
    """

    target: Target = field(default=UnusableTarget(("the host connects to it",)), init=False, repr=False)
    connection: OwnConnection = field(kw_only=True)

    def current(self) -> Client | None:
        """Return the connection of the moment, `None` where there is none.

        Raises:
            HostError: It is no connection, or the function for it raised.
        """
        with host_faults("`connection`"):
            held: Any = self.connection() if callable(self.connection) else self.connection
        if not isinstance(held, Client | ClientSession | None):
            name = f"{type(held).__module__}.{type(held).__qualname__}"
            remedy = "give an `mcp.Client`, an `mcp.ClientSession`, or a function that returns one or `None`"
            raise HostError("`connection`", TypeError(name), f"it is a `{name}`: {remedy}")
        client = _SessionClient(held) if isinstance(held, ClientSession) else held
        try:
            return None if client is None or client.session.protocol_version is None else client
        except RuntimeError:  # the SDK's word for a client that was left, or not entered yet
            return None


class _SessionClient(Client):
    """A client over a session that exists already; it is never entered."""

    def __init__(self, session: ClientSession) -> None:
        super().__init__("http://session.invalid", cache=None)
        self._held = session

    @property
    def session(self) -> ClientSession:
        return self._held


@dataclass(eq=False, slots=True)
class HostConnection:
    """What `SupervisedServer` is for a configured server, for one that the host is connected to."""

    entry: ConnectedServer
    options: ConnectionOptions
    """How it is searched; what concerns connecting is the host's."""
    on_change: Callable[[], None] = field(kw_only=True)
    """Called after what was kept has been dropped because the server's tools, prompts or resources changed."""
    _tools: ServerTools | None = None
    _session: ClientSession | None = None
    _fault: HostError | None = None
    _renewed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def connected(self) -> ServerTools | None:
        """The tools, if the host has a connection at this moment."""
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
        """Return nothing: the diagnostics of the server are the host's."""
        return ""

    async def tools(self) -> ServerTools:
        """Return the server's tools, or raise why the host has no connection to it."""
        if (tools := self.connected) is None:
            raise self._fault or ServerUnavailableError("the host has no connection to it")
        return tools

    async def run(self) -> None:
        """Follow the server's list changes until cancelled, as far as it announces them to those who listen."""
        while self.options.follow_changes is not False:
            await self._renewed.wait()
            self._renewed = anyio.Event()
            if (tools := self._tools) is not None:

                def changed(setting: str | None, of: ServerTools = tools) -> None:
                    of.forget(setting)
                    self.on_change()

                try:
                    await follow_changes(tools.client, changed)
                except RuntimeError:  # the SDK's word for a client that was left meanwhile
                    continue
                except Exception:  # the boundary between servers: none may end the others
                    _logger.exception("changes of the tools of %r are not followed", self.entry.name)
