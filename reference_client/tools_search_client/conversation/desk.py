"""What the model has and what it can get: the list of loaded tools, kept in step with what is offered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.known_tools import spellings
from tools_search_client.conversation.messages import Definition, SyntheticTool
from tools_search_client.conversation.news import News
from tools_search_client.conversation.pool import Pool
from tools_search_client.conversation.search_tools import SearchTools
from tools_search_client.conversation.shelf import Shelf
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.found import FoundTool

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
        self._discovered: dict[str, FoundTool] = {}
        """What was found, the one that was wanted last at the end."""
        self._called: set[str] = set()
        """What was called in this turn."""
        self._toolset: Toolset | None = None
        self.shelf: Final = Shelf()
        self.news: Final = News(pool, self.shelf)
        self.search: Final = SearchTools(lambda: pool.reach, self.shelf, self.news.is_gone, self._make_room)
        self.limit(None, 0)

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        definition = self.shelf.get(self.search.name)
        return None if definition is None or definition.tool is not None else self.search.name

    def limit(self, most_tools: int | None, besides: int) -> None:
        """Never send more definitions at once than this, nor than the host's own `max_tools`; see `Conversation`."""
        own = self._discovery.max_tools if self._discovery.enabled else None
        stated = [max(0, one - besides) for one in (own, most_tools) if one is not None]
        self._pool.most = self.shelf.capacity = min(stated, default=None)
        if self.shelf.capacity is not None and len(self.shelf.definitions) > self.shelf.capacity:
            self._begin()

    def begin_turn(self) -> None:
        """Take note that what was called before is no longer in use."""
        self._called.clear()

    def learn(self, catalog: Catalog, toolset: Toolset) -> None:
        """Take note of what is offered: under the same toolset the list only grows, under another it is begun again."""
        changed = self._pool.learn(catalog, toolset)
        if toolset != self._toolset:
            self._toolset = toolset
            self._begin()
        elif changed:
            self._grow()

    def start_over(self) -> None:
        """Begin the list again with what is offered now, and forget what was found."""
        self._discovered.clear()
        self._called.clear()
        self._begin()

    def load(self, tools: Iterable[FoundTool], call_id: str | None = None) -> tuple[str, ...]:
        """Append what is not loaded yet and fits, and return the names that became callable or got a new definition."""
        found = {tool.name: Definition.of(tool) for tool in tools}
        self._make_room(sum(name not in self.shelf for name in found), found)
        back = [name for name in found if name in self.shelf and self.news.is_gone(name)]
        outdated = [name for name, one in found.items() if self.news.note_found(one) and not one.is_oversized]
        if outdated:
            self.shelf.replace(found[name] for name in outdated)
        added = self.shelf.add(found.values(), call_id=call_id)
        for one in found.values():
            self._use(one)
        return tuple(dict.fromkeys((*added, *back, *outdated)))

    def called(self, definition: Definition) -> FoundTool | None:
        """Take note that a tool is called, and return it as it is offered now, as far as that is known."""
        self._called.add(definition.name)
        self._use(definition)
        return self._pool.reach.known.get(definition.name)

    def _use(self, definition: Definition) -> None:
        """Take note that a tool was wanted: what was wanted last is kept longest."""
        name, tool = definition.name, definition.tool
        if tool is not None and name in self.shelf and name not in self._eager:
            self._discovered.pop(name, None)
            self._discovered[name] = tool

    def _make_room(self, count: int, wanted: Collection[str]) -> int | None:
        """Make room for `count` more definitions where that can be done, and return how many more fit.

        What was wanted longest ago leaves, until half of what can hold found tools is free: the list that providers
        keep is begun again once for many searches. What was called in this turn stays, and what is `wanted`.
        """
        room = self.shelf.room
        if room is None or count <= room:
            return room
        found = [name for name in self._discovered if name in self.shelf]
        staying = {name for name in found if name in self._called or name in wanted}
        others = [name for name in found if name not in staying]
        if not others:
            return room
        places = room + len(found)
        most = max(0, min(places // 2, places - count) - len(staying))
        kept = staying.union(others[max(0, len(others) - most) :])
        self._discovered = {name: tool for name, tool in self._discovered.items() if name in kept}
        self._begin()
        return self.shelf.room

    def meant(self, name: str) -> Definition | None:
        """Return the loaded tool that a model means: by its full name, or by another spelling that fits only one."""
        exact = self.shelf.get(name)
        if exact is not None:
            return exact
        spelled = [one for one in self.shelf.definitions if one.tool is not None and name in spellings(one.tool)]
        return spelled[0] if len(spelled) == 1 else None

    def _grow(self) -> None:
        first = self._eager_definitions()
        self._eager.update(definition.name for definition in first)
        self._pool.open(self._eager)
        own = [self.search.definition] if self._offers_search and self.search_name is None else []
        new = [one.name for one in (*first, *own) if one.name not in self.shelf and not one.is_oversized]
        self._make_room(len(new), ())
        if not self.shelf.room and any(name not in self.shelf for name in new):
            self._begin()  # without tools that are no longer offered
        self.shelf.add([*first, *own])
        self.news.gather(self.search.offers, self.search_name)
        if self.search_name is None and (self._offers_search or self.news.outdated):
            self._begin()  # since nothing else leads the model to the new definitions

    def _begin(self) -> None:
        self._pool.forget_pins()
        first = self._eager_definitions()
        self._eager = {definition.name for definition in first}
        self._pool.open(self._eager)
        self.search.avoid({*(tool.name for tool in self._pool.catalog.tools), *self._synthetic})
        first += [tool.definition for tool in self._synthetic.values()]
        first += [self.search.definition] if self._offers_search else []
        self.shelf.begin(first)
        found, room = self._still_offered(), self.shelf.room
        self.shelf.extend_beginning(map(Definition.of, found if room is None else found[max(0, len(found) - room) :]))
        self.news.begin(self.search.offers)

    @property
    def _offers_search(self) -> bool:
        return self._discovery.search_tool and self._pool.needs_search

    @property
    def problems(self) -> list[str]:
        """What the operator should mend, because tools that should be loaded from the start are not."""
        eager = self._eager_definitions()
        oversized = [one.name for one in eager if one.name not in self.shelf and one.is_oversized]
        problems = [f"tool {name!r} is left out: its definition is too large" for name in oversized]
        if excess := self._pool.excess:
            problems.append(self._too_many(excess))
        elif self._pool.needs_search and self.shelf.capacity is not None and not self._has_places:
            problems.append(
                f"no tool that is found can be loaded: at most {self.shelf.capacity} tools are sent at once, and the "
                "host's own take them all; raise `max_tools`"
            )
        return problems

    def _too_many(self, excess: int) -> str:
        most = f"at most {self.shelf.capacity} tools are sent to the model at once, so {excess} more"
        if self.search_name is None:
            return f"{most} are left out: name those that are needed in a toolset (`tool_sets`)"
        choice = "to choose which, defer servers (`defer_loading`) or name the tools in a toolset (`tool_sets`)"
        return f"{most} are not loaded until '{self.search_name}' finds them; {choice}"

    @property
    def _has_places(self) -> bool:
        """Whether a found tool fits at all."""
        return bool(self.shelf.room) or any(name in self.shelf for name in self._discovered)

    def _eager_definitions(self) -> list[Definition]:
        return [Definition.of(tool) for tool in self._pool.eager() if tool.name not in self._synthetic]

    def _still_offered(self) -> list[FoundTool]:
        current = [self._pool.reach.known.get(name) or tool for name, tool in self._discovered.items()]
        return [tool for tool in current if self._pool.shows(tool) and not self._pool.has_lost(tool)]
