"""Definitions that answers repeat, kept in memory once, and large ones compressed.

A server sends the same definitions in every listing and in every page of a search. Each is looked up by a digest of its
text, and replaced by the equal one that came first, so that a catalog takes its memory once, however often it is sent.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

from tools_search_conformance.wire.codec import Packed, as_object
from tools_search_conformance.wire.display import abridged, memory

_MOST_BYTES: Final = 48 * 1024 * 1024
_LEAST_CHARACTERS: Final = 64
"""Texts of fewer are not worth their entry."""
_LARGE: Final = 8 * 1024
"""Characters of an object that is compressed."""


class SharedDefinitions:
    """The definitions that one cell's target has sent so far, up to a bound. No one may change what it returns."""

    def __init__(self) -> None:
        self.held = 0
        """About how many bytes they take."""
        self._known: dict[bytes, Any] = {}

    def make_room(self) -> None:
        """Forget all of them where there is no room for more, as of a server whose definitions are new each time."""
        if self.held > _MOST_BYTES:
            self._known.clear()
            self.held = 0

    def share(self, tools: list[Any]) -> tuple[list[Any], int, int]:
        """Return known tools for these, about how many bytes they take by themselves, and how long their text is."""
        shared, own, length = list[Any](), 0, 0
        for tool in tools:
            if (members := as_object(tool)) is None:
                shared.append(tool)
                own += memory(tool)
                continue
            text = json.dumps(members)
            length += len(text)
            if "_meta" in members or len(text) > _LARGE:  # a search adds the one, for each query another
                kept = dict[str, Any]()
                for name, value in members.items():
                    whole = name == "_meta" or not isinstance(value, str | dict | list)
                    kept[name], more = (value, memory(value)) if whole else self._once(json.dumps(value), value)
                    own += more
                shared.append(kept)
            else:
                known, more = self._once(text, members)
                shared.append(known)
                own += more
        return shared, own, length

    def _once(self, text: str, value: Any) -> tuple[Any, int]:
        """Return the value that was the first with this text, and about how many bytes it takes by itself."""
        if len(text) < _LEAST_CHARACTERS:
            return value, memory(value)
        key = blake2b(text.encode(), digest_size=16).digest()
        if key in self._known:
            return self._known[key], 0
        if len(text) > _LARGE and isinstance(value, dict):
            value = Packed(text, abridged(value))
        size = memory(value) + (value.packed_bytes if isinstance(value, Packed) else 0)
        if self.held + size > _MOST_BYTES:
            self.held = max(self.held, _MOST_BYTES + 1)
            return value, size
        self._known[key] = value
        self.held += size
        return value, 0
