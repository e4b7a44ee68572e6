"""What a search found, however it was found."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_ext_tools_search.types import WHITE_SPACE, HitMetadata
from mcp_types import Tool

__all__ = ["Found", "FoundTool", "Mode", "require_request"]

Mode: TypeAlias = Literal["search", "list"]
"""How a server is asked: `tools/search`, or `tools/list` with ranking on this side."""


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that fits, with its whole definition, and why it was found."""

    tool: Tool
    hit: HitMetadata
    """All members are `None` where the server does not say."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search of one server, best first.

    An empty answer is no proof that the server has no such tool.
    """

    tools: tuple[FoundTool, ...]
    mode: Mode
    fallback: str | None = None
    """Why the tools were listed although the server advertises the search."""
    listed: tuple[Tool, ...] | None = None
    """Every tool of the server, where it was listed to be ranked on this side."""


def require_request(query: str, limit: int) -> None:
    """Refuse a search that no server could answer, before anything is sent.

    Raises:
        ValueError: The query is blank or no Unicode text, or the limit is not positive.
    """
    if not query.strip(WHITE_SPACE):
        raise ValueError("the query is blank: say in a few words what is needed")
    if any(unicodedata.category(character) == "Cs" for character in query):
        raise ValueError("the query is no Unicode text: it holds half a character")
    if limit < 1:
        raise ValueError("the limit must be at least 1")
