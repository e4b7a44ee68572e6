"""Announcing changes to those callers who see what has changed, and to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.context import HandlerResult
from mcp.server.subscriptions import ResourceUpdated, ServerEvent, SubscriptionBus
from mcp_types import (
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from tools_search_hosts.toolsets import Toolset

from tools_search_server.access.callers import name_of_caller
from tools_search_server.access.configuration import Access
from tools_search_server.gateway.changes import LegacySessions, ListChanges, declare_changes
from tools_search_server.gateway.replica_news import LIST_EVENTS
from tools_search_server.gateway.subscriptions import Subscriptions
from tools_search_server.gateway.views import View, Views
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["ViewChanges"]


class ViewChanges:
    """Tells every client that asked when its own `tools/list` answers differently.

    Args:
        views: What the callers see.
        access: Whose toolsets are theirs.
        listed: What of a view stands in their lists; by default all of its tools.
        bus: Returns what carries changes to the modern callers with a toolset, at other replicas as well.
    """

    def __init__(
        self,
        views: Views,
        access: Access,
        *,
        listed: Callable[[View], object] = attrgetter("contents"),
        bus: Callable[[str], SubscriptionBus],
    ) -> None:
        self._views = views
        self._listed = listed
        self._subscriptions = Subscriptions(views)
        self._bus = bus
        self._access = access
        self._audiences: dict[str, ListChanges] = {}
        self._sessions = LegacySessions()
        self._told: dict[str, object] = {}
        for toolset in access.toolsets:
            self._audience_of(toolset)

    def install(self, server: Server[Any]) -> None:
        """Serve subscriptions on `server` and say so in its capabilities."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._remember)
        server.middleware.append(declare_changes)

    async def announce(self) -> None:
        """Tell those whose view has changed since they were told last; returns when each was told or given up."""
        async with anyio.create_task_group() as tasks:
            for toolset in self._access.toolsets:
                audience = self._audience_of(toolset)
                listed = self._listed(self._views.of(toolset))
                if listed != self._told[toolset.name]:
                    tasks.start_soon(audience.announce)
                self._told[toolset.name] = listed

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Tell those who see more of the server than its tools; returns when each was told or given up."""
        if isinstance(event, ResourceUpdated):
            for uri in self._subscriptions.asked_uris(upstream, event.uri):
                await self._publish(upstream, ResourceUpdated(uri))
                await self._subscriptions.tell_sessions(uri)
        else:
            await self._publish(upstream, event)

    async def _publish(self, upstream: Upstream, event: ServerEvent) -> None:
        async with anyio.create_task_group() as tasks:
            for toolset in self._access.toolsets:
                rule = toolset.rule(upstream.name)
                if rule is not None and rule.shows_more:
                    tasks.start_soon(self._audience_of(toolset).publish, event)

    async def missed(self) -> None:
        """Tell the legacy clients that any list may have changed; the bus tells the modern ones."""
        async with anyio.create_task_group() as tasks:
            for event in LIST_EVENTS.values():
                tasks.start_soon(self._sessions.tell, event)

    def close(self) -> None:
        """End the open subscriptions of modern clients in good order."""
        for audience in self._audiences.values():
            audience.close()

    def _audience(self, ctx: ServerRequestContext[Any, Any]) -> ListChanges:
        return self._audience_of(self._views.toolset_of(ctx))

    def _audience_of(self, toolset: Toolset) -> ListChanges:
        if toolset.name not in self._audiences:
            is_meant = partial(self._has, toolset.name)
            self._audiences[toolset.name] = ListChanges(self._bus(toolset.name), self._sessions, is_meant)
            self._told[toolset.name] = self._listed(self._views.of(toolset))
        return self._audiences[toolset.name]

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> HandlerResult:
        async with self._subscriptions.followed(ctx, params) as followed:
            return await self._audience(ctx).listen(ctx, followed)

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        await self._subscriptions.subscribe(ctx, params.uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        await self._subscriptions.unsubscribe(ctx, params.uri)
        return EmptyResult()

    async def _remember(self, ctx: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        self._sessions.add(ctx.session, name_of_caller(ctx, self._access.principals))

    def _has(self, toolset: str, principal: str | None) -> bool:
        """Tell whether a principal has a toolset now, which may be another one than when it opened its session."""
        now = self._access.toolset_of(principal)
        return now is not None and now.name == toolset
