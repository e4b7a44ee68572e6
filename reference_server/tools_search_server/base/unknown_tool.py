"""What to say when there is no tool or prompt of a name."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from typing import Final

from mcp import MCPError
from mcp_types import INVALID_PARAMS

__all__ = ["closest_names", "unknown_name", "unknown_tool"]

_SHOWN: Final = 3
_COMPARED: Final = 50
"""Names that are compared closely; the others share fewer letters with what was asked for."""

_MAX_CHARS: Final = 128


def unknown_tool(name: str, known: Iterable[str]) -> MCPError:
    """Return the -32602 error for a name that no tool has, naming the closest ones."""
    return unknown_name("tool", name, known, advice="list or search the tools to see their names")


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, advice: str = "list them to see their names"
) -> MCPError:
    """Return the -32602 error for a name that nothing of a kind has, naming the closest ones.

    Args:
        kind: What was asked for.
        name: Its name.
        known: The names that there are.
        advice: What to do where none is close.
    """
    name = name[:_MAX_CHARS]
    closest = closest_names(name, known)
    said = f"the closest are {', '.join(closest)}" if closest else advice
    data = {"field": "name", "reason": f"unknown {kind}", "closest": closest}
    return MCPError(INVALID_PARAMS, f"Unknown {kind}: {name!r}; {said}.", data)


def closest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the few known names that are most like `name`, if any are."""
    name = name[:_MAX_CHARS]
    wanted = _trigrams(name)
    likely = heapq.nlargest(_COMPARED, known, key=lambda other: len(wanted & _trigrams(other)))
    return difflib.get_close_matches(name, likely, n=_SHOWN)


def _trigrams(name: str) -> set[str]:
    padded = f" {name.lower()} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}
