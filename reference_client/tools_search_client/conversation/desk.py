"""What the model has and what it can get: the list of loaded tools, kept in step with what is offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mcp_ext_tools_search.hosts.toolsets import Toolset

from tools_search_client.conversation.catalogue import Catalogue
from tools_search_client.conversation.definitions import Definition
from tools_search_client.conversation.known_tools import spellings
from tools_search_client.conversation.news import News
from tools_search_client.conversation.pool import Pool
from tools_search_client.conversation.search_tools import SearchTools
from tools_search_client.conversation.shelf import Shelf
from tools_search_client.conversation.synthetic import SyntheticTool
from tools_search_client.reports import FederatedTool
from tools_search_client.tool_discovery import ToolDiscovery

__all__ = ["Desk"]


class Desk:
    """The loaded tools of one conversation.

    Args:
        pool: What is offered.
        discovery: The host's choices.
        synthetic: The host's own tools by name.
    """

    def __init__(self, pool: Pool, discovery: ToolDiscovery, synthetic: Mapping[str, SyntheticTool]) -> None:
        self._pool = pool
        self._discovery = discovery
        self._synthetic = synthetic
        self._eager: set[str] = set()
        self._discovered: dict[str, FederatedTool] = {}
        self._toolset: Toolset | None = None
        self.shelf: Final = Shelf(discovery.max_tools if discovery.enabled else None)
        self.news: Final = News(pool, self.shelf)
        self.search: Final = SearchTools(lambda: pool.reach, self.shelf, self.news.is_gone)

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        definition = self.shelf.get(self.search.name)
        return None if definition is None or definition.tool is not None else self.search.name

    def learn(self, catalogue: Catalogue, toolset: Toolset) -> None:
        """Take note of what is offered: under the same toolset the list only grows, under another it is begun anew."""
        changed = self._pool.learn(catalogue, toolset)
        if toolset != self._toolset:
            self._toolset = toolset
            self._begin()
        elif changed:
            self._grow()

    def start_over(self) -> None:
        """Begin the list anew with what is offered now and with what was found so far, as far as there is room."""
        room = self._begin()
        if room is not None:
            # The other half is for what the next conversation finds.
            kept = list(self._discovered.items())
            self._discovered = dict(kept[max(0, len(kept) - room // 2) :])
            self._begin()

    def load(self, tools: Iterable[FederatedTool], call_id: str | None = None) -> tuple[str, ...]:
        """Append what is not loaded yet and still fits, and return the names that became callable."""
        found = list(tools)
        back = tuple(tool.name for tool in found if self.news.is_gone(tool.name))
        added = self.shelf.add(map(Definition.of, found), call_id=call_id)
        for tool in found:
            self.use(tool)
            self.news.note_there(tool.name)
        return added + back

    def use(self, tool: FederatedTool) -> None:
        """Take note that a tool was wanted: what was wanted last is kept longest."""
        if tool.name in self.shelf and tool.name not in self._eager:
            self._discovered.pop(tool.name, None)
            self._discovered[tool.name] = tool

    def meant(self, name: str) -> Definition | None:
        """Return the loaded tool that a model means: by its full name, or by another spelling that fits only one."""
        exact = self.shelf.get(name)
        if exact is not None:
            return exact
        spelled = [one for one in self.shelf.definitions if one.tool is not None and name in spellings(one.tool)]
        return spelled[0] if len(spelled) == 1 else None

    def _grow(self) -> None:
        self._eager.update(self.shelf.add(self._eager_definitions()))
        self._pool.open(self._eager)
        if self._offers_search:
            self.shelf.add([self.search.definition])
        self.news.gather(self.search.manifest, self.search_name)

    def _begin(self) -> int | None:
        """Begin the list, and return how many more tools would have fitted before those that were found."""
        self._pool.forget_pins()
        first = self._eager_definitions()
        self._eager = {definition.name for definition in first}
        self._pool.open(self._eager)
        self.search.avoid({*(tool.name for tool in self._pool.catalogue.tools), *self._synthetic})
        first += [tool.definition for tool in self._synthetic.values()]
        first += [self.search.definition] if self._offers_search else []
        self.shelf.begin(first)
        room = self.shelf.room
        self.shelf.extend_beginning(map(Definition.of, self._still_offered()))
        self.news.begin(self.search.manifest)
        return room

    @property
    def _offers_search(self) -> bool:
        return self._discovery.search_tool and self._pool.needs_search

    @property
    def oversized(self) -> tuple[str, ...]:
        """The tools that should be loaded from the start and are not, because no model should read them."""
        return tuple(one.name for one in self._eager_definitions() if one.name not in self.shelf and one.is_oversized)

    def _eager_definitions(self) -> list[Definition]:
        return [Definition.of(tool) for tool in self._pool.eager() if tool.name not in self._synthetic]

    def _still_offered(self) -> list[FederatedTool]:
        current = [self._pool.reach.known.get(name) or tool for name, tool in self._discovered.items()]
        return [tool for tool in current if self._pool.shows(tool) and not self._pool.has_lost(tool)]
