"""Counts in texts for people and models."""

from __future__ import annotations


def number_of(count: float, thing: str, things: str | None = None) -> str:
    """Return a count with its noun, such as `1 tool`, `2,000 tools` or `0.5 seconds`.

    `things` is the plural, if it is not `thing` with an `s`.
    """
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {thing if count == 1 else things or thing + 's'}"
