"""What of a definition is embedded."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool

__all__ = ["group_text", "query_texts", "tool_text"]

_MOST_CHARS: Final = 2_000
"""Characters of a description or a query that are read; small models read about a thousand."""

_MOST_SENTENCES: Final = 6
_LEAST_WORDS: Final = 4
"""Words that a sentence has to have to say what it is about."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_MOST_NAME_CHARS: Final = 200
_COMPOUND: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./:]+")


def tool_text(tool: Tool) -> str:
    """Return the name in words, the title and the description: never blank, and fit for any encoder."""
    title = tool.title or (tool.annotations.title if tool.annotations else None) or ""
    parts = (_words(tool.name), _words(title), (tool.description or "")[:_MOST_CHARS].strip())
    return _encodable(". ".join(part for part in parts if part)) or "tool"


def group_text(tool: Tool) -> str | None:
    """Return the group that is published with a tool, in words, if there is one."""
    published = (tool.meta or {}).get(EXTENSION_ID)
    group = cast("dict[str, Any]", published).get("group") if isinstance(published, dict) else None
    return (_encodable(_words(group)) or None) if isinstance(group, str) else None


def query_texts(query: str) -> list[str]:
    """Return the sentences of a query, each of which may ask for another tool; the whole where there is but one."""
    whole = _encodable(query[:_MOST_CHARS])
    sentences = [part for part in _SENTENCE_END.split(whole) if len(part.split()) >= _LEAST_WORDS]
    return sentences[:_MOST_SENTENCES] if len(sentences) > 1 else [whole]


def _words(name: str) -> str:
    return " ".join(_COMPOUND.sub(" ", name[:_MOST_NAME_CHARS]).split())


def _encodable(text: str) -> str:
    """Return `text` without surrogates that have no other half, which no encoder takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
