"""Announcing changes to subscribers of both protocol eras."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp_types import NotificationParams, SubscriptionsListenRequestParams

from tools_search_server.upstreams.upstream import Upstream

__all__ = ["Announcer", "LegacySessions", "ListChanges", "Nobody", "declare_changes", "tell"]

_MAX_SESSIONS: Final = 1024
"""Legacy sessions of one owner that are told; the oldest are forgotten first, since no session says goodbye."""

_SEND_SECONDS: Final = 5
"""How long one subscriber that does not read may hold up an announcement."""


class Announcer(Protocol):
    """Tells clients of changes."""

    async def announce(self) -> None:
        """Tell those whose list has changed."""
        ...

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Tell those who see the server of a change beside its tools."""
        ...

    async def missed(self) -> None:
        """Tell everybody that any list may have changed without their having been told."""
        ...

    def close(self) -> None:
        """End the open subscriptions in good order."""
        ...


class Nobody:
    """The announcer of a gateway that has no clients."""

    async def announce(self) -> None:
        """Tell nobody."""

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Tell nobody."""

    async def missed(self) -> None:
        """Tell nobody."""

    def close(self) -> None:
        """There is nothing to end."""


class LegacySessions:
    """The sessions of legacy clients, who are told of changes because `initialize` said that they would be."""

    def __init__(self) -> None:
        self._of_owner: dict[str | None, deque[ServerSession]] = {}

    def add(self, session: ServerSession, owner: str | None = None) -> None:
        """Tell a session from now on.

        Args:
            session: The session.
            owner: The principal who has opened it; `None` where there are none.
        """
        self._of_owner.setdefault(owner, deque(maxlen=_MAX_SESSIONS)).append(session)

    async def tell(self, event: ServerEvent, is_meant: Callable[[str | None], bool] = lambda _: True) -> None:
        """Tell the sessions whose owner `is_meant`; returns when each was told or given up."""
        async with anyio.create_task_group() as tasks:
            for owner, sessions in self._of_owner.items():
                if is_meant(owner):
                    for session in sessions:
                        tasks.start_soon(tell, session, event)


class ListChanges:
    """Tells every client that asked that `tools/list` now answers differently.

    A modern client asks with `subscriptions/listen`; a legacy one is told because `initialize` said that it would be.

    Args:
        bus: What carries changes to the streams of modern clients; by default to those of this process alone.
        sessions: Those of legacy clients; by default those that are remembered here.
        is_meant: Tells by the owner of a legacy session whether the list is that of the session.
    """

    def __init__(
        self,
        bus: SubscriptionBus | None = None,
        sessions: LegacySessions | None = None,
        is_meant: Callable[[str | None], bool] = lambda _: True,
    ) -> None:
        self._bus = bus or InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        """Serves `subscriptions/listen`."""
        self._sessions = sessions or LegacySessions()
        self._is_meant = is_meant

    def install(self, server: Server[Any]) -> None:
        """Serve subscriptions on `server` and say so in its capabilities."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self.listen)
        server.add_notification_handler("notifications/initialized", NotificationParams, self.remember)
        server.middleware.append(declare_changes)

    async def announce(self) -> None:
        """Send `notifications/tools/list_changed` to all subscribers; returns when each was told or given up."""
        await self.publish(ToolsListChanged())

    async def publish(self, event: ServerEvent) -> None:
        """Tell all subscribers of a change of a list; returns when each was told or given up."""
        await self._bus.publish(event)
        await self.tell_sessions(event)

    async def tell_sessions(self, event: ServerEvent) -> None:
        """Tell the legacy clients alone of a change of a list; returns when each was told or given up."""
        await self._sessions.tell(event, self._is_meant)

    def close(self) -> None:
        """End the open subscriptions of modern clients in good order."""
        self.listen.close()

    async def remember(self, ctx: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        """Tell the legacy client of `ctx` from now on."""
        self._sessions.add(ctx.session)


async def tell(session: ServerSession, event: ServerEvent) -> None:
    """Tell one legacy session of a change of a list; one that does not read is given up."""
    with anyio.move_on_after(_SEND_SECONDS):
        match event:
            case ToolsListChanged():
                await session.send_tool_list_changed()
            case PromptsListChanged():
                await session.send_prompt_list_changed()
            case ResourcesListChanged():
                await session.send_resource_list_changed()
            case ResourceUpdated():
                pass  # for those alone who have subscribed to the resource


async def declare_changes(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Say `tools.listChanged` in `initialize`: the SDK's HTTP entry has no option for it."""
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        result.setdefault("capabilities", {}).setdefault("tools", {})["listChanged"] = True
    return result
