"""Displays what a target sent: measures memory, cuts long values, and escapes text."""

from __future__ import annotations

import marshal
import sys
import unicodedata
from contextlib import suppress
from typing import Any, Final

from tools_search_conformance.wire.codec import JsonObject, as_array, as_object

_VALUES: Final = 200
_CHARACTERS: Final = 300
_DEPTH: Final = 12
_FEW_BYTES: Final = 4096
"""Values with fewer bytes are not worth measuring."""


def memory(value: Any) -> int:
    """Return approximately how many bytes of memory a JSON value takes."""
    # Every message in a run is measured, and nearly all are small.
    with suppress(ValueError):  # a `Spelled` number or a `Packed` object
        if (least := len(marshal.dumps(value, 2))) < _FEW_BYTES:
            return 4 * least
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


def number_of(count: int, thing: str) -> str:
    """Return a count with its noun: `1 check`, `2 checks`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and its length if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def cut_within(text: str, most: int) -> str:
    """Return `text`, or at most `most` characters: its beginning, its length and its end.

    The end is kept because a message about a long name says what is wrong after the name.
    """
    if len(text) <= most:
        return text
    gap, end = f"… ({len(text)} characters) …", most // 4
    return text[: most - len(gap) - end] + gap + text[-end:]


def plain(text: str, *, most: int = 2000) -> str:
    """Return `text` on one line of at most `most` characters, with control characters escaped.

    This keeps a target's control sequences, bidi marks and lone surrogates from reaching a terminal.
    """

    def harmless(character: str) -> str:
        # Categories C…: controls, format marks such as bidi overrides, surrogates, unassigned; Zl, Zp: line separators.
        if unicodedata.category(character)[0] == "C" or unicodedata.category(character) in {"Zl", "Zp"}:
            return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
        return character

    shown = cut(text, most)
    return shown if shown.isprintable() else "".join(map(harmless, shown))


def abridged(value: Any) -> Any:
    """Return the beginning of a JSON value, as one with about ten thousand characters and cuts marked."""
    left = _VALUES

    def shorten(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, str):
            return cut(value, _CHARACTERS)
        if (members := as_object(value)) is not None:
            shown: JsonObject = {}
            for number, (name, member) in enumerate(members.items()):
                if left <= 0 or not depth:
                    shown["…"] = number_of(len(members) - number, "more member")
                    break
                shown[cut(name, _CHARACTERS)] = shorten(member, depth - 1)
            return shown
        if (items := as_array(value)) is not None:
            kept: list[Any] = []
            for number, item in enumerate(items):
                if left <= 0 or not depth:
                    kept.append(f"… {number_of(len(items) - number, 'more item')}")
                    break
                kept.append(shorten(item, depth - 1))
            return kept
        return value

    return shorten(value, _DEPTH)
