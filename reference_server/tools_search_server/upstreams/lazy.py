"""A server that runs only while it is used: known from its last listing, started by the first request to it.

Where nothing is known yet it is started once to learn what it offers. One that cannot be started when it is wanted
keeps its tools, says why to every caller, and is tried again by the first request after a growing pause.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import anyio
import anyio.to_thread
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from tools_search_hosts import ServerEntry

from tools_search_server.upstreams.listing import PROMPTS, RESOURCES, TEMPLATES, KeptLists
from tools_search_server.upstreams.listing_cache import Kept, ListingCache
from tools_search_server.upstreams.questions import Caller
from tools_search_server.upstreams.state import Pauses, State, UnavailableError
from tools_search_server.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300
_LEAST_LOOK: Final = 0.05


@dataclass(frozen=True)
class Laziness:
    """Which servers are lazy."""

    for_all: bool = False
    """Whether those are whose entries do not say."""

    idle_seconds: float = IDLE_SECONDS
    """How long one runs on without being asked."""


def made_for(entry: ServerEntry, laziness: Laziness | None, *arguments: Any, **options: Any) -> Upstream:
    """Return the upstream for an entry, lazy where it or `laziness` says so; arguments are those of `Upstream`."""
    is_lazy = False if laziness is None else laziness.for_all if entry.lazy is None else entry.lazy
    if laziness is None or not is_lazy:
        return Upstream(entry, *arguments, **options)
    cache = ListingCache(entry.target)
    return LazyUpstream(entry, *arguments, idle_seconds=laziness.idle_seconds, cache=cache, **options)


class LazyUpstream(Upstream):
    """A configured server that is started when it is wanted and stopped when it has not been for a while.

    Args:
        *arguments: As `Upstream`.
        idle_seconds: How long it runs on without being asked.
        cache: Where its last listing is kept.
        **options: As `Upstream`.
    """

    def __init__(self, *arguments: Any, idle_seconds: float, cache: ListingCache, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._idle_seconds = idle_seconds
        self._cache = cache
        self._kept: Kept | None = None
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        """Set when the attempt to start that is under way, or comes next, has ended in one way or the other."""
        self._left_alone_until = -math.inf
        self._used = -math.inf
        self._waits = Pauses()

    async def run(self) -> None:
        """Connect whenever the server is wanted; never returns and never raises but when it is cancelled."""
        kept = await anyio.to_thread.run_sync(self._cache.load)
        if kept is not None:
            self._recall(kept)
        while True:
            if self._kept is not None:
                await self._wanted.wait()
                self._move(State("starting", datetime.now(UTC)), self.tools)
            reason = await self._held()
            if self._state.kind == "idle":
                continue
            pause = self._waits.after(is_excess=self._connection.ended.is_excess)
            self._left_alone_until = anyio.current_time() + pause
            self._fail(reason)
            self._rest()
            if self._kept is None:
                await anyio.sleep(pause)

    async def ensure_running(self, tool: str | None = None) -> None:
        """Return when the server runs.

        Args:
            tool: Its name for a tool that it has to have, once it has been started.

        Raises:
            UnavailableError: It cannot be started, or has the tool no more.
        """
        self._used = anyio.current_time()
        if self._client is not None:
            return
        if self._used < self._left_alone_until:
            raise UnavailableError(
                f"The MCP server {self.name!r} is {self._state}. It is started again when asked later."
            )
        tried = self._tried
        self._wanted.set()
        await tried.wait()
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
        """Ask the server, as `Upstream.request` does, starting it where need be."""
        await self.ensure_running()
        try:
            return await super().request(method, params, caller, on_progress=on_progress, capabilities=capabilities)
        finally:
            self._used = anyio.current_time()

    def _tools_without_connection(self) -> Mapping[str, Tool]:
        return {} if self._kept is None else self.tools

    async def _while_connected(self, client: Client) -> None:
        self._waits = Pauses()
        self._left_alone_until = -math.inf
        self._used = anyio.current_time()
        self._tried.set()
        if self.delegated is not None:  # there is nothing to know it by without a connection
            return
        await self._keep(client)
        while not self._is_idle():  # noqa: ASYNC110 - it is the time that passes which is waited for
            await anyio.sleep(max(self._used + self._idle_seconds - anyio.current_time(), _LEAST_LOOK))
        await self._keep(client)  # its lists may have changed meanwhile
        if self._client is client and self._is_idle():
            self._stop()

    def _is_idle(self) -> bool:
        if self._questions.is_busy or self.subscriptions.is_any_wanted:
            self._used = anyio.current_time()
        return anyio.current_time() - self._used >= self._idle_seconds

    def _stop(self) -> None:
        logger.info("%s is stopped: it was not used for %g s", self.name, self._idle_seconds)
        self._client = None
        self._rest()
        self._move(State("idle", datetime.now(UTC)), self.tools)
        self._connection.ended.set()

    def _rest(self) -> None:
        """Let requests that come from now on wait for another start."""
        self._tried.set()
        self._tried, self._wanted, self._ready = anyio.Event(), anyio.Event(), anyio.Event()
        self.lists = self._kept_lists()

    async def _keep(self, client: Client) -> None:
        lists = self.lists
        if lists is None:
            return
        self._kept = Kept(
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
        await anyio.to_thread.run_sync(self._cache.save, self._kept)

    def _recall(self, kept: Kept) -> None:
        """Know the server from its last listing."""
        self._kept = kept
        self.summary, self.instructions = kept.about, kept.says or kept.about
        self.protocol, self.features = kept.protocol, kept.features
        self.capabilities = kept.capabilities
        self.lists = self._kept_lists()
        tools = {tool.name: tool for tool in kept.tools}
        logger.info("%s is idle: %d tools known from its last listing", self.name, len(tools))
        self._move(State("idle", datetime.now(UTC)), tools)
        self._tell_of_lists()

    def _kept_lists(self) -> KeptLists | None:
        if self._kept is None:
            return None
        kept = {PROMPTS: self._kept.prompts, RESOURCES: self._kept.resources, TEMPLATES: self._kept.templates}
        return KeptLists(
            {kind.method: {str(getattr(one, kind.key)): one for one in each} for kind, each in kept.items()}
        )
