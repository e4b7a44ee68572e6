"""What to say when there is no tool of a name."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from typing import Final

from mcp import MCPError
from mcp_types import INVALID_PARAMS

__all__ = ["closest_names", "unknown_tool"]

_SHOWN: Final = 3
_COMPARED: Final = 50
"""Names that are compared closely; the others share fewer letters with what was asked for."""

_MAX_CHARS: Final = 128


def unknown_tool(name: str, known: Iterable[str]) -> MCPError:
    """Return the -32602 error for a name that no tool has, naming the closest ones."""
    name = name[:_MAX_CHARS]
    closest = closest_names(name, known)
    advice = f"the closest are {', '.join(closest)}" if closest else "list or search the tools to see their names"
    data = {"field": "name", "reason": "unknown tool", "closest": closest}
    return MCPError(INVALID_PARAMS, f"Unknown tool: {name!r}; {advice}.", data)


def closest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the few known names that are most like `name`, if any are."""
    name = name[:_MAX_CHARS]
    wanted = _trigrams(name)
    likely = heapq.nlargest(_COMPARED, known, key=lambda other: len(wanted & _trigrams(other)))
    return difflib.get_close_matches(name, likely, n=_SHOWN)


def _trigrams(name: str) -> set[str]:
    padded = f" {name.lower()} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}
