"""Terms as the draft defines them, for the matching floor that is the same on every server."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from mcp_types import Tool

from mcp_ext_tools_search.types import WHITE_SPACE

_ASCII_RUN = re.compile(r"[a-z0-9]+")


def terms(text: str) -> list[str]:
    """Return the terms of `text` in their order, repetitions included (draft: Order and Matching).

    A term is a maximal run of Unicode letters, marks and digits (general categories `L*`, `M*` and `Nd`) after NFKC and
    default case folding.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        return _ASCII_RUN.findall(folded)
    return "".join(map(_kept_or_space, folded)).split()


def tool_terms(tool: Tool) -> dict[str, frozenset[str]]:
    """Return the terms of each member that the matching floor looks at, in the order of the definition."""
    members = {"name": tool.name, "title": tool.title, "description": tool.description}
    return {member: frozenset(terms(text)) for member, text in members.items() if text}


def trimmed(query: str) -> str:
    """Return `query` without the white space around it, as the draft compares it with names."""
    return query.strip(WHITE_SPACE)


@lru_cache(maxsize=16_384)
def _kept_or_space(character: str) -> str:
    category = unicodedata.category(character)
    return character if category[0] in "LM" or category == "Nd" else " "
