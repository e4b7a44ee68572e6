"""Cutting one page out of an answer, and saying why each of its tools is there (draft: Response, Hit Metadata)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

from mcp_ext_tools_search.cursor import CursorKey, InvalidCursor, answer_digest
from mcp_ext_tools_search.ranking import Hit, LazyNames
from mcp_ext_tools_search.server.request import invalid_params
from mcp_ext_tools_search.server.search import Answer
from mcp_ext_tools_search.types import EXTENSION_ID, SearchToolsRequestParams

__all__ = ["cut_page"]

_STEPS: Final = 10_000
"""Scores from 0 to 1 that can be told apart."""


def cut_page(params: SearchToolsRequestParams, answer: Answer, *, size: int, cursors: CursorKey) -> dict[str, Any]:
    """Return `tools` and, unless they are the last, `nextCursor`.

    Args:
        params: The parameters of the search.
        answer: All matches.
        size: Largest number of tools of this page.
        cursors: Issues and reads the cursors of this server.

    Raises:
        MCPError: -32602, the cursor is not one of this query, or the answer has changed since it was issued.
    """
    hits = answer.hits
    start = 0 if params.cursor is None else _position(params.cursor, params.query, hits, cursors)
    end = start + size
    found = hits[start:end]
    page: dict[str, Any] = {"tools": [_explained(answer.tools[hit.name], hit) for hit in found]}
    if end < len(hits):
        shown = _first_names(hits, end) if start else [hit.name for hit in found]
        page["nextCursor"] = cursors.issue(params.query, end, answer_digest(shown, len(hits)), answer.note)
    return page


def _position(cursor: str, query: str, hits: Sequence[Hit], cursors: CursorKey) -> int:
    try:
        shown = _first_names(hits, cursors.position(cursor, query))
        return cursors.read(cursor, query, answer_digest(shown, len(hits)))
    except InvalidCursor as error:
        raise invalid_params("cursor", str(error)) from None


def _first_names(hits: Sequence[Hit], count: int) -> Sequence[str]:
    if isinstance(hits, LazyNames):
        return hits.first_names(count)
    return [hit.name for hit in hits[:count]]


def _explained(tool: dict[str, Any], hit: Hit) -> dict[str, Any]:
    """Return the definition with the hit's metadata merged into what the server publishes there."""
    meta = _object(tool.get("_meta"))
    metadata = {**_object(meta.get(EXTENSION_ID)), "score": _score(hit.score), "matched": list(hit.matched)}
    # Draft, Hit Metadata: its shape is promised to whoever reads a hit, not to whoever reads a listing.
    if not isinstance(metadata.get("group", ""), str):
        del metadata["group"]
    if None in metadata.values():
        metadata = {name: value for name, value in metadata.items() if value is not None}
    return {**tool, "_meta": {**meta, EXTENSION_ID: metadata}}


def _score(score: float) -> float | None:
    """Return a score as it may be sent, or `None` for what is no number; four digits are plenty to compare."""
    if not 0.0 <= score <= 1.0:
        if not math.isfinite(score):
            return None
        score = min(max(score, 0.0), 1.0)
    return round(score * _STEPS) / _STEPS


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
