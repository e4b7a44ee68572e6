"""The resources of one server that somebody wants to hear of, over all its connections."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.server.subscriptions import ResourceUpdated
from mcp_ext_tools_search.client.raw import raw_request
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST

from tools_search_server.upstreams.session import is_modern
from tools_search_server.upstreams.state import UnavailableError, pauses

logger = logging.getLogger(__name__)

_SECONDS: Final = 10
"""How long a server may take to accept a subscription."""


class ResourceSubscriptions:
    """Subscribes at the server once for each resource, however many callers want it.

    Args:
        server: Its name.
        tell: Called with the URI of each resource that has changed, or may have while the connection was lost.
    """

    def __init__(self, server: str, tell: Callable[[str], None]) -> None:
        self._server = server
        self._tell = tell
        self._wanted: Counter[str] = Counter()
        self._lock = anyio.Lock()
        self._connection: tuple[Client, TaskGroup] | None = None
        self._streams: dict[str, anyio.CancelScope] = {}

    @property
    def is_any_wanted(self) -> bool:
        """Whether somebody wants to hear of a resource."""
        return bool(self._wanted)

    async def add(self, uri: str) -> None:
        """Want to hear of a resource from now on.

        Raises:
            MCPError: The server refuses, or has no subscriptions.
            UnavailableError: It is not connected.
        """
        async with self._lock:
            if not self._wanted[uri]:
                await self._open(uri)
            self._wanted[uri] += 1

    async def drop(self, uri: str) -> None:
        """Take one `add` back."""
        async with self._lock:
            self._wanted[uri] -= 1
            if self._wanted[uri] <= 0:
                del self._wanted[uri]
                await self._close(uri)

    def note(self, uri: str) -> None:
        """Take it from the server that `uri` has changed, which may be a part of what is wanted."""
        if uri in self._wanted:
            self._tell(uri)
            return
        for wanted in list(self._wanted):
            if uri.startswith(wanted.rstrip("/") + "/"):
                self._tell(wanted)

    async def keep(self, client: Client) -> None:
        """Hold what is wanted open on a new connection; never returns."""
        async with anyio.create_task_group() as tasks:
            self._connection, self._streams = (client, tasks), {}
            try:
                async with self._lock:
                    await self._restore()
                await anyio.sleep_forever()
            finally:
                self._connection = None

    async def _restore(self) -> None:
        for uri in list(self._wanted):
            try:
                await self._open(uri)
            except (MCPError, UnavailableError) as error:
                logger.warning("%s: changes of %r are not told any more: %s", self._server, uri, error)
            self._tell(uri)

    async def _open(self, uri: str) -> None:
        if self._connection is None:
            raise UnavailableError(f"The MCP server {self._server!r} is not connected; subscribe again when it is back")
        client, tasks = self._connection
        offered = client.server_capabilities.resources
        if offered is None or not offered.subscribe:
            raise MCPError(
                INVALID_REQUEST, f"The MCP server {self._server!r} does not tell of changes of its resources"
            )
        if not is_modern(client):
            await raw_request(client, "resources/subscribe", {"uri": uri}, seconds=_SECONDS)
            return
        try:
            with anyio.fail_after(_SECONDS):
                self._streams[uri] = await tasks.start(self._listen, client, uri)
        except (SubscriptionLost, TimeoutError) as error:
            raise MCPError(
                INTERNAL_ERROR, f"The MCP server {self._server!r} did not accept the subscription"
            ) from error

    async def _close(self, uri: str) -> None:
        if (stream := self._streams.pop(uri, None)) is not None:
            stream.cancel()
        elif self._connection is not None and not is_modern(self._connection[0]):
            try:
                await raw_request(self._connection[0], "resources/unsubscribe", {"uri": uri}, seconds=_SECONDS)
            except MCPError as error:
                logger.debug("%s: did not end the subscription to %r: %s", self._server, uri, error)

    async def _listen(self, client: Client, uri: str, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        """Follow one resource: a stream for each, so that neither its start nor its end disturbs another."""
        with anyio.CancelScope() as scope:
            is_first = True
            for pause in pauses():
                try:
                    async with client.listen(resource_subscriptions=[uri]) as events:
                        if uri not in (events.honored.resource_subscriptions or ()):
                            raise MCPError(INVALID_REQUEST, f"The MCP server {self._server!r} has no such resource")
                        if is_first:
                            task_status.started(scope)
                        else:  # for what has changed in between
                            self._tell(uri)
                        is_first = False
                        async for event in events:
                            if isinstance(event, ResourceUpdated):
                                self.note(event.uri)
                except (MCPError, SubscriptionLost) as error:
                    if is_first:
                        raise
                    logger.debug("%s: the subscription to %r was lost: %s", self._server, uri, error)
                await anyio.sleep(pause)
