"""Holding one connection to a server at a time, over the transport that it turns out to speak."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import anyio
from mcp import Client
from mcp_ext_tools_search.client.endings import Ending
from tools_search_hosts import HttpTarget, Target, UnusableTarget

from tools_search_server.base.revealing import Secrets, masked_streams
from tools_search_server.upstreams.connecting import explain, first_error, open_transport
from tools_search_server.upstreams.upstream_listing import ListingTooLargeError

__all__ = ["Link", "Use"]

logger = logging.getLogger(__name__)

_PERHAPS_OLD: Final = frozenset({400, 404, 405})
"""How a server on the old HTTP+SSE transport answers a POST to its address, as the protocol says."""

Use: TypeAlias = Callable[[Client, Callable[[], None]], Awaitable[None]]
"""What is done with a connected client; it calls the function that it is given once the server can be used."""


class Link:
    """The way to one server.

    Args:
        target: The server.
        make_client: Builds the client on the streams of a connection.
        use: Called with each client that is connected; the connection lasts as long as the call.
        server: Its name, for the log.
        start_seconds: How long a server may take until it can be used.
        read_seconds: How long an HTTP server may be silent during a request.
        max_message_bytes: Of a message; the connection ends when the server sends a larger one.
    """

    def __init__(
        self,
        target: Target,
        make_client: Callable[[Any], Client],
        use: Use,
        *,
        server: str,
        start_seconds: float,
        read_seconds: float,
        max_message_bytes: int,
    ) -> None:
        self.target = target
        self.secrets = Secrets(target)
        """What of the configuration is not to be passed on."""
        self.ended = Ending()
        """The end of the present connection."""
        self._make_client = make_client
        self._use = use
        self._server = server
        self._start_seconds = start_seconds
        self._read_seconds = read_seconds
        self._max_message_bytes = max_message_bytes
        self._is_proven = False

    @property
    def is_http(self) -> bool:
        """Whether the server is reached over HTTP."""
        return isinstance(self.target, HttpTarget)

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http` or `sse`; `unknown` where its entry has a mistake."""
        if isinstance(self.target, UnusableTarget):
            return "unknown"
        return self.target.transport if isinstance(self.target, HttpTarget) else "stdio"

    async def hold(self) -> str:
        """Hold one connection, over the old transport if that is what the server speaks; return why it ended."""
        if isinstance(self.target, UnusableTarget):
            return str(self.target)
        reason = await self._hold_one()
        tried = self.target
        if not isinstance(tried, HttpTarget) or tried.transport == "sse" or self._is_proven:
            return reason
        if self.ended.http_status in _PERHAPS_OLD:
            self.target = replace(tried, transport="sse")
            old_reason = await self._hold_one()
            if not self._is_proven:
                self.target = tried
            if self._is_proven or self.ended.has_spoken:
                return old_reason
        return reason

    async def _hold_one(self) -> str:
        """Hold one connection for as long as it lasts, and return why it ended."""
        outcome = "the connection broke"
        self.ended = Ending()

        async def hold() -> None:
            nonlocal outcome
            try:
                with anyio.CancelScope(deadline=anyio.current_time() + self._start_seconds) as start:
                    tasks.start_soon(self._give_up_after_excess, start)
                    await self._connect(start)
                late = f"it did not answer within {self._start_seconds:g} s"
                is_late = start.cancelled_caught and not self.ended.reason
                outcome = late if is_late else self.ended.reason or "it closed the connection"
            except Exception as error:  # the supervisor's boundary: whatever an upstream does costs only itself
                self.ended.is_excess |= isinstance(first_error(error), ListingTooLargeError)
                logger.debug("%s: the connection failed", self._server, exc_info=error)
                outcome = self.ended.reason or explain(error, self.target, http_status=self.ended.http_status)
            finally:
                tasks.cancel_scope.cancel()

        # In a task of its own: when an HTTP server dies, the SDK cancels the task that holds its client.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
        return outcome

    async def _give_up_after_excess(self, start: anyio.CancelScope) -> None:
        """Let a server that sends too much have no second attempt at the same greeting, as the SDK gives it one."""
        await self.ended.wait()
        if self.ended.is_excess and start.deadline < math.inf:
            start.cancel()

    async def _connect(self, start: anyio.CancelScope) -> None:
        def prove() -> None:
            start.deadline = math.inf
            self._is_proven = True

        transport = open_transport(
            self.target,
            self.ended,
            read_seconds=self._read_seconds,
            max_message_bytes=self._max_message_bytes,
            server=self._server,
        )
        async with self._make_client(masked_streams(transport, self.secrets)) as client:
            await self._use(client, prove)
