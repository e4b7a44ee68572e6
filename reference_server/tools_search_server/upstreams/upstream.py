"""One upstream server and the task that keeps it connected, so that its troubles stay its own.

What is known of a server, connected or not: its state, its tools, and what it says of itself.

One request on a connection to a server, and what its failure says of the connection.
"""

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
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.client.endings import Ending, connection_ended
from mcp_ext_tools_search.client.raw import raw_request
from mcp_types import REQUEST_TIMEOUT, Implementation, ServerCapabilities, Tool
from tools_search_hosts import ServerEntry

from tools_search_server.base.redaction import printable
from tools_search_server.upstreams.connection import Connection
from tools_search_server.upstreams.delegated_search import DelegatedSearch, read_catalog
from tools_search_server.upstreams.listing import Allowance, Listed, Lists, read_tools
from tools_search_server.upstreams.liveness import Liveness
from tools_search_server.upstreams.notifications import News
from tools_search_server.upstreams.questions import ANSWER_SECONDS, Caller, Questions
from tools_search_server.upstreams.session import about, features_beside_tools, is_modern, is_session_gone, says
from tools_search_server.upstreams.state import Pauses, SessionLostError, State, UnavailableError
from tools_search_server.upstreams.subscriptions import ResourceSubscriptions

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60
_LIST_SECONDS: Final = 30
_QUIET_SECONDS: Final = 0.1
_STEADY_SECONDS: Final = 30
_RETURN_SECONDS: Final = 10

_MOST_EXTENSION: Final = 10
"""How many times as long as without it a request may take of which progress is reported."""


class KnownServer:
    """A configured server as others may look at it.

    Args:
        name: Its name in the configuration.
        on_change: Called when its tools or its state have changed.
        on_event: Called with each change beside its tools.
    """

    def __init__(self, name: str, on_change: Callable[[], None], on_event: Callable[[ServerEvent], None]) -> None:
        self.name = name
        self.tools: Mapping[str, Tool] = {}
        self.delegated: DelegatedSearch | None = None
        """Where its tools are found while it is connected, if they are so many that they are not among `tools`."""
        self.summary = ""
        """What it says it is for, in one short line."""
        self.instructions = ""
        """What it says of itself to models."""
        self.protocol: str | None = None
        """The revision spoken on the latest connection."""
        self.features: Sequence[str] = ()
        """What it offered on the latest connection beside tools."""
        self.capabilities: ServerCapabilities | None = None
        """What it declared on the latest connection; `None` while it has never been reached."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self._state = State("starting", datetime.now(UTC))
        self._changed = on_change
        self._tell = on_event

    @property
    def state(self) -> State:
        """How the server is now."""
        return self._state

    @property
    def tool_count(self) -> int | None:
        """About how many tools it has; `None` where it keeps them to itself and does not tell."""
        return len(self.tools) if self.delegated is None else self.delegated.size

    def _learn(self, client: Client, tools: Mapping[str, Tool], remote: DelegatedSearch | None) -> None:
        """Note that the server is ready, and what it says of itself on this connection."""
        self.delegated = remote
        self.summary, self.instructions = about(client), says(client)
        self.protocol, self.features = client.protocol_version, features_beside_tools(client)
        self.capabilities = client.server_capabilities
        told = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": self.protocol}
        count = f"{len(tools)} tools" if remote is None else f"about {remote.size or 'many'} tools, searched there"
        logger.info("%s is ready: %s, protocol %s", self.name, count, self.protocol, extra=told)
        self._move(State("ready", datetime.now(UTC)), tools)

    def _update(self, tools: Mapping[str, Tool]) -> None:
        """Note the tools of a server that is still connected."""
        if tools != self.tools:
            told = {"server": self.name, "state": "ready", "tools": len(tools)}
            logger.info("%s changed: %d tools", self.name, len(tools), extra=told)
            self._move(self._state, tools)

    def _fail(self, reason: str) -> None:
        """Note that the server cannot be used, and why; the log tells each reason once."""
        told = {"server": self.name, "state": "down", "reason": reason}
        level = logging.WARNING if reason != self._state.reason else logging.DEBUG
        logger.log(level, "%s is down: %s", self.name, reason, extra=told)
        self._move(State("down", datetime.now(UTC), reason), self._tools_without_connection())

    def _tools_without_connection(self) -> Mapping[str, Tool]:
        """Return the tools that are offered while the server is down."""
        return {}

    def _move(self, state: State, tools: Mapping[str, Tool]) -> None:
        # Down for another reason is still down since the first one.
        since = self._state.since if state.kind == self._state.kind else state.since
        self._state = replace(state, since=since)
        self.tools = tools
        self.settled.set()
        self._changed()

    def _tell_of_lists(self) -> None:
        """Tell that what the server lists beside its tools has come or gone."""
        if "prompts" in self.features:
            self._tell(PromptsListChanged())
        if "resources" in self.features:
            self._tell(ResourcesListChanged())


async def ask(
    client: Client, ended: Ending, server: str, method: str, params: Mapping[str, Any], *, is_http: bool, **options: Any
) -> dict[str, Any]:
    """Ask a server and return its result as it came.

    Args:
        client: The connection.
        ended: Knows why it ended.
        server: The server's name.
        method: What to ask.
        params: The parameters.
        is_http: Whether it is reached over HTTP.
        options: Those of `raw_request`.

    Raises:
        MCPError: It answered with an error, or took too long.
        UnavailableError: The connection was lost before it answered, and is of no more use.
    """
    try:
        return await raw_request(client, method, params, **options)
    except MCPError as error:
        # A program has no session to forget: when it is started again, the connection ends as well.
        if is_http and is_session_gone(client, error):
            raise SessionLostError(f"The MCP server {server!r} has restarted and is not back yet.") from error
        if not connection_ended(error):
            raise
        why = f": {ended.reason}" if ended.reason else ""
        text = f"The MCP server {server!r} went away during this request{why}. It may or may not have taken effect."
        raise UnavailableError(text) from error


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
        on_notification: Called with its name and each change of a list of which it tells by itself.
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
        on_notification: Callable[[str, ServerEvent], None] = lambda _, __: None,
    ) -> None:
        super().__init__(entry.name, lambda: on_change(self), lambda event: on_event(self, event))
        self.lists: Listed | None = None
        """What it lists beside its tools, while it is connected."""
        self.subscriptions = ResourceSubscriptions(self.name, lambda uri: self._tell(ResourceUpdated(uri)))
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
        self._told = on_notification
        self._ready = anyio.Event()
        self._stale = anyio.Event()
        self._news = News(self.name, self._on_news, self._questions.completed)
        self._connection = Connection(
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
        return self._connection.transport

    async def run(self) -> None:
        """Keep the server connected; never returns and never raises but when it is cancelled."""
        waits = Pauses()
        while True:
            began = anyio.current_time()
            reason = await self._held()
            if anyio.current_time() - began > _STEADY_SECONDS:
                waits = Pauses()
            self._fail(reason)
            await anyio.sleep(waits.after(is_excess=self._connection.ended.is_excess))

    async def _held(self) -> str:
        """Hold one connection for as long as it lasts, and return why it ended, or was none."""
        reason = printable(self._connection.secrets.masked(await self._connection.hold()))
        if self._client is not None:
            self._lose(self._client)
        return reason

    async def ensure_running(self, tool: str | None = None) -> None:
        """Return when the server runs, for those that run only when they are wanted.

        Args:
            tool: Its name for a tool that it has to have.

        Raises:
            UnavailableError: It cannot be started, or has the tool no more.
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
            UnavailableError: It is not connected, or the connection was lost before it answered.
        """
        once = partial(self._ask, method, params, on_progress=on_progress, capabilities=capabilities)
        with self._questions.answered_by(caller):
            try:
                return await once()
            except SessionLostError:
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
            raise UnavailableError(f"The MCP server {self.name!r} is {self._state}. It is tried again by itself.")
        ended = self._connection.ended
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

                options |= {"is_http": self._connection.is_http, "seconds": None, "on_progress": progressed}
                # Whatever comes of it returns or raises, so that the end of this block is the end of the time.
                return await ask(client, ended, self.name, method, params, **options)
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out")
        except UnavailableError:
            self._lose(client)
            raise

    def _lose(self, client: Client) -> None:
        """Take a connection out of use, if it still is the one in use."""
        if self._client is client:
            self._client = self.lists = self.delegated = None
            self._connection.ended.set()
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
            tasks.start_soon(self.subscriptions.keep, client)
            tasks.start_soon(self._keep_fresh, client)
            tasks.start_soon(self._while_connected, client)
            tasks.start_soon(self._lose_when_dead, client)
            await self._connection.ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    def _note(self, client: Client, faults: str) -> None:
        """Say of a server that is ready what is wrong with its lists of other things than tools."""
        if self._client is client:
            self._state = replace(self._state, reason=printable(self._connection.secrets.masked(faults)))

    async def _read_catalog(self, client: Client) -> tuple[Mapping[str, Tool], DelegatedSearch | None]:
        most = self._index_at_most()
        return await read_catalog(client, self.name, self._allowance, index_at_most=most, page_seconds=_LIST_SECONDS)

    async def _while_connected(self, client: Client) -> None:
        """Do what else there is to do on a connection; it ends with it."""

    async def _lose_when_dead(self, client: Client) -> None:
        ended = self._connection.ended
        liveness = Liveness(
            client,
            ended,
            self._connection.is_http,
            self._call_seconds,
            owes=lambda: self._questions.is_busy or self._asked > ended.heard,
            is_asking=lambda: self._questions.is_asking,
            asks=self._bears_asking,
        )
        try:
            ended.set(await liveness.death())
        finally:
            # Some programs end when they are sent what they do not know. They served well before they were asked.
            self._bears_asking = liveness.has_answered or self._connection.is_http
        self._lose(client)

    async def _keep_fresh(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            if self.delegated is None:
                self._update(await read_tools(client, self.name, self._allowance, page_seconds=_LIST_SECONDS))
            elif self._index_at_most() is None:  # somebody is to see a part of it now
                self._learn(client, *await self._read_catalog(client))
            else:
                self.delegated.changed()
                self._changed()
            await anyio.sleep(_QUIET_SECONDS)

    def note_change(self, event: ServerEvent) -> None:
        """Read a list again, since another replica has heard that it has changed, or since others may see it now."""
        self._on_news(event, False)

    def _on_news(self, event: ServerEvent, is_certain: bool) -> None:
        if is_certain:
            self._told(self.name, event)
        if isinstance(event, ToolsListChanged):
            self._stale.set()
        elif isinstance(event, ResourceUpdated):
            self.subscriptions.note(event.uri)
        elif self.lists is not None and (self.lists.forget(event) or is_certain):
            self._tell(event)
