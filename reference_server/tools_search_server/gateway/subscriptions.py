"""Subscriptions of callers to single resources.

A resource is followed at its upstream as long as any caller follows it. Each caller is notified under the URI by which
it asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from tools_search_server.gateway.caller_questions import connection_of
from tools_search_server.gateway.prompts_and_resources import owner_of
from tools_search_server.gateway.views import Views
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

_MAX_RESOURCES: Final = 1000
"""Resources that one client may follow on one connection or stream."""

_SEND_SECONDS: Final = 5
"""How long one client that does not read may hold up an update."""

_DROP_SECONDS: Final = 5

Ctx = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class _Subscription:
    upstream: Upstream
    own_uri: str
    asked_uri: str
    """The URI in the caller's request."""


class CallerSubscriptions:
    """The subscriptions to resources at one endpoint.

    Args:
        views: What its callers see.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._counts: Counter[_Subscription] = Counter()
        self._sessions: dict[Connection, dict[str, _Subscription]] = {}

    def install(self, server: Server[Any]) -> None:
        """Serve the subscriptions of legacy clients on `server`."""
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    def asked_uris(self, upstream: Upstream, uri: str) -> set[str]:
        """Return the URIs under which callers have asked for the resource that an upstream knows as `uri`."""
        return {one.asked_uri for one in self._counts if one.upstream is upstream and one.own_uri == uri}

    async def notify_sessions(self, uri: str) -> None:
        """Notify the legacy clients that have asked for `uri` that it has changed."""

        async def notify(connection: Connection) -> None:
            with anyio.move_on_after(_SEND_SECONDS):
                await connection.send_resource_updated(uri)

        async with anyio.create_task_group() as tasks:
            for connection, subscriptions in self._sessions.items():
                if uri in subscriptions:
                    tasks.start_soon(notify, connection)

    @asynccontextmanager
    async def followed(
        self, ctx: Ctx, params: SubscriptionsListenRequestParams
    ) -> AsyncGenerator[SubscriptionsListenRequestParams]:
        """Follow the resources that a modern client asks for while its stream is open.

        Yields the parameters with the resources that are followed. Others are left out, as the acknowledgement shows.

        Raises:
            MCPError: Nothing else was asked for, and none of the resources can be followed.
        """
        wanted = params.notifications
        held: dict[str, _Subscription] = {}
        refusals: list[MCPError] = []
        try:
            for uri in list(dict.fromkeys(wanted.resource_subscriptions or ()))[:_MAX_RESOURCES]:
                try:
                    held[uri] = await self._follow(ctx, uri)
                except MCPError as error:
                    logger.info("a subscription is refused: %s", error)
                    refusals.append(error)
            honored = wanted.model_copy(update={"resource_subscriptions": list(held) or None})
            if refusals and honored == SubscriptionFilter():
                raise refusals[0]
            yield params.model_copy(update={"notifications": honored})
        finally:
            for subscription in held.values():
                await self._unfollow(subscription)

    async def _subscribe(self, ctx: Ctx, params: SubscribeRequestParams) -> EmptyResult:
        """Notify the legacy client of `ctx` of changes, until it unsubscribes or its session ends.

        Raises:
            MCPError: There is no such resource, or its server does not report changes.
        """
        uri, connection = params.uri, connection_of(ctx)
        if connection not in self._sessions:
            self._sessions[connection] = {}
            connection.exit_stack.push_async_callback(self._end_session, connection)
        session = self._sessions[connection]
        if uri in session:
            return EmptyResult()
        if len(session) >= _MAX_RESOURCES:
            raise MCPError(INVALID_REQUEST, f"More than {_MAX_RESOURCES} subscriptions of one client are not carried")
        subscription = await self._follow(ctx, uri)
        if uri in session or connection not in self._sessions:  # a concurrent request, or the end of the session
            await self._unfollow(subscription)
        else:
            session[uri] = subscription
        return EmptyResult()

    async def _unsubscribe(self, ctx: Ctx, params: UnsubscribeRequestParams) -> EmptyResult:
        """End a subscription of the legacy client of `ctx`, if there is one."""
        subscription = self._sessions.get(connection_of(ctx), {}).pop(params.uri, None)
        if subscription is not None:
            await self._unfollow(subscription)
        return EmptyResult()

    async def _follow(self, ctx: Ctx, uri: str) -> _Subscription:
        seen, own = await owner_of(self._views.seen_by(ctx), uri, ctx.protocol_version)
        subscription = _Subscription(seen.upstream, own, uri)
        self._counts[subscription] += 1
        try:
            await seen.upstream.ensure_running()
            await seen.upstream.subscriptions.add(own)
        except BaseException as error:
            self._forget(subscription)
            if isinstance(error, UnavailableError):
                raise MCPError(INTERNAL_ERROR, str(error)) from error
            raise
        return subscription

    async def _unfollow(self, subscription: _Subscription) -> None:
        self._forget(subscription)
        with anyio.move_on_after(_DROP_SECONDS, shield=True):
            await subscription.upstream.subscriptions.drop(subscription.own_uri)

    def _forget(self, subscription: _Subscription) -> None:
        self._counts[subscription] -= 1
        if not self._counts[subscription]:
            del self._counts[subscription]

    async def _end_session(self, connection: Connection) -> None:
        for subscription in self._sessions.pop(connection, {}).values():
            await self._unfollow(subscription)
