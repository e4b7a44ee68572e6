"""One upstream server and the task that keeps it connected, so that its troubles stay its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import anyio
from mcp import Client, MCPError
from mcp.server.subscriptions import (
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import REQUEST_TIMEOUT, Implementation, Tool
from tools_search_hosts import ServerEntry

from tools_search_server.base.revealing import printable
from tools_search_server.upstreams.catalog_choice import read_catalog
from tools_search_server.upstreams.liveness import Liveness
from tools_search_server.upstreams.remote import Remote
from tools_search_server.upstreams.upstream_asking import ask
from tools_search_server.upstreams.upstream_known import KnownServer
from tools_search_server.upstreams.upstream_link import Link
from tools_search_server.upstreams.upstream_listing import Allowance, read_tools
from tools_search_server.upstreams.upstream_lists import Listed, Lists
from tools_search_server.upstreams.upstream_news import News
from tools_search_server.upstreams.upstream_questions import ANSWER_SECONDS, Caller, Questions
from tools_search_server.upstreams.upstream_session import is_modern
from tools_search_server.upstreams.upstream_state import Forgotten, Pauses, State, Unavailable
from tools_search_server.upstreams.upstream_watches import Watches

__all__ = ["Upstream"]

_START_SECONDS: Final = 60
_LIST_SECONDS: Final = 30
_QUIET_SECONDS: Final = 0.1
_STEADY_SECONDS: Final = 30
_RETURN_SECONDS: Final = 10

_MOST_EXTENSION: Final = 10
"""How many times as long as without it a request may take of which progress is reported."""


class Upstream(KnownServer):
    """A configured server: its tools while it is connected, and the way to ask it.

    Args:
        entry: Its name, and how to reach it.
        on_change: Called with this object when its tools or its state have changed.
        on_event: Called with this object and each change beside its tools.
        call_seconds: When a request is given up of which no progress is reported, unless the entry says otherwise.
        max_message_bytes: Of a message, and of all lists of the server together.
        client_info: Who is asking.
        index_at_most: Returns how many tools of a server that can be searched itself are read; `None` for all.
        on_told: Called with its name and each change of a list of which it tells by itself.
    """

    def __init__(
        self,
        entry: ServerEntry,
        on_change: Callable[[Upstream], None],
        on_event: Callable[[Upstream, ServerEvent], None],
        *,
        call_seconds: float,
        max_message_bytes: int,
        client_info: Implementation,
        index_at_most: Callable[[], int | None] = lambda: None,
        on_told: Callable[[str, ServerEvent], None] = lambda _, __: None,
    ) -> None:
        super().__init__(entry.name, lambda: on_change(self), lambda event: on_event(self, event))
        self.lists: Listed | None = None
        """What it lists beside its tools, while it is connected."""
        self.watches = Watches(self.name, lambda uri: self._tell(ResourceUpdated(uri)))
        """Its resources of which callers want to hear."""
        self._call_seconds = entry.call_seconds or call_seconds
        self._client_info = client_info
        self._allowance = Allowance(max_message_bytes)
        self._index_at_most = index_at_most
        self._client: Client | None = None
        self._questions = Questions()
        self._bears_asking = True
        """Whether it can be asked for signs of life."""
        self._asked = -math.inf
        """When it was sent a request of a caller for the last time."""
        self._told = on_told
        self._ready = anyio.Event()
        self._stale = anyio.Event()
        self._news = News(self.name, self._on_news, self._questions.completed)
        self._link = Link(
            entry.target,
            self._connect,
            self._use,
            server=self.name,
            start_seconds=entry.start_seconds or _START_SECONDS,
            read_seconds=self._call_seconds + _LIST_SECONDS + ANSWER_SECONDS,
            max_message_bytes=max_message_bytes,
        )

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http`, `sse` or `unknown`."""
        return self._link.transport

    async def run(self) -> None:
        """Keep the server connected; never returns and never raises but when it is cancelled."""
        waits = Pauses()
        while True:
            began = anyio.current_time()
            reason = await self._held()
            if anyio.current_time() - began > _STEADY_SECONDS:
                waits = Pauses()
            self._fail(reason)
            await anyio.sleep(waits.after(is_excess=self._link.ended.is_excess))

    async def _held(self) -> str:
        """Hold one connection for as long as it lasts, and return why it ended, or was none."""
        reason = printable(self._link.secrets.masked(await self._link.hold()))
        if self._client is not None:
            self._lose(self._client)
        return reason

    async def awake(self, tool: str | None = None) -> None:
        """Return when the server runs, for those that run only when they are wanted.

        Args:
            tool: Its name for a tool that it has to have.

        Raises:
            Unavailable: It cannot be started, or has the tool no more.
        """

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
        once = partial(self._ask, method, params, on_progress=on_progress, capabilities=capabilities)
        with self._questions.answered_by(caller):
            try:
                return await once()
            except Forgotten:
                with anyio.move_on_after(_RETURN_SECONDS):
                    await self._ready.wait()
                return await once()

    @property
    def is_modern(self) -> bool:
        """Whether the connected server speaks 2026-07-28 or later."""
        return self._client is not None and is_modern(self._client)

    async def _ask(
        self, method: str, params: Mapping[str, Any], *, on_progress: ProgressFnT | None, **options: Any
    ) -> dict[str, Any]:
        client = self._client
        if client is None:
            raise Unavailable(f"The MCP server {self.name!r} is {self._state}. It is tried again by itself.")
        ended = self._link.ended
        self._asked = anyio.current_time()
        try:
            with self._questions.clock(self._call_seconds) as clock:
                latest = self._asked + self._call_seconds * _MOST_EXTENSION

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    # Not while a question stops the clock, which starts it again with what was left.
                    if clock.deadline != math.inf:
                        clock.deadline = max(clock.deadline, min(anyio.current_time() + self._call_seconds, latest))
                    if on_progress is not None:
                        await on_progress(progress, total, message)

                options |= {"is_http": self._link.is_http, "seconds": None, "on_progress": progressed}
                # Whatever comes of it returns or raises, so that the end of this block is the end of the time.
                return await ask(client, ended, self.name, method, params, **options)
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out")
        except Unavailable:
            self._lose(client)
            raise

    def _lose(self, client: Client) -> None:
        """Take a connection out of use, if it still is the one in use."""
        if self._client is client:
            self._client = self.lists = self.remote = None
            self._link.ended.set()
            self._ready = anyio.Event()
            self._move(State("down", datetime.now(UTC), "the connection was lost"), self._tools_without_connection())
            self._tell_of_lists()

    def _connect(self, transport: Any) -> Client:
        self._news = News(self.name, self._on_news, self._questions.completed)
        return Client(
            transport,
            client_info=self._client_info,
            extensions=[TOOLS_SEARCH],
            message_handler=self._news.on_message,
            elicitation_callback=self._questions.elicit,
            sampling_callback=self._questions.sample,
            cache=None,
        )

    async def _use(self, client: Client, is_ready: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            tools, remote = await self._read_catalog(client)
            is_ready()
            self._client = client
            self.lists = Lists(client, self.name, self._allowance, partial(self._note, client))
            self._ready.set()
            self._learn(client, tools, remote)
            self._tell_of_lists()
            tasks.start_soon(self._news.follow, client)
            tasks.start_soon(self.watches.keep, client)
            tasks.start_soon(self._keep_fresh, client)
            tasks.start_soon(self._while_connected, client)
            tasks.start_soon(self._lose_when_dead, client)
            await self._link.ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    def _note(self, client: Client, faults: str) -> None:
        """Say of a server that is ready what is wrong with its lists of other things than tools."""
        if self._client is client:
            self._state = replace(self._state, reason=printable(self._link.secrets.masked(faults)))

    async def _read_catalog(self, client: Client) -> tuple[Mapping[str, Tool], Remote | None]:
        most = self._index_at_most()
        return await read_catalog(client, self.name, self._allowance, index_at_most=most, page_seconds=_LIST_SECONDS)

    async def _while_connected(self, client: Client) -> None:
        """Do what else there is to do on a connection; it ends with it."""

    async def _lose_when_dead(self, client: Client) -> None:
        ended = self._link.ended
        liveness = Liveness(
            client,
            ended,
            self._link.is_http,
            self._call_seconds,
            owes=lambda: self._questions.is_busy or self._asked > ended.heard,
            is_asking=lambda: self._questions.is_asking,
            asks=self._bears_asking,
        )
        try:
            ended.set(await liveness.death())
        finally:
            # Some programs end when they are sent what they do not know. They served well before they were asked.
            self._bears_asking = liveness.has_answered or self._link.is_http
        self._lose(client)

    async def _keep_fresh(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            if self.remote is None:
                self._update(await read_tools(client, self.name, self._allowance, page_seconds=_LIST_SECONDS))
            elif self._index_at_most() is None:  # somebody is to see a part of it now
                self._learn(client, *await self._read_catalog(client))
            else:
                self.remote.changed()
                self._changed()
            await anyio.sleep(_QUIET_SECONDS)

    def hear(self, event: ServerEvent) -> None:
        """Read a list again, since another replica has heard that it has changed, or since others may see it now."""
        self._on_news(event, False)

    def _on_news(self, event: ServerEvent, is_certain: bool) -> None:
        if is_certain:
            self._told(self.name, event)
        if isinstance(event, ToolsListChanged):
            self._stale.set()
        elif isinstance(event, ResourceUpdated):
            self.watches.note(event.uri)
        elif self.lists is not None and (self.lists.forget(event) or is_certain):
            self._tell(event)
