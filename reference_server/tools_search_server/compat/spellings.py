"""Arguments as models write them, brought into the form that the definitions ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["plainly_spelt"]

_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "call_tool": {"toolName": "name", "tool_name": "name", "args": "arguments"},
    "get_related_tools": {"toolName": "name", "tool_name": "name"},
}
"""What other gateways call a parameter."""


def plainly_spelt(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the definition, and those of an inner call as an object.

    Models write an inner object as a text now and then; one that holds an object is taken for it.
    """
    spellings = _SPELLINGS.get(tool, {})
    spelt = {spellings.get(name, name): value for name, value in arguments.items()}
    if tool == "call_tool" and isinstance(inner := spelt.get("arguments"), str):
        spelt["arguments"] = _object_in(inner)
    if tool == "call_tool" and spelt.get("arguments", 0) is None:
        del spelt["arguments"]
    return spelt


def _object_in(text: str) -> Any:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", value) if isinstance(value, dict) else text
