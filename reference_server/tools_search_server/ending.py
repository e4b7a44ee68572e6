"""That a connection has nothing more to say, and why."""

from __future__ import annotations

import anyio

__all__ = ["Ending"]


class Ending:
    """The end of one connection, noticed where the bytes are and awaited where it matters."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it ended; empty while it lasts, and where nothing more is known."""
        self.http_status: int | None = None
        """With which HTTP status the last message was refused; `None` where it was not."""
        self._event = anyio.Event()

    def set(self, reason: str = "") -> None:
        """Say that the connection has ended; the first reason that is known counts."""
        self.reason = self.reason or reason
        self._event.set()

    async def wait(self) -> None:
        """Return as soon as the connection has ended."""
        await self._event.wait()
