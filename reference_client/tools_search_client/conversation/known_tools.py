"""The tools whose definitions are at hand: by name, and by rank for a query."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import SEPARATOR
from tools_search_hosts.names import tool_among_servers
from tools_search_ranking import floored
from tools_search_ranking.hits import names_of

from tools_search_client.found import FoundTool

__all__ = ["KnownTools", "spellings"]

_CLOSEST: Final = 3


class KnownTools:
    """Tools of several servers, ready to be looked up and searched.

    Args:
        tools: Each with a name of its own.
        ranker: Ranks all of them together, whatever their server.
    """

    def __init__(self, tools: Iterable[FoundTool], ranker: Ranker) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._spelled: dict[str, list[FoundTool]] = {}
        for tool in self._tools.values():
            for spelling in spellings(tool):
                self._spelled.setdefault(spelling, []).append(tool)
        # Ranked under the full names, which are unique, and as a gateway over the same servers ranks them.
        self._index = floored(ranker)(
            [
                tool_among_servers(tool.server, tool.tool).model_copy(update={"name": name})
                for name, tool in self._tools.items()
            ]
        )

    def get(self, name: str) -> FoundTool | None:
        """Return the tool with this full name."""
        return self._tools.get(name)

    def named(self, name: str, servers: Collection[str] | None = None) -> list[FoundTool]:
        """Return the tools that `name` means, of these servers or of all: bare, as `server__tool` or `server:tool`.

        The full name of one tool goes before the bare name of others.
        """
        full = self._tools.get(name)
        meant = [full] if full else self._spelled.get(name, [])
        return [tool for tool in meant if _of(tool, servers)]

    def closest(self, name: str, servers: Collection[str] | None = None) -> list[str]:
        """Return the names of the tools that may have been meant: nearly spelt like it, or of the same words."""
        bare = _without_server(name, {tool.server for tool in self._tools.values()})
        among = {tool.tool.name: full for full, tool in self._tools.items() if _of(tool, servers)}
        near = [among[match] for match in difflib.get_close_matches(bare, among, n=_CLOSEST)]
        near += [tool.name for tool in self.ranked(name, servers=servers)[:_CLOSEST]]
        return list(dict.fromkeys(near))[:_CLOSEST]

    def ranked(
        self, query: str, *, among: Collection[str] | None = None, servers: Collection[str] | None = None
    ) -> Sequence[FoundTool]:
        """Return the tools that fit `query`, best first, without a limit.

        Args:
            query: Any text; nothing fits a blank one.
            among: Full names of the tools that may be found; `None` stands for all.
            servers: The only servers whose tools may be found; `None` stands for all.
        """
        if not query.strip():
            return []
        visible = among
        if servers is not None:
            visible = {name for name, tool in self._tools.items() if _of(tool, servers) and _in(name, among)}
        return [self._tools[name] for name in names_of(self._index.search(query, visible=visible))]


def spellings(tool: FoundTool) -> set[str]:
    """Return what a tool may be called: its bare name, and with its server as in names and in answers."""
    bare = tool.tool.name
    return {tool.name, bare, f"{tool.server}__{bare}", f"{tool.server}:{bare}"} if tool.server else {tool.name, bare}


def _without_server(name: str, servers: Collection[str]) -> str:
    begins = [f"{server}{mark}" for server in servers if server for mark in (SEPARATOR, ":")]
    return name.removeprefix(max((begin for begin in begins if name.startswith(begin)), key=len, default=""))


def _of(tool: FoundTool, servers: Collection[str] | None) -> bool:
    return servers is None or tool.server in servers


def _in(name: str, among: Collection[str] | None) -> bool:
    return among is None or name in among
