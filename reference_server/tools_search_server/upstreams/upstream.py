"""One upstream server: the task that supervises its connection, and everything that is known of the server.

`Upstream` alone owns the state of a server. The gateway reads it; the other modules of this folder hold one thing each
(a connection, the lists, the questions) and report to `Upstream`, which decides. Trouble of a server stays its own.

States and transitions, with the method that makes each:

    from      to        when                                                                        by
    --------  --------  --------------------------------------------------------------------------  -----------------
    (new)     starting  always                                                                      __init__
    starting  idle      lazy: its listing is known from an earlier run                              _recall
    idle      starting  lazy: a request, or a subscription, needs it                                _supervise
    down      starting  lazy and known: the same, after a growing pause                             _supervise
    starting  ready     connected, and its tools are read                                           _learn
    down      ready     the same: the server is tried again after a growing pause                   _learn
    ready     ready     its tools have changed, or the faults of its other lists                    _keep_fresh, _note
    ready     idle      lazy: no request and no subscription for a while                            _stop_when_unused
    ready     down      the connection has ended, was lost in a request, or the server is dead      _lose
    starting  down      no connection: not started, not reached, too slow, no list of tools         _supervise
    down      down      still not, perhaps for another reason; it is down since the first one       _supervise
    any       starting  its entry in the configuration has changed                                  reconfigure
    any       down      it is no longer in the configuration, for good                              remove

A server that is neither lazy nor ready has no tools. A lazy one whose listing is known keeps them in every state, and
is started by a request only.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from time import thread_time
from typing import Any, Final, Literal

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
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, server_settings
from mcp_types import REQUEST_TIMEOUT, Implementation, Tool
from tools_search_hosts import EraChoice, ServerEntry
from tools_search_hosts.endings import answer_broke_off, connection_ended, session_lost

from tools_search_server.base.redaction import printable, quoted
from tools_search_server.upstreams.connection import Connection
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError, OfferedSearches
from tools_search_server.upstreams.lazy import Laziness, ListingFile, SavedListing
from tools_search_server.upstreams.listing import PROMPTS, RESOURCES, TEMPLATES, Kind, Lists, TooManyToolsError
from tools_search_server.upstreams.liveness import Liveness
from tools_search_server.upstreams.notifications import Notifications, ResourceSubscriptions
from tools_search_server.upstreams.questions import ANSWER_SECONDS, Caller, Questions
from tools_search_server.upstreams.resource_texts import MAX_READ_BYTES, ResourceTexts
from tools_search_server.upstreams.state import (
    STEADY_SECONDS,
    Greeting,
    SessionLostError,
    State,
    UnavailableError,
    attempt_delays,
    is_modern,
)

logger = logging.getLogger(__name__)

NAME: Final = "tools-search-gateway"
"""How this program introduces itself, to servers and to clients."""

_START_SECONDS: Final = 60
_READ_SECONDS: Final = 30
"""What an HTTP server may be silent for in addition to the time that a request and its questions may take."""

_GATHER_SECONDS: Final = 0.1
"""Changes of the list of tools that come together are read once."""

_REST_SHARE: Final = 5
"""How many times the processor time of a reading passes before the next one: others must not wait for a server with
many tools that announces changes all the time."""

_UNASKED_REST_SHARE: Final = 100
"""The same for a reading that no change was announced for."""

_RETURN_SECONDS: Final = 10
"""How long a request waits for a server that has restarted."""

_MAX_PROGRESS: Final = 64
"""Messages of progress that wait for the caller of one request to read them; further ones are left out."""

_MIN_IDLE_SECONDS: Final = 0.05

_SAVED: Final = {"prompts": PROMPTS, "resources": RESOURCES, "templates": TEMPLATES}
"""The lists in a saved listing."""


def _reading_client(transport: Any, mode: EraChoice) -> Client:
    client_info = Implementation(name=NAME, version=version("mcp-ext-tools-search"))
    return Client(transport, client_info=client_info, mode=mode, cache=None)


class Upstream:
    """A configured server.

    Args:
        entry: Its name, and how to reach it.
        on_change: Called with this object when its tools or its state have changed.
        on_event: Called with this object and each change of anything but its tools.
        call_seconds: When a request is given up that reports no progress, unless the entry says otherwise.
        max_message_bytes: Size of a message, and of all lists of the server together.
        index_at_most: Returns how many tools of a server that can be searched itself are read; `None` for all.
        on_notification: Called with its name and each change of a list that the server announces.
        laziness: Which servers run only while they are used; `None` for none, regardless of their entries.
        searched: What is searched at the server in addition to its tools, if it offers that.
        reads_texts: Whether the texts of its resources are read, unless they are searched at the server.
        gateway: The id of the gateway, by which it knows itself again.
    """

    def __init__(
        self,
        entry: ServerEntry,
        on_change: Callable[[Upstream], None],
        on_event: Callable[[Upstream, ServerEvent], None],
        *,
        call_seconds: float,
        max_message_bytes: int,
        index_at_most: Callable[[], int | None] = lambda: None,
        on_notification: Callable[[str, ServerEvent], None] = lambda _, __: None,
        laziness: Laziness | None = None,
        searched: Collection[Kind] = (),
        reads_texts: bool = False,
        gateway: str = "",
    ) -> None:
        self.name = entry.name
        self.state = State("starting", datetime.now(UTC))
        """The state of the server now."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self.tools: Mapping[str, Tool] = {}
        self.delegated: DelegatedSearch | None = None
        """The search of the connected server itself, if its tools are so many that they are not among `tools`."""
        self.searches = OfferedSearches()
        """What else the connected server searches itself."""
        self.lists: Lists | None = None
        """Its prompts and resources, while it is connected or, if it is lazy, known."""
        self.subscriptions = ResourceSubscriptions(self.name, lambda uri: on_event(self, ResourceUpdated(uri)))
        """Its resources to which callers subscribe."""
        self.greeting = Greeting()
        """What it said of itself on the latest connection."""
        self._on_change = on_change
        self._on_event = on_event
        self._on_notification = on_notification
        self._default_call_seconds = call_seconds
        self._max_message_bytes = max_message_bytes
        self._index_at_most = index_at_most
        self._client: Client | None = None
        """The connected client: there is one in the state `ready` and in no other."""
        self._moved = anyio.Event()
        """Set when a state is entered, and replaced then."""
        self._are_tools_stale = anyio.Event()
        self._questions = Questions()
        self._searched = searched
        self._laziness = laziness
        self._reads_texts = reads_texts
        self._gateway = gateway
        self._wanted = anyio.Event()
        """Set when a request asks for a lazy server to be started."""
        self._last_used = -math.inf
        self._is_removed = False
        self._supervision: anyio.CancelScope | None = None
        """That of the supervision under the present entry."""
        self._configure(entry)

    def _configure(self, entry: ServerEntry) -> None:
        """Set what depends on the entry."""
        self._call_seconds = entry.call_seconds or self._default_call_seconds
        self._era: EraChoice = entry.era or "auto"
        connection = partial(
            Connection,
            server=self.name,
            start_seconds=entry.start_seconds or _START_SECONDS,
            read_seconds=self._call_seconds + _READ_SECONDS + ANSWER_SECONDS,
        )
        own = self._connection = connection(
            entry.target, self._make_client, self._use, max_message_bytes=self._max_message_bytes
        )
        self.texts: ResourceTexts | None = None
        """The texts of its resources, if they are read."""
        if self._reads_texts:
            make_client = partial(_reading_client, mode=self._era)
            reading = partial(connection, make_client=make_client, max_message_bytes=MAX_READ_BYTES)
            self.texts = ResourceTexts(self.name, lambda use: reading(own.target, use=use))
        laziness = self._laziness
        is_lazy = laziness is not None and (laziness.for_all if entry.lazy is None else entry.lazy)
        self._idle_seconds = laziness.idle_seconds if laziness and is_lazy else math.inf
        self._file = ListingFile(entry.target) if is_lazy else None
        self._saved: SavedListing | None = None
        """What is known of a lazy server; while there is nothing, it is started without a request."""
        self._is_pausing = False
        """Whether the pause after a failure is not over, in which a lazy server is not started."""

    @property
    def transport(self) -> str:
        """How the server is reached: `stdio`, `streamable-http`, `sse` or `unknown`."""
        return self._connection.transport

    @property
    def is_modern(self) -> bool:
        """Whether the connected server speaks 2026-07-28 or later."""
        return self._client is not None and is_modern(self._client)

    @property
    def gateways(self) -> frozenset[str]:
        """The ids of the gateways that its tools may come through."""
        return frozenset() if self.lists is None else self.lists.gateways

    @property
    def tool_count(self) -> int | None:
        """About how many tools it has; `None` if it is searched itself and does not say."""
        return len(self.tools) if self.delegated is None else self.delegated.size

    # The supervising task.

    async def run(self) -> None:
        """Keep the server connected, a lazy one while it is used, until it is removed; raises only when cancelled."""
        while not self._is_removed:
            with anyio.CancelScope() as self._supervision:
                await self._supervise()

    def reconfigure(self, entry: ServerEntry) -> None:
        """Reconnect under another entry of the same name; callers keep following what they follow of the server."""
        self._end("its configuration has changed")
        self._configure(entry)
        self.greeting = Greeting()
        self._move("starting")

    def remove(self) -> None:
        """End for good: requests of this server fail with the reason, and `run` returns."""
        self._is_removed = True
        self._end("it was taken out of the configuration")

    def _end(self, reason: str) -> None:
        self._connection.ended.set(reason)
        self._saved = None
        self._leave("down", reason)
        self._announce_lists()
        if self._supervision is not None:
            self._supervision.cancel()

    async def _supervise(self) -> None:
        self._delays = attempt_delays()
        self._stands_probes = True
        """Whether it can be asked for signs of life."""
        if self._file is not None:
            await self._recall(self._file)
        while True:
            if self._saved is not None:
                if not self.subscriptions.is_any_wanted:  # as when it ends by itself while a caller follows a resource
                    await self._wanted.wait()
                self._move("starting")
            began = anyio.current_time()
            reason = printable(self._connection.secrets.masked(await self._connection.run()))
            if self._client is not None:
                self._lose(self._client)
            if self.state.kind == "idle":
                continue
            if self._file is None and anyio.current_time() - began > STEADY_SECONDS:
                self._delays = attempt_delays()
            pause = next(self._delays[self._connection.ended.is_excess])
            extra = {"server": self.name, "state": "down", "reason": reason}
            level = logging.WARNING if reason != self.state.reason else logging.DEBUG  # each reason once
            logger.log(level, "%s is down: %s", self.name, reason, extra=extra)
            self._leave("down", reason)
            await anyio.sleep(pause)
            self._is_pausing = False

    def _make_client(self, transport: Any) -> Client:
        self._notifications = Notifications(self.name, self._on_announced, self._questions.elicitation_complete)
        return Client(
            transport,
            client_info=Implementation(name=NAME, version=version("mcp-ext-tools-search")),
            extensions=[TOOLS_SEARCH],
            mode=self._era,
            message_handler=self._notifications.on_message,
            elicitation_callback=self._questions.elicit,
            sampling_callback=self._questions.sample,
            cache=None,
        )

    async def _use(self, client: Client, is_usable: Callable[[], None]) -> None:
        """Serve callers on a new connection until it has ended."""
        notifications = self._notifications
        lists = Lists(
            self.name,
            client,
            self._max_message_bytes,
            partial(self._note, client),
            lambda: notifications.hears,
            self._gateway,
        )
        async with anyio.create_task_group() as tasks:
            tools, delegated = await self._read_catalog(client, lists)
            is_usable()
            self._client, self.lists = client, lists
            self.searches = OfferedSearches.of(client, self.name, self._searched)
            self._learn(client, tools, delegated)
            self._announce_lists()
            tasks.start_soon(notifications.follow, client)
            tasks.start_soon(self.subscriptions.keep, client)
            tasks.start_soon(self._keep_fresh, client, lists)
            tasks.start_soon(self._end_when_dead, client)
            if self.texts is not None and not self.searches.contents:
                tasks.start_soon(self.texts.keep_read, lists)
            if self._file is not None:
                tasks.start_soon(self._stop_when_unused, client, lists, self._file)
            await self._connection.ended.wait()
            self._lose(client)
            tasks.cancel_scope.cancel()

    async def _read_catalog(self, client: Client, lists: Lists) -> tuple[Mapping[str, Tool], DelegatedSearch | None]:
        """Return the tools by name, or none of them and the server's own search, where they are many and it has one."""
        settings, most = server_settings(client), self._index_at_most()
        if settings is not None and most is not None:
            if settings.catalog_size is None or settings.catalog_size <= most:
                with suppress(TooManyToolsError):
                    return await lists.tools(most), None
            await lists.require_no_loop()
            delegated = DelegatedSearch(client, self.name, settings)
            try:
                await delegated.search(self.name)
            except NoAnswerError as failure:
                text = "%s is indexed, since it cannot be searched: %s"
                logger.warning(text, self.name, failure, extra={"server": self.name})
            else:
                return {}, delegated
        return await lists.tools(), None

    async def _keep_fresh(self, client: Client, lists: Lists) -> None:
        cost = 0.0
        while True:
            fresh = lists.tools_fresh_seconds if self.delegated is None else math.inf
            with anyio.move_on_after(max(fresh, _UNASKED_REST_SHARE * cost)):
                await self._are_tools_stale.wait()
            is_announced = self._are_tools_stale.is_set()
            self._are_tools_stale = anyio.Event()
            began = thread_time()
            if self.delegated is None:
                try:
                    tools = await lists.tools()
                except MCPError as error:
                    if is_announced:
                        raise
                    text = "%s does not list its tools again, which stay as they were: %s"
                    logger.warning(text, self.name, quoted(error.message), extra={"server": self.name})
                    tools = self.tools
                if tools != self.tools and self._client is client:
                    extra = {"server": self.name, "state": "ready", "tools": len(tools)}
                    logger.info("%s changed: %d tools", self.name, len(tools), extra=extra)
                    self._move("ready", tools, self.state.reason)
            elif self._index_at_most() is None:  # a caller may see a part of it now
                tools, delegated = await self._read_catalog(client, lists)
                if self._client is client:
                    self._learn(client, tools, delegated)
            else:
                await lists.require_no_loop()
                self.delegated.changed()
                self._on_change(self)
            cost = thread_time() - began
            await anyio.sleep(max(_GATHER_SECONDS, _REST_SHARE * cost))

    async def _end_when_dead(self, client: Client) -> None:
        connection, probes = self._connection, self._stands_probes
        liveness = Liveness(client, connection.ended, connection.is_http, self._call_seconds, self._questions, probes)
        try:
            connection.ended.set(await liveness.until_dead())
        finally:
            # Some programs end at a request that they do not know. They served well before they were asked.
            self._stands_probes = liveness.has_answered or connection.is_http

    async def _stop_when_unused(self, client: Client, lists: Lists, file: ListingFile) -> None:
        """Save the listing of a lazy server, and stop it when it has had no request for a while."""
        self._delays = attempt_delays()
        self._last_used = anyio.current_time()
        if self.delegated is not None:  # a server that is searched cannot be known without a connection
            return

        def seconds_left() -> float:
            if self._questions.is_busy or self.subscriptions.is_any_wanted:
                self._last_used = anyio.current_time()
            return self._last_used + self._idle_seconds - anyio.current_time()

        await self._save(lists, file)
        while self._client is client:
            while (left := seconds_left()) > 0:  # noqa: ASYNC110 - the passing of time is the thing to wait for
                await anyio.sleep(max(left, _MIN_IDLE_SECONDS))
            await self._save(lists, file)  # its lists may have changed
            if self._client is client and seconds_left() <= 0:
                logger.info("%s is stopped: it was not used for %g s", self.name, self._idle_seconds)
                self._leave("idle")

    # Transitions.

    def _move(
        self,
        kind: Literal["starting", "ready", "idle", "down"],
        tools: Mapping[str, Tool] | None = None,
        reason: str = "",
    ) -> None:
        """Enter a state, with these tools or the present ones; a state that it is in lasts since it began."""
        since = self.state.since if kind == self.state.kind else datetime.now(UTC)
        self.state = State(kind, since, reason)
        if tools is not None:
            self.tools = tools
        self.settled.set()
        self._moved.set()
        self._moved = anyio.Event()
        self._on_change(self)

    def _learn(self, client: Client, tools: Mapping[str, Tool], delegated: DelegatedSearch | None) -> None:
        """Note that the server is ready, and what it says of itself on this connection."""
        self.delegated, self.greeting = delegated, Greeting.of(client)
        protocol = self.greeting.protocol
        offer = f"about {delegated.size or 'many'} tools, searched there" if delegated else f"{len(tools)} tools"
        extra = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": protocol}
        logger.info("%s is ready: %s, protocol %s", self.name, offer, protocol, extra=extra)
        self._move("ready", tools)

    def _note(self, client: Client, faults: str) -> None:
        """Note the faults in the lists of a server that is ready."""
        if self._client is client:
            self.state = replace(self.state, reason=printable(self._connection.secrets.masked(faults)))

    def _lose(self, client: Client) -> None:
        """Take a connection out of use, if it is still the one in use."""
        if self._client is client:
            self._leave("down", "the connection was lost")
            self._announce_lists()

    def _leave(self, kind: Literal["idle", "down"], reason: str = "") -> None:
        """Enter a state without a connection, in which a server has what is known of it from its saved listing."""
        self._client = self.delegated = None
        self.searches = OfferedSearches()
        self._connection.ended.set()
        self._wanted = anyio.Event()
        self._is_pausing = kind == "down"
        gateways, self.lists = self.gateways, None
        if self._saved is not None:
            saved = {kind: getattr(self._saved, name) for name, kind in _SAVED.items()}
            self.lists = Lists(self.name, None, saved=saved)
            self.lists.gateways = gateways
        self._move(kind, {} if self._saved is None else None, reason)

    # What is known of a lazy server while it does not run.

    async def _recall(self, file: ListingFile) -> None:
        """Know the server from its saved listing."""
        saved = self._saved = await anyio.to_thread.run_sync(file.load)
        if saved is None:
            return
        self.greeting = saved.greeting
        self.tools = {tool.name: tool for tool in saved.tools}
        logger.info("%s is idle: %d tools known from its last listing", self.name, len(saved.tools))
        self._leave("idle")
        self._announce_lists()

    async def _save(self, lists: Lists, file: ListingFile) -> None:
        listed: dict[str, Any] = {name: [*(await lists.entries(kind)).values()] for name, kind in _SAVED.items()}
        if self.lists is not lists:  # the connection is lost, and with it perhaps the lists
            return
        if self._saved is not None:  # a list that has failed now is as it was
            listed |= {name: getattr(self._saved, name) for name, kind in _SAVED.items() if lists.has_failed(kind)}
        self._saved = SavedListing(greeting=self.greeting, tools=[*self.tools.values()], **listed)
        await anyio.to_thread.run_sync(file.save, self._saved)

    # Requests.

    async def ensure_running(self, tool: str | None = None) -> None:
        """Start a lazy server if it does not run; it must then have the `tool`, if one is named.

        Raises:
            UnavailableError: It cannot be started, or no longer has the tool.
        """
        self._last_used = anyio.current_time()
        if self._file is None or self._client is not None:
            return
        if self._is_pausing:
            text = f"The MCP server {self.name!r} is {self.state}. It is started again when asked later."
            raise UnavailableError(text)
        while True:
            self._wanted.set()
            await self._moved.wait()
            if self.state.kind in ("ready", "down"):  # after "idle" and "starting"
                break
        if self._client is None:
            raise UnavailableError(f"The MCP server {self.name!r} is {self.state}.")
        if tool is not None and self.delegated is None and tool not in self.tools:
            text = f"The MCP server {self.name!r} was started for this call and has no tool {tool!r} any more."
            raise UnavailableError(f"{text} The list of tools has changed.")

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        on_progress: ProgressFnT | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send a request of `caller` and return its result as the server sent it; starts a lazy server.

        A server that refuses because it has restarted is asked once more when it is back.

        Raises:
            MCPError: It answered with an error, or took too long.
            UnavailableError: It is not connected, or the connection was lost before it answered.
        """

        async def ask(client: Client) -> dict[str, Any]:
            with self._questions.request(caller, self._call_seconds) as extend:
                waiting = 0

                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    nonlocal waiting
                    extend()
                    if on_progress is not None and waiting < _MAX_PROGRESS:
                        waiting += 1
                        try:
                            await on_progress(progress, total, message)
                        finally:
                            waiting -= 1

                return await raw_request(
                    client, method, params, seconds=None, on_progress=progressed, capabilities=capabilities
                )

        await self.ensure_running()
        try:
            return await self._send(method, ask)
        except SessionLostError:
            with anyio.move_on_after(_RETURN_SECONDS):
                while self._client is None:
                    await self._moved.wait()
            return await self._send(method, ask)
        finally:
            self._last_used = anyio.current_time()

    async def _send(self, method: str, ask: Callable[[Client], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        client, ended = self._client, self._connection.ended
        if client is None:
            raise UnavailableError(f"The MCP server {self.name!r} is {self.state}. It is tried again by itself.")
        try:
            return await ask(client)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
        except MCPError as error:
            # A program has no session to lose: when it is started again, the connection ends as well.
            is_lost = self._connection.is_http and not is_modern(client) and session_lost(error, ended.http_status)
            if not is_lost and not connection_ended(error):
                raise
            goes_on = answer_broke_off(error)
            if is_lost or not goes_on:
                self._lose(client)
            if is_lost:
                raise SessionLostError(f"The MCP server {self.name!r} has restarted and is not back yet.") from error
            why = f": {ended.reason}" if ended.reason else ""
            what = "broke off its answer to" if goes_on else "went away during"
            text = f"The MCP server {self.name!r} {what} this request{why}."
            raise UnavailableError(f"{text} It may or may not have taken effect.") from error

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
            if self.texts is not None:
                self.texts.note_change()
            self._on_event(self, event)

    def _announce_lists(self) -> None:
        """Report that its prompts and resources have come or gone."""
        for feature, event in (("prompts", PromptsListChanged()), ("resources", ResourcesListChanged())):
            if feature in self.greeting.features:
                self._on_event(self, event)
