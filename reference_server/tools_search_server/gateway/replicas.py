"""How list changes cross from one replica of a gateway to the others.

Each replica is connected to servers of its own, and answers any caller. So two things cross. When a server tells one
replica that a list has changed, the others read that server's list again, promptly. And when the list that some callers
see has changed at one replica, the modern subscribers of all of them are told, since that replica may answer what they
ask next; legacy clients stay with the replica that has their session. What was heard from another is not told on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent, SubscriptionBus

from tools_search_server.gateway.replica_news import LIST_EVENTS, News, kind_of
from tools_search_server.upstreams.state import State

__all__ = ["Channel", "Replicas"]

_GATHER_SECONDS: Final = 0.05
"""Several replicas often notice the same change; their subscribers are told once."""

_QUIET_SECONDS: Final = 0.25
"""What comes faster than this is acted upon together, however fast it comes."""


class Channel(Protocol):
    """What carries news between the replicas."""

    @property
    def state(self) -> State:
        """How the connection to the others is."""
        ...

    def send(self, news: News) -> None:
        """Tell the others as soon as they can be reached; returns at once."""
        ...

    async def run(self, receive: Callable[[News], None], missed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Keep connected and give what others tell to `receive`; never returns.

        `missed` is called when the connection is there after it was not: others may have told something meanwhile.
        """
        ...


class Replicas:
    """The other replicas of this gateway, as far as list changes go.

    Args:
        channel: What connects them; `None` where this gateway is the only one.
    """

    def __init__(self, channel: Channel | None = None) -> None:
        self._channel = channel
        self._audiences: dict[str, _SharedBus] = {}
        self._servers: Mapping[str, Callable[[ServerEvent], None]] = {}
        self._heard: dict[News, None] = {}
        self._news = anyio.Event()
        self._is_seen = False

    @property
    def state(self) -> State | None:
        """How the connection to the others is; `None` where there are none."""
        return None if self._channel is None else self._channel.state

    def bus(self, endpoint: str, toolset: str) -> SubscriptionBus:
        """Return what carries changes to the subscribers of an endpoint who have a toolset, at every replica."""
        name = f"{endpoint}/{toolset}"
        return self._audiences.setdefault(name, _SharedBus(partial(self._tell_audience, name)))

    def note_answer(self) -> None:
        """Note that a caller is answered here; until then nobody can have seen what changes at this replica."""
        self._is_seen = True

    def tell_of_server(self, server: str, event: ServerEvent) -> None:
        """Have the others read a list of a server again, since the server tells that it has changed."""
        if self._channel is not None and (kind := kind_of(event)) is not None:
            self._channel.send(News("server", server, kind))

    async def run(
        self, servers: Mapping[str, Callable[[ServerEvent], None]], missed: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Exchange changes with the others; never returns, or at once where there are none.

        Args:
            servers: By name, what is called when another replica has heard that a list of the server has changed.
            missed: Called when any list may have changed at any replica while the connection was lost.
        """
        if self._channel is None:
            return
        self._servers = servers

        async def catch_up() -> None:
            for audience in self._audiences.values():
                for event in LIST_EVENTS.values():
                    await audience.deliver(event)
            await missed()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._channel.run, self._receive, catch_up)
            tasks.start_soon(self._act)

    def _tell_audience(self, audience: str, event: ServerEvent) -> None:
        if self._is_seen and self._channel is not None and (kind := kind_of(event)) is not None:
            self._channel.send(News("audience", audience, kind))

    def _receive(self, news: News) -> None:
        # What is not known here is of another configuration, or made up: it would only take memory.
        if news.name in (self._servers if news.about == "server" else self._audiences):
            self._heard[news] = None
            self._news.set()

    async def _act(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            for news in self._taken("server"):
                self._servers[news.name](LIST_EVENTS[news.kind])
            await anyio.sleep(_GATHER_SECONDS)
            for news in self._taken("audience"):
                await self._audiences[news.name].deliver(LIST_EVENTS[news.kind])
            await anyio.sleep(_QUIET_SECONDS)

    def _taken(self, about: str) -> list[News]:
        taken = [news for news in self._heard if news.about == about]
        for news in taken:
            del self._heard[news]
        return taken


class _SharedBus:
    """The SDK's `SubscriptionBus` over several replicas: what is published at one is delivered at all of them."""

    def __init__(self, tell: Callable[[ServerEvent], Any]) -> None:
        self._tell = tell
        self._here = InMemorySubscriptionBus()

    async def publish(self, event: ServerEvent) -> None:
        """Deliver a change to every subscriber; single resources are followed by each replica at its own server."""
        self._tell(event)
        await self._here.publish(event)

    async def deliver(self, event: ServerEvent) -> None:
        """Deliver what another replica has published."""
        await self._here.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register a listener, and return what removes it."""
        return self._here.subscribe(listener)
