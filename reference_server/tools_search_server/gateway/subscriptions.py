"""Callers who want to hear of changes of single resources, and under which URI each of them knows its resource."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, SubscriptionFilter, SubscriptionsListenRequestParams

from tools_search_server.gateway.caller_session import connection_of
from tools_search_server.gateway.resources import owner_of
from tools_search_server.gateway.views import Views
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["Subscriptions"]

logger = logging.getLogger(__name__)

_MAX_EACH: Final = 1000
"""Resources that one client may follow on one connection or stream."""

_SEND_SECONDS: Final = 5
"""How long one client that does not read may hold up an update."""

_DROP_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class _Followed:
    """A resource as a caller has asked for it."""

    upstream: Upstream
    own_uri: str
    asked_uri: str


class Subscriptions:
    """Holds a server's resource followed for as long as a caller follows it.

    Args:
        views: What the callers see.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._followed: Counter[_Followed] = Counter()
        self._sessions: dict[Connection, dict[str, _Followed]] = {}

    def asked_uris(self, upstream: Upstream, uri: str) -> set[str]:
        """Return the URIs under which callers have asked for a resource that a server knows as `uri`."""
        return {
            followed.asked_uri
            for followed in self._followed
            if followed.upstream is upstream and followed.own_uri == uri
        }

    async def tell_sessions(self, uri: str) -> None:
        """Tell the legacy clients that have asked for `uri` that it has changed."""

        async def tell(connection: Connection) -> None:
            with anyio.move_on_after(_SEND_SECONDS):
                await connection.send_resource_updated(uri)

        async with anyio.create_task_group() as tasks:
            for connection, followed in self._sessions.items():
                if uri in followed:
                    tasks.start_soon(tell, connection)

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """Tell the legacy client of `ctx` of changes, until it unsubscribes or its session ends.

        Raises:
            MCPError: There is no such resource, or its server cannot tell of changes.
        """
        connection = connection_of(ctx)
        if connection not in self._sessions:
            self._sessions[connection] = {}
            connection.exit_stack.push_async_callback(self._end_session, connection)
        session = self._sessions[connection]
        if uri in session:
            return
        if len(session) >= _MAX_EACH:
            raise MCPError(INVALID_REQUEST, f"More than {_MAX_EACH} subscriptions of one client are not carried")
        followed = await self._follow(ctx, uri)
        if uri in session or connection not in self._sessions:  # two requests at once, or the end of the session
            await self._unfollow(followed)
        else:
            session[uri] = followed

    async def unsubscribe(self, ctx: ServerRequestContext[Any, Any], uri: str) -> None:
        """End what `subscribe` has begun; nothing happens where it has not."""
        followed = self._sessions.get(connection_of(ctx), {}).pop(uri, None)
        if followed is not None:
            await self._unfollow(followed)

    @asynccontextmanager
    async def followed(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> AsyncGenerator[SubscriptionsListenRequestParams]:
        """Follow what a modern client asks for while its stream is open.

        Gives the parameters with the resources that are followed; those of which no server tells are left out, which
        the acknowledgement shows.

        Raises:
            MCPError: Nothing else was asked for, and none of it can be followed.
        """
        wanted = params.notifications
        uris = list(dict.fromkeys(wanted.resource_subscriptions or ()))[:_MAX_EACH]
        held: dict[str, _Followed] = {}
        refusals: list[MCPError] = []
        try:
            for uri in uris:
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
            for followed in held.values():
                await self._unfollow(followed)

    async def _follow(self, ctx: ServerRequestContext[Any, Any], uri: str) -> _Followed:
        seen, own = await owner_of(self._views.seen_by(ctx), uri, ctx.protocol_version)
        followed = _Followed(seen.upstream, own, uri)
        self._followed[followed] += 1
        try:
            await seen.upstream.ensure_running()
            await seen.upstream.subscriptions.add(own)
        except BaseException as error:
            self._forget(followed)
            if isinstance(error, UnavailableError):
                raise MCPError(INTERNAL_ERROR, str(error)) from error
            raise
        return followed

    async def _unfollow(self, followed: _Followed) -> None:
        self._forget(followed)
        with anyio.move_on_after(_DROP_SECONDS, shield=True):
            await followed.upstream.subscriptions.drop(followed.own_uri)

    def _forget(self, followed: _Followed) -> None:
        self._followed[followed] -= 1
        if not self._followed[followed]:
            del self._followed[followed]

    async def _end_session(self, connection: Connection) -> None:
        for followed in self._sessions.pop(connection, {}).values():
            await self._unfollow(followed)
