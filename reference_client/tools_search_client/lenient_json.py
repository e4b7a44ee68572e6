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
    (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<comma>,)(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])
    """,
    re.VERBOSE | re.DOTALL,
)


def load_lenient_json(text: str) -> Any:
    """Parse `text`.

    Raises:
        ValueError: It is not JSON even so, or a name occurs twice in one object. Positions in the message are those of
            the original text.
    """
    plain = _TOKEN.sub(_blank, text.removeprefix("\ufeff"))
    return json.loads(plain, object_pairs_hook=_unique_names)


def _blank(match: re.Match[str]) -> str:
    """Keep strings; replace the rest by white space of the same shape, so that error positions stay true."""
    if match["string"] is not None:
        return match["string"]
    return re.sub(r"[^\n]", " ", match[0])


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name!r} occurs twice in one object")
        members[name] = value
    return members
