"""All configured upstreams of a gateway: their exposed tools, and the changes that they report.

* A tool is exposed under its qualified name, with the configuration's metadata. The listing is built on demand, since
  many upstreams come and go at once when a gateway starts or a machine behind it fails.
* Changes go to the `notifiers`, which know the clients. Tool changes that come close together are announced once; all
  others are passed on in order, with none lost or repeated. An upstream never waits for a slow client.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp.server.subscriptions import ServerEvent
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_types import Tool
from tools_search_hosts import ServerEntry
from tools_search_hosts.messages import MAX_MESSAGE_BYTES
from tools_search_hosts.names import renamed

from tools_search_server.access.configuration import Access
from tools_search_server.base.defaults import CALL_SECONDS, INDEX_AT_MOST, START_SECONDS, Searched
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway.replicas import RedisAddress, Replicas
from tools_search_server.gateway.search_outcomes import SearchOutcomes
from tools_search_server.gateway.tool_metadata import ToolMetadata
from tools_search_server.upstreams.delegated_search import DelegatedSearch
from tools_search_server.upstreams.lazy import Laziness
from tools_search_server.upstreams.listing import Kind
from tools_search_server.upstreams.notifications import LIST_EVENTS
from tools_search_server.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from tools_search_server.gateway.changes import ViewNotifier

logger = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 0.05
"""How long changes are gathered, so that a flood of them is announced only now and then."""


@dataclass(frozen=True)
class GatewayOptions:
    """Settings of a gateway that the command line offers."""

    start_deadline: float = START_SECONDS
    """Maximum seconds that a request for tools waits for upstreams to start."""

    call_timeout: float = CALL_SECONDS
    """Seconds without progress until a call times out, unless the server's entry overrides it."""

    toolset: str | None = None
    """Name of the toolset for callers who are not principals; `None` shows them everything."""

    index_at_most: int = INDEX_AT_MOST
    """Maximum number of tools of a server that is indexed here although it supports `tools/search`."""

    laziness: Laziness | None = field(default_factory=Laziness)
    """Which servers run only while in use; `None` for none, regardless of their entries."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Maximum size of a server's decoded message, and of all its lists together."""

    keeps_queries: bool = False
    """Whether the health document contains the latest queries of unsuccessful searches."""

    redis: RedisAddress | None = None
    """Redis channel that shares list changes with other replicas; `None` without replicas."""

    searched: frozenset[Searched] = frozenset()
    """Items that callers can search in addition to tools."""

    @property
    def searched_kinds(self) -> Sequence[Kind]:
        """The lists that callers can search in addition to the list of tools."""
        resources = (RESOURCES, RESOURCE_TEMPLATES) if {"resources", "contents"} & self.searched else ()
        return (*resources, *((PROMPTS,) if "prompts" in self.searched else ()))


@dataclass(frozen=True)
class ExposedTool:
    """A tool under its public name, with the upstream that handles its calls."""

    tool: Tool
    upstream: Upstream
    original: Tool
    """The tool as its upstream lists it."""


class Gateway:
    """The upstreams in a configuration, and all their tools."""

    def __init__(
        self,
        entries: Sequence[ServerEntry],
        options: GatewayOptions,
        *,
        page_size: int,
        access: Access | None = None,
        metadata: ToolMetadata | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self.options = options
        self.id = token_hex(16)
        """Lets this gateway recognize itself behind other gateways."""
        self.access = access or Access()
        self.metadata = metadata or ToolMetadata()
        self.replicas = replicas or Replicas()
        self.searches = SearchOutcomes(
            keeps_queries=options.keeps_queries, others=[kind.member for kind in options.searched_kinds]
        )
        self._tasks: TaskGroup | None = None
        self.upstreams = [*map(self._upstream, entries)]
        """In the order of the configuration."""
        self._heard_elsewhere = {upstream.name: upstream.note_change for upstream in self.upstreams}
        """Functions to call when another replica learns of a change to a server's list, by server."""
        self.access.on_revoked.append(self._reconsider_indexing)
        self.notifiers: list[ViewNotifier] = []
        """One for each endpoint."""
        self._exposed_by_server: dict[str, Sequence[ExposedTool]] = {entry.name: () for entry in entries}
        self._exposed: Mapping[str, ExposedTool] = {}
        self._pages = ToolPages([], page_size)
        self._page_size = page_size
        self._is_current = True
        self._delegated: Sequence[tuple[DelegatedSearch, int]] = ()
        self._tools_changed = anyio.Event()
        self._events: dict[tuple[Upstream, ServerEvent], None] = {}
        """The changes of prompts and resources to pass on, in order."""
        self._has_events = anyio.Event()
        self._began = -math.inf

    @property
    def tools(self) -> Mapping[str, ExposedTool]:
        """The exposed tools by public name, in the order of the listing: the same object until it changes."""
        if not self._is_current:
            # Qualified names never collide.
            self._exposed = {
                exposed.tool.name: exposed for tools in self._exposed_by_server.values() for exposed in tools
            }
            tools = [exposed.tool for exposed in self._exposed.values()]
            self._pages = ToolPages(tools, self._page_size, after=self._pages)
            self._is_current = True
        return self._exposed

    @property
    def pages(self) -> ToolPages:
        """The listing of all exposed tools: the same object until it changes."""
        _ = self.tools
        return self._pages

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the upstreams connected until the context ends. It leaves no child process behind."""
        self._began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for upstream in self.upstreams:
                tasks.start_soon(upstream.run, name=f"upstream {upstream.name}")
            tasks.start_soon(self._announce)
            tasks.start_soon(self._pass_on_events)
            for notifier in self.notifiers:
                tasks.start_soon(notifier.sessions.run)
            tasks.start_soon(self.replicas.run, self._heard_elsewhere, self._missed)
            self._tasks = tasks
            yield
            self._tasks = None  # a configuration that is read meanwhile starts nothing
            tasks.cancel_scope.cancel()

    def reconfigure(self, entries: Sequence[ServerEntry], metadata: ToolMetadata) -> None:
        """Start new servers, stop removed ones, and restart those whose entry has changed.

        Other servers are not affected. Clients are notified as for any change.
        """
        known = {upstream.name: upstream for upstream in self.upstreams}
        stated = {entry.name: entry for entry in entries}
        for name in known.keys() - stated.keys():
            logger.info("%s was removed from the configuration", name, extra={"server": name})
            known.pop(name).remove()
        added = [self._upstream(entry) for name, entry in stated.items() if name not in known]
        for upstream in added:
            logger.info("%s was added to the configuration", upstream.name, extra={"server": upstream.name})
            known[upstream.name] = upstream
        self.upstreams = [known[name] for name in stated]
        # Without the tools exposed so far, every tool is exposed again.
        kept = self._exposed_by_server if metadata == self.metadata else {}
        self.metadata = metadata
        # Before an upstream is started or changed, which reports its change to this object.
        self._exposed_by_server = {name: kept.get(name, ()) for name in stated}
        self._heard_elsewhere.clear()
        self._heard_elsewhere.update((upstream.name, upstream.note_change) for upstream in self.upstreams)
        for name, upstream in known.items():
            if upstream.entry != stated[name]:
                logger.info("%s restarts because its entry has changed", name, extra={"server": name})
                upstream.reconfigure(stated[name])
            self._on_change(upstream)
        if self._tasks is not None:
            for upstream in added:
                self._tasks.start_soon(upstream.run, name=f"upstream {upstream.name}")
        self._is_current = False  # views also contain servers without tools
        self.announce_soon()

    def _upstream(self, entry: ServerEntry) -> Upstream:
        options = self.options
        return Upstream(
            entry,
            self._on_change,
            self._on_event,
            call_seconds=options.call_timeout,
            max_message_bytes=options.max_message_bytes,
            index_at_most=partial(self._most_indexed, entry.name, options.index_at_most),
            on_notification=self.replicas.send_server_change,
            laziness=options.laziness,
            searched=options.searched_kinds,
            reads_texts="contents" in options.searched,
            gateway=self.id,
        )

    @property
    def start_ends(self) -> float:
        """When the gateway has started, at the latest: until then, requests wait for what its upstreams have."""
        return self._began + self.options.start_deadline

    async def settled(self, seconds: float, upstreams: Iterable[Upstream]) -> None:
        """Wait until each upstream has answered or failed once, or until `seconds` after the gateway's start."""
        deadline = self._began + seconds
        if anyio.current_time() >= deadline:
            return
        with anyio.CancelScope(deadline=deadline):
            for upstream in upstreams:
                if not upstream.settled.is_set():  # waiting for a set event still costs an event loop iteration
                    await upstream.settled.wait()

    def announce_soon(self) -> None:
        """Announce a change of tools, together with others that follow shortly."""
        self._tools_changed.set()

    def close_subscriptions(self) -> None:
        """End all clients' open subscriptions with a result, as the protocol requires."""
        for notifier in self.notifiers:
            notifier.close()

    def expose(self, upstream: Upstream, tool: Tool) -> ExposedTool:
        """Return an upstream's tool as the gateway exposes it."""
        meta = self.metadata.meta(upstream.name, tool)
        public = renamed(upstream.name, tool).model_copy(update={"meta": meta})
        return ExposedTool(public, upstream, tool)

    def _most_indexed(self, server: str, index_at_most: int) -> int | None:
        """Return the maximum number of tools for which a server is indexed; `None` for no maximum.

        There is none if any toolset shows only part of the server, because hidden tools would influence the order of
        the server's own search.
        """
        rules = [toolset.rule(server) for toolset in self.access.toolsets]
        return index_at_most if all(rule is None or rule.shows_all for rule in rules) else None

    def _reconsider_indexing(self, _: Collection[str]) -> None:
        """Index delegated upstreams of which a changed toolset now shows only part."""
        for upstream in self.upstreams:
            if upstream.delegated is not None and self._most_indexed(upstream.name, 0) is None:
                upstream.note_change(LIST_EVENTS["tools"])

    def _on_change(self, changed: Upstream) -> None:
        before = {exposed.original.name: exposed for exposed in self._exposed_by_server[changed.name]}
        # An unchanged tool stays the same object, so that its wire forms are reused.
        exposed = [
            known if (known := before.get(name)) is not None and known.original == tool else self.expose(changed, tool)
            for name, tool in changed.tools.items()
        ]
        if exposed != list(self._exposed_by_server[changed.name]):
            self._exposed_by_server[changed.name] = exposed
            self._is_current = False
            self.announce_soon()
        # Of a delegated upstream, only the number of announced changes is known here.
        delegated = [
            (delegate, delegate.changes) for upstream in self.upstreams if (delegate := upstream.delegated) is not None
        ]
        if delegated != self._delegated:
            self.announce_soon()
        self._delegated = delegated

    def _on_event(self, upstream: Upstream, event: ServerEvent) -> None:
        # Once until it is passed on: a flood of changes must not exhaust memory or delay other servers' changes.
        self._events[upstream, event] = None
        self._has_events.set()

    async def _announce(self) -> None:
        while True:
            await self._tools_changed.wait()
            await anyio.sleep(_GATHER_SECONDS)
            # Before announcing, so that a change during the announcement causes another one.
            self._tools_changed = anyio.Event()
            await self._notify(methodcaller("announce"))

    async def _pass_on_events(self) -> None:
        while True:
            await self._has_events.wait()
            await anyio.sleep(_GATHER_SECONDS)
            self._has_events = anyio.Event()
            gathered, self._events = self._events, {}
            for upstream, event in gathered:
                await self._notify(methodcaller("publish", upstream, event))

    async def _notify(self, notify: Callable[[ViewNotifier], Coroutine[Any, Any, None]]) -> None:
        async with anyio.create_task_group() as tasks:
            for notifier in self.notifiers:
                tasks.start_soon(notify, notifier)

    def _missed(self) -> None:
        for upstream in self.upstreams:
            upstream.note_change(LIST_EVENTS["tools"])
            if upstream.lists is not None:  # this sends no event: all clients are notified below
                upstream.lists.forget(LIST_EVENTS["prompts"])
                upstream.lists.forget(LIST_EVENTS["resources"])
        for notifier in self.notifiers:
            notifier.missed()
