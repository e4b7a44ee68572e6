"""Notifications of changes to clients of both protocol eras.

* A modern client asks for them with `subscriptions/listen`. A legacy client gets them because `initialize` promised it.
* A client is notified only of changes that it can see: `ViewNotifier` compares what each toolset shows.
* A client that does not read is given up after a few seconds, and holds up nobody else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp_types import NotificationParams, SubscriptionsListenRequestParams
from tools_search_hosts.toolsets import Toolset

from tools_search_server.access.principals import name_of_caller
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.redis_channel import LIST_EVENTS
from tools_search_server.gateway.subscriptions import CallerSubscriptions
from tools_search_server.gateway.views import View, Views
from tools_search_server.upstreams.upstream import Upstream

_MAX_SESSIONS: Final = 1024
"""Legacy sessions of one owner that are remembered; the oldest go first, since no session says goodbye."""

_SEND_SECONDS: Final = 5
"""How long one client that does not read may hold up a notification."""

Ctx = ServerRequestContext[Any, Any]


class LegacySessions:
    """The sessions of legacy clients that are notified of changes."""

    def __init__(self) -> None:
        self._of_owner: dict[str | None, deque[ServerSession]] = {}

    def add(self, session: ServerSession, owner: str | None = None) -> None:
        """Remember a session, and the principal that has opened it if there are principals."""
        self._of_owner.setdefault(owner, deque(maxlen=_MAX_SESSIONS)).append(session)

    async def notify(self, event: ServerEvent, is_meant: Callable[[str | None], bool] = lambda _: True) -> None:
        """Notify the sessions whose owner `is_meant`; returns when each was notified or given up."""
        async with anyio.create_task_group() as tasks:
            for owner, sessions in self._of_owner.items():
                if is_meant(owner):
                    for session in sessions:
                        tasks.start_soon(notify_session, session, event)


async def notify_session(session: ServerSession, event: ServerEvent) -> None:
    """Notify one legacy session of a change of a list."""
    with anyio.move_on_after(_SEND_SECONDS):
        match event:
            case ToolsListChanged():
                await session.send_tool_list_changed()
            case PromptsListChanged():
                await session.send_prompt_list_changed()
            case ResourcesListChanged():
                await session.send_resource_list_changed()
            case ResourceUpdated():
                pass  # only for sessions that have subscribed to the resource


async def declare_list_changes(ctx: Ctx, call_next: CallNext) -> HandlerResult:
    """Declare `tools.listChanged` in `initialize`, as a middleware: the SDK's HTTP entry has no option for it."""
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        result.setdefault("capabilities", {}).setdefault("tools", {})["listChanged"] = True
    return result


@dataclass
class _Audience:
    """The callers with one toolset."""

    bus: SubscriptionBus
    listen: ListenHandler
    announced: object
    """The contents of their list when they were last notified."""


class ViewNotifier:
    """Notifies the clients of one endpoint, each of changes in its own view.

    Args:
        gateway: The upstreams.
        views: What callers see of them.
        endpoint: Name of the endpoint, the same at all replicas.
        listed: Returns what the list of callers with a view holds; by default all its tools.
    """

    def __init__(
        self,
        gateway: Gateway,
        views: Views,
        endpoint: str,
        listed: Callable[[View], object] = attrgetter("contents"),
    ) -> None:
        self._access = gateway.access
        self._replicas = gateway.replicas
        self._views = views
        self._endpoint = endpoint
        self._listed = listed
        self._subscriptions = CallerSubscriptions(views)
        self._sessions = LegacySessions()
        self._audiences: dict[str, _Audience] = {}
        for toolset in self._access.toolsets:
            self._audience(toolset)

    def install(self, server: Server[Any]) -> None:
        """Serve subscriptions on `server` and declare them in its capabilities."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        self._subscriptions.install(server)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._remember)
        server.middleware.append(declare_list_changes)

    async def announce(self) -> None:
        """Notify the clients whose list has changed since they were notified last."""
        async with anyio.create_task_group() as tasks:
            for toolset in self._access.toolsets:
                audience = self._audience(toolset)
                listed = self._listed(self._views.of(toolset))
                if listed != audience.announced:
                    audience.announced = listed
                    tasks.start_soon(self._notify, toolset, ToolsListChanged())

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Notify the clients that see more of the upstream than single tools."""
        if not isinstance(event, ResourceUpdated):
            await self._publish(upstream, event)
            return
        for uri in self._subscriptions.asked_uris(upstream, event.uri):
            await self._publish(upstream, ResourceUpdated(uri))
            await self._subscriptions.notify_sessions(uri)

    async def _publish(self, upstream: Upstream, event: ServerEvent) -> None:
        async with anyio.create_task_group() as tasks:
            for toolset in self._access.toolsets:
                rule = toolset.rule(upstream.name)
                if rule is not None and rule.shows_more:
                    tasks.start_soon(self._notify, toolset, event)

    async def missed(self) -> None:
        """Notify the legacy clients that any list may have changed; the bus notifies the modern ones."""
        async with anyio.create_task_group() as tasks:
            for event in LIST_EVENTS.values():
                tasks.start_soon(self._sessions.notify, event)

    def close(self) -> None:
        """End the open subscriptions of modern clients in good order."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def _notify(self, toolset: Toolset, event: ServerEvent) -> None:
        await self._audience(toolset).bus.publish(event)
        await self._sessions.notify(event, partial(self._has_toolset, toolset.name))

    def _audience(self, toolset: Toolset) -> _Audience:
        if toolset.name not in self._audiences:
            bus = self._replicas.bus(self._endpoint, toolset.name)
            listed = self._listed(self._views.of(toolset))
            self._audiences[toolset.name] = _Audience(bus, ListenHandler(bus), listed)
        return self._audiences[toolset.name]

    def _has_toolset(self, toolset: str, principal: str | None) -> bool:
        """Return whether a principal has a toolset now: since it opened its session, it may have been given another."""
        now = self._access.toolset_of(principal)
        return now is not None and now.name == toolset

    async def _listen(self, ctx: Ctx, params: SubscriptionsListenRequestParams) -> HandlerResult:
        async with self._subscriptions.followed(ctx, params) as followed:
            return await self._audience(self._views.toolset_of(ctx)).listen(ctx, followed)

    async def _remember(self, ctx: Ctx, _: NotificationParams) -> None:
        self._sessions.add(ctx.session, name_of_caller(ctx, self._access.principals))
