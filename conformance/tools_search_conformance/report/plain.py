"""Text of a target, made harmless: no control sequence, bidi mark or lone surrogate reaches a terminal."""

from __future__ import annotations

import unicodedata

__all__ = ["plain"]


def plain(text: str, *, most: int = 2000) -> str:
    """Return `text` on one line, with everything that is not to be shown as it is spelled out, cut at `most` characters."""
    shown = "".join(_shown(character) for character in text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text)} characters)"


def _shown(character: str) -> str:
    # Cc, Cf, Cs, Co, Cn: controls, format marks such as bidi overrides, surrogates, private and unassigned; Zl, Zp: separators.
    if unicodedata.category(character)[0] == "C" or unicodedata.category(character) in {"Zl", "Zp"}:
        return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
    return character
