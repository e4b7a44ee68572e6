"""One upstream server: the task that supervises its connection, and everything known about the server.

Only `Upstream` owns a server's state. The gateway reads it. The other modules in this folder each manage one thing
(the connection, the lists, the questions) and report to `Upstream`. A failing server never affects the others.

States and transitions, with the method that makes each:

    from      to        when                                                                   by
    --------  --------  ---------------------------------------------------------------------  -------------------------
    (new)     starting  always                                                                 __post_init__
    starting  idle      lazy: its listing is known from an earlier run                         _restore_listing
    idle      starting  lazy: a request, or a subscription, needs it                           _supervise
    down      starting  lazy and known: the same, after a growing pause                        _supervise
    starting  ready     connected, and its tools are read                                      _become_ready
    down      ready     the same: the server is tried again after a growing pause              _become_ready
    ready     ready     its tools have changed, or the faults of its lists                     _keep_fresh, _note_faults
    ready     idle      lazy: no request and no subscription for a while                       _stop_when_unused
    ready     down      the connection ended, was lost in a request, or the server is dead     _lose
    starting  down      no connection: not started, not reached, too slow, no list of tools    _supervise
    down      down      still not, perhaps for another reason; it is down since the first one  _supervise
    any       starting  its entry in the configuration has changed                             reconfigure
    any       down      it is no longer in the configuration, for good                         remove

A server that is neither lazy nor ready has no tools. A lazy one whose listing is known keeps them in every state, and
is started by a request only.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from time import thread_time
from typing import Any, Final, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp import Client, MCPError
from mcp.server.subscriptions import ResourceUpdated, ServerEvent, ToolsListChanged
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, server_settings
from mcp_ext_tools_search.types import EXTENSION_ID, TOOLS
from mcp_types import REQUEST_TIMEOUT, Implementation, ServerCapabilities, Tool
from tools_search_hosts import EraChoice, ServerEntry
from tools_search_hosts.counts import number_of
from tools_search_hosts.endings import SESSION_LOST, answer_broke_off, connection_ended, session_lost

from tools_search_server.base.redaction import printable
from tools_search_server.upstreams.connection import Connection
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError, OfferedSearches
from tools_search_server.upstreams.lazy import Laziness, ListingFile, SavedListing
from tools_search_server.upstreams.listing import Kind, Lists, TooManyToolsError
from tools_search_server.upstreams.liveness import Liveness
from tools_search_server.upstreams.notifications import (
    LIST_EVENTS,
    Notifications,
    ResourceSubscriptions,
    WatchedResources,
)
from tools_search_server.upstreams.questions import ANSWER_SECONDS, Caller, Questions
from tools_search_server.upstreams.resource_texts import MAX_READ_BYTES, ResourceTexts
from tools_search_server.upstreams.state import (
    STEADY_SECONDS,
    Greeting,
    SessionLostError,
    State,
    StateKind,
    UnavailableError,
    attempt_delays,
    is_modern,
)

logger = logging.getLogger(__name__)

NAME: Final = "tools-search-gateway"
"""How this program identifies itself to servers and clients."""

_START_SECONDS: Final = 60
_READ_SECONDS: Final = 30
"""How long an HTTP server can be silent beyond the time limits of a request and its questions."""

_GATHER_SECONDS: Final = 0.1
"""How long to collect changes of the tool list before reading it once."""

_REST_SHARE: Final = 5
"""Minimum interval between readings, as a multiple of the last one's processor time, so that a server with many tools
that constantly announces changes does not delay others."""

_UNASKED_REST_SHARE: Final = 100
"""The same for readings without an announced change."""

_DOUBT_SECONDS: Final = 60
"""Minimum interval between readings of a list because the server does not know an item in it: callers could otherwise
cause any number of them."""

_RETURN_SECONDS: Final = 10
"""How long a request waits for a server that has restarted."""

_MAX_PROGRESS: Final = 64
"""Maximum progress messages queued for one request's caller; further ones are dropped."""

_MIN_IDLE_SECONDS: Final = 0.05

_SAVED: Final = {"tools": TOOLS, "prompts": PROMPTS, "resources": RESOURCES, "templates": RESOURCE_TEMPLATES}
"""The lists in a saved listing."""


def _sdk_client(transport: Any, era: EraChoice, **options: Any) -> Client:
    # Without the SDK's cache of pages: `Lists` reads raw pages and keeps the entries.
    client_info = Implementation(name=NAME, version=version("mcp-ext-tools-search"))
    return Client(transport, client_info=client_info, mode=era, cache=None, **options)


@dataclass(eq=False, repr=False)
class Upstream:
    """A configured server."""

    entry: ServerEntry
    """The server's name, and how to reach it."""

    on_change: Callable[[Upstream], None]
    """Called with this object when its tools or state have changed."""

    on_event: Callable[[Upstream, ServerEvent], None]
    """Called with this object and each change of anything except its tools."""

    _: KW_ONLY

    call_seconds: float
    """Time limit of a request without progress, unless the entry sets one."""

    max_message_bytes: int
    """Maximum size of a message, and of all of the server's lists together."""

    index_at_most: Callable[[], int | None] = lambda: None
    """Returns how many tools to read from a server with its own search; `None` for all."""

    on_notification: Callable[[str, ServerEvent], None] = lambda _, __: None
    """Called with the server's name and each list change that it announces."""

    laziness: Laziness | None = None
    """Which servers run only while they are used; `None` for none, regardless of their entries."""

    searched: Collection[Kind] = ()
    """What to search at the server in addition to its tools, if it offers that."""

    reads_texts: bool = False
    """Whether to read the texts of its resources, unless the server searches them itself."""

    gateway: str = ""
    """The gateway's id, by which it recognizes itself."""

    def __post_init__(self) -> None:
        self.name = self.entry.name
        self.state = State("starting", datetime.now(UTC))
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self.tools: Mapping[str, Tool] = {}
        self.delegated: DelegatedSearch | None = None
        """The connected server's own search, if it has too many tools for `tools`."""
        self.searches = OfferedSearches()
        """What else the connected server searches itself."""
        self.lists: Lists | None = None
        """Its prompts and resources, while it is connected or, for a lazy server, known."""
        self._watched: WatchedResources | None = None
        """The resources whose texts are read again when they change."""
        self.subscriptions = ResourceSubscriptions(self.name, self._note_update, self._is_watched)
        """The resources that callers subscribe to."""
        self.greeting = Greeting()
        """What it said about itself on the latest connection."""
        self._client: Client | None = None
        """The connected client; set in the state `ready` only."""
        self._state_changed = anyio.Event()
        """Set, and replaced, at each state change."""
        self._are_tools_stale = anyio.Event()
        self._doubted: dict[Kind, anyio.Event] = {}
        """Events that are set to have a list of prompts or resources read again."""
        self._trusted_until: dict[Kind, float] = {}
        """Until when a list is not read again because of an unknown item."""
        self._questions = Questions()
        self._start_wanted = anyio.Event()
        """Set when a request needs a lazy server to start."""
        self._last_used = -math.inf
        self._is_removed = False
        self._supervision: anyio.CancelScope | None = None
        """The cancel scope of supervision under the current entry."""
        self._configure()

    def _configure(self) -> None:
        """Set the attributes that depend on the entry."""
        entry = self.entry
        self._call_seconds = entry.call_seconds or self.call_seconds
        self._era: EraChoice = entry.era or "auto"
        connection = partial(
            Connection,
            server=self.name,
            start_seconds=entry.start_seconds or _START_SECONDS,
            read_seconds=self._call_seconds + _READ_SECONDS + ANSWER_SECONDS,
        )
        own = self._connection = connection(
            entry.target, self._make_client, self._use, max_message_bytes=self.max_message_bytes
        )
        self.texts: ResourceTexts | None = None
        """The texts of its resources, if they are read."""
        if self.reads_texts:
            make_client = partial(_sdk_client, era=self._era)
            reading = partial(connection, make_client=make_client, max_message_bytes=MAX_READ_BYTES)
            self.texts = ResourceTexts(self.name, lambda use: reading(own.target, use=use))
        laziness = self.laziness
        is_lazy = laziness is not None and (laziness.for_all if entry.lazy is None else entry.lazy)
        self._idle_seconds = laziness.idle_seconds if laziness and is_lazy else math.inf
        self._file = ListingFile(self.name, entry.target) if is_lazy else None
        self._saved: SavedListing | None = None
        """The saved listing of a lazy server. Without one, the server starts without a request."""
        self._is_pausing = False
        """Whether a lazy server must not start yet, because the delay after a failure is not over."""

    @property
    def transport(self) -> str:
        """The server's transport: `stdio`, `streamable-http`, `sse` or `unknown`."""
        return self._connection.transport

    @property
    def is_modern(self) -> bool:
        """Whether the connected server uses revision 2026-07-28 or later."""
        return self._client is not None and is_modern(self._client)

    @property
    def gateways(self) -> frozenset[str]:
        """The ids of the gateways that its tools can come through."""
        return frozenset() if self.lists is None else self.lists.gateways

    @property
    def tool_count(self) -> int | None:
        """The approximate number of its tools; `None` if the server searches itself and does not state it."""
        return len(self.tools) if self.delegated is None else self.delegated.size

    # The supervising task.

    async def run(self) -> None:
        """Keep the server connected (a lazy one while it is used) until it is removed. Raise only when cancelled."""
        while not self._is_removed:
            with anyio.CancelScope() as self._supervision:
                await self._supervise()

    def reconfigure(self, entry: ServerEntry) -> None:
        """Reconnect under a new entry with the same name. Callers keep their subscriptions to the server."""
        self._end("its configuration has changed")
        self.entry = entry
        self._configure()
        self.greeting = Greeting()
        self._move("starting")

    def remove(self) -> None:
        """End permanently: requests to this server fail with the reason, and `run` returns."""
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
        self._may_probe = True
        if self._file is not None:
            await self._restore_listing(self._file)
        while True:
            if self._saved is not None:
                if not self.subscriptions.is_any_wanted:  # it can end while a caller is subscribed
                    await self._start_wanted.wait()
                self._move("starting")
            began = anyio.current_time()
            reason = self._shown(await self._connection.run())
            if self._client is not None:
                self._lose(self._client)
            if self.state.kind == "idle":  # stopped on purpose: neither a failure nor a reason to pause
                continue
            # A lazy server starts over as soon as it is ready, since it is stopped when nobody uses it.
            if self._file is None and anyio.current_time() - began > STEADY_SECONDS:
                self._delays = attempt_delays()
            pause = next(self._delays[self._connection.ended.is_excess])
            extra = {"server": self.name, "state": "down", "reason": reason}
            # Each reason once, not with each attempt.
            level = logging.WARNING if reason != self.state.reason else logging.DEBUG
            logger.log(level, "%s is down: %s", self.name, reason, extra=extra)
            self._leave("down", reason)
            await anyio.sleep(pause)
            self._is_pausing = False

    def _make_client(self, transport: Any) -> Client:
        self._notifications = Notifications(self.name, self.note_change, self._questions.elicitation_complete)
        return _sdk_client(
            transport,
            self._era,
            extensions=[TOOLS_SEARCH],
            message_handler=self._notifications.on_message,
            elicitation_callback=self._questions.elicit,
            sampling_callback=self._questions.sample,
        )

    async def _use(self, client: Client, is_usable: Callable[[], None]) -> None:
        """Serve callers on a new connection until it ends."""
        notifications = self._notifications
        lists = Lists(
            self.name,
            client,
            self.max_message_bytes,
            partial(self._note_faults, client),
            lambda: notifications.hears,
            self.gateway,
            self._connection.isolate,
            self._saved_lists,
        )
        async with anyio.create_task_group() as tasks:
            # The server is ready only with its tools: a listing between the two would lack them.
            tools, delegated = await self._read_catalog(client, lists)
            is_usable()
            # Before any task that compares its client with the current one.
            self._client, self.lists = client, lists
            self.searches = OfferedSearches.of(client, self.name, self.searched, lists.patience)
            self._become_ready(client, tools, delegated)
            self._announce_lists()
            tasks.start_soon(notifications.follow, client)
            tasks.start_soon(self.subscriptions.keep, client)
            tasks.start_soon(self._keep_fresh, client, lists)
            for kind in (PROMPTS, RESOURCES):
                tasks.start_soon(self._read_when_doubted, kind, lists)
            tasks.start_soon(self._end_when_dead, client)
            if self.texts is not None and not self.searches.contents:
                self._watched = WatchedResources(client, tasks, self.texts.note_update)
                # A lazy server is connected only for a while, so it is not worth subscribing.
                tasks.start_soon(self.texts.keep_read, lists, self._watched if self._file is None else None)
            if self._file is not None:
                tasks.start_soon(self._stop_when_unused, client, lists, self._file)
            await self._connection.ended.wait()
            # Before the connection closes, which may take seconds.
            self._lose(client)
            tasks.cancel_scope.cancel()

    async def _read_catalog(self, client: Client, lists: Lists) -> tuple[Mapping[str, Tool], DelegatedSearch | None]:
        """Return the tools by name, or no tools and the server's own search if it has one and too many tools."""
        settings, most = server_settings(client), self.index_at_most()
        if settings is not None and most is not None:
            # The stated size saves reading a list that is too long, but is approximate, and may be missing or wrong.
            if settings.catalog_size is None or settings.catalog_size <= most:
                with suppress(TooManyToolsError):
                    return await lists.tools(most), None
            await lists.require_no_loop()
            delegated = DelegatedSearch(client, self.name, settings, lists.patience)
            # A server may advertise a search that fails: try it before relying on it.
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
            # Before reading, so that a change during the reading causes another one.
            self._are_tools_stale = anyio.Event()
            began = thread_time()
            if self.delegated is None:
                tools = await lists.tools()
                # The connection may have been lost while they were read, and the server must not look ready again.
                if tools != self.tools and self._client is client:
                    extra = {"server": self.name, "state": "ready", "tools": len(tools)}
                    logger.info("%s changed: %s", self.name, number_of(len(tools), "tool"), extra=extra)
                    self._move("ready", tools, self.state.reason)
            elif self.index_at_most() is None:  # a caller might see a part of it now
                tools, delegated = await self._read_catalog(client, lists)
                if self._client is client:
                    self._become_ready(client, tools, delegated)
            else:
                await lists.require_no_loop()
                self.delegated.changed()
                self.on_change(self)
            cost = thread_time() - began  # processor time: a server that only answers late delays nobody
            self._trusted_until[TOOLS] = anyio.current_time() + max(_DOUBT_SECONDS, _UNASKED_REST_SHARE * cost)
            await anyio.sleep(max(_GATHER_SECONDS, _REST_SHARE * cost))

    async def _read_when_doubted(self, kind: Kind, lists: Lists) -> None:
        while True:
            doubted = self._doubted[kind] = anyio.Event()
            await doubted.wait()
            if await lists.has_changed(kind):
                if kind is RESOURCES and self.texts is not None:
                    self.texts.note_change()
                self.on_event(self, LIST_EVENTS["prompts" if kind is PROMPTS else "resources"])

    async def _end_when_dead(self, client: Client) -> None:
        connection, probes = self._connection, self._may_probe
        liveness = Liveness(client, connection.ended, connection.is_http, self._call_seconds, self._questions, probes)
        try:
            connection.ended.set(await liveness.until_dead())
        finally:
            # Some programs end on an unknown request. They worked before they were probed.
            self._may_probe = liveness.has_answered or connection.is_http

    async def _stop_when_unused(self, client: Client, lists: Lists, file: ListingFile) -> None:
        """Save a lazy server's listing, and stop the server when it has had no request for a while."""
        self._delays = attempt_delays()
        self._last_used = anyio.current_time()
        # What a server finds itself cannot be known without a connection.
        if self.delegated is not None or self.searches.by_kind:
            return

        def seconds_left() -> float:
            is_reading = self.texts is not None and self.texts.is_incomplete
            is_busy = is_reading or self._questions.is_busy or self.subscriptions.is_any_wanted
            if is_busy or self._are_tools_missing(lists):
                self._last_used = anyio.current_time()
            return self._last_used + self._idle_seconds - anyio.current_time()

        await self._save(lists, file)
        while self._client is client:
            while (left := seconds_left()) > 0:  # noqa: ASYNC110 - the passing of time is the thing to wait for
                await anyio.sleep(max(left, _MIN_IDLE_SECONDS))
            await self._save(lists, file)  # its lists might have changed
            # It might have been used again while they were saved.
            if self._client is client and seconds_left() <= 0:
                logger.info("%s is stopped: it was not used for %g s", self.name, self._idle_seconds)
                self._leave("idle")

    # Transitions.

    def _move(self, kind: StateKind, tools: Mapping[str, Tool] | None = None, reason: str = "") -> None:
        """Enter a state, with these tools or the current ones. Entering the current state again keeps its `since`."""
        since = self.state.since if kind == self.state.kind else datetime.now(UTC)
        self.state = State(kind, since, reason)
        if tools is not None:
            self.tools = tools
        self.settled.set()
        self._state_changed.set()  # wakes those that wait now; later ones wait for the next change
        self._state_changed = anyio.Event()
        self.on_change(self)

    def _become_ready(self, client: Client, tools: Mapping[str, Tool], delegated: DelegatedSearch | None) -> None:
        """Record that the server is ready, and what it says about itself on this connection."""
        self.delegated, self.greeting = delegated, Greeting.of(client)
        protocol = self.greeting.protocol
        offer = number_of(len(tools), "tool")
        if delegated is not None:
            size = "many tools" if delegated.size is None else f"about {number_of(delegated.size, 'tool')}"
            offer = f"{size}, searched there"
        extra = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": protocol}
        logger.info("%s is ready: %s, protocol %s", self.name, offer, protocol, extra=extra)
        self._move("ready", tools, self._shown("" if self.lists is None else self.lists.faults))

    def _shown(self, reason: str) -> str:
        return printable(self._connection.secrets.masked(reason))

    def _note_faults(self, client: Client, faults: str) -> None:
        """Record the faults in a ready server's lists."""
        if self._client is client:
            self.state = replace(self.state, reason=self._shown(faults))

    def _lose(self, client: Client) -> None:
        """Stop using a connection, if it is still the current one."""
        if self._client is client:
            self._leave("down", "the connection was lost")
            self._announce_lists()

    def _leave(self, kind: Literal["idle", "down"], reason: str = "") -> None:
        """Enter a state without a connection, in which the server has only its saved listing."""
        self._client = self.delegated = self._watched = None
        self.searches = OfferedSearches()
        self._connection.ended.set()
        self._start_wanted = anyio.Event()  # a request that came before this state does not start the server again
        self._is_pausing = kind == "down"
        gateways, self.lists = self.gateways, None
        if self._saved is not None:
            self.lists = Lists(self.name, None, saved=self._saved_lists)
            self.lists.gateways = gateways
        self._move(kind, {} if self._saved is None else None, reason)

    def _are_tools_missing(self, lists: Lists) -> bool:
        """Return whether not all tools are known, which must not pass for a complete listing."""
        return self._saved is None and lists.has_failed(TOOLS)

    # A lazy server while it is not running.

    async def _restore_listing(self, file: ListingFile) -> None:
        """Restore the server's saved listing."""
        saved = await anyio.to_thread.run_sync(file.load)
        await anyio.lowlevel.checkpoint()  # the thread is waited for even if the entry was changed or removed meanwhile
        if saved is None or self._is_more_searched(saved):
            return
        self._saved = saved
        self.greeting = saved.greeting
        self.tools = {tool.name: tool for tool in saved.tools}
        logger.info("%s is idle: %s known from its last listing", self.name, number_of(len(saved.tools), "tool"))
        self._leave("idle")
        self._announce_lists()

    def _is_more_searched(self, saved: SavedListing) -> bool:
        """Return whether searches need more than the lists: the texts of its resources, or perhaps its own search."""
        offered = saved.greeting.capabilities or ServerCapabilities()
        may_search = EXTENSION_ID in {**(offered.extensions or {}), **(offered.experimental or {})}
        return (self.reads_texts and offered.resources is not None) or (bool(self.searched) and may_search)

    @property
    def _saved_lists(self) -> Mapping[Kind, Sequence[Any]]:
        return {} if self._saved is None else {kind: getattr(self._saved, name) for name, kind in _SAVED.items()}

    async def _save(self, lists: Lists, file: ListingFile) -> None:
        if self._are_tools_missing(lists):
            return
        listed: dict[str, Any] = {
            name: [*(self.tools if kind is TOOLS else await lists.entries(kind)).values()]
            for name, kind in _SAVED.items()
        }
        if self.lists is not lists:  # the connection is lost, and perhaps the lists with it
            return
        if self._saved is not None:  # a list that just failed keeps its old entries
            listed |= {name: getattr(self._saved, name) for name, kind in _SAVED.items() if lists.has_failed(kind)}
        self._saved = SavedListing(greeting=self.greeting, **listed)
        await anyio.to_thread.run_sync(file.save, self._saved)

    # Requests.

    async def ensure_running(self, tool: str | None = None) -> None:
        """Start a lazy server that is not running. If `tool` is given, the server must have it.

        Raises:
            UnavailableError: The server cannot start, or no longer has the tool.
        """
        self._last_used = anyio.current_time()
        if self._file is None or self._client is not None:
            return
        if self._is_pausing:
            text = f"The MCP server {self.name!r} is {self.state}. It is started again when asked later."
            raise UnavailableError(text)
        while True:
            self._start_wanted.set()  # in each state on the way, because `_leave` replaces the event
            await self._state_changed.wait()
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
        """Send `caller`'s request and return the result as the server sent it. Start a lazy server if needed.

        If the server refuses the request because it has restarted, repeat it once when the server is back.

        Raises:
            MCPError: The server answered with an error, or took too long.
            UnavailableError: The server is not connected, or the connection was lost before it answered.
        """

        async def ask(client: Client) -> dict[str, Any]:
            with self._questions.request(caller, self._call_seconds) as extend:
                waiting = 0

                # Called for each message, of which a server may send any number while the caller reads none.
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
                    await self._state_changed.wait()
            return await self._send(method, ask)
        finally:
            self._last_used = anyio.current_time()

    async def _send(self, method: str, ask: Callable[[Client], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        client, ended = self._client, self._connection.ended
        if client is None:
            raise UnavailableError(f"The MCP server {self.name!r} is {self.state}. It is retried automatically.")
        try:
            return await ask(client)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out") from None
        except MCPError as error:
            if session_lost(error):
                ended.set(SESSION_LOST)
                self._lose(client)
                text = f"The MCP server {self.name!r} no longer knows the session, as after a restart."
                raise SessionLostError(f"{text} It is retried automatically.") from error
            if not connection_ended(error):
                raise
            goes_on = answer_broke_off(error)  # only this response ended, and the connection may be all right
            if not goes_on:
                self._lose(client)
            why = f": {ended.reason}" if ended.reason else ""
            what = "broke off its answer to" if goes_on else "went away during"
            text = f"The MCP server {self.name!r} {what} this request{why}."
            raise UnavailableError(f"{text} It may or may not have taken effect.") from error

    # Changes.

    def doubt(self, kind: Kind, key: str) -> None:
        """Read a list again, at most once a minute, because the server does not know an item that may be in it."""
        lists, now = self.lists, anyio.current_time()
        if self._client is None or lists is None or now < self._trusted_until.get(kind, -math.inf):
            return
        if not (key in self.tools if kind is TOOLS else lists.has(kind, key)):
            return
        self._trusted_until[kind] = now + _DOUBT_SECONDS
        (self._are_tools_stale if kind is TOOLS else self._doubted[kind]).set()

    def note_change(self, event: ServerEvent, is_certain: bool = False) -> None:
        """Read a list again, or pass on an update of a resource.

        It is certain if the server has just announced it. Otherwise it may have missed that, another replica was
        notified, or other callers might see the list now.
        """
        if is_certain:
            self.on_notification(self.name, event)
        if isinstance(event, ToolsListChanged):
            self._are_tools_stale.set()
        elif isinstance(event, ResourceUpdated):
            self.subscriptions.note_update(event.uri)
            if self._watched is not None:
                self._watched.note_update(event.uri)
        elif self.lists is not None and (self.lists.forget(event) or is_certain):
            if self.texts is not None:
                self.texts.note_change()
            self.on_event(self, event)

    def _note_update(self, uri: str) -> None:
        if self.texts is not None:
            self.texts.note_update(uri)
        self.on_event(self, ResourceUpdated(uri))

    def _is_watched(self, uri: str) -> bool:
        return self._watched is not None and uri in self._watched.uris

    def _announce_lists(self) -> None:
        """Report that its prompts and resources have appeared or disappeared."""
        for kind in ("prompts", "resources"):
            if kind in self.greeting.features:
                self.on_event(self, LIST_EVENTS[kind])
