"""What a search found, however it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool

__all__ = ["Found", "FoundTool", "Mode"]

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
