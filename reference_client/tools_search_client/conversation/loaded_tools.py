"""The state of a conversation: the tools that are offered, those that the model has, and what changed between the two.

Providers keep what they computed for the beginning of a request, and the tools stand at the very beginning: a list that
only grows at its end costs what is new, one that changes anywhere else costs the whole conversation again. So the list
is begun again only where that price is paid anyway (in another conversation, under another toolset), or buys something:
room for what is found once the list is full, or the new definition of a tool that the model asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcp_ext_tools_search.client.for_models import is_pinned, pinned_within_bounds
from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts.toolsets import EVERYTHING, Toolset

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import Catalog, KnownTools, ServerOffer, ToolSource, spellings
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import Addition, Definition, SyntheticTool, TokenCounts
from tools_search_client.conversation.search import SearchScope
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.found import FoundTool

_TYPICAL_TOKENS: Final = 150
"""Of one definition, where none is at hand: between the medians of six public sets of tools."""

_SeenServer = tuple[bool, frozenset[str] | None]
"""Whether a server fails, and the tools that can be found there; `None` where it was never listed."""


class OfferedTools:
    """The tools that a conversation can draw on, divided into those loaded from the start and those to be found.

    Args:
        source: Where tools come from.
        discovery: The host's choices.
        ranker: Ranks the tools at hand.
        tokens: Counts definitions.
        reserved: Definitions of the host's own that are always sent.
    """

    def __init__(
        self, source: ToolSource, discovery: ToolDiscovery, ranker: Ranker, tokens: TokenCounts, reserved: int
    ) -> None:
        self._source = source
        self._discovery = discovery
        self._ranker = ranker
        self._tokens = tokens
        self._reserved = reserved
        self.most: int | None = None
        """The most definitions that are ever sent at once; `None` means any number."""
        self.toolset = EVERYTHING
        self.catalog = Catalog()
        self.listed = (0, 0)
        """How many definitions and tokens the whole catalog is; servers that were never listed are estimated."""
        self._indexed: tuple[FoundTool, ...] = ()
        self._known = KnownTools((), ranker)
        self._pins: dict[str, str] = {}
        """Servers by the names of their tools that were pinned since the list was begun."""
        self.scope: SearchScope
        self.defer_all_but(())

    def learn(self, catalog: Catalog, toolset: Toolset) -> bool:
        """Take in what is offered now, and return whether anything changed.

        A server that fails for the moment is taken to offer what it offered before. What no model may see is left out.
        """
        catalog = catalog.for_model
        if toolset == self.toolset:
            catalog = replace(catalog, servers=tuple(map(self._as_before_failure, catalog.servers)))
        if (catalog, toolset) == (self.catalog, self.toolset):
            return False
        self.catalog, self.toolset = catalog, toolset
        known = [self._tokens.of_tool(tool) for tool in catalog.tools]
        unseen = sum(offer.size or 0 for offer in catalog.servers if offer.tools is None)
        typical = sum(known) / len(known) if known else _TYPICAL_TOKENS
        self.listed = (len(known) + unseen, sum(known) + round(unseen * typical))
        return True

    def _as_before_failure(self, offer: ServerOffer) -> ServerOffer:
        before = self.catalog.server(offer.name)
        return offer if offer.failure is None or before is None else replace(before, failure=offer.failure)

    def eager(self) -> tuple[FoundTool, ...]:
        """Return the tools that need not be found, in the order of the configuration and of each server.

        Servers that pin others from turn to turn do not get more of them loaded than their bound, until `forget_pins`.
        """
        tools = self.catalog.tools
        self._pins |= {tool.name: tool.server for tool in tools if is_pinned(tool.tool) and tool.name not in self._pins}
        return self._within(self.most)

    def forget_pins(self) -> None:
        """Count the tools that servers pin from the start: the list is begun again."""
        self._pins.clear()

    def defer_all_but(self, loaded: Collection[str]) -> None:
        """Make everything but the tools `loaded` from the start something that a search finds."""
        tools = self.catalog.tools
        if tools != self._indexed:
            self._indexed, self._known = tools, KnownTools(tools, self._ranker)
        deferred = frozenset(tool.name for tool in tools if tool.name not in loaded)
        most_found = self._discovery.max_search_results
        self.scope = SearchScope(
            self.catalog, self.toolset, self._known, deferred, most_found, self._source, self._ranker
        )

    @property
    def excess(self) -> int:
        """How many tools have to be found only because so many are not sent at once."""
        return 0 if self.most is None else len(self._within(None)) - len(self._within(self.most))

    @property
    def needs_search(self) -> bool:
        """Whether there is anything that has to be found."""
        if not self._discovery.enabled:
            return self.excess > 0
        return bool(self.scope.deferred or self.catalog.unlisted)

    def current(self, name: str) -> FoundTool | None:
        """Return the tool of this full name as it is offered now, as far as that is known."""
        return self._known.get(name)

    def has_lost(self, tool: FoundTool) -> bool:
        """Return whether the server of a tool was listed without it."""
        offer = self.catalog.server(tool.server)
        listed = offer is None or (offer.tools is not None and offer.failure is None)
        return listed and self.current(tool.name) is None

    def shows(self, tool: FoundTool) -> bool:
        """Return whether the toolset shows a tool."""
        rule = self.toolset.rule(tool.server)
        return rule is not None and rule.shows(tool.tool.name)

    def _within(self, most: int | None) -> tuple[FoundTool, ...]:
        """Return the tools that are loaded from the start where at most so many definitions are sent."""
        catalog, discovery = self.catalog, self._discovery
        eager = catalog.tools
        if discovery.enabled:
            is_deferred = self._deferral()
            pinned = pinned_within_bounds((server, name) for name, server in self._pins.items())
            by_server = [(offer.tools or (), is_deferred(offer)) for offer in catalog.servers]
            loaded = [tool for tools, deferred in by_server if not deferred for tool in tools]
            kept = [tool for tools, deferred in by_server if deferred for tool in tools if tool.name in pinned]
            eager = (*loaded, *catalog.unassigned, *kept)
        if most is None:
            return eager
        room = most - self._reserved
        if len(eager) == len(catalog.tools) and not catalog.unlisted and len(eager) <= room:
            return eager
        # The last ones are deferred as well, so that there is room for `search_tools` and for what a search finds.
        return eager[: max(0, room - 1 - discovery.max_search_results)]

    def _deferral(self) -> Callable[[ServerOffer], bool]:
        catalog, discovery = self.catalog, self._discovery
        if discovery.auto and not catalog.unlisted and self._is_small():
            return lambda _: False
        # Automatic deferral has to defer something where the configuration does not say what.
        is_silent = not any(offer.defer_loading for offer in catalog.servers)
        if discovery.defer_all or (discovery.auto and is_silent):
            return lambda _: True
        return lambda offer: offer.defer_loading

    def _is_small(self) -> bool:
        left = self._discovery.context_share * self._discovery.context_window
        for tool in self.catalog.tools:
            left -= self._tokens.of_tool(tool)
            if left < 0:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Admission:
    """Which of the tools that a search found can be loaded."""

    loaded: tuple[FoundTool, ...]
    """Those that the model can call from now on."""

    had: tuple[str, ...]
    """Those that it could call before."""

    no_room: tuple[str, ...]
    oversized: tuple[str, ...]


class LoadedTools:
    """The tools that the model has: a list that only grows, kept in step with what is offered.

    States of a tool on the list, each noted once for the model where it can do something about it:

        as sent   -> outdated   it is offered with another definition
        outdated  -> as sent    the old definition is offered again, or a search found the tool, which puts its new
                                definition in the old one's place and makes that another list (`prefix`)
        as sent, outdated -> gone       its server was listed without it, or refused a call for that reason
        gone      -> as sent, outdated  it is offered or found again

    A definition that is oversized never gets on the list.

    Args:
        offered: What is offered.
        discovery: The host's choices.
        synthetic: The host's own tools by name.
    """

    def __init__(self, offered: OfferedTools, discovery: ToolDiscovery, synthetic: Mapping[str, SyntheticTool]) -> None:
        self._offered = offered
        self._discovery = discovery
        self._synthetic = synthetic
        self._definitions: dict[str, Definition] = {}
        self._additions: list[Addition] = []
        self.capacity: int | None = None
        """The largest number of definitions; `None` means any."""
        self.prefix = 0
        """Which list this is: under the same number, every list begins with all earlier ones."""
        self._name_for_search = prompts.SEARCH_NAMES[0]
        self._toolset: Toolset | None = None
        self._eager: set[str] = set()
        self._discovered: dict[str, FoundTool] = {}
        """What was found, the one that was wanted last at the end."""
        self._called: set[str] = set()
        """What was called in this turn."""
        self._gone: set[str] = set()
        self._outdated: set[str] = set()
        self._seen: dict[str, Definition] = {}
        """The last definition that was seen of a tool, where it is not the one that was sent."""
        self._changed: dict[str, None] = {}
        """What the host has not heard of yet."""
        self._servers: dict[str, _SeenServer] = {}
        self._notices: list[str] = []
        self.limit(None, 0)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._definitions.values())

    @property
    def additions(self) -> tuple[Addition, ...]:
        """What was added since the list was begun, in order."""
        return tuple(self._additions)

    @property
    def search_name(self) -> str | None:
        """What the model calls `search_tools` by; `None` where it does not have it."""
        definition = self.get(self._name_for_search)
        return None if definition is None or definition.tool is not None else self._name_for_search

    @property
    def room(self) -> int | None:
        """How many more definitions fit; `None` where there is no bound."""
        return None if self.capacity is None else max(0, self.capacity - len(self._definitions))

    def get(self, name: str) -> Definition | None:
        """Return the definition that the model knows by `name`."""
        return self._definitions.get(name)

    def meant(self, name: str) -> Definition | None:
        """Return the tool that a model means: by its full name, or by another spelling that fits only one."""
        exact = self.get(name)
        if exact is not None:
            return exact
        spelled = [one for one in self.definitions if one.tool is not None and name in spellings(one.tool)]
        return spelled[0] if len(spelled) == 1 else None

    def is_gone(self, name: str) -> bool:
        """Return whether the tool of this name is no longer offered, as far as is known."""
        return name in self._gone

    def note_gone(self, name: str) -> None:
        """Remember that a call showed that a tool is no longer offered."""
        self._gone.add(name)

    def limit(self, most_tools: int | None, besides: int) -> None:
        """Never send more definitions at once than this, nor than the host's own `max_tools`; see `Conversation`."""
        own = self._discovery.max_tools if self._discovery.enabled else None
        stated = [max(0, one - besides) for one in (own, most_tools) if one is not None]
        self._offered.most = self.capacity = min(stated, default=None)
        if self.capacity is not None and len(self._definitions) > self.capacity:
            self._begin()

    def begin_turn(self) -> None:
        """Count what was called before as no longer in use."""
        self._called.clear()

    def start_over(self) -> None:
        """Begin the list again with what is offered now, and forget what was found."""
        self._discovered.clear()
        self._called.clear()
        self._begin()

    def learn(self, catalog: Catalog, toolset: Toolset) -> None:
        """Take in what is offered: under the same toolset the list only grows, under another it is begun again."""
        changed = self._offered.learn(catalog, toolset)
        if toolset != self._toolset:
            self._toolset = toolset
            self._begin()
        elif changed:
            self._grow()

    def admit(self, found: Sequence[FoundTool], loaded_anyway: Iterable[FoundTool]) -> Admission:
        """Make room for what a search found, and return what of it can be loaded."""
        new = {tool.name: Definition.of(tool) for tool in found}
        oversized = tuple(name for name, one in new.items() if one.is_oversized)
        # What is offered again, or otherwise than it was sent, counts as new.
        back = {name for name, one in new.items() if self._is_news(one) and name not in oversized}
        fitting = [name for name in new if name not in self._definitions and name not in oversized]
        loadable = {*back, *fitting[: self._make_room(len(fitting), new)]}
        every = dict.fromkeys((*new, *(tool.name for tool in loaded_anyway)))
        return Admission(
            loaded=tuple(tool for tool in found if tool.name in loadable),
            had=tuple(name for name in every if name in self._definitions and name not in back),
            no_room=tuple(name for name in fitting if name not in loadable),
            oversized=oversized,
        )

    def load(self, tools: Iterable[FoundTool], call_id: str | None = None) -> tuple[str, ...]:
        """Append what is not loaded yet and fits, and return the names that became callable or got a new definition."""
        found = {tool.name: Definition.of(tool) for tool in tools}
        self._make_room(sum(name not in self._definitions for name in found), found)
        back = [name for name in found if name in self._definitions and self.is_gone(name)]
        outdated = [name for name, one in found.items() if self._note_found(one) and not one.is_oversized]
        if outdated:
            self.prefix += 1
            self._definitions |= {name: found[name] for name in outdated}
        added = self._add(found.values(), call_id)
        for one in found.values():
            self._use(one)
        return tuple(dict.fromkeys((*added, *back, *outdated)))

    def called(self, definition: Definition) -> FoundTool | None:
        """Note that a tool is called, and return it as it is offered now, as far as that is known."""
        self._called.add(definition.name)
        self._use(definition)
        return self._offered.current(definition.name)

    def take_notices(self) -> tuple[str, ...]:
        """Return the notices for the model that were not taken yet."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices

    def take_changes(self) -> tuple[str, ...]:
        """Return the names of the tools whose definition changed since this was asked last."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    @property
    def problems(self) -> list[str]:
        """What the operator should correct, because tools that should be loaded from the start are not."""
        oversized = [one.name for one in self._eager_definitions() if self.get(one.name) is None and one.is_oversized]
        problems = [f"tool {name!r} is left out: its definition is too large" for name in oversized]
        most = f"at most {self.capacity} tools are sent"
        has_places = self.room != 0 or any(name in self._definitions for name in self._discovered)
        if excess := self._offered.excess:
            if self.search_name is None:
                rest = "are left out: name those that are needed in a toolset (`tool_sets`)"
            else:
                choice = "defer servers (`defer_loading`) or name the tools in a toolset (`tool_sets`)"
                rest = f"are not loaded until '{self.search_name}' finds them; to choose which, {choice}"
            problems.append(f"{most} to the model at once, so {excess} more {rest}")
        elif self._offered.needs_search and not has_places:
            problems.append(
                f"no tool that is found can be loaded: {most} at once, and the host's own take them all; raise "
                "`max_tools`"
            )
        return problems

    def _begin(self) -> None:
        """Begin another list, which is as everything is offered now."""
        self._offered.forget_pins()
        first = self._eager_definitions()
        self._eager = {definition.name for definition in first}
        self._offered.defer_all_but(self._eager)
        taken = {*(tool.name for tool in self._offered.catalog.tools), *self._synthetic}
        # Another name where a tool of a server without a prefix is called the same.
        free = (name for name in prompts.SEARCH_NAMES if name not in taken)
        self._name_for_search = next(free, self._name_for_search)
        first += [tool.definition for tool in self._synthetic.values()]
        first += [self._search_definition()] if self._offers_search else []
        self.prefix += 1
        self._additions.clear()
        self._definitions.clear()
        self._put(first)
        found, room = self._still_offered(), self.room
        self._put(map(Definition.of, found if room is None else found[max(0, len(found) - room) :]))
        for noted in (self._gone, self._outdated, self._seen, self._notices):
            noted.clear()
        self._servers = _seen_servers(self._offered.scope.offers)

    def _grow(self) -> None:
        """Append what is new, and note what changed under the list."""
        first = self._eager_definitions()
        self._eager.update(definition.name for definition in first)
        self._offered.defer_all_but(self._eager)
        if self._offers_search and self.search_name is None:
            first.append(self._search_definition())
        new = [one.name for one in first if one.name not in self._definitions and not one.is_oversized]
        self._make_room(len(new), ())
        if not self.room and any(name not in self._definitions for name in new):
            self._begin()  # without tools that are no longer offered
        self._add(first)
        self._gather_notices()
        if self.search_name is None and (self._offers_search or self._outdated):
            self._begin()  # since nothing else leads the model to the new definitions

    def _put(self, definitions: Iterable[Definition]) -> tuple[str, ...]:
        """Append those that are not there yet and still fit, and return their names."""
        added: list[str] = []
        for definition in definitions:
            if definition.name not in self._definitions and self.room != 0 and not definition.is_oversized:
                self._definitions[definition.name] = definition
                added.append(definition.name)
        return tuple(added)

    def _add(self, definitions: Iterable[Definition], call_id: str | None = None) -> tuple[str, ...]:
        added = self._put(definitions)
        if added:
            self._additions.append(Addition(added, call_id))
        return added

    def _use(self, definition: Definition) -> None:
        """Note that a tool was wanted: what was wanted last is kept longest."""
        name, tool = definition.name, definition.tool
        if tool is not None and name in self._definitions and name not in self._eager:
            self._discovered.pop(name, None)
            self._discovered[name] = tool

    def _make_room(self, count: int, wanted: Collection[str]) -> int | None:
        """Make room for `count` more definitions where that can be done, and return how many more fit.

        What was wanted longest ago leaves, until half of what can hold found tools is free: the list that providers
        keep is begun again once for many searches. What was called in this turn stays, and what is `wanted`.
        """
        room = self.room
        if room is None or count <= room:
            return room
        found = [name for name in self._discovered if name in self._definitions]
        staying = {name for name in found if name in self._called or name in wanted}
        others = [name for name in found if name not in staying]
        if not others:
            return room
        places = room + len(found)
        most = max(0, min(places // 2, places - count) - len(staying))
        kept = staying.union(others[max(0, len(others) - most) :])
        self._discovered = {name: tool for name, tool in self._discovered.items() if name in kept}
        self._begin()
        return self.room

    def _is_news(self, definition: Definition) -> bool:
        """Return whether the model has a tool, but does not know it as it is now."""
        had = self.get(definition.name)
        return had is not None and (self.is_gone(definition.name) or not had.is_like(definition))

    def _note_found(self, definition: Definition) -> bool:
        """Note that a search found a tool, and return whether the model was sent another definition of it."""
        name = definition.name
        self._gone.discard(name)
        sent = self.get(name)
        if sent is None or sent.is_like(definition):
            return False
        if not self._seen.pop(name, sent).is_like(definition):
            self._changed[name] = None
        self._outdated.discard(name)
        return True

    def _gather_notices(self) -> None:
        """Note what is new since the last time; what the model can search for only where it can."""
        gone, outdated = self._compared()
        search_name = self.search_name
        if gone:
            self._notices.append(prompts.gone(gone))
        if search_name is None:
            return
        if outdated:
            self._notices.append(prompts.changed_tools(outdated, search_name))
        before, self._servers = self._servers, _seen_servers(self._offered.scope.offers)
        changes = _changed_servers(before, self._servers)
        if any(changes.values()):
            self._notices.append(prompts.changed_servers(search_name, changes))

    def _compared(self) -> tuple[list[str], list[str]]:
        """Compare the list with what is offered; return what is gone, and what is outdated, if that is new."""
        gone: list[str] = []
        outdated: list[str] = []
        for name, sent in self._definitions.items():
            if sent.tool is None:
                continue
            if self._offered.has_lost(sent.tool):
                gone += [] if name in self._gone else [name]
                self._gone.add(name)
                continue
            offered = self._offered.current(name)
            if offered is None:
                continue
            self._gone.discard(name)
            now = Definition.of(offered)
            if not now.is_like(self._seen.get(name, sent)):
                self._seen[name] = now
                self._changed[name] = None
            if now.is_like(sent):
                self._outdated.discard(name)
            elif name not in self._outdated:
                self._outdated.add(name)
                outdated.append(name)
        return gone, outdated

    @property
    def _offers_search(self) -> bool:
        return self._discovery.search_tool and self._offered.needs_search

    def _search_definition(self) -> Definition:
        return prompts.search_definition(self._name_for_search, manifest(self._offered.scope.offers))

    def _eager_definitions(self) -> list[Definition]:
        return [Definition.of(tool) for tool in self._offered.eager() if tool.name not in self._synthetic]

    def _still_offered(self) -> list[FoundTool]:
        current = [self._offered.current(name) or tool for name, tool in self._discovered.items()]
        return [tool for tool in current if self._offered.shows(tool) and not self._offered.has_lost(tool)]


def _seen_servers(offers: Iterable[ServerOffer]) -> dict[str, _SeenServer]:
    return {
        offer.name: (
            offer.failure is not None,
            None if offer.tools is None else frozenset(tool.name for tool in offer.tools),
        )
        for offer in offers
    }


def _changed_servers(before: Mapping[str, _SeenServer], now: Mapping[str, _SeenServer]) -> dict[str, list[str]]:
    """Return the names of servers by what changed about them."""
    both = [name for name in now if name in before]
    return {
        "new servers": [name for name in now if name not in before],
        "servers that are gone": [name for name in before if name not in now],
        "servers not reachable at present": [name for name in both if now[name][0] and not before[name][0]],
        "servers with other tools than before": [
            name for name in both if now[name] != before[name] and now[name][0] <= before[name][0]
        ],
    }
