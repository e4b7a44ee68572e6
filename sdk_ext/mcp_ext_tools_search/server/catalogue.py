"""The tools of a server, known by what their definitions say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic_core import to_json

__all__ = ["Catalogue"]


class Catalogue:
    """All tools of a server in which callers see different parts of one catalogue. It never changes.

    Args:
        tools: Definitions by name, as a listing carries them over the wire. None of them is changed later.
        after: The catalogue that this one takes the place of: definitions that are the same objects in both are not
            read again.
    """

    def __init__(self, tools: Mapping[str, dict[str, Any]], *, after: Catalogue | None = None) -> None:
        self.tools = tools
        self._read: tuple[Mapping[str, dict[str, Any]], Mapping[str, bytes]] = ({}, {})
        if after is not None:
            # Not the catalogue itself, which may have one before it as well.
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

    def covers(self, listing: Mapping[str, dict[str, Any]]) -> bool:
        """Tell whether every definition of a listing is here, and is the same here."""
        return listing is self.tools or all(map(self._has, listing, listing.values()))

    def _has(self, name: str, tool: dict[str, Any]) -> bool:
        own = self.tools.get(name)
        return own is tool or own == tool


def _digest(tool: dict[str, Any]) -> bytes:
    return hashlib.sha256(to_json(tool)).digest()
