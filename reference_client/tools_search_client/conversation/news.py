"""What changed under a list that must not change: noted here instead of altering what the model was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import ServerOffer
from tools_search_client.conversation.messages import Definition
from tools_search_client.conversation.pool import Pool
from tools_search_client.conversation.shelf import Shelf

__all__ = ["News"]

_Seen = tuple[bool, frozenset[str] | None]
"""Whether a server fails, and the tools that can be found there; `None` where it was never listed."""


class News:
    """Compares the list that the model has with what is offered.

    A change is noted once for the model, until it has the new definition, and once for the host.

    Args:
        pool: What is offered.
        shelf: What the model has.
    """

    def __init__(self, pool: Pool, shelf: Shelf) -> None:
        self._pool = pool
        self._shelf = shelf
        self._gone: set[str] = set()
        self._outdated: set[str] = set()
        """Tools that the model knows by another definition than the one they have."""
        self._current: dict[str, Definition] = {}
        """The last definition that was seen of those."""
        self._changed: dict[str, None] = {}
        self._servers: Mapping[str, _Seen] = {}
        self._notices: list[str] = []

    def begin(self, offers: Sequence[ServerOffer]) -> None:
        """Start from a list that is as everything is offered.

        Args:
            offers: The servers with the tools that can be found there.
        """
        self._gone.clear()
        self._outdated.clear()
        self._current.clear()
        self._notices.clear()
        self._servers = _seen(offers)

    def gather(self, offers: Sequence[ServerOffer], search_name: str | None) -> None:
        """Collect what is new since the last time; what the model can search for only where it can."""
        gone, outdated = self._compared()
        if gone:
            self._notices.append(prompts.gone(gone))
        if search_name is None:
            return
        if outdated:
            self._notices.append(prompts.changed_tools(outdated, search_name))
        servers, before = _seen(offers), self._servers
        self._servers = servers
        changes = _changes(before, servers)
        if any(changes.values()):
            self._notices.append(prompts.changed_servers(search_name, changes))

    @property
    def outdated(self) -> bool:
        """Whether a tool has another definition than the model was sent."""
        return bool(self._outdated)

    def is_gone(self, name: str) -> bool:
        """Return whether the tool of this name is no longer offered."""
        return name in self._gone

    def note_gone(self, name: str) -> None:
        """Remember that a call showed that a tool is no longer offered."""
        self._gone.add(name)

    def note_found(self, definition: Definition) -> bool:
        """Remember that a search found a tool, and return whether the model was sent another definition of it."""
        self._gone.discard(definition.name)
        sent = self._shelf.get(definition.name)
        if sent is None or sent.is_like(definition):
            return False
        if not self._current.pop(definition.name, sent).is_like(definition):
            self._changed[definition.name] = None
        self._outdated.discard(definition.name)
        return True

    def taken(self) -> tuple[str, ...]:
        """Return the notices that were not taken yet."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices

    def taken_changes(self) -> tuple[str, ...]:
        """Return the names of the tools whose definition changed since this was asked last."""
        changed = tuple(self._changed)
        self._changed.clear()
        return changed

    def _compared(self) -> tuple[list[str], list[str]]:
        """Return the loaded tools that are gone, and those with another definition than was sent, if that is new."""
        gone: list[str] = []
        outdated: list[str] = []
        for sent in self._shelf.definitions:
            if sent.tool is None:
                continue
            name = sent.name
            if self._pool.has_lost(sent.tool):
                gone += [] if name in self._gone else [name]
                self._gone.add(name)
                continue
            offered = self._pool.reach.known.get(name)
            if offered is None:
                continue
            self._gone.discard(name)
            now = Definition.of(offered)
            if not now.is_like(self._current.get(name, sent)):
                self._current[name] = now
                self._changed[name] = None
            if now.is_like(sent):
                self._outdated.discard(name)
            elif name not in self._outdated:
                self._outdated.add(name)
                outdated.append(name)
        return gone, outdated


def _seen(offers: Sequence[ServerOffer]) -> dict[str, _Seen]:
    return {
        offer.name: (
            offer.failure is not None,
            None if offer.tools is None else frozenset(tool.name for tool in offer.tools),
        )
        for offer in offers
    }


def _changes(before: Mapping[str, _Seen], now: Mapping[str, _Seen]) -> dict[str, list[str]]:
    """Return the names of servers by what became of them."""
    return {
        "new servers": [name for name in now if name not in before],
        "servers that are gone": [name for name in before if name not in now],
        "servers not reachable at present": [
            name for name in now if name in before and now[name][0] and not before[name][0]
        ],
        "servers with other tools than before": [
            name for name in now if name in before and now[name] != before[name] and now[name][0] <= before[name][0]
        ],
    }
