"""One upstream server and the task that keeps it connected, so that its troubles stay its own."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client.endings import connection_ended
from mcp_ext_tools_search.client.raw import raw_request
from mcp_ext_tools_search.hosts import HttpTarget, ServerEntry
from mcp_types import Implementation, Tool, ToolListChangedNotification

from tools_search_server.connecting import explain, open_transport
from tools_search_server.ending import Ending
from tools_search_server.revealing import without_secrets
from tools_search_server.upstream_listing import read_tools
from tools_search_server.upstream_session import features_beside_tools, is_modern, is_session_gone
from tools_search_server.upstream_state import Forgotten, State, Unavailable, pauses

__all__ = ["Upstream"]

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60
_LIST_SECONDS: Final = 30
_QUIET_SECONDS: Final = 0.1
_STEADY_SECONDS: Final = 30
_RETURN_SECONDS: Final = 10
_CHECK_SECONDS: Final = 5

_PERHAPS_OLD: Final = frozenset({400, 404, 405})
"""How a server on the old HTTP+SSE transport answers a POST to its address, as the protocol says."""


class Upstream:
    """A configured server: its tools while it is connected, and the way to ask it.

    Args:
        entry: Its name, and how to reach it.
        on_change: Called with this object when its tools or its state have changed.
        call_seconds: When a request is given up, unless the entry says otherwise.
        client_info: Who is asking.
    """

    def __init__(
        self,
        entry: ServerEntry,
        on_change: Callable[[Upstream], None],
        *,
        call_seconds: float,
        client_info: Implementation,
    ) -> None:
        self.name = entry.name
        self._target = entry.target
        self.tools: Mapping[str, Tool] = {}
        self.about = ""
        self.protocol: str | None = None
        """The revision spoken on the latest connection."""
        self.features: Sequence[str] = ()
        """What it offered on the latest connection beside tools."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self._state = State("starting", datetime.now(UTC))
        self._on_change = on_change
        self._start_seconds = entry.start_seconds or _START_SECONDS
        self._call_seconds = entry.call_seconds or call_seconds
        self._client_info = client_info
        self._client: Client | None = None
        self._ready = anyio.Event()
        self._ended = Ending()
        self._stale = anyio.Event()
        self._is_noisy = False

    @property
    def state(self) -> State:
        """How the server is now."""
        return self._state

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http` or `sse`."""
        return self._target.transport if isinstance(self._target, HttpTarget) else "stdio"

    async def run(self) -> None:
        """Keep the server connected; never returns and never raises but when it is cancelled."""
        waits = pauses()
        while True:
            began = anyio.current_time()
            reason = without_secrets(await self._connected(), self._target)
            if anyio.current_time() - began > _STEADY_SECONDS:
                waits = pauses()
            pause = next(waits)
            is_news = reason != self._state.reason
            told = {"server": self.name, "state": "down", "reason": reason}
            level = logging.WARNING if is_news else logging.DEBUG
            logger.log(level, "%s is down: %s", self.name, reason, extra=told)
            self._move(State("down", datetime.now(UTC), reason), {})
            await anyio.sleep(pause)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        on_progress: ProgressFnT | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask the server and return its result as it came.

        A server that refuses because it has restarted is asked once more when it is back.

        Raises:
            MCPError: It answered with an error, or took too long.
            Unavailable: It is not connected, or the connection was lost before it answered.
        """
        ask = partial(self._ask, method, params, on_progress=on_progress, capabilities=capabilities)
        try:
            return await ask()
        except Forgotten:
            with anyio.move_on_after(_RETURN_SECONDS):
                await self._ready.wait()
            return await ask()

    @property
    def is_modern(self) -> bool:
        """Whether the connected server speaks 2026-07-28 or later."""
        return self._client is not None and is_modern(self._client)

    async def _ask(self, method: str, params: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        client = self._client
        if client is None:
            raise Unavailable(f"The MCP server {self.name!r} is {self._state}. It is tried again by itself.")
        try:
            return await raw_request(client, method, params, seconds=self._call_seconds, **options)
        except MCPError as error:
            # A program has no session to forget: when it is started again, the connection ends as well.
            is_forgotten = isinstance(self._target, HttpTarget) and is_session_gone(client, error)
            if not is_forgotten and not connection_ended(error):
                raise
            self._lose(client)
            if is_forgotten:
                raise Forgotten(f"The MCP server {self.name!r} has restarted and is not back yet.") from error
            text = f"The MCP server {self.name!r} went away during this request; it may or may not have taken effect."
            raise Unavailable(text) from error

    def _lose(self, client: Client) -> None:
        """Take a connection out of use, if it still is the one in use."""
        if self._client is client:
            self._client = None
            self._ended.set()
            self._ready = anyio.Event()
            self._move(State("down", datetime.now(UTC), "the connection was lost"), {})

    async def _connected(self) -> str:
        """Hold one connection, over the old transport if that is what the server speaks; return why it ended."""
        reason = await self._connection()
        tried = self._target
        if not isinstance(tried, HttpTarget) or tried.transport == "sse" or self.protocol is not None:
            return reason
        if self._ended.http_status in _PERHAPS_OLD:
            self._target = replace(tried, transport="sse")
            old_reason = await self._connection()
            if self.protocol is not None:
                return old_reason
            self._target = tried
        return reason

    async def _connection(self) -> str:
        """Hold one connection for as long as it lasts, and return why it ended."""
        outcome = "the connection broke"
        self._ended = Ending()

        async def hold() -> None:
            nonlocal outcome
            try:
                with anyio.CancelScope(deadline=anyio.current_time() + self._start_seconds) as start:
                    await self._hold(start)
                late = f"it did not answer within {self._start_seconds:g} s"
                outcome = late if start.cancelled_caught else self._ended.reason or "it closed the connection"
            except Exception as error:  # the supervisor's boundary: whatever an upstream does costs only itself
                logger.debug("%s: the connection failed", self.name, exc_info=error)
                outcome = self._ended.reason or explain(error, self._target, http_status=self._ended.http_status)

        # In a task of its own: when an HTTP server dies, the SDK cancels the task that holds its client.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
        if self._client is not None:
            self._lose(self._client)
        return outcome

    async def _hold(self, start: anyio.CancelScope) -> None:
        read_seconds = self._call_seconds + _LIST_SECONDS
        transport = open_transport(self._target, self._ended, read_seconds=read_seconds, server=self.name)
        client = Client(transport, client_info=self._client_info, message_handler=self._on_message, cache=None)
        async with client, anyio.create_task_group() as tasks:
            tools = await read_tools(client, self.name, page_seconds=_LIST_SECONDS)
            start.deadline = math.inf
            self._client = client
            self._ready.set()
            self.about = _about(client)
            self.protocol, self.features = client.protocol_version, features_beside_tools(client)
            told = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": self.protocol}
            logger.info("%s is ready: %d tools, protocol %s", self.name, len(tools), self.protocol, extra=told)
            self._move(State("ready", datetime.now(UTC)), tools)
            tasks.start_soon(self._listen, client)
            tasks.start_soon(self._keep_fresh, client)
            tasks.start_soon(self._check, client)
            await self._ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Follow the list changes of a modern server; a legacy one sends them unasked."""
        capability = client.server_capabilities.tools
        if not is_modern(client) or capability is None or not capability.list_changed:
            return
        for pause in pauses():
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self._stale.set()  # for what has changed since the listing
                    async for _ in events:
                        self._stale.set()
            except SubscriptionLost:
                logger.debug("%s: the subscription was lost", self.name)
            except MCPError as error:
                logger.warning("%s: cannot follow changes of its tools: %s", self.name, error)
                return
            await anyio.sleep(pause)

    async def _check(self, client: Client) -> None:
        """Notice the death of an HTTP server: it may hold no stream that would end, and then only the next call tells.

        Any answer is a sign of life, and taking long over one is no sign of death.
        """
        if not isinstance(self._target, HttpTarget):
            return
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            try:
                await raw_request(client, "server/discover" if is_modern(client) else "ping", {}, seconds=_LIST_SECONDS)
            except MCPError as error:
                if connection_ended(error) or is_session_gone(client, error):
                    self._lose(client)

    async def _keep_fresh(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            tools = await read_tools(client, self.name, page_seconds=_LIST_SECONDS)
            if tools != self.tools:
                told = {"server": self.name, "state": "ready", "tools": len(tools)}
                logger.info("%s changed: %d tools", self.name, len(tools), extra=told)
                self._move(self._state, tools)
            await anyio.sleep(_QUIET_SECONDS)

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._stale.set()
        elif isinstance(message, Exception) and not self._is_noisy:
            self._is_noisy = True
            logger.warning("%s sends what is no message of the protocol; it is passed over", self.name)

    def _move(self, state: State, tools: Mapping[str, Tool]) -> None:
        # Down for another reason is still down since the first one.
        since = self._state.since if state.kind == self._state.kind else state.since
        self._state = replace(state, since=since)
        self.tools = tools
        self.settled.set()
        self._on_change(self)


def _about(client: Client) -> str:
    """Return what the server says it is for, in one short line."""
    info = client.server_info
    said = (info and (info.description or info.title)) or client.instructions or ""
    printable = "".join(char if char.isprintable() else " " for char in said)
    return " ".join(printable.split())[:120]
