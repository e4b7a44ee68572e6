"""Asking a server that others must not wait for: how long, how many times at once, and when to leave it alone."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio
from mcp import MCPError
from mcp_types import INVALID_PARAMS

from tools_search_server.base.revealing import quoted

__all__ = ["BOUND_SECONDS", "Bounds", "NotAnswered"]

BOUND_SECONDS: Final = 3
"""How long one server may hold up a search or a page of a listing."""

_REST_SECONDS: Final = 10
"""How long a server that did not answer in time is left alone, so that it does not hold up every search."""

_MOST_AT_ONCE: Final = 8

_T = TypeVar("_T")


class NotAnswered(Exception):
    """The server did not answer in time, or not with what was asked for; the text says which and why."""


class Bounds:
    """What is asked of one server.

    Args:
        server: Its name.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._limiter = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._rests_until = -math.inf

    async def within(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return what `ask` does.

        Raises:
            MCPError: -32602, the server refuses the parameters.
            NotAnswered: Any other failure; or nothing was asked, since the last failure was a moment ago.
        """
        if anyio.current_time() < self._rests_until:
            raise NotAnswered(f"The MCP server {self._server!r} did not answer in time a moment ago")
        is_asked = False
        try:
            with anyio.fail_after(BOUND_SECONDS):
                async with self._limiter:
                    is_asked = True
                    return await ask()
        except (MCPError, TimeoutError) as error:
            if isinstance(error, MCPError) and error.code == INVALID_PARAMS:
                raise
            if is_asked:  # that there was no turn in time says how many ask, and nothing of the server
                self._rests_until = anyio.current_time() + _REST_SECONDS
            reason = quoted(error.message) if isinstance(error, MCPError) else f"it took more than {BOUND_SECONDS} s"
            raise NotAnswered(f"The MCP server {self._server!r} did not answer: {reason}") from error
