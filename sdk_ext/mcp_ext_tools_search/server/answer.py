"""All that one search finds, before a page is cut out of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp.server import ServerRequestContext

from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.server.listing import Listing

__all__ = ["Answer", "Extend"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search finds, best first, and where the definitions are."""

    hits: Sequence[Hit]
    """All of them, none twice."""

    listing: Listing
    """Holds the definition of each hit, and for how long the answer may be cached."""

    note: str | None = None
    """What else the answer depends on: letters, digits, `_` and `-`, carried by cursors; `None` on the first page."""


Extend: TypeAlias = Callable[[ServerRequestContext[Any, Any], str, Answer], Awaitable[Answer]]
"""Adds to an answer what a server finds elsewhere. It is given the caller, the query, and the answer over the caller's
listing with the note that the cursor has brought; equal input has to give equal output while nothing has changed."""
