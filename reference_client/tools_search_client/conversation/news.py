"""What changed under a list that must not change: told to the model instead of altering what it was sent."""

from __future__ import annotations

from tools_search_client.conversation import wording
from tools_search_client.conversation.definitions import Definition
from tools_search_client.conversation.manifest import difference
from tools_search_client.conversation.pool import Pool
from tools_search_client.conversation.shelf import Shelf

__all__ = ["News"]


class News:
    """Compares the list that the model has with what is offered.

    Args:
        pool: What is offered.
        shelf: What the model has.
    """

    def __init__(self, pool: Pool, shelf: Shelf) -> None:
        self._pool = pool
        self._shelf = shelf
        self._gone: set[str] = set()
        self._told: dict[str, str] = {}
        self._manifest = ""
        self._notices: list[str] = []

    def begin(self, manifest: str) -> None:
        """Start from a list that is as everything is offered."""
        self._gone.clear()
        self._told.clear()
        self._notices.clear()
        self._manifest = manifest

    def gather(self, manifest: str, search_name: str | None) -> None:
        """Collect what is new since the last time; what the model can search for only where it can."""
        for definition in self._shelf.definitions:
            if definition.tool is not None:
                self._compare(definition.name, definition.tool.server, definition)
        if search_name is not None and manifest != self._manifest:
            if news := difference(self._manifest, manifest):
                self._notices.append(wording.changed_manifest(search_name, news))
            self._manifest = manifest

    def is_gone(self, name: str) -> bool:
        """Tell whether the tool of this name is no longer offered."""
        return name in self._gone

    def note_gone(self, name: str) -> None:
        """Remember that a call showed that a tool is no longer offered."""
        self._gone.add(name)

    def note_there(self, name: str) -> None:
        """Remember that a search found a tool."""
        self._gone.discard(name)

    def taken(self) -> tuple[str, ...]:
        """Return the news that were not taken yet."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices

    def _compare(self, name: str, server: str, sent: Definition) -> None:
        if sent.tool is not None and self._pool.has_lost(sent.tool):
            if name not in self._gone:
                self._gone.add(name)
                self._notices.append(wording.gone(name, server))
            return
        offered = self._pool.reach.known.get(name)
        if offered is None:
            return
        self._gone.discard(name)
        now = Definition.of(offered).serialized()
        if now != self._told.get(name, sent.serialized()):
            self._told[name] = now
            self._notices.append(wording.changed_tool(name, offered))
