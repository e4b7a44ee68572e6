"""What is known of a connection where its bytes are: when something came, that it has ended, and why."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

__all__ = ["Ending"]


class Ending:
    """The end of one connection, noticed where the bytes are and awaited where it matters."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it ended; empty while it lasts, and where nothing more is known."""
        self.http_status: int | None = None
        """With which HTTP status the last message was refused; `None` where it was not."""
        self.has_spoken = False
        """Whether a message came over HTTP."""
        self.is_excess = False
        """Whether the server sent more than is read: it would do so again if it were asked again soon."""
        self.heard = -math.inf
        """When something came from the server for the last time."""
        self.is_suspended: Callable[[], bool] = lambda: False
        """Tells whether the server is a process that is suspended, where that can be seen."""
        self._event = anyio.Event()

    def set(self, reason: str = "", *, is_excess: bool = False) -> None:
        """Say that the connection has ended; the first reason that is known counts."""
        if not self.reason:
            self.reason, self.is_excess = reason, is_excess
        self._event.set()

    async def wait(self) -> None:
        """Return as soon as the connection has ended."""
        await self._event.wait()
