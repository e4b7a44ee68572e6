"""Configuration files as people keep them: JSON with comments, trailing commas and a byte order mark.

Editors that hold MCP servers in their settings allow all three. What stays an error is a name that occurs twice, since
one of the two servers would silently be lost.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["load_lenient_json"]

_TOKEN: Final = re.compile(
    r"""
    (?P<string>"(?:[^"\\]+|\\.?)*"?)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<endless>/\*.*)
    | (?P<space>\s+)
    | (?P<comma>,)
    | (?P<closing>[}\]])
    | (?P<other>[^\s"/,}\]]+|/)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Every character belongs to one token, and no token is looked for twice: hostile texts take no longer than others."""


def load_lenient_json(text: str) -> Any:
    """Parse `text`.

    Raises:
        ValueError: It is not JSON even so, or a name occurs twice in one object. Positions in the message are those of
            the original text.
    """
    plain = _without_extras(text.removeprefix("\ufeff"))
    return json.loads(plain, object_pairs_hook=_unique_names)


def _without_extras(text: str) -> str:
    """Replace comments and trailing commas by white space of the same shape, so that error positions stay true."""
    parts: list[str] = []
    comma: int | None = None  # the part that is a comma which nothing but white space has followed
    for token in _TOKEN.finditer(text):
        part = token[0]
        match token.lastgroup:
            case "comment":
                part = re.sub(r"[^\n]", " ", part)
            case "space":
                pass
            case "comma":
                comma = len(parts)
            case "closing" if comma is not None:
                parts[comma] = " "
                comma = None
            case _:
                comma = None
        parts.append(part)
    return "".join(parts)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name!r} occurs twice in one object")
        members[name] = value
    return members
