"""`KnownTools`: tools whose definitions are known, of one server or of many, indexed for lookup and search."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_hosts import SEPARATOR
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import UpdatableIndex, unknown_words
from tools_search_ranking.hits import names_of

from tools_search_client.found import FoundTool

MANY: Final = 500
"""From how many new tools on they are indexed in a thread, because the event loop would stop for .1 s or more."""
_CLOSEST: Final = 3
_LIMITER: Final = RunVar[CapacityLimiter]("_LIMITER")
"""One for each event loop."""

Result = TypeVar("Result")


def known_tools(tools: tuple[FoundTool, ...], ranker: Ranker, before: KnownTools | None) -> KnownTools:
    """Return an index of `tools`: `before`, or the latest one by `ranker`, if that has the same tools, or a new one.

    So a federation and the conversations over its servers share one, if it can be updated. A new one is made from
    `before`, or if that is empty, from the latest one, and indexes only the differences.
    """
    if before is not None and before.tools == tools:
        return before
    try:
        latest = _LATEST.get(ranker)
    except TypeError:  # it cannot be hashed or weakly referenced
        return KnownTools(tools, ranker, before=before)
    if latest is not None and latest.tools == tools:
        return latest
    made = KnownTools(tools, ranker, before=before if before is not None and before.tools else latest)
    if made.is_updatable:  # other indexes may refer to their ranker, which could then never be freed
        _LATEST[ranker] = made
    return made


async def in_thread(index: Callable[[], Result]) -> Result:
    """Return what `index` returns, called in a thread, so that the event loop goes on.

    One thread indexes at a time, so that who waits for an index of the same tools gets that one (`known_tools`).
    """
    limiter = _LIMITER.get(None)
    if limiter is None:
        _LIMITER.set(limiter := CapacityLimiter(1))
    return await to_thread.run_sync(index, limiter=limiter)


class KnownTools:
    """Known tools, indexed for lookup and search. It is immutable.

    Args:
        tools: The tools, with unique full names.
        ranker: Indexes the tools.
        before: An earlier index by the same ranker. If its index can be updated, only changes are indexed.
    """

    def __init__(self, tools: Iterable[FoundTool], ranker: Ranker, *, before: KnownTools | None = None) -> None:
        self.tools: Final = tuple(tools)
        self._tools = {tool.name: tool for tool in self.tools}
        if before is None or not isinstance(before._index, UpdatableIndex):
            self._index = floored(ranker)(self._definitions(self._tools))
            return
        known = before._tools
        # Most are the same objects, and this is done once for each of many servers.
        others = [(old, tool) for name, tool in self._tools.items() if (old := known.get(name)) is not tool]
        new = [tool.name for old, tool in others if old is None or (old.server, old.item) != (tool.server, tool.item)]
        stale = [*(known.keys() - self._tools.keys()), *(known.keys() & new)]
        self._index = before._index.updated(stale, self._definitions(new))

    @cached_property
    def _spelled(self) -> Mapping[str, list[FoundTool]]:
        spelled = defaultdict[str, list[FoundTool]](list)
        for tool in self._tools.values():
            for spelling in spellings(tool):
                spelled[spelling].append(tool)
        return spelled

    @property
    def is_updatable(self) -> bool:
        """Whether an index with a few changed tools can be made from this one."""
        return isinstance(self._index, UpdatableIndex)

    def _definitions(self, names: Iterable[str]) -> list[Tool]:
        """Return tools under their unique full names, in the form that a gateway over the same servers ranks."""
        own = ((name, self._tools[name]) for name in names)
        return [tool_among_servers(tool.server, tool.tool).model_copy(update={"name": name}) for name, tool in own]

    def get(self, name: str) -> FoundTool | None:
        """Return the tool with this full name."""
        return self._tools.get(name)

    def named(self, name: str, servers: Collection[str] | None = None) -> list[FoundTool]:
        """Return the tools that `name` means, on these servers or all: bare, `server__tool` or `server:tool`.

        A full name takes precedence over bare names.
        """
        full = self._tools.get(name)
        meant = [full] if full else self._spelled.get(name, [])
        return [tool for tool in meant if servers is None or tool.server in servers]

    def closest(self, name: str, servers: Collection[str] | None = None) -> list[str]:
        """Return names of similar tools: close spellings first, then tools that match its words."""
        prefixes = {f"{tool.server}{mark}" for tool in self._tools.values() if tool.server for mark in (SEPARATOR, ":")}
        # Without the server's name, by which all its tools would be similar.
        bare = name.removeprefix(max(filter(name.startswith, prefixes), key=len, default=""))
        among = {
            tool.tool.name: full for full, tool in self._tools.items() if servers is None or tool.server in servers
        }
        near = [among[match] for match in difflib.get_close_matches(bare, among, n=_CLOSEST)]
        near += [tool.name for tool in self.ranked(name, servers=servers)[:_CLOSEST]]
        return list(dict.fromkeys(near))[:_CLOSEST]

    def ranked(
        self, query: str, *, among: Collection[str] | None = None, servers: Collection[str] | None = None
    ) -> Sequence[FoundTool]:
        """Return the tools that fit `query`, best first, without a limit; a blank query finds nothing.

        `among` (full names) and `servers` restrict the tools; `None` means no restriction.
        """
        if servers is not None:
            own = (name for name, tool in self._tools.items() if tool.server in servers)
            among = {name for name in own if among is None or name in among}
        return [self._tools[name] for name in names_of(self._hits(query, among))]

    def found(self, query: str, limit: int, *, among: Collection[str] | None = None) -> tuple[FoundTool, ...]:
        """Return the best `limit` of the same tools, with why they were found."""
        return tuple(
            replace(self._tools[hit.name], hit=HitMetadata(score=hit.score, matched=list(hit.matched)))
            for hit in self._hits(query, among)[:limit]
        )

    def _hits(self, query: str, among: Collection[str] | None) -> Sequence[Hit]:
        return self._index.search(query, visible=among) if query.strip() else ()

    def unknown_words(self, query: str, servers: Collection[str] | None = None) -> Sequence[str]:
        """Return the words of `query` that no tool on these servers (all by default) mentions."""
        own = {name for name, tool in self._tools.items() if servers is None or tool.server in servers}
        return unknown_words(self._index, query, visible=own)


_LATEST: Final = WeakKeyDictionary[Ranker, KnownTools]()
"""Each ranker's latest index. All conversations of a federation have its ranker."""


def spellings(tool: FoundTool) -> set[str]:
    """Return the names that refer to a tool: its full name, its bare name, `server__tool` and `server:tool`."""
    bare = tool.tool.name
    return {tool.name, bare, f"{tool.server}__{bare}", f"{tool.server}:{bare}"} if tool.server else {tool.name, bare}
