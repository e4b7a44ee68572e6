"""Notifications from one upstream about changes of its lists and of single resources.

A legacy server sends them unsolicited on the connection. For a modern one, this module opens streams (MCP 2026-07-28,
`subscriptions/listen`), and reopens lost streams after increasing pauses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_ext_tools_search.client import raw_request
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ElicitCompleteNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from tools_search_server.upstreams.state import Retries, UnavailableError, explained, is_modern

logger = logging.getLogger(__name__)

_SUBSCRIBE_SECONDS: Final = 10
"""Timeout for a server to accept or end a subscription."""

_REST_SECONDS: Final = 10
"""Pause in subscriptions to a server that did not accept one in time, since a caller may request a thousand."""

_SUBSCRIBED_AT_ONCE: Final = 16

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
"""A capability with a list that can change."""

LIST_EVENTS: Final[Mapping[ListKind, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}

_LEGACY_EVENTS: Final[Mapping[type, ServerEvent]] = {
    ToolListChangedNotification: LIST_EVENTS["tools"],
    PromptListChangedNotification: LIST_EVENTS["prompts"],
    ResourceListChangedNotification: LIST_EVENTS["resources"],
}


@dataclass
class Notifications:
    """A server's notifications on one connection."""

    server: str
    on_event: Callable[[ServerEvent, bool], None]
    """Called with each change, in order, and whether it is certain. It is uncertain if it may have been missed."""

    on_elicitation_complete: Callable[[str], Awaitable[None]]
    """Called with the id of a question that was answered on a browser page."""

    hears: bool = True
    """Whether the server's announcements of list changes are currently received."""

    _has_streams: bool = False
    _has_warned: bool = False

    async def on_message(self, message: object) -> None:
        """Handle a message that is not an answer. Changes of a modern server arrive on its streams instead."""
        if not self._has_streams and (event := _LEGACY_EVENTS.get(type(message))) is not None:
            self.on_event(event, True)
        elif not self._has_streams and isinstance(message, ResourceUpdatedNotification):
            self.on_event(ResourceUpdated(message.params.uri), True)
        elif isinstance(message, ElicitCompleteNotification):
            await self.on_elicitation_complete(message.params.elicitation_id)
        elif isinstance(message, Exception) and not self._has_warned:
            self._has_warned = True  # once per connection: a program may print such a line for each request
            logger.warning("%s sends lines that are no messages of the protocol; they are ignored", self.server)

    async def follow(self, client: Client) -> None:
        """Subscribe to the list changes that a modern server declares."""
        if not is_modern(client):
            return
        self._has_streams = True
        offered = client.server_capabilities
        followed = {
            f"{kind}_list_changed": event
            for kind, event in LIST_EVENTS.items()
            if (capability := getattr(offered, kind)) is not None and capability.list_changed
        }
        if not followed:
            return
        filters: Any = dict.fromkeys(followed, True)
        retries = Retries()
        while True:
            try:
                async with client.listen(**filters) as events:
                    self.hears = True
                    # The lists were read before the subscription began, and may have changed since.
                    for event in followed.values():
                        self.on_event(event, False)
                    async for event in events:
                        self.on_event(event, True)
            except SubscriptionLost:
                logger.debug("%s: the subscription was lost", self.server)
            except MCPError as error:  # refused for good, or by a proxy while the server is away
                if self.hears:
                    logger.warning("%s: cannot follow changes of its lists: %s", self.server, explained(error))
                    self.hears = False
                    # Lists that were read while changes were announced are kept without a time limit.
                    for event in followed.values():
                        self.on_event(event, False)
            await retries.pause()


@dataclass
class _Followed:
    """A resource to which callers subscribe, and its subscription at the server."""

    callers: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held during subscribe and unsubscribe requests, so that they do not overlap."""
    is_open: bool = False
    stream: anyio.CancelScope | None = None
    """The stream, if the server is modern."""


class ResourceSubscriptions:
    """The resources of one server to which callers subscribe, across all its connections.

    Each has one subscription at the server, regardless of the number of callers:

        from       to         when                                                     by
        ---------  ---------  -------------------------------------------------------  ------------------
        (unknown)  requested  the first caller subscribes                              add
        requested  open       the server has accepted                                  _open
        requested  (unknown)  the server refuses, or does not accept in time           add
        open       open       another caller subscribes, or one of several ends        add, drop
        open       requested  there is a new connection                                keep, _restore
        open       ending     the last caller ends, on a legacy server                 drop, _close
        open       (unknown)  the last caller ends, on a modern server                 drop, _close
        ending     (unknown)  the server has answered, or not in time                  _unsubscribe
        ending     open       a caller has subscribed again before the request         _unsubscribe
        ending     requested  the same during the request: the lock keeps them apart   _unsubscribe, _open

    `on_update` is called with the URI of each resource that has changed, or may have changed during a lost connection.
    `is_watched` says whether the gateway itself is subscribed to a resource on the current legacy connection.
    """

    def __init__(self, server: str, on_update: Callable[[str], None], is_watched: Callable[[str], bool]) -> None:
        self._server = server
        self._on_update = on_update
        self._is_watched = is_watched
        self._followed: dict[str, _Followed] = {}
        self._limiter = anyio.CapacityLimiter(_SUBSCRIBED_AT_ONCE)
        self._rests_until = -math.inf
        self._connection: tuple[Client, TaskGroup] | None = None

    @property
    def is_any_wanted(self) -> bool:
        """Whether any caller subscribes to a resource."""
        return any(followed.callers for followed in self._followed.values())

    async def add(self, uri: str) -> None:
        """Add a caller's subscription.

        Raises:
            MCPError: The server refused, took too long, or does not support subscriptions.
            UnavailableError: The server is not connected.
        """
        followed = self._followed.setdefault(uri, _Followed())
        followed.callers += 1  # first, so that no other caller's end closes the subscription meanwhile
        try:
            if not followed.is_open and anyio.current_time() < self._rests_until:
                raise self._late()
            await self._open(uri, followed)
        except BaseException:
            self.drop(uri)
            raise

    def drop(self, uri: str) -> None:
        """End a caller's subscription, without waiting for the server, which may hang."""
        followed = self._followed[uri]
        followed.callers -= 1
        if not followed.callers:
            self._close(uri, followed)

    def note_update(self, uri: str) -> None:
        """Handle the server's announcement that `uri` has changed, which may be part of a subscribed resource."""
        for wanted in _updated_by(uri, self._followed):
            self._on_update(wanted)

    async def keep(self, client: Client) -> None:
        """Maintain the subscriptions on a new connection. Never returns."""
        async with anyio.create_task_group() as tasks:
            self._connection = client, tasks
            # Subscriptions end with their connection, and so do those that were ending.
            self._followed = {uri: followed for uri, followed in self._followed.items() if followed.callers}
            for uri, followed in self._followed.items():
                followed.is_open, followed.stream = False, None
                tasks.start_soon(self._restore, uri, followed)
            try:
                await anyio.sleep_forever()
            finally:
                self._connection = None

    async def _restore(self, uri: str, followed: _Followed) -> None:
        async with self._limiter:
            try:
                await self._open(uri, followed)
            except (MCPError, UnavailableError) as error:
                logger.warning("%s: changes of %r are not followed: %s", self._server, uri, error)
        self._on_update(uri)  # it may have changed while there was no connection
        if not followed.callers:
            self._close(uri, followed)

    async def _open(self, uri: str, followed: _Followed) -> None:
        try:
            with anyio.fail_after(_SUBSCRIBE_SECONDS):
                async with followed.lock:
                    if not followed.is_open:
                        followed.stream = await self._subscribed(uri)
                        followed.is_open = True
        except TimeoutError as error:
            self._rests_until = anyio.current_time() + _REST_SECONDS
            raise self._late() from error
        except SubscriptionLost as error:
            text = f"The MCP server {self._server!r} did not accept the subscription"
            raise MCPError(INTERNAL_ERROR, text) from error

    def _late(self) -> MCPError:
        text = f"The MCP server {self._server!r} does not accept subscriptions in time; try again in {_REST_SECONDS} s"
        return MCPError(INTERNAL_ERROR, text)

    async def _subscribed(self, uri: str) -> anyio.CancelScope | None:
        """Subscribe. Return the stream if the server is modern."""
        if self._connection is None:
            raise UnavailableError(f"The MCP server {self._server!r} is not connected; subscribe again when it is back")
        client, tasks = self._connection
        offered = client.server_capabilities.resources
        if offered is None or not offered.subscribe:
            text = f"The MCP server {self._server!r} does not announce changes of its resources"
            raise MCPError(INVALID_REQUEST, text)
        if is_modern(client):
            return await tasks.start(self._listen, client, uri)
        await raw_request(client, "resources/subscribe", {"uri": uri}, seconds=None)
        return None

    def _close(self, uri: str, followed: _Followed) -> None:
        if followed.stream is not None:
            followed.stream.cancel()
        elif followed.is_open and self._connection is not None and not self._is_watched(uri):
            client, tasks = self._connection
            tasks.start_soon(self._unsubscribe, client, uri, followed)
            return
        if not followed.lock.locked():  # otherwise it is being restored, which checks it again
            self._followed.pop(uri, None)

    async def _unsubscribe(self, client: Client, uri: str, followed: _Followed) -> None:
        async with followed.lock:
            if followed.callers:  # again
                return
            try:
                await raw_request(client, "resources/unsubscribe", {"uri": uri}, seconds=_SUBSCRIBE_SECONDS)
            except MCPError as error:
                logger.debug("%s: did not end the subscription to %r: %s", self._server, uri, error)
            followed.is_open = False
        if not followed.callers and self._followed.get(uri) is followed:
            del self._followed[uri]

    async def _listen(self, client: Client, uri: str, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        # One stream per resource, so that starting or ending one does not affect the others.
        with anyio.CancelScope() as scope:
            is_first, retries = True, Retries()
            while True:
                try:
                    async with client.listen(resource_subscriptions=[uri]) as events:
                        if uri not in (events.honored.resource_subscriptions or ()):
                            raise MCPError(INVALID_REQUEST, f"The MCP server {self._server!r} has no such resource")
                        if is_first:
                            task_status.started(scope)
                        else:
                            self._on_update(uri)  # it may have changed while the stream was lost
                        is_first = False
                        async for event in events:
                            if isinstance(event, ResourceUpdated):
                                self.note_update(event.uri)
                except (MCPError, SubscriptionLost) as error:
                    if is_first:
                        raise
                    logger.debug("%s: the subscription to %r was lost: %s", self._server, uri, error)
                await retries.pause()


class WatchedResources:
    """Resources of one connected server to which the gateway itself subscribes.

    Args:
        client: The connection.
        tasks: The task group of the connection.
        on_update: Called with the URI of each that has changed. Changes during a lost stream are missed.
    """

    def __init__(self, client: Client, tasks: TaskGroup, on_update: Callable[[str], None]) -> None:
        self._client = client
        self._tasks = tasks
        self._on_update = on_update
        self.uris: frozenset[str] = frozenset()
        self._limiter = anyio.CapacityLimiter(_SUBSCRIBED_AT_ONCE)
        self._stream = anyio.CancelScope()

    async def follow(self, uris: Iterable[str]) -> None:
        """Watch these resources from now on. The server may refuse, or not accept in time."""
        wanted, offered = frozenset(uris), self._client.server_capabilities.resources
        new, self.uris = wanted - self.uris, wanted
        if offered is None or not offered.subscribe or not new:
            return
        with anyio.move_on_after(_SUBSCRIBE_SECONDS):
            if is_modern(self._client):
                self._stream.cancel()
                self._stream = await self._tasks.start(self._listen, wanted)
                return
            async with anyio.create_task_group() as requests:
                for uri in new:
                    requests.start_soon(self._subscribe, uri)

    async def _subscribe(self, uri: str) -> None:
        async with self._limiter:
            try:
                await raw_request(self._client, "resources/subscribe", {"uri": uri}, seconds=None)
            except MCPError as error:
                logger.debug("changes of %r are not followed: %s", uri, error)

    def note_update(self, uri: str) -> None:
        """Handle an announcement on a legacy connection."""
        for watched in {uri, *_updated_by(uri, self.uris)}:
            self._on_update(watched)

    async def _listen(self, uris: frozenset[str], *, task_status: TaskStatus[anyio.CancelScope]) -> None:
        # One stream for all, because there can be many.
        with anyio.CancelScope() as scope:
            is_accepted, retries = False, Retries()
            while True:
                try:
                    async with self._client.listen(resource_subscriptions=sorted(uris)) as events:
                        if not is_accepted:
                            task_status.started(scope)
                        is_accepted = True
                        async for event in events:
                            if isinstance(event, ResourceUpdated):
                                self.note_update(event.uri)
                except (MCPError, SubscriptionLost) as error:
                    logger.debug("changes of resources are not followed: %s", error)
                    if not is_accepted:
                        task_status.started(scope)
                        return
                await retries.pause()


def _updated_by(uri: str, followed: Collection[str]) -> list[str]:
    """Return the followed resources that an announced update concerns: `uri`, or else those that it is a part of."""
    # A server may announce a part of the resource to which it has accepted a subscription.
    parents = [wanted for wanted in followed if uri.startswith(wanted.rstrip("/") + "/")]
    return [uri] if uri in followed else parents
