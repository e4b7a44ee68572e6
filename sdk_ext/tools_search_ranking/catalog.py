"""The tools of a server, known by what their definitions say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic_core import to_json

__all__ = ["WHOLE", "CatalogSnapshot", "Part"]

_KEPT_PARTS: Final = 16
"""Listings that are known again without a look at their definitions."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a caller sees of a catalog."""

    names: frozenset[str] | None
    """Of the tools; `None` for all."""


WHOLE: Final = Part(None)


class CatalogSnapshot:
    """All tools of a server in which callers see different parts of one catalog. It never changes.

    Args:
        tools: Definitions by name, as a listing carries them over the wire. None of them is changed later.
        after: The catalog that this one takes the place of: definitions that are the same objects in both are not
            read again.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]], *, after: CatalogSnapshot | None = None) -> None:
        self.tools = tools
        self._parts: dict[int, tuple[Mapping[str, dict[str, Any]], Part]] = {}
        """By identity, and holding the listing so that its identity stays its own."""
        self._read: tuple[Mapping[str, dict[str, Any]], Mapping[str, bytes]] = ({}, {})
        if after is not None:
            # Not the catalog itself, which may have one before it as well.
            self._read = (after.tools, after.digests) if "digests" in after.__dict__ else after._read

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """What the content of each definition is known by."""
        tools, digests = self._read
        own = {name: digests[name] if tools.get(name) is tool else _digest(tool) for name, tool in self.tools.items()}
        self._read = {}, {}
        return own

    @cached_property
    def digest(self) -> bytes:
        """What the whole content is known by."""
        return hashlib.sha256(b"".join(self.digests.values())).digest()

    @property
    def is_digested(self) -> bool:
        """Whether `digest` is there and takes no time."""
        return "digest" in self.__dict__

    def known_part(self, listing: Mapping[str, dict[str, Any]]) -> Part | None:
        """Return what `part` has found for this very object lately, without comparing any definition."""
        if listing is self.tools:
            return WHOLE
        known = self._parts.get(id(listing))
        return None if known is None else known[1]

    def part(self, listing: Mapping[str, dict[str, Any]]) -> Part | None:
        """Return which part a listing is, or `None` where not every definition is here and is the same here.

        A listing that holds the very definitions of this catalog is known again, as it may not change either.
        """
        if (known := self.known_part(listing)) is not None:
            return known
        is_own = all(map(self._holds, listing, listing.values()))
        if not is_own and any(self.tools.get(name) != tool for name, tool in listing.items()):
            return None
        part = WHOLE if len(listing) == len(self.tools) else Part(frozenset(listing))
        if is_own:
            if len(self._parts) >= _KEPT_PARTS:
                self._parts = {}  # another one, as other threads may be looking at this one
            self._parts[id(listing)] = listing, part
        return part

    def _holds(self, name: str, tool: dict[str, Any]) -> bool:
        return self.tools.get(name) is tool


def _digest(tool: dict[str, Any]) -> bytes:
    return hashlib.sha256(to_json(tool)).digest()
