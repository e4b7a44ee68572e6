"""List changes that cross from one replica of a gateway to the others.

Each replica has its own connections to the upstreams, and may answer any caller. So two kinds of message cross:

* An upstream has reported to one replica that a list has changed: the others read that list again at once.
* The list of some callers has changed at one replica: the modern subscribers of all replicas are notified, since any of
  them may answer next. Legacy clients stay with the replica that has their session.

Messages from other replicas are never sent on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent, SubscriptionBus

from tools_search_server.gateway.redis_channel import LIST_EVENTS, ListKind, RedisChannel, ReplicaMessage
from tools_search_server.upstreams.state import State

_GATHER_SECONDS: Final = 0.05
"""Several replicas often notice the same change; their subscribers are notified once."""

_QUIET_SECONDS: Final = 0.25
"""Messages that come faster than this are acted upon together."""


class Replicas:
    """The other replicas of this gateway.

    Args:
        channel: Their connection; `None` if this gateway is the only one.
    """

    def __init__(self, channel: RedisChannel | None = None) -> None:
        self._channel = channel
        self._audiences: dict[str, _SharedBus] = {}
        self._servers: Mapping[str, Callable[[ServerEvent], None]] = {}
        self._received: dict[ReplicaMessage, None] = {}
        self._has_received = anyio.Event()
        self._has_answered = False

    @property
    def state(self) -> State | None:
        """The state of the connection to the others; `None` if there are none."""
        return None if self._channel is None else self._channel.state

    def bus(self, endpoint: str, toolset: str) -> SubscriptionBus:
        """Return the bus to the subscribers of an endpoint who have a toolset, at every replica."""
        name = f"{endpoint}/{toolset}"
        return self._audiences.setdefault(name, _SharedBus(partial(self._send_to_audience, name)))

    def note_answer(self) -> None:
        """Note that this replica has answered a caller: only now can anyone have seen what changes at it."""
        self._has_answered = True

    def tell_of_server(self, server: str, event: ServerEvent) -> None:
        """Make the others read a list of an upstream again, after it reported a change."""
        if self._channel is not None and (kind := _kind_of(event)) is not None:
            self._channel.send(ReplicaMessage(about="server", name=server, kind=kind))

    async def run(
        self, servers: Mapping[str, Callable[[ServerEvent], None]], missed: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Exchange changes with the others; never returns, or returns at once where there are none.

        Args:
            servers: By name, the function to call when another replica has heard of a change of a server's list.
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

    def _send_to_audience(self, audience: str, event: ServerEvent) -> None:
        if self._has_answered and self._channel is not None and (kind := _kind_of(event)) is not None:
            self._channel.send(ReplicaMessage(about="audience", name=audience, kind=kind))

    def _receive(self, message: ReplicaMessage) -> None:
        # Names that are unknown here belong to another configuration, or are made up: they would only take memory.
        if message.name in (self._servers if message.about == "server" else self._audiences):
            self._received[message] = None
            self._has_received.set()

    async def _act(self) -> None:
        while True:
            await self._has_received.wait()
            self._has_received = anyio.Event()
            for message in self._taken("server"):
                self._servers[message.name](LIST_EVENTS[message.kind])
            await anyio.sleep(_GATHER_SECONDS)
            for message in self._taken("audience"):
                await self._audiences[message.name].deliver(LIST_EVENTS[message.kind])
            await anyio.sleep(_QUIET_SECONDS)

    def _taken(self, about: str) -> list[ReplicaMessage]:
        taken = [message for message in self._received if message.about == about]
        for message in taken:
            del self._received[message]
        return taken


class _SharedBus:
    """The SDK's `SubscriptionBus` over several replicas: an event published at one is delivered at all of them."""

    def __init__(self, send: Callable[[ServerEvent], Any]) -> None:
        self._send = send
        self._here = InMemorySubscriptionBus()
        self.deliver = self._here.publish
        self.subscribe = self._here.subscribe

    async def publish(self, event: ServerEvent) -> None:
        """Deliver a change to every subscriber. Updates of single resources stay at this replica."""
        self._send(event)
        await self._here.publish(event)


def _kind_of(event: ServerEvent) -> ListKind | None:
    """Return which list has changed; `None` for an update of a single resource."""
    return next((kind for kind, known in LIST_EVENTS.items() if known == event), None)
