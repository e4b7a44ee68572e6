"""Keeping one server connected for many tasks that ask it.

The SDK's client must be entered and left by one task, and a server reached over HTTP that dies cancels that very task.
So each server has a task of its own, which does nothing but hold the connection; callers ask from their own tasks and
get a clean error when the connection ends. The next caller starts the next attempt.

    idle -> connecting      a caller wants the tools
    connecting -> connected, or -> failed
    connected -> failed     the connection ends
    failed -> idle          at once, but callers get the same error until a pause is over that grows with each failure;
                            there is none after one that a sign-in or the host resolves
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Final

import anyio

from tools_search_client.errors import (
    HostError,
    ServerError,
    ServerTimeoutError,
    ServerUnavailableError,
    UnauthorizedError,
)
from tools_search_client.servers.diagnostics import Diagnostics, kept_diagnostics
from tools_search_client.servers.discovery import ServerTools

_CLOSING_SECONDS: Final = 10.0
"""For a connection that ended to be tidied up; the SDK itself needs at most about six."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a server that failed is left alone: twice as long after each failure in a row."""

    first_seconds: float = 0.5
    most_seconds: float = 30.0

    def after(self, failures: int) -> float:
        """Return the pause after the given number of failures in a row, at least 1."""
        return min(self.most_seconds, self.first_seconds * 2 ** min(failures - 1, 32))


class SupervisedServer:
    """One server that is connected when a caller needs it, and again after it was lost.

    Args:
        open_server: Makes a fresh connection, given `on_close` and `diagnostics`, as the function of that name does.
        connect_timeout: Seconds after which an attempt counts as failed.
        backoff: Pauses between attempts.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self,
        open_server: Callable[..., AbstractAsyncContextManager[ServerTools]],
        *,
        connect_timeout: float = 60.0,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._open = open_server
        self._connect_timeout = connect_timeout
        self._backoff = backoff or Backoff()
        self._clock = clock
        self.connected: ServerTools | None = None
        """The tools, if there is a connection at this moment."""
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        """The attempt that callers wait for has succeeded or failed."""
        self._failure: ServerError | HostError | None = None
        self._failures = 0
        self._not_before = 0.0
        self._diagnostics: Diagnostics | None = None

    def quotation(self) -> str:
        """Return an appendix for a message that the server keeps a caller waiting: its last diagnostics, or nothing."""
        return self._diagnostics.quotation() if self._diagnostics else ""

    async def tools(self) -> ServerTools:
        """Return the server's tools, connecting first where necessary.

        Raises:
            ServerError: The attempt failed, or the last one did a moment ago.
            HostError: The host's own part of it raised.
        """
        if self.connected is None:
            if self._failure is not None and self._clock() < self._not_before:
                raise self._failure
            self._wanted.set()
            await self._settled.wait()
        if self.connected is None:
            raise self._failure or ServerUnavailableError("the connection ended")
        return self.connected

    async def run(self) -> None:
        """Hold the connection until cancelled; failures are raised to the callers of `tools`, never here.

        Afterwards `tools` raises.
        """
        try:
            await self._run()
        finally:
            self.connected = None
            self._failure, self._not_before = ServerUnavailableError("it is not offered any more"), math.inf
            self._settled.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._failure = None
            try:
                await self._hold()
            except (ServerError, HostError) as error:
                self._failure = error
            self.connected = None
            self._failures += 1
            # A sign-in or the host can have resolved it by now, and asking costs one request.
            is_resolvable = isinstance(self._failure, UnauthorizedError | HostError)
            self._not_before = self._clock() + (0.0 if is_resolvable else self._backoff.after(self._failures))
            self._wanted = anyio.Event()
            waiting, self._settled = self._settled, anyio.Event()
            waiting.set()

    async def _hold(self) -> None:
        over = anyio.Event()
        deadline = anyio.current_time() + self._connect_timeout
        with kept_diagnostics() as self._diagnostics, anyio.CancelScope(deadline=deadline) as attempt:
            async with self._open(on_close=over.set, diagnostics=self._diagnostics) as tools:
                attempt.deadline = math.inf
                self.connected = tools
                self._failures = 0
                self._settled.set()
                await over.wait()
                self._failure, self.connected = tools.ending(), None
                attempt.deadline = anyio.current_time() + _CLOSING_SECONDS
            self._failure = tools.ending()  # more is known once the process has ended
        if attempt.cancelled_caught and not self._settled.is_set():
            raise ServerTimeoutError(f"not ready after {self._connect_timeout:g} seconds{self.quotation()}")
