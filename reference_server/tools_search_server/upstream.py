"""One upstream server and the task that keeps it connected, so that its troubles stay its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
from mcp import Client, MCPError
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client.endings import connection_ended
from mcp_ext_tools_search.client.raw import raw_request
from mcp_ext_tools_search.hosts import HttpTarget, ServerEntry
from mcp_types import Implementation, ServerCapabilities, Tool

from tools_search_server.revealing import without_secrets
from tools_search_server.upstream_link import Link
from tools_search_server.upstream_listing import read_tools
from tools_search_server.upstream_lists import Lists
from tools_search_server.upstream_news import News, is_dead
from tools_search_server.upstream_questions import Caller, Questions
from tools_search_server.upstream_session import about, features_beside_tools, is_modern, is_session_gone
from tools_search_server.upstream_state import Forgotten, State, Unavailable, pauses
from tools_search_server.upstream_watches import Watches

__all__ = ["Upstream"]

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60
_LIST_SECONDS: Final = 30
_QUIET_SECONDS: Final = 0.1
_STEADY_SECONDS: Final = 30
_RETURN_SECONDS: Final = 10


class Upstream:
    """A configured server: its tools while it is connected, and the way to ask it.

    Args:
        entry: Its name, and how to reach it.
        on_change: Called with this object when its tools or its state have changed.
        on_event: Called with this object and each change beside its tools.
        call_seconds: When a request is given up, unless the entry says otherwise.
        client_info: Who is asking.
    """

    def __init__(
        self,
        entry: ServerEntry,
        on_change: Callable[[Upstream], None],
        on_event: Callable[[Upstream, ServerEvent], None],
        *,
        call_seconds: float,
        client_info: Implementation,
    ) -> None:
        self.name = entry.name
        self.tools: Mapping[str, Tool] = {}
        self.about = ""
        self.protocol: str | None = None
        """The revision spoken on the latest connection."""
        self.features: Sequence[str] = ()
        """What it offered on the latest connection beside tools."""
        self.capabilities: ServerCapabilities | None = None
        """What it declared on the latest connection; `None` while it has never been reached."""
        self.lists: Lists | None = None
        """What it lists beside its tools, while it is connected."""
        self.watches = Watches(self.name, lambda uri: on_event(self, ResourceUpdated(uri)))
        """Its resources of which callers want to hear."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self._state = State("starting", datetime.now(UTC))
        self._on_change = on_change
        self._on_event = on_event
        self._call_seconds = entry.call_seconds or call_seconds
        self._client_info = client_info
        self._client: Client | None = None
        self._questions = Questions()
        self._ready = anyio.Event()
        self._stale = anyio.Event()
        self._news = News(self.name, self._on_news)
        self._link = Link(
            entry.target,
            self._connect,
            self._use,
            server=self.name,
            start_seconds=entry.start_seconds or _START_SECONDS,
            read_seconds=self._call_seconds + _LIST_SECONDS,
        )

    @property
    def state(self) -> State:
        """How the server is now."""
        return self._state

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http` or `sse`."""
        return self._link.target.transport if isinstance(self._link.target, HttpTarget) else "stdio"

    async def run(self) -> None:
        """Keep the server connected; never returns and never raises but when it is cancelled."""
        waits = pauses()
        while True:
            began = anyio.current_time()
            reason = without_secrets(await self._link.hold(), self._link.target)
            if self._client is not None:
                self._lose(self._client)
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
        caller: Caller,
        *,
        on_progress: ProgressFnT | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask the server for `caller` and return its result as it came.

        A server that refuses because it has restarted is asked once more when it is back.

        Raises:
            MCPError: It answered with an error, or took too long.
            Unavailable: It is not connected, or the connection was lost before it answered.
        """
        ask = partial(self._ask, method, params, on_progress=on_progress, capabilities=capabilities)
        with self._questions.answered_by(caller):
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
            is_forgotten = isinstance(self._link.target, HttpTarget) and is_session_gone(client, error)
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
            self._client = self.lists = None
            self._link.ended.set()
            self._ready = anyio.Event()
            self._move(State("down", datetime.now(UTC), "the connection was lost"), {})
            self._tell_of_lists()

    def _connect(self, transport: Any) -> Client:
        self._news = News(self.name, self._on_news)
        return Client(
            transport,
            client_info=self._client_info,
            message_handler=self._news.on_message,
            elicitation_callback=self._questions.elicit,
            sampling_callback=self._questions.sample,
            cache=None,
        )

    async def _use(self, client: Client, is_ready: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            tools = await read_tools(client, self.name, page_seconds=_LIST_SECONDS)
            is_ready()
            self._client, self.lists = client, Lists(client, self.name)
            self._ready.set()
            self.about = about(client)
            self.protocol, self.features = client.protocol_version, features_beside_tools(client)
            self.capabilities = client.server_capabilities
            told = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": self.protocol}
            logger.info("%s is ready: %d tools, protocol %s", self.name, len(tools), self.protocol, extra=told)
            self._move(State("ready", datetime.now(UTC)), tools)
            self._tell_of_lists()
            tasks.start_soon(self._news.follow, client)
            tasks.start_soon(self.watches.keep, client)
            tasks.start_soon(self._keep_fresh, client)
            if isinstance(self._link.target, HttpTarget):
                tasks.start_soon(self._lose_when_dead, client)
            await self._link.ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    async def _lose_when_dead(self, client: Client) -> None:
        await is_dead(client)
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

    def _on_news(self, event: ServerEvent, is_certain: bool) -> None:
        if isinstance(event, ToolsListChanged):
            self._stale.set()
        elif isinstance(event, ResourceUpdated) or (
            self.lists is not None and (self.lists.forget(event) or is_certain)
        ):
            self._on_event(self, event)

    def _tell_of_lists(self) -> None:
        """Tell that what the server lists beside its tools has come or gone."""
        if self.capabilities is not None and self.capabilities.prompts is not None:
            self._on_event(self, PromptsListChanged())
        if self.capabilities is not None and self.capabilities.resources is not None:
            self._on_event(self, ResourcesListChanged())

    def _move(self, state: State, tools: Mapping[str, Tool]) -> None:
        # Down for another reason is still down since the first one.
        since = self._state.since if state.kind == self._state.kind else state.since
        self._state = replace(state, since=since)
        self.tools = tools
        self.settled.set()
        self._on_change(self)
