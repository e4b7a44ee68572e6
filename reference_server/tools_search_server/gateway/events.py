"""Changes that servers tell of, on their way to the callers: in their order, none lost, none twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from mcp.server.subscriptions import ServerEvent

from tools_search_server.upstreams.upstream import Upstream

__all__ = ["Events"]

_MANY: Final = 1_000

Receive: TypeAlias = Callable[[Upstream, ServerEvent], Awaitable[None]]


class Events:
    """A queue that never makes the server wait that tells.

    Where very many events wait for slow clients, one that is waiting already is not queued again: clients learn of the
    change all the same, and a server that floods does not take all memory.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Upstream, ServerEvent]] = deque()
        self._news = anyio.Event()

    def put(self, upstream: Upstream, event: ServerEvent) -> None:
        """Take an event of a server."""
        if len(self._waiting) >= _MANY and (upstream, event) in self._waiting:
            return
        self._waiting.append((upstream, event))
        self._news.set()

    async def pass_on(self, receive: Receive) -> None:
        """Give each event to `receive`, one after the other; never returns."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                await receive(*self._waiting.popleft())
