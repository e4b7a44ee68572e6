"""Change notifications to clients of both protocol eras.

* A modern client requests them with `subscriptions/listen`. A legacy client gets them because `initialize` declared
  them.
* Clients are notified only of changes that they can see: `ViewNotifier` compares the views of each toolset.
* Each legacy session has a task that sends its notifications, and each modern subscription has a buffer, so a client
  that does not read delays no other. Sending to it is abandoned after a few seconds.
* The gateway subscribes to a resource at its upstream while any caller has subscribed to it. Each caller is notified
  with the URI in its own request.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from tools_search_hosts.toolsets import Toolset

from tools_search_server.access.principals import caller_name
from tools_search_server.gateway.caller_questions import connection_of
from tools_search_server.gateway.prompts_and_resources import owner_of
from tools_search_server.gateway.views import Ctx, View, Views
from tools_search_server.upstreams.notifications import LIST_EVENTS
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

_SEND_SECONDS: Final = 5
"""How long a client that does not read can delay its next notification."""

_MAX_RESOURCES: Final = 1000
"""Maximum resource subscriptions of one client on one connection or stream."""


class LegacySessions:
    """The sessions of legacy clients to notify of changes, until they end."""

    def __init__(self) -> None:
        self.owners: dict[Connection, str | None] = {}
        """The principals that opened them; `None` without principals."""
        self._unsent: dict[Connection, dict[ServerEvent, None]] = {}
        """The notifications that wait, of each session to which some are being sent."""
        self._tasks: TaskGroup | None = None

    def install(self, server: Server[Any], offered: Collection[str] = ("tools",)) -> None:
        """Register the sessions of `server`, and declare `listChanged` for the `offered` lists to them."""

        async def remember(ctx: Ctx, _: NotificationParams) -> None:
            self.add(connection_of(ctx))

        server.add_notification_handler("notifications/initialized", NotificationParams, remember)
        server.middleware.append(partial(_declare_list_changes, offered))

    def add(self, connection: Connection) -> None:
        """Register the current caller's session."""
        # Once, although a client may send `notifications/initialized` any number of times.
        if connection not in self.owners:
            connection.exit_stack.callback(self.owners.pop, connection, None)
        self.owners[connection] = caller_name()

    async def run(self) -> None:
        """Send notifications to the sessions until cancelled. Before, there is no session to notify."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await anyio.sleep_forever()

    def notify(self, event: ServerEvent, is_meant: Callable[[str | None], bool] = lambda _: True) -> None:
        """Notify the sessions whose owner `is_meant` soon."""
        for connection, owner in self.owners.items():
            if is_meant(owner):
                self.post(connection, event)

    def post(self, connection: Connection, event: ServerEvent) -> None:
        """Notify a session soon, after earlier events. An event that still waits is not sent twice."""
        if (unsent := self._unsent.get(connection)) is not None:
            unsent[event] = None
        elif self._tasks is not None:
            self._unsent[connection] = {event: None}
            self._tasks.start_soon(self._send, connection)

    def announce(self) -> None:
        """Notify sessions whose own list of tools has changed. Sessions of this class have none."""

    async def _send(self, connection: Connection) -> None:
        try:
            while unsent := self._unsent[connection]:
                event = next(iter(unsent))
                del unsent[event]  # before it is sent: the same event during the notification is another one
                with anyio.move_on_after(_SEND_SECONDS):
                    await _notify(connection, event)
        finally:
            del self._unsent[connection]


async def _notify(connection: Connection, event: ServerEvent) -> None:
    match event:
        case ToolsListChanged():
            await connection.send_tool_list_changed()
        case PromptsListChanged():
            await connection.send_prompt_list_changed()
        case ResourcesListChanged():
            await connection.send_resource_list_changed()
        case ResourceUpdated(uri):
            await connection.send_resource_updated(uri)


async def _declare_list_changes(offered: Iterable[str], ctx: Ctx, call_next: CallNext) -> HandlerResult:
    """Middleware that declares `listChanged` in `initialize`, since the SDK's HTTP entry point has no option for it."""
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        for name in offered:
            result.setdefault("capabilities", {}).setdefault(name, {})["listChanged"] = True
    return result


@dataclass
class _Audience:
    """The callers with one toolset."""

    bus: SubscriptionBus
    listen: ListenHandler
    announced: object
    """The contents of their list at the last notification."""


@dataclass
class ViewNotifier:
    """Notifies each client of one endpoint of changes in its own view."""

    views: Views
    endpoint: str
    """The endpoint's name; the same at all replicas."""
    listed: Callable[[View], object]
    """Returns a value that changes when the `tools/list` of a view's callers does."""
    sessions: LegacySessions

    def __post_init__(self) -> None:
        self._access = self.views.gateway.access
        self._subscriptions = _Subscriptions(self.views)
        self._audiences: dict[str, _Audience] = {}
        # Make the audiences before any change, so that each has a list to compare the first change with.
        for toolset in self._access.toolsets:
            self._audience(toolset)

    def install(self, server: Server[Any]) -> None:
        """Serve subscriptions on `server` and declare them in its capabilities."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        subscriptions = self._subscriptions
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, subscriptions.subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, subscriptions.unsubscribe)
        self.sessions.install(server)

    async def announce(self) -> None:
        """Notify the clients whose list has changed since their last notification."""
        async with anyio.create_task_group() as tasks:
            for toolset in self._access.toolsets:
                audience = self._audience(toolset)
                listed = self.listed(self.views.of(toolset))
                if listed != audience.announced:
                    audience.announced = listed  # at once: a change during the notification is another one
                    tasks.start_soon(self._notify, toolset, ToolsListChanged())
            self.sessions.announce()

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Notify the clients that see more than single tools of the upstream."""
        events: list[ServerEvent] = [event]
        # The same resource can have been requested by its public and by its own URI.
        if isinstance(event, ResourceUpdated):
            events = [ResourceUpdated(uri) for uri in self._subscriptions.asked_uris(upstream, event.uri)]
        for published in events:
            async with anyio.create_task_group() as tasks:
                for toolset in self._access.toolsets:
                    if _shows_more(toolset, upstream):
                        tasks.start_soon(self._notify, toolset, published)
            if isinstance(published, ResourceUpdated):
                for session, owner in self._subscriptions.sessions_that_follow(published.uri):
                    now = self._access.toolset_of(owner)  # it may have changed since the subscription
                    if now is not None and _shows_more(now, upstream):
                        self.sessions.post(session, published)

    def missed(self) -> None:
        """Notify legacy clients that any list may have changed. The bus notifies modern clients."""
        for event in LIST_EVENTS.values():
            self.sessions.notify(event)

    def close(self) -> None:
        """End the open subscriptions of modern clients with a result, as the protocol requires."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def _notify(self, toolset: Toolset, event: ServerEvent) -> None:
        def has_toolset(principal: str | None) -> bool:  # currently: it may have changed since the session opened
            now = self._access.toolset_of(principal)
            return now is not None and now.name == toolset.name

        await self._audience(toolset).bus.publish(event)
        # Of resources, only the sessions that subscribed are notified: `publish` does that.
        if not isinstance(event, ResourceUpdated):
            self.sessions.notify(event, has_toolset)

    def _audience(self, toolset: Toolset) -> _Audience:
        if toolset.name not in self._audiences:
            bus = self.views.gateway.replicas.bus(self.endpoint, toolset.name)
            listed = self.listed(self.views.of(toolset))
            self._audiences[toolset.name] = _Audience(bus, ListenHandler(bus), listed)
        return self._audiences[toolset.name]

    async def _listen(self, ctx: Ctx, params: SubscriptionsListenRequestParams) -> HandlerResult:
        async with self._subscriptions.followed(ctx, params) as followed:
            return await self._audience(self.views.toolset()).listen(ctx, followed)


def _shows_more(toolset: Toolset, upstream: Upstream) -> bool:
    rule = toolset.rule(upstream.name)
    return rule is not None and rule.shows_more


class _Subscriptions:
    """The subscriptions to resources at one endpoint."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._counts: Counter[tuple[Upstream, str, str]] = Counter()
        """Number of subscriptions by upstream, the resource's URI there, and the URI in the caller's request."""
        self._sessions: dict[Connection, tuple[str | None, dict[str, AsyncExitStack]]] = {}
        """Each legacy session's owner, and exit stacks that end its subscriptions, by URI."""

    def asked_uris(self, upstream: Upstream, uri: str) -> set[str]:
        """Return the URIs in callers' requests for the resource with `uri` at an upstream."""
        return {asked for server, own, asked in self._counts if server is upstream and own == uri}

    def sessions_that_follow(self, uri: str) -> list[tuple[Connection, str | None]]:
        """Return the sessions of legacy clients that subscribed to `uri`, with their owners."""
        return [(session, owner) for session, (owner, subscriptions) in self._sessions.items() if uri in subscriptions]

    @asynccontextmanager
    async def followed(
        self, ctx: Ctx, params: SubscriptionsListenRequestParams
    ) -> AsyncGenerator[SubscriptionsListenRequestParams]:
        """Subscribe to the resources that a modern client requests, while its stream is open.

        Yields the parameters with only the resources whose subscription succeeded, for the acknowledgement.

        Raises:
            MCPError: All subscriptions failed, and the client requested nothing else.
        """
        wanted = params.notifications
        held: list[str] = []
        refusals: list[MCPError] = []
        async with AsyncExitStack() as subscriptions:
            for uri in (wanted.resource_subscriptions or [])[:_MAX_RESOURCES]:
                try:
                    await subscriptions.enter_async_context(self._subscription(ctx, uri))
                    held.append(uri)
                except MCPError as error:
                    logger.info("a subscription was refused: %s", error)
                    refusals.append(error)
            honored = wanted.model_copy(update={"resource_subscriptions": held or None})
            if refusals and honored == SubscriptionFilter():
                raise refusals[0]
            yield params.model_copy(update={"notifications": honored})

    async def subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Notify the legacy client of `ctx` of changes until it unsubscribes or its session ends.

        Raises:
            MCPError: There is no such resource, or its server does not report changes.
        """
        uri, connection = params.uri, connection_of(ctx)
        if connection not in self._sessions:
            self._sessions[connection] = caller_name(), {}
            connection.exit_stack.push_async_callback(self._end_session, connection)
        _, session = self._sessions[connection]
        if uri not in session and len(session) >= _MAX_RESOURCES:
            raise MCPError(INVALID_REQUEST, f"A client can have at most {_MAX_RESOURCES} subscriptions")
        subscription = AsyncExitStack()
        session.setdefault(uri, subscription)  # at once, because requests that are open count toward the limit
        try:
            await subscription.enter_async_context(self._subscription(ctx, uri))
        except BaseException:
            if session.get(uri) is subscription:
                del session[uri]
            raise
        # It already had one, was ended meanwhile, or its session was.
        if session.get(uri) is not subscription or connection not in self._sessions:
            await subscription.aclose()
        return EmptyResult()

    async def unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """End a subscription of the legacy client of `ctx`, if there is one."""
        _, session = self._sessions.get(connection_of(ctx), (None, {}))
        if (subscription := session.pop(params.uri, None)) is not None:
            await subscription.aclose()
        return EmptyResult()

    async def _end_session(self, connection: Connection) -> None:
        _, session = self._sessions.pop(connection)
        for subscription in [*session.values()]:
            await subscription.aclose()

    @asynccontextmanager
    async def _subscription(self, ctx: Ctx, uri: str) -> AsyncGenerator[None]:
        seen, own = await owner_of(self._views.current(), uri, ctx.protocol_version)
        upstream, key = seen.upstream, (seen.upstream, own, uri)
        self._counts[key] += 1
        try:
            await upstream.ensure_running()
            await upstream.subscriptions.add(own)
            try:
                yield
            finally:
                upstream.subscriptions.drop(own)
        except UnavailableError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        finally:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
