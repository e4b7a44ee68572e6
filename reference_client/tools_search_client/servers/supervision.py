"""Keeps one server connected for many tasks.

The same task must enter and leave the SDK's client, and an HTTP server that dies cancels that task. So each server has
its own task that only holds the connection. Callers use their own tasks and get a clean error when the connection ends.
The next caller starts the next attempt.

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
from contextvars import copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Final

import anyio
from tools_search_hosts.counts import number_of

from tools_search_client.errors import (
    RESOLVABLE,
    HostError,
    ServerError,
    ServerTimeoutError,
    ServerUnavailableError,
    UnauthorizedError,
    require_seconds,
    require_times,
)
from tools_search_client.servers.diagnostics import Diagnostics, kept_diagnostics
from tools_search_client.servers.server_tools import ServerTools

_CLOSING_SECONDS: Final = 10.0
"""Timeout in seconds for closing a connection; the SDK itself needs at most about six."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before retrying a failed server: doubled after each consecutive failure."""

    first_seconds: float = 0.5
    most_seconds: float = 30.0

    def __post_init__(self) -> None:
        require_times(self, "first_seconds", "most_seconds", or_zero=True)

    def after(self, failures: int) -> float:
        """Return the pause after the given number (at least 1) of consecutive failures."""
        return min(self.most_seconds, self.first_seconds * 2 ** min(failures - 1, 32))


class SupervisedServer:
    """A server that is connected when a caller needs it, and reconnected after the connection is lost.

    Args:
        open_server: Opens a new connection, like the function of that name, given `on_close` and `diagnostics`.
        connect_timeout: Timeout in seconds for an attempt to connect.
        backoff: Pauses between attempts.
        authorization: Returns a name for the credentials of the current caller, in whose context the server is
            connected.
    """

    def __init__(
        self,
        open_server: Callable[..., AbstractAsyncContextManager[ServerTools]],
        *,
        connect_timeout: float = 60.0,
        backoff: Backoff | None = None,
        authorization: Callable[[], str] = str,
    ) -> None:
        require_seconds("connect_timeout", connect_timeout)
        self._open = open_server
        self._connect_timeout = connect_timeout
        self._backoff = backoff or Backoff()
        self._authorization = authorization
        self.connected: ServerTools | None = None
        """The tools, if there is currently a connection."""
        self._wanted = anyio.Event()
        self._wanted_by = ("", copy_context())
        """The authorization and the context of the caller for whom the server is connected."""
        self._settled = anyio.Event()
        """Set when the attempt that callers wait for has succeeded or failed."""
        self._tidied = anyio.Event()
        """Set when nothing is left of the connection or the attempt."""
        self._failure: ServerError | HostError | None = None
        self._failures = 0
        self._not_before = 0.0
        self._diagnostics: Diagnostics | None = None

    def quotation(self) -> str:
        """Return a suffix for a timeout message with the server's last diagnostics, or an empty string."""
        return self._diagnostics.quotation() if self._diagnostics else ""

    async def tools(self, *, instead_of: ServerTools | None = None) -> ServerTools:
        """Return the server's tools, connecting first if necessary.

        Args:
            instead_of: The connection whose session the server no longer knows. Since it answered that, there is no
                pause before the next attempt.

        Raises:
            ServerError: The attempt failed, or the last one failed a moment ago.
            HostError: Code supplied by the host raised.
        """
        if instead_of is not None and self.connected in (None, instead_of) and self._settled.is_set():
            await self._tidied.wait()
        if self.connected is None:
            if self._failure is not None and monotonic() < self._not_before and instead_of is None:
                raise self._failure.with_traceback(None)  # else the traceback grows with each caller
            mine = self._authorization()
            if not self._wanted.is_set():
                self._wanted_by = mine, copy_context()
                self._wanted.set()
            theirs, _ = self._wanted_by
            await self._settled.wait()
            if isinstance(self._failure, UnauthorizedError) and mine != theirs:  # which only says that of the other one
                return await self.tools()
        if self.connected is None:
            raise (self._failure or ServerUnavailableError("the connection ended")).with_traceback(None)
        return self.connected

    async def run(self) -> None:
        """Hold the connection until cancelled. Failures are raised to the callers of `tools`, never here.

        Afterwards, `tools` raises.
        """
        try:
            await self._run()
        finally:
            self.connected = None
            self._failure, self._not_before = ServerUnavailableError("it has been removed"), math.inf
            self._settled.set()
            self._tidied.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            async with anyio.create_task_group() as tasks:
                self._wanted_by[1].run(tasks.start_soon, self._attempt)
            self.connected = None
            self._failures += 1  # the end of a connection counts as one, too
            pause = 0.0 if isinstance(self._failure, RESOLVABLE) else self._backoff.after(self._failures)
            self._not_before = monotonic() + pause
            self._wanted = anyio.Event()
            # Replaced first, so that callers who are woken and ask again wait for the next attempt.
            waiting, self._settled = self._settled, anyio.Event()
            waiting.set()
            tidied, self._tidied = self._tidied, anyio.Event()
            tidied.set()

    async def _attempt(self) -> None:
        self._failure = None
        try:
            await self._hold()
        except (ServerError, HostError) as error:
            self._failure = error

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
            self._failure = tools.ending()  # more is known once the process has exited
        if attempt.cancelled_caught and not self._settled.is_set():
            raise ServerTimeoutError(f"not ready after {number_of(self._connect_timeout, 'second')}{self.quotation()}")
