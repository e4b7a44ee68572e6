"""All configured servers as one: their tools under public names, kept up to date while servers come and go."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_types import Implementation, Tool
from tools_search_hosts import ServerEntry, qualified_name
from tools_search_hosts.messages import MAX_MESSAGE_BYTES

from tools_search_server.access.configuration import Access
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway.changes import Announcer, Nobody
from tools_search_server.gateway.events import Events
from tools_search_server.gateway.offered import Offer, Offered
from tools_search_server.gateway.orientation import Described
from tools_search_server.gateway.replicas import Replicas
from tools_search_server.gateway.tool_metadata import ToolMetadata
from tools_search_server.upstreams.delegated_search import DelegatedSearch
from tools_search_server.upstreams.lazy import Laziness, made_for
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["CALL_SECONDS", "INDEX_AT_MOST", "Gateway", "Offer"]

CALL_SECONDS: Final = 90
"""As long as a person waits, and shorter than clients wait by default, who then learn which server did not answer."""

INDEX_AT_MOST: Final = 5_000

_GATHER_SECONDS = 0.05
"""Changes that come together are announced once."""


class Gateway:
    """The servers of a configuration and what they offer together.

    Args:
        entries: The servers.
        page_size: Tools on one page of the listing.
        call_seconds: When a request to a server is given up.
        max_message_bytes: Of a message of a server, and of all its lists together.
        client_info: Who the servers are told is asking.
        access: Who may see what of it.
        metadata: What is known of the tools beside what their servers publish.
        index_at_most: How many tools a server may have that can search them itself and is indexed all the same.
        laziness: Which servers run only while they are used; `None` for none, whatever their entries say.
        replicas: The other gateways over the same configuration.
    """

    def __init__(
        self,
        entries: Sequence[ServerEntry],
        *,
        page_size: int,
        call_seconds: float,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        client_info: Implementation,
        access: Access | None = None,
        metadata: ToolMetadata | None = None,
        index_at_most: int = INDEX_AT_MOST,
        laziness: Laziness | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self.access = access or Access()
        self.metadata = metadata or ToolMetadata()
        self.replicas = replicas or Replicas()
        self.events = Events()
        """Changes beside those of the tools, which wait for being announced."""
        self.upstreams = [
            made_for(
                entry,
                laziness,
                self._on_change,
                self.events.put,
                call_seconds=call_seconds,
                max_message_bytes=max_message_bytes,
                client_info=client_info,
                index_at_most=partial(self._most_indexed, entry.name, index_at_most),
                on_notification=self.replicas.tell_of_server,
            )
            for entry in entries
        ]
        self.access.on_revoked.append(self._reconsider)
        self.changes: Announcer = Nobody()
        self._offered = Offered([entry.name for entry in entries], page_size)
        self._remotes: Sequence[tuple[DelegatedSearch, int]] = ()
        self._changed = anyio.Event()
        self._began = -math.inf

    @property
    def offers(self) -> Mapping[str, Offer]:
        """The tools by public name, in the order of the listing: the same object until it changes."""
        return self._offered.offers

    @property
    def pages(self) -> ToolPages:
        """The listing of all of them: the same object until it changes."""
        return self._offered.pages

    @property
    def has_remotes(self) -> bool:
        """Whether the tools of a server are in no index: for fewer looks than at all of what may be many servers."""
        return bool(self._remotes)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the servers connected until the context ends; then no child process is left."""
        self._began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for upstream in self.upstreams:
                tasks.start_soon(upstream.run, name=f"upstream {upstream.name}")
            tasks.start_soon(self._announce)
            tasks.start_soon(self.events.pass_on, self._publish)
            tasks.start_soon(
                self.replicas.run, {upstream.name: upstream.note_change for upstream in self.upstreams}, self._missed
            )
            yield
            tasks.cancel_scope.cancel()

    async def settled(self, seconds: float, servers: Iterable[Described]) -> None:
        """Wait until each of `servers` has answered or failed once, or until `seconds` have passed since the start."""
        deadline = self._began + seconds
        if anyio.current_time() >= deadline:
            return
        with anyio.CancelScope(deadline=deadline):
            for upstream in servers:
                if not upstream.settled.is_set():  # waiting for what is there is a turn of the event loop all the same
                    await upstream.settled.wait()

    def announce_soon(self) -> None:
        """Have clients told that their lists have changed; what comes close together is told once."""
        self._changed.set()

    def offer(self, upstream: Upstream, tool: Tool) -> Offer:
        """Return a tool of a server as the gateway offers it."""
        meta = self.metadata.meta(upstream.name, tool)
        offered = tool.model_copy(update={"name": qualified_name(upstream.name, tool.name), "meta": meta})
        return Offer(offered, upstream, tool.name)

    def _most_indexed(self, server: str, index_at_most: int) -> int | None:
        """Return `None`, for all of its tools, where somebody sees a part of a server.

        Its own search would let the rest influence the order.
        """
        rules = [toolset.rule(server) for toolset in self.access.toolsets]
        return index_at_most if all(rule is None or rule.shows_all for rule in rules) else None

    def _reconsider(self, _: Collection[str]) -> None:
        """Have a server indexed that was searched where it is, and of which somebody sees a part now."""
        for upstream in self.upstreams:
            if upstream.delegated is not None and self._most_indexed(upstream.name, 0) is None:
                upstream.note_change(ToolsListChanged())

    def _on_change(self, changed: Upstream) -> None:
        if self._offered.put(changed.name, [self.offer(changed, tool) for tool in changed.tools.values()]):
            self.announce_soon()
        remotes = [
            (remote, remote.changes) for upstream in self.upstreams if (remote := upstream.delegated) is not None
        ]
        if remotes != self._remotes:
            self.announce_soon()
        self._remotes = remotes

    async def _publish(self, upstream: Upstream, event: ServerEvent) -> None:
        await self.changes.publish(upstream, event)

    async def _missed(self) -> None:
        for upstream in self.upstreams:
            upstream.note_change(ToolsListChanged())
            if upstream.lists is not None:  # without telling of each: everybody is told once
                upstream.lists.forget(PromptsListChanged())
                upstream.lists.forget(ResourcesListChanged())
        await self.changes.missed()

    async def _announce(self) -> None:
        while True:
            await self._changed.wait()
            await anyio.sleep(_GATHER_SECONDS)
            self._changed = anyio.Event()
            await self.changes.announce()
