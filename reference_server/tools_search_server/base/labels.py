"""Metadata that is published with a tool: its category, tags, related tools and examples.

It may come from any server: values of an unexpected type are ignored, and the number of each is bounded.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata
from mcp_types import Tool

_MAX_VALUES: Final = 50
_MAX_CHARS: Final = 80
_FASTMCP: Final = ("fastmcp", "_fastmcp")


def category_of(tool: Tool) -> str:
    """Return the category of a tool that the gateway offers, or its server if it has none."""
    labels = published_metadata(tool.meta)
    category = labels.get("category")
    return (category if isinstance(category, str) and category else str(labels.get("group", "")))[:_MAX_CHARS]


def tags_of(tool: Tool) -> list[str]:
    """Return the tags of a tool, those that FastMCP publishes among them, each once."""
    published = [(tool.meta or {}).get(key) for key in (EXTENSION_ID, *_FASTMCP)]
    labels = [cast("dict[str, Any]", one) for one in published if isinstance(one, dict)]
    found = [tag for one in labels for tag in _texts(one.get("tags"))]
    return [tag for tag in dict.fromkeys(found) if len(tag) <= _MAX_CHARS][:_MAX_VALUES]


def related_of(tool: Tool) -> list[str]:
    """Return the names of the tools to which a tool is related."""
    return _texts(published_metadata(tool.meta).get("related"))[:_MAX_VALUES]


def examples_of(tool: Tool) -> list[Any]:
    """Return examples of its use."""
    examples = published_metadata(tool.meta).get("examples")
    return cast("list[Any]", examples)[:_MAX_VALUES] if isinstance(examples, list) else []


def _texts(value: object) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str) and item]
