"""Large values: how much memory they take, and what is shown of them."""

from __future__ import annotations

import sys
from typing import Any, Final

from tools_search_conformance.wire.codec import JsonObject, as_array, as_object

__all__ = ["abridged", "cut", "cut_within", "memory"]

_VALUES: Final = 200
_CHARACTERS: Final = 300
_DEPTH: Final = 12


def memory(value: Any) -> int:
    """Return about how many bytes a JSON value takes in memory."""
    # Every message of a run is measured, so what is asked millions of times is asked here without a call.
    size, size_of, pending = 0, sys.getsizeof, [value]
    while pending:
        each = pending.pop()
        size += size_of(each)
        if isinstance(each, dict):
            members: JsonObject = each  # pyright: ignore[reportUnknownVariableType] - JSON has no other keys
            size += sum(map(len, members))
            pending += members.values()
        elif isinstance(each, list):
            pending += each  # pyright: ignore[reportUnknownArgumentType] - JSON
    return size


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and its length where it has more than `most` characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def cut_within(text: str, most: int) -> str:
    """Return `text`, or `most` characters that are its beginning, its length and its end.

    What a message says of a long name stands behind it.
    """
    if len(text) <= most:
        return text
    told, end = f"… ({len(text)} characters) …", most // 4
    return text[: most - len(told) - end] + told + text[-end:]


def abridged(value: Any) -> Any:
    """Return a JSON value that shows how `value` begins, in some ten thousand characters; what is cut says so."""
    return _Abridger().shorten(value, _DEPTH)


class _Abridger:
    def __init__(self) -> None:
        self._left = _VALUES

    def shorten(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return cut(value, _CHARACTERS)
        if (members := as_object(value)) is not None:
            return self._members(members, depth)
        if (items := as_array(value)) is not None:
            return self._items(items, depth)
        return value

    def _members(self, members: JsonObject, depth: int) -> JsonObject:
        shown: JsonObject = {}
        for number, (name, member) in enumerate(members.items()):
            if self._left <= 0 or not depth:
                shown["…"] = f"{len(members) - number} more members"
                break
            shown[cut(name, _CHARACTERS)] = self.shorten(member, depth - 1)
        return shown

    def _items(self, items: list[Any], depth: int) -> list[Any]:
        shown: list[Any] = []
        for number, item in enumerate(items):
            if self._left <= 0 or not depth:
                shown.append(f"… {len(items) - number} more items")
                break
            shown.append(self.shorten(item, depth - 1))
        return shown
