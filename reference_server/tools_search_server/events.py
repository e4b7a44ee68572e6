"""Changes that servers tell of, on their way to the callers: in their order, none lost, none twice."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from mcp.server.subscriptions import ServerEvent

from tools_search_server.upstream import Upstream

__all__ = ["Events"]

logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 10_000

Receive: TypeAlias = Callable[[Upstream, ServerEvent], Awaitable[None]]


class Events:
    """A queue that never makes the server wait that tells.

    While a caller is slow to take an event, the same event of the same server is not queued twice once the queue is
    long: a server that floods must not take all memory, and callers learn of the change all the same.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Upstream, ServerEvent]] = deque()
        self._news = anyio.Event()

    def put(self, upstream: Upstream, event: ServerEvent) -> None:
        """Take an event of a server."""
        if len(self._waiting) >= _MAX_WAITING:
            if (upstream, event) in self._waiting:
                return
            logger.warning("%s: a change is not announced: too many wait for slow clients", upstream.name)
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
