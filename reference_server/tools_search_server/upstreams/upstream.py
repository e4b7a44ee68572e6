"""One upstream server: the task that supervises its connection, and everything that is known of the server.

`Upstream` alone owns the state of a server. The gateway reads it; the other modules of this folder hold one thing each
(a connection, the lists, the questions) and report to `Upstream`, which decides. Trouble of a server stays its own.

States and transitions, with the method that makes each:

    from      to        when                                                                        by
    --------  --------  --------------------------------------------------------------------------  ----------
    (new)     starting  always                                                                      __init__
    starting  idle      lazy: its listing is known from an earlier run                              _recall
    idle      starting  lazy: a request, or a subscription, needs it                                run
    down      starting  lazy and known: the same, after a growing pause                             run
    starting  ready     connected, and its tools are read                                           _use
    down      ready     the same: the server is tried again after a growing pause                   _use
    ready     ready     its tools have changed, or the faults of its other lists                    _keep_fresh, _note
    ready     idle      lazy: no request and no subscription for a while                            _stop
    ready     down      the connection has ended, was lost in a request, or the server is dead      _lose
    starting  down      no connection: not started, not reached, too slow, no list of tools         run
    down      down      still not, perhaps for another reason; it is down since the first one       run

A server that is neither lazy nor ready has no tools. A lazy one whose listing is known keeps them in every state.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, cast

import anyio
import anyio.to_thread
from mcp import Client, MCPError
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request
from mcp_types import REQUEST_TIMEOUT, Implementation, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool
from tools_search_hosts import ServerEntry
from tools_search_hosts.endings import connection_ended

from tools_search_server.base.redaction import printable
from tools_search_server.upstreams.connection import Connection
from tools_search_server.upstreams.delegated_search import DelegatedSearch, read_catalog
from tools_search_server.upstreams.lazy import Laziness, ListingFile, OnDemand, SavedListing
from tools_search_server.upstreams.listing import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    Allowance,
    Lists,
    SavedLists,
    read_tools,
)
from tools_search_server.upstreams.liveness import Liveness
from tools_search_server.upstreams.notifications import Notifications, ResourceSubscriptions
from tools_search_server.upstreams.questions import ANSWER_SECONDS, Caller, Questions
from tools_search_server.upstreams.session import (
    features_of,
    instructions_of,
    is_modern,
    is_session_lost,
    summary_of,
)
from tools_search_server.upstreams.state import Backoff, SessionLostError, State, UnavailableError

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60
_LIST_SECONDS: Final = 30

_GATHER_SECONDS: Final = 0.1
"""Changes of the list of tools that come together are read once."""

_STEADY_SECONDS: Final = 30
"""How long a connection lasts after which the pauses before the next attempts are short again."""

_RETURN_SECONDS: Final = 10
"""How long a request waits for a server that has restarted."""


class Upstream:
    """A configured server.

    Args:
        entry: Its name, and how to reach it.
        on_change: Called with this object when its tools or its state have changed.
        on_event: Called with this object and each change of anything but its tools.
        call_seconds: When a request is given up that reports no progress, unless the entry says otherwise.
        max_message_bytes: Size of a message, and of all lists of the server together.
        client_info: Who is asking.
        index_at_most: Returns how many tools of a server that can be searched itself are read; `None` for all.
        on_notification: Called with its name and each change of a list that the server announces.
        laziness: Which servers run only while they are used; `None` for none, regardless of their entries.
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
        laziness: Laziness | None = None,
    ) -> None:
        self.name = entry.name
        self.tools: Mapping[str, Tool] = {}
        self.delegated: DelegatedSearch | None = None
        """The search of the connected server itself, if its tools are so many that they are not among `tools`."""
        self.lists: Lists | SavedLists | None = None
        """Its prompts and resources, while it is connected or, if it is lazy, known."""
        self.subscriptions = ResourceSubscriptions(self.name, lambda uri: on_event(self, ResourceUpdated(uri)))
        """Its resources to which callers subscribe."""
        self.summary = ""
        """Its purpose in its own words, on one short line."""
        self.instructions = ""
        """Its instructions to models, on one line."""
        self.protocol: str | None = None
        """The revision spoken on the latest connection."""
        self.features: Sequence[str] = ()
        """Its features other than tools, on the latest connection."""
        self.capabilities: ServerCapabilities | None = None
        """Its capabilities on the latest connection; `None` while it has never been reached."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self._on_change = on_change
        self._on_event = on_event
        self._on_notification = on_notification
        self._state = State("starting", datetime.now(UTC))
        self._backoff = Backoff()
        self._call_seconds = entry.call_seconds or call_seconds
        self._client_info = client_info
        self._allowance = Allowance(max_message_bytes)
        self._index_at_most = index_at_most
        self._client: Client | None = None
        self._ready = anyio.Event()
        self._are_tools_stale = anyio.Event()
        self._last_sent = -math.inf
        """When a request of a caller was sent for the last time."""
        self._stands_probes = True
        """Whether it can be asked for signs of life."""
        self._questions = Questions()
        self._notifications = Notifications(self.name, self._on_announced, self._questions.elicitation_complete)
        self._connection = Connection(
            entry.target,
            self._make_client,
            self._use,
            server=self.name,
            start_seconds=entry.start_seconds or _START_SECONDS,
            read_seconds=self._call_seconds + _LIST_SECONDS + ANSWER_SECONDS,
            max_message_bytes=max_message_bytes,
        )
        is_lazy = laziness is not None and laziness.applies_to(entry)
        self._on_demand = OnDemand(laziness.idle_seconds, ListingFile(entry.target)) if laziness and is_lazy else None

    @property
    def state(self) -> State:
        """The state of the server now."""
        return self._state

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http`, `sse` or `unknown`."""
        return self._connection.transport

    @property
    def is_modern(self) -> bool:
        """Whether the connected server speaks 2026-07-28 or later."""
        return self._client is not None and is_modern(self._client)

    @property
    def tool_count(self) -> int | None:
        """About how many tools it has; `None` if it is searched itself and does not say."""
        return len(self.tools) if self.delegated is None else self.delegated.size

    # The supervising task.

    async def run(self) -> None:
        """Keep the server connected, a lazy one while it is used; never returns and raises only when cancelled."""
        if self._on_demand is not None:
            await self._recall(self._on_demand)
        while True:
            if self._on_demand is not None and self._on_demand.saved is not None:
                await self._on_demand.wanted()
                self._move("starting")
            began = anyio.current_time()
            reason = printable(self._connection.secrets.masked(await self._connection.run()))
            if self._client is not None:
                self._lose(self._client)
            if self._state.kind == "idle":
                continue
            if self._on_demand is None and anyio.current_time() - began > _STEADY_SECONDS:
                self._backoff = Backoff()
            pause = self._backoff.delay(is_excess=self._connection.ended.is_excess)
            extra = {"server": self.name, "state": "down", "reason": reason}
            level = logging.WARNING if reason != self._state.reason else logging.DEBUG  # each reason once
            logger.log(level, "%s is down: %s", self.name, reason, extra=extra)
            self._move("down", self._tools_without_connection(), reason)
            if self._on_demand is not None:
                self._await_start(self._on_demand, pause)
            await anyio.sleep(pause)

    def _make_client(self, transport: Any) -> Client:
        self._notifications = Notifications(self.name, self._on_announced, self._questions.elicitation_complete)
        return Client(
            transport,
            client_info=self._client_info,
            extensions=[TOOLS_SEARCH],
            message_handler=self._notifications.on_message,
            elicitation_callback=self._questions.elicit,
            sampling_callback=self._questions.sample,
            cache=None,
        )

    async def _use(self, client: Client, is_usable: Callable[[], None]) -> None:
        """Serve callers on a new connection until it has ended."""
        async with anyio.create_task_group() as tasks:
            tools, delegated = await self._read_catalog(client)
            is_usable()
            self._client = client
            self.lists = Lists(client, self.name, self._allowance, partial(self._note, client))
            self._ready.set()
            self._learn(client, tools, delegated)
            self._announce_lists()
            tasks.start_soon(self._notifications.follow, client)
            tasks.start_soon(self.subscriptions.keep, client)
            tasks.start_soon(self._keep_fresh, client)
            tasks.start_soon(self._lose_when_dead, client)
            if self._on_demand is not None:
                tasks.start_soon(self._stop_when_unused, client, self._on_demand)
            await self._connection.ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    async def _read_catalog(self, client: Client) -> tuple[Mapping[str, Tool], DelegatedSearch | None]:
        most = self._index_at_most()
        return await read_catalog(client, self.name, self._allowance, index_at_most=most, page_seconds=_LIST_SECONDS)

    async def _lose_when_dead(self, client: Client) -> None:
        ended = self._connection.ended
        liveness = Liveness(
            client,
            ended,
            self._connection.is_http,
            self._call_seconds,
            owes_answer=lambda: self._questions.is_busy or self._last_sent > ended.heard,
            is_asking=lambda: self._questions.is_asking,
            sends_probes=self._stands_probes,
        )
        try:
            ended.set(await liveness.until_dead())
        finally:
            # Some programs end at a request that they do not know. They served well before they were asked.
            self._stands_probes = liveness.has_answered or self._connection.is_http
        self._lose(client)

    async def _keep_fresh(self, client: Client) -> None:
        while True:
            await self._are_tools_stale.wait()
            self._are_tools_stale = anyio.Event()
            if self.delegated is None:
                tools = await read_tools(client, self.name, self._allowance, page_seconds=_LIST_SECONDS)
                if tools != self.tools:
                    extra = {"server": self.name, "state": "ready", "tools": len(tools)}
                    logger.info("%s changed: %d tools", self.name, len(tools), extra=extra)
                    self._move("ready", tools, self._state.reason)
            elif self._index_at_most() is None:  # a caller may see a part of it now
                self._learn(client, *await self._read_catalog(client))
            else:
                self.delegated.changed()
                self._on_change(self)
            await anyio.sleep(_GATHER_SECONDS)

    # Transitions.

    def _move(
        self,
        kind: Literal["starting", "ready", "idle", "down"],
        tools: Mapping[str, Tool] | None = None,
        reason: str = "",
    ) -> None:
        """Enter a state, with these tools or the present ones; a state that it is in lasts since it began."""
        since = self._state.since if kind == self._state.kind else datetime.now(UTC)
        self._state = State(kind, since, reason)
        if tools is not None:
            self.tools = tools
        self.settled.set()
        self._on_change(self)

    def _learn(self, client: Client, tools: Mapping[str, Tool], delegated: DelegatedSearch | None) -> None:
        """Note that the server is ready, and what it says of itself on this connection."""
        self.delegated = delegated
        self.summary, self.instructions = summary_of(client), instructions_of(client)
        self.protocol, self.features = client.protocol_version, features_of(client)
        self.capabilities = client.server_capabilities
        extra = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": self.protocol}
        searched = delegated and f"about {delegated.size or 'many'} tools, searched there"
        logger.info(
            "%s is ready: %s, protocol %s", self.name, searched or f"{len(tools)} tools", self.protocol, extra=extra
        )
        self._move("ready", tools)

    def _note(self, client: Client, faults: str) -> None:
        """Note the faults in the lists of a server that is ready."""
        if self._client is client:
            self._state = replace(self._state, reason=printable(self._connection.secrets.masked(faults)))

    def _lose(self, client: Client) -> None:
        """Take a connection out of use, if it is still the one in use."""
        if self._client is client:
            self._client = self.lists = self.delegated = None
            self._connection.ended.set()
            self._ready = anyio.Event()
            self._move("down", self._tools_without_connection(), "the connection was lost")
            self._announce_lists()

    def _tools_without_connection(self) -> Mapping[str, Tool]:
        is_known = self._on_demand is not None and self._on_demand.saved is not None
        return self.tools if is_known else {}

    # A lazy server.

    async def _recall(self, on_demand: OnDemand) -> None:
        """Know the server from its saved listing."""
        saved = on_demand.saved = await anyio.to_thread.run_sync(on_demand.file.load)
        if saved is None:
            return
        self.summary, self.instructions = saved.about, saved.says or saved.about
        self.protocol, self.features = saved.protocol, saved.features
        self.capabilities = saved.capabilities
        self.lists = _saved_lists(saved)
        logger.info("%s is idle: %d tools known from its last listing", self.name, len(saved.tools))
        self._move("idle", {tool.name: tool for tool in saved.tools})
        self._announce_lists()

    async def _stop_when_unused(self, client: Client, on_demand: OnDemand) -> None:
        self._backoff = Backoff()
        on_demand.started()
        if self.delegated is not None:  # a server that is searched cannot be known without a connection
            return

        def is_busy() -> bool:
            return self._questions.is_busy or self.subscriptions.is_any_wanted

        await self._save(client, on_demand)
        await on_demand.until_unused(is_busy)
        await self._save(client, on_demand)  # its lists may have changed
        if self._client is client and on_demand.is_unused(is_busy=is_busy()):
            logger.info("%s is stopped: it was not used for %g s", self.name, on_demand.idle_seconds)
            self._client = None
            self._await_start(on_demand)
            self._move("idle")
            self._connection.ended.set()

    def _await_start(self, on_demand: OnDemand, pause: float = 0) -> None:
        on_demand.stopped(pause)
        self._ready = anyio.Event()
        self.lists = None if on_demand.saved is None else _saved_lists(on_demand.saved)

    async def _save(self, client: Client, on_demand: OnDemand) -> None:
        if (lists := self.lists) is None:
            return
        saved = on_demand.saved = SavedListing(
            about=self.summary,
            says=self.instructions,
            protocol=self.protocol,
            features=list(self.features),
            capabilities=client.server_capabilities,
            tools=list(self.tools.values()),
            prompts=cast("list[Prompt]", [*(await lists.entries(PROMPTS)).values()]),
            resources=cast("list[Resource]", [*(await lists.entries(RESOURCES)).values()]),
            templates=cast("list[ResourceTemplate]", [*(await lists.entries(TEMPLATES)).values()]),
        )
        await anyio.to_thread.run_sync(on_demand.file.save, saved)

    # Requests.

    async def ensure_running(self, tool: str | None = None) -> None:
        """Start a lazy server if it does not run.

        Args:
            tool: Its name for a tool that it must have then.

        Raises:
            UnavailableError: It cannot be started, or no longer has the tool.
        """
        if self._on_demand is None:
            return
        self._on_demand.touch()
        if self._client is not None:
            return
        if not self._on_demand.may_start:
            text = f"The MCP server {self.name!r} is {self._state}. It is started again when asked later."
            raise UnavailableError(text)
        await self._on_demand.start()
        if self._client is None:
            raise UnavailableError(f"The MCP server {self.name!r} is {self._state}.")
        if tool is not None and self.delegated is None and tool not in self.tools:
            text = f"The MCP server {self.name!r} was started for this call and has no tool {tool!r} any more."
            raise UnavailableError(f"{text} The list of tools has changed.")

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        *,
        on_progress: ProgressFnT | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send a request of `caller` and return its result as the server sent it; starts a lazy server.

        A server that refuses because it has restarted is asked once more when it is back.

        Raises:
            MCPError: It answered with an error, or took too long.
            UnavailableError: It is not connected, or the connection was lost before it answered.
        """
        await self.ensure_running()
        send = partial(self._send, method, params, on_progress=on_progress, capabilities=capabilities)
        try:
            with self._questions.answered_by(caller):
                try:
                    return await send()
                except SessionLostError:
                    with anyio.move_on_after(_RETURN_SECONDS):
                        await self._ready.wait()
                    return await send()
        finally:
            if self._on_demand is not None:
                self._on_demand.touch()

    async def _send(
        self, method: str, params: Mapping[str, Any], *, on_progress: ProgressFnT | None, **options: Any
    ) -> dict[str, Any]:
        client, ended = self._client, self._connection.ended
        if client is None:
            raise UnavailableError(f"The MCP server {self.name!r} is {self._state}. It is tried again by itself.")
        self._last_sent = anyio.current_time()
        try:
            with self._questions.time_limit(self._call_seconds) as extend:

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    extend()
                    if on_progress is not None:
                        await on_progress(progress, total, message)

                return await raw_request(client, method, params, seconds=None, on_progress=progressed, **options)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
        except MCPError as error:
            # A program has no session to lose: when it is started again, the connection ends as well.
            if self._connection.is_http and is_session_lost(client, error):
                lost: UnavailableError = SessionLostError(
                    f"The MCP server {self.name!r} has restarted and is not back yet."
                )
            elif connection_ended(error):
                why = f": {ended.reason}" if ended.reason else ""
                text = f"The MCP server {self.name!r} went away during this request{why}."
                lost = UnavailableError(f"{text} It may or may not have taken effect.")
            else:
                raise
            self._lose(client)
            raise lost from error

    # Changes.

    def note_change(self, event: ServerEvent) -> None:
        """Read a list again, since another replica has heard that it has changed, or since others may see it now."""
        self._on_announced(event, False)

    def _on_announced(self, event: ServerEvent, is_certain: bool) -> None:
        if is_certain:
            self._on_notification(self.name, event)
        if isinstance(event, ToolsListChanged):
            self._are_tools_stale.set()
        elif isinstance(event, ResourceUpdated):
            self.subscriptions.note_update(event.uri)
        elif self.lists is not None and (self.lists.forget(event) or is_certain):
            self._on_event(self, event)

    def _announce_lists(self) -> None:
        """Report that its prompts and resources have come or gone."""
        if "prompts" in self.features:
            self._on_event(self, PromptsListChanged())
        if "resources" in self.features:
            self._on_event(self, ResourcesListChanged())


def _saved_lists(saved: SavedListing) -> SavedLists:
    return SavedLists({PROMPTS: saved.prompts, RESOURCES: saved.resources, TEMPLATES: saved.templates})
