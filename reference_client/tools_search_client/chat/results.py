"""How much of a tool's result a model is sent."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

__all__ = ["bounded", "text_length"]


def bounded(result: CallToolResult, most: int) -> CallToolResult:
    """Return a result with at most `most` characters of text, and a note of how much was left out."""
    left = most
    content: list[Any] = []
    for block in result.content:
        text = _text(block)
        if text is not None:
            block, left = (_with_text(block, _cut(text, left)) if len(text) > left else block), max(0, left - len(text))
        content.append(block)
    return result.model_copy(update={"content": content})


def text_length(result: CallToolResult) -> int:
    """Return the characters of all texts of a result."""
    return sum(len(_text(block) or "") for block in result.content)


def _text(block: object) -> str | None:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    return None


def _with_text(block: Any, text: str) -> Any:
    if isinstance(block, TextContent):
        return block.model_copy(update={"text": text})
    return block.model_copy(update={"resource": block.resource.model_copy(update={"text": text})})


def _cut(text: str, most: int) -> str:
    return f"{text[:most]}\n[cut: {len(text) - most} more characters; ask for less at once]"
