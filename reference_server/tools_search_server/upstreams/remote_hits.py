"""A tool as another server has found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool

__all__ = ["RemoteHit"]

_MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_OF_A_HIT: Final = ("score", "matched")


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A tool that a server has found."""

    tool: Tool
    """As the server lists it: without what speaks of its own search."""

    matched: tuple[str, ...]
    """Members of the definition that it says have matched."""

    @classmethod
    def of(cls, found: Tool) -> RemoteHit:
        """Take the metadata of a hit off a definition."""
        meta = found.meta or {}
        published = meta.get(EXTENSION_ID)
        if not isinstance(published, dict):
            return cls(found, ())
        members = cast("dict[str, Any]", published)
        kept = {name: value for name, value in members.items() if name not in _OF_A_HIT}
        said = members.get("matched")
        matched = tuple(name for name in _MEMBERS if isinstance(said, list) and name in said)
        return cls(found.model_copy(update={"meta": {**meta, EXTENSION_ID: kept}}), matched)
