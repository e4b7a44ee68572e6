"""Small catalogs made up for fixtures that can do more: tools with a common word, and one of their own each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_search_conformance.wire.codec import JsonObject

__all__ = ["COMMON", "WORDS", "document", "made_tool", "name_of"]

COMMON: Final = "meadow"
"""A word of every tool made here."""

WORDS: Final = (
    "anvil", "beacon", "chisel", "dynamo", "easel", "furnace", "gimbal", "hacksaw", "inkwell", "javelin",
)  # fmt: skip
"""Words of which each belongs to one tool."""


def name_of(word: str) -> str:
    """Return the name of the tool of `word`."""
    return f"{COMMON}_{word}"


def made_tool(word: str, **more: Any) -> JsonObject:
    """Return the tool of `word`, with other members where `more` gives some."""
    description = f"Looks after the {word} of the {COMMON}."
    return {"name": name_of(word), "description": description, "inputSchema": {"type": "object"}, **more}


def document(tools: Sequence[JsonObject], **more: Any) -> JsonObject:
    """Return what a catalog file holds."""
    return {"tools": list(tools), **more}
