"""Foreign text, made fit to be shown.

Tool names, descriptions and error messages come from servers. A terminal obeys escape sequences and reorders
bidirectional text, so a description could forge what the user believes to see.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidirectional marks and zero-width characters), surrogate, private, unassigned, separators."""

_MAX_OF_A_SENTENCE: Final = 1_600
"""Characters of a text that are looked at for its first sentence."""


def printable(text: str) -> str:
    """Return `text` without any character that a terminal obeys rather than shows; line breaks and tabs stay."""
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _HIDDEN_CATEGORIES)


def printable_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, readable in any script, with what a terminal obeys as escape sequences.

    It is on one line unless there is an `indent`.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(char if printable(char) else json.dumps(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the printable part of `text` on one line, with runs of white space as one space."""
    return " ".join(printable(" ".join(text.split())).split())


def shorten(text: str, width: int) -> str:
    """Return `text` on one line of at most `width` characters, with an ellipsis where it was cut.

    Raises:
        ValueError: `width` is not positive.
    """
    if width < 1:
        raise ValueError("width must be positive")
    line = one_line(text)
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def first_sentence(text: str) -> str:
    """Return the first sentence of `text` on one line, or its first paragraph where none ends; of very much, a part."""
    line = one_line(text[:_MAX_OF_A_SENTENCE].strip().partition("\n\n")[0])
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
