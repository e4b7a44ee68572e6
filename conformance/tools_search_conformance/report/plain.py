"""Text of a target, made harmless: no control sequence, bidi mark or lone surrogate reaches a terminal."""

from __future__ import annotations

import unicodedata

__all__ = ["plain"]


def plain(text: str, *, most: int = 2000) -> str:
    """Return `text` on one line of at most `most` characters, with what a terminal might obey spelled out."""
    shown = "".join(_shown(character) for character in text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text)} characters)"


def _shown(character: str) -> str:
    # Categories C…: controls, format marks such as bidi overrides, surrogates, unassigned; Zl, Zp: separators of lines.
    if unicodedata.category(character)[0] == "C" or unicodedata.category(character) in {"Zl", "Zp"}:
        return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
    return character
