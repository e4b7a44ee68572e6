"""What the tools of a compatibility mode answer: a JSON object, as text and as structured content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["ToolFailure", "answer"]


class ToolFailure(Exception):
    """A call cannot be answered as it stands.

    Args:
        error: What is wrong, for a model to read.
        suggestions: What to do about it.
        more: Further members of the answer.
    """

    def __init__(self, error: str, suggestions: Sequence[str] = (), **more: Any) -> None:
        super().__init__(error)
        self.document: dict[str, Any] = {"error": error, **({"suggestions": [*suggestions]} if suggestions else {})}
        self.document |= more


def answer(document: dict[str, Any], *, is_error: bool = False) -> dict[str, Any]:
    """Return the result of a call. What a caller has sent may be repeated in it, so it is made fit to be sent."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return result | {"structuredContent": json.loads(text), "isError": is_error}
