"""Untrusted text, made safe to show.

Tool names, descriptions and error messages come from servers. Terminals interpret escape sequences and reorder
bidirectional text, so a description could forge what the user sees.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidirectional marks and zero-width characters), surrogate, private, unassigned, separators."""

_MAX_SENTENCE_CHARS: Final = 1_600
"""Maximum characters of a text to search for the end of its first sentence."""


def printable(text: str) -> str:
    """Return `text` without characters that a terminal interprets; line breaks and tabs stay."""
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _HIDDEN_CATEGORIES)


def printable_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON that is readable in any script. Characters that a terminal interprets are escaped.

    The JSON is on one line unless there is an `indent`.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(char if printable(char) else json.dumps(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the printable part of `text` on one line, with each run of white space as one space."""
    return " ".join(printable(" ".join(text.split())).split())


def shorten(text: str, width: int) -> str:
    """Return `text` on one line of at most `width` characters, with an ellipsis if it is cut.

    Raises:
        ValueError: `width` is not positive.
    """
    if width < 1:
        raise ValueError("width must be positive")
    line = one_line(text)
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def first_sentence(text: str) -> str:
    """Return the first sentence of `text` on one line, or its first paragraph if no sentence ends in it."""
    line = one_line(text[:_MAX_SENTENCE_CHARS].strip().partition("\n\n")[0])
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
