"""The model's tool list, kept in sync with what the servers offer.

Providers cache the beginning of a request, which starts with the tools. A list that only grows at its end costs only
the new tools; any other change makes the provider process the whole conversation again. So the list is started over
only if that cost arises anyway (new conversation, new toolset) or is worth it: to make room for found tools when the
list is full, or to send the new definition of a tool that the model asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tools_search_hosts.toolsets import EVERYTHING, Toolset

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import Catalog, ServerOffer
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import Compaction, Definition, SyntheticTool
from tools_search_client.conversation.offered_tools import OfferedTools
from tools_search_client.conversation.state import ConversationState, ServerNotice, ToolNotice
from tools_search_client.errors import Failure
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.found import FoundTool
from tools_search_client.known_tools import spellings


@dataclass(frozen=True, slots=True)
class Admission:
    """How the tools found by a search can be loaded."""

    loaded: tuple[FoundTool, ...]
    """Tools that the model can call from now on."""

    had: tuple[str, ...]
    """Tools that it could already call."""

    left_out: tuple[str, ...]
    """Tools that exceed the token budget."""

    no_room: tuple[str, ...]
    oversized: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedTools:
    """The operations that change the tool list in a conversation's state.

    States of a tool on the list; the model is notified once of each if it can act on it:

        as sent   -> outdated   it is offered with another definition
        outdated  -> as sent    the old definition is offered again, or a search found the tool, which puts its new
                                definition in the old one's place and makes that another list (`prefix`)
        as sent, outdated -> gone       its server was listed without it, did not find it after a change, or refused a
                                call for that reason
        gone      -> as sent, outdated  it is offered or found again

    Oversized definitions are never added to the list.
    """

    state: ConversationState
    offered: OfferedTools
    discovery: ToolDiscovery
    synthetic: Mapping[str, SyntheticTool]
    """The host's own tools by name."""

    def __post_init__(self) -> None:
        self.limit(None, 0)

    @property
    def search_name(self) -> str | None:
        """The model's name for `search_tools`; `None` if it does not have that tool."""
        definition = self.state.definitions.get(self.state.search_name)
        return None if definition is None or definition.tool is not None else definition.name

    @property
    def room(self) -> int | None:
        """How many more definitions fit; `None` if there is no limit."""
        return None if self.state.most is None else max(0, self.state.most - len(self.state.definitions))

    def has(self, tool: FoundTool) -> bool:
        """Return whether the model can call a tool and was sent its current definition."""
        sent = self.state.definitions.get(tool.name)
        return sent is not None and tool.name not in self.state.gone and sent.is_like(Definition.of(tool))

    def meant(self, name: str) -> Definition | None:
        """Return the tool that the model means: by its full name, or by another spelling that matches only one."""
        definitions = self.state.definitions
        if name in definitions:
            return definitions[name]
        spelled = [
            definition
            for definition in definitions.values()
            if definition.tool is not None and name in spellings(definition.tool)
        ]
        return spelled[0] if len(spelled) == 1 else None

    def limit(self, most_tools: int | None, besides: int) -> None:
        """Limit the number of definitions sent at once, in addition to the host's `max_tools`; see `Conversation`."""
        own = self.discovery.max_tools if self.discovery.enabled else None
        self.state.most = min(
            (max(0, limit - besides) for limit in (own, most_tools) if limit is not None), default=None
        )
        if self.state.most is not None and len(self.state.definitions) > self.state.most:
            self._begin()

    def forget_unless(self, referred_to: Collection[str]) -> Compaction:
        """Remove found tools that are not in `referred_to` from the list; the others keep their order."""
        state = self.state
        forgotten = [name for name in state.discovered if name in state.definitions and name not in referred_to]
        dropped = [state.definitions.pop(name) for name in forgotten]
        for name in forgotten:
            del state.discovered[name]
        for names in (state.gone, state.unconfirmed, state.called):
            names.difference_update(forgotten)
        state.prefix += bool(forgotten)
        state.answered.clear()  # repeating a search can load something again
        return Compaction(tuple(forgotten), self.offered.tokens.of(dropped))

    def start_over(self) -> None:
        """Start the list over with what is offered now, without the found tools."""
        self.state.discovered.clear()
        self.state.called.clear()
        self.state.searches = self.state.search_tokens = 0
        self._begin()

    async def restore(
        self, catalog: Catalog, toolset: Toolset, begun_under: Toolset | None, digest: str
    ) -> dict[str, Failure]:
        """Reconcile a restored state with what is offered now, which alone determines what is on the list.

        `begun_under` and `digest` are the saved list's toolset and catalog digest.

        Returns:
            The servers that could not confirm their tools.
        """
        state, offered = self.state, self.offered
        answered, before = state.answered.copy(), state.definitions
        offered.learn(catalog, toolset)
        offered.defer_all_but(state.eager)
        sent = {name: definition.tool for name, definition in before.items() if definition.tool is not None}
        # Anyone could have written the saved text, so that a tool on it proves nothing.
        now, unconfirmed = await offered.still_offered([*(state.discovered | sent).values()])
        state.unconfirmed = unconfirmed.keys() - state.gone  # already gone when its server failed
        failed = {server: failure for failures in unconfirmed.values() for server, failure in failures.items()}
        known = now.keys() | state.unconfirmed
        state.discovered = {name: now.get(name, tool) for name, tool in state.discovered.items() if name in known}
        state.definitions = {
            name: kept for name, definition in before.items() if (kept := self._kept(definition, now)) is not None
        }
        state.gone.difference_update(now)
        state.gone.update(name for name in sent if name not in state.definitions)
        for name in state.definitions:
            self._follow(now.get(name))
        if toolset != begun_under or (state.most is not None and len(before) > state.most):
            self._begin()
            return failed
        # Bytes, because a provider's cache only holds for exactly the same beginning of a request.
        is_same = [definition.serialized() for definition in state.definitions.values()] == [
            definition.serialized() for definition in before.values()
        ]
        state.prefix += not is_same
        self._add(tool.definition for tool in self.synthetic.values())
        if is_same and state.catalog.digest == digest:
            state.answered = answered  # `defer_all_but` cleared them, but the same tools can be found as before
            self._compare()
        else:
            self._grow()
        return failed

    def _kept(self, saved: Definition, now: Mapping[str, FoundTool]) -> Definition | None:
        """Return a saved definition as it stays on the list; `None` if it must be removed."""
        name, tool = saved.name, saved.tool
        if name in self.synthetic:
            current = self.synthetic[name].definition
            return saved if tool is None and saved.is_like(current) else current
        if tool is None:
            is_search = name == self.state.search_name and self.discovery.search_tool
            own = replace(prompts.search_definition(name, ""), description=saved.description)
            return own if is_search and not own.is_oversized else None
        if name not in now and name not in self.state.unconfirmed:
            return None
        tool = now.get(name, tool)
        is_offered = self.offered.shows(tool) and not self.offered.has_lost(tool) and not saved.is_oversized
        return saved if is_offered else None

    def learn(self, catalog: Catalog, toolset: Toolset) -> None:
        """Update to what is offered: the list only grows under the same toolset and is started over under a new one."""
        is_other = toolset != self.state.toolset
        changed = self.offered.learn(catalog, toolset)
        if is_other:
            self._begin()
        elif changed:
            self._grow()

    def admit(
        self, found: Sequence[FoundTool], within_budget: Sequence[FoundTool], loaded_anyway: Iterable[FoundTool]
    ) -> Admission:
        """Make room for the tools that a search found, and return how they can be loaded."""
        state = self.state
        new = {tool.name: Definition.of(tool) for tool in found}
        oversized = tuple(name for name, definition in new.items() if definition.is_oversized)
        # A tool that is offered again, or with another definition than the one sent, counts as new.
        listed = [tool for tool in found if tool.name in state.definitions]
        back = {tool.name for tool in listed if not self.has(tool)}.difference(oversized)
        affordable = {tool.name for tool in within_budget}
        others = [name for name in new if name not in state.definitions and name not in oversized]
        fitting = [name for name in others if name in affordable]
        # Before anything is loaded, because the search's answer says which tools are.
        loadable = {*back, *fitting[: self._make_room(len(fitting), new)]}
        every = dict.fromkeys((*new, *(tool.name for tool in loaded_anyway)))
        return Admission(
            loaded=tuple(tool for tool in found if tool.name in loadable),
            had=tuple(name for name in every if name in state.definitions and name not in back),
            left_out=tuple(name for name in others if name not in affordable),
            no_room=tuple(name for name in fitting if name not in loadable),
            oversized=oversized,
        )

    def load(self, tools: Iterable[FoundTool]) -> tuple[str, ...]:
        """Append new tools that fit, and return the names that became callable or got a new definition."""
        state = self.state
        found = {tool.name: Definition.of(tool) for tool in tools}
        self._make_room(sum(name not in state.definitions for name in found), found)
        back = [name for name in found if name in state.definitions and name in state.gone]
        state.gone.difference_update(found)
        for name in found:
            state.notified.pop(name, None)  # the search's answer says that it is there: no notice has to
        for definition in found.values():
            self._follow(definition.tool)
        outdated = [name for name in state.outdated if name in found and not found[name].is_oversized]
        if outdated:  # they change the middle of the list, which no addition at its end can
            state.prefix += 1
            state.definitions |= {name: found[name] for name in outdated}
        added = self._add(found.values())
        for definition in found.values():
            self._use(definition)
        return tuple(dict.fromkeys((*added, *back, *outdated)))

    async def check_searched(self) -> None:
        """Look up the tools on the list whose servers are searched, and note which are gone, back, or have changed.

        This is free unless the server has announced a change or was reconnected, except for tools that are gone, which
        are asked for each time. A tool whose server fails stays.
        """
        state, catalog = self.state, self.state.catalog
        tools = [
            definition.tool
            for name, definition in state.definitions.items()
            if definition.tool is not None and name not in state.unconfirmed
        ]
        searched = [tool for tool in tools if tool.server in catalog.unlisted]
        now, unconfirmed = await self.offered.still_offered(searched)
        if state.catalog is not catalog:
            return  # another turn began meanwhile
        state.gone.difference_update(now)
        state.gone.update(tool.name for tool in searched if tool.name not in now and tool.name not in unconfirmed)
        for tool in now.values():
            self._follow(tool)
        self._compare()

    async def confirmed(self, definition: Definition) -> tuple[Definition, Mapping[str, Failure]]:
        """Return a tool on the list as its server offers it, asking the server if it is unconfirmed.

        The tool stays `unconfirmed` if the server cannot be asked, and becomes `gone` if the server does not offer it.

        Returns:
            The tool's definition, and the server with the reason if it could not be asked.
        """
        state, name, tool = self.state, definition.name, definition.tool
        if tool is None or name not in state.unconfirmed:
            return definition, {}
        now, unconfirmed = await self.offered.still_offered([tool])
        state.unconfirmed = state.unconfirmed - {name} | unconfirmed.keys()
        if not now and not unconfirmed:
            self.lose(name)
        self._follow(now.get(name))
        return state.definitions[name], unconfirmed.get(name, {})

    def lose(self, name: str) -> None:
        """Mark a tool as gone; the reply to a call notifies the model.

        It also leaves the last listing of its server, so that no search offers it until the server is listed again.
        """
        state = self.state
        state.gone.add(name)
        state.notified[name] = "gone"
        self._keep(offer.only(lambda tool: tool.name != name) for offer in state.catalog.servers)

    def drop_removed(self) -> None:
        """Forget servers that were removed since the last survey, so that nothing offers their tools."""
        offers = self.state.catalog.servers
        present = [offer for offer in offers if self.offered.source.has(offer.name)]
        if len(present) < len(offers):
            self._keep(present)

    def _keep(self, offers: Iterable[ServerOffer]) -> None:
        """Update to what is left of the last survey."""
        catalog = replace(self.state.catalog, servers=tuple(offers))
        self.learn(catalog, self.state.toolset or EVERYTHING)

    def called(self, definition: Definition) -> FoundTool | None:
        """Record a call of a tool, and return the tool as currently offered, if known."""
        self.state.called.add(definition.name)
        self._use(definition)
        return self.offered.known.get(definition.name)

    @property
    def problems(self) -> list[str]:
        """Problems for the operator: why tools that should be loaded from the start are not."""
        state = self.state
        problems = [
            f"tool {definition.name!r} is left out because its definition is too large"
            for definition in self._eager_definitions()
            if definition.name not in state.definitions and definition.is_oversized
        ]
        most = f"at most {state.most} tools are sent"
        has_places = self.room != 0 or any(name in state.definitions for name in state.discovered)
        if excess := self.offered.excess:
            if self.search_name is None:
                rest = "are left out: name those that are needed in a toolset (`tool_sets`)"
            else:
                choice = "defer servers (`defer_loading`) or name the tools in a toolset (`tool_sets`)"
                rest = f"are not loaded until '{self.search_name}' finds them; to choose which, {choice}"
            problems.append(f"{most} to the model at once, so {excess} more {rest}")
        elif self.offered.needs_search and not has_places:
            problems.append(
                f"no tool that is found can be loaded: {most} at once, and the host's own take them all; raise "
                "`max_tools`"
            )
        return problems

    def _begin(self) -> None:
        """Start a new list from what is offered now."""
        state, offered = self.state, self.offered
        state.pins.clear()
        first = self._eager_definitions()
        state.eager = {definition.name for definition in first}
        offered.defer_all_but(state.eager)  # before `_offers_search`, which depends on what is deferred
        taken = {*(tool.name for tool in state.catalog.tools), *self.synthetic}
        # Use another name if a server without a prefix has a tool with the same name.
        free: list[prompts.SearchName] = [name for name in prompts.SEARCH_NAMES if name not in taken]
        state.search_name = free[0] if free else state.search_name
        first += [tool.definition for tool in self.synthetic.values()]
        first += [self._search_definition()] if self._offers_search else []
        state.prefix += 1
        self._compare()  # what changed in this moment is reported although the old definition leaves
        state.definitions.clear()
        self._add(first)
        current = [offered.known.get(name) or tool for name, tool in state.discovered.items()]
        found = [tool for tool in current if offered.shows(tool) and not offered.has_lost(tool)]
        # The most recently used are last, and stay.
        self._add(map(Definition.of, found if self.room is None else found[max(0, len(found) - self.room) :]))
        state.gone.clear()
        state.notified.clear()
        state.servers = self._servers()

    def _grow(self) -> None:
        """Append what is new, and note what changed under the list."""
        state = self.state
        first = self._eager_definitions()
        state.eager.update(definition.name for definition in first)
        self.offered.defer_all_but(state.eager)
        if self._offers_search and self.search_name is None:
            first.append(self._search_definition())
        new = [
            definition.name
            for definition in first
            if definition.name not in state.definitions and not definition.is_oversized
        ]
        self._make_room(len(new), ())
        if self.room == 0 and any(name not in state.definitions for name in new):
            self._begin()  # without tools that are no longer offered
        self._add(first)
        self._compare()
        if self.search_name is None and (self._offers_search or state.outdated):
            self._begin()  # since nothing else leads the model to the new definitions

    def _add(self, definitions: Iterable[Definition]) -> tuple[str, ...]:
        """Append those that are not there yet and still fit, and return their names."""
        added: list[str] = []
        for definition in definitions:
            if definition.name not in self.state.definitions and self.room != 0 and not definition.is_oversized:
                self.state.definitions[definition.name] = definition
                added.append(definition.name)
        return tuple(added)

    def _follow(self, tool: FoundTool | None) -> None:
        """Keep a tool as its server defines it now, next to what the model was sent, and note if that has changed."""
        sent = None if tool is None else self.state.definitions.get(tool.name)
        if tool is None or sent is None or sent.tool is None or sent.tool is tool:
            return
        if not Definition.of(sent.tool).is_like(Definition.of(tool)):
            self.state.changed[tool.name] = None  # the user's consent was for what was offered before
        self.state.definitions[tool.name] = replace(sent, tool=tool)

    def _use(self, definition: Definition) -> None:
        """Mark a tool as most recently used; those are kept longest."""
        state, name = self.state, definition.name
        if definition.tool is not None and name in state.definitions and name not in state.eager:
            state.discovered.pop(name, None)
            state.discovered[name] = definition.tool

    def _make_room(self, count: int, wanted: Collection[str]) -> int | None:
        """Make room for `count` more definitions if possible, and return how many more fit.

        The least recently used found tools are removed until half of the places for found tools are free, so that the
        list is started over once for many searches. Tools that were called in this turn or are `wanted` stay.
        """
        state, room = self.state, self.room
        if room is None or count <= room:
            return room
        found = [name for name in state.discovered if name in state.definitions]
        staying = {name for name in found if name in state.called or name in wanted}
        others = [name for name in found if name not in staying]
        if not others:
            return room
        places = room + len(found)
        most = max(0, min(places // 2, places - count) - len(staying))
        kept = staying.union(others[max(0, len(others) - most) :])
        state.discovered = {name: tool for name, tool in state.discovered.items() if name in kept}
        self._begin()
        return self.room

    def news(self) -> tuple[str, ...]:
        """Return notices of the changes since the model was last notified, and mark them as delivered.

        Changes that were reverted are not reported. Changes to tools that must be searched for are only reported if the
        model can search.
        """
        state = self.state
        before = state.notified
        state.notified = {name: "outdated" for name in state.outdated if self.search_name}
        state.notified |= dict.fromkeys(state.gone, "gone")
        of_tools: dict[ToolNotice | None, list[str]] = {"gone": [], "outdated": [], None: []}
        for name in dict.fromkeys((*state.definitions, *sorted(state.gone))):
            if (now := state.notified.get(name)) != before.get(name):
                of_tools[now].append(name)
        notices = [prompts.gone(of_tools["gone"])] if of_tools["gone"] else []
        if back := [name for name in of_tools[None] if before[name] == "gone"]:
            notices.append(prompts.offered_again(back))
        if self.search_name is not None:
            if of_tools["outdated"]:
                notices.append(prompts.changed_tools(of_tools["outdated"], self.search_name))
            if any((changes := self._changed_servers()).values()):
                notices.append(prompts.changed_servers(self.search_name, changes))
        return tuple(notices)

    def _changed_servers(self) -> dict[str, list[str]]:
        """Return the servers the model must be notified of, by kind of change."""
        before, now = self.state.servers, self._servers()
        self.state.servers = now
        failing = {name for name in now if now[name].failed}
        failed = {name for name in before if before[name].failed}
        return {
            "new servers": [name for name in now if name not in before and name not in failing],
            "servers that are gone": [name for name in before if name not in now],
            "servers not reachable at present": [name for name in now if name in failing and name not in failed],
            "servers that are reachable again": [name for name in now if name in failed and name not in failing],
            "servers with other tools than before": [
                name
                for name in now
                if name in before and name not in failed | failing and now[name].tools != before[name].tools
            ],
        }

    def _compare(self) -> None:
        """Compare the list with what is offered, and record the tools that are gone or have changed."""
        state = self.state
        for name, sent in state.definitions.items():
            if sent.tool is None:
                continue
            if self.offered.has_lost(sent.tool):
                state.gone.add(name)
            elif (offered := self.offered.known.get(name)) is not None:
                state.gone.discard(name)
                self._follow(offered)

    def _servers(self) -> dict[str, ServerNotice]:
        return {
            offer.name: ServerNotice(
                offer.failure is not None,
                None if offer.tools is None else frozenset(tool.name for tool in offer.tools),
            )
            for offer in self.offered.offers
        }

    @property
    def _offers_search(self) -> bool:
        return self.discovery.search_tool and self.offered.needs_search

    def _search_definition(self) -> Definition:
        return prompts.search_definition(self.state.search_name, manifest(self.offered.offers))

    def _eager_definitions(self) -> list[Definition]:
        return [Definition.of(tool) for tool in self.offered.eager() if tool.name not in self.synthetic]
