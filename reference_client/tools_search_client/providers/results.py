"""What came of a call, in parts that each provider takes or is told of."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tools_search_client.providers.plain_json import compact, copied
from tools_search_client.text import shorten

__all__ = ["LONGEST_RESULT", "NOTHING", "Media", "Part", "as_text", "media_of", "parts_of", "texts_of"]

LONGEST_RESULT: Final = 100_000
"""Characters of text of one result; a server that answers with more would fill the model's whole context."""
_MOST_MEDIA_BYTES: Final = 5_000_000
"""Of one picture, recording or file: the smallest limit among the providers."""
NOTHING: Final = "(The result is empty.)"
_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Media:
    """A picture, a recording or a file."""

    mime_type: str
    data: str
    """Valid standard base64."""

    note: str
    """What to say of it to a model that does not get it."""


Part: TypeAlias = str | Media


def parts_of(result: CallToolResult) -> list[Part]:
    """Return what a server answered, in order, within bounds."""
    parts: list[Part] = []
    left = LONGEST_RESULT
    for block in result.content:
        part = _part(block)
        if isinstance(part, str):
            part, left = _cut(part, left), max(0, left - len(part))
        parts.append(part)
    if not result.content and result.structured_content is not None:
        parts.append(_cut(compact(copied(result.structured_content)), left))
    return [part for part in parts if isinstance(part, Media) or part.strip()] or [NOTHING]


def texts_of(parts: Iterable[Part]) -> list[str]:
    """Return all parts as texts: what is no text by its note."""
    return [part if isinstance(part, str) else part.note for part in parts]


def as_text(parts: Iterable[Part], *, is_error: bool = False) -> str:
    """Return all parts as one text, for providers that take nothing else and cannot be told of an error apart."""
    text = "\n".join(texts_of(parts))
    return f"Error: {text}" if is_error and not text.startswith("Error") else text


def media_of(parts: Iterable[Part], mime_types: Sequence[str]) -> list[Media]:
    """Return those of the parts that have one of the types, each of which may end with `*`."""
    return [part for part in parts if isinstance(part, Media) and _is_any(part.mime_type, mime_types)]


def _part(
    block: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource,
) -> Part:
    match block:
        case TextContent():
            return copied(block.text)
        case ImageContent() | AudioContent():
            return _media(block.mime_type, block.data, block.type)
        case ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            return f"[resource {_name(block.name)}: {_name(block.uri)}{_name(kind)}]"
        case EmbeddedResource():
            held = block.resource
            if isinstance(held, TextResourceContents):
                return f"[resource {_name(held.uri)}]\n{copied(held.text)}"
            return _media(held.mime_type or "application/octet-stream", held.blob, f"resource {_name(held.uri)}")


def _media(mime_type: str, data: str, what: str) -> Part:
    kind = mime_type.partition(";")[0].strip().lower()
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{what} of type {_name(kind)} that could not be decoded]"
    note = f"[{what} of type {_name(kind)}, {len(raw)} bytes, not shown]"
    if not raw or len(raw) > _MOST_MEDIA_BYTES:
        return note
    return Media(kind, base64.b64encode(raw).decode(), note)


def _name(text: str) -> str:
    return shorten(text, _NAME_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n[cut: {len(text) - most} more characters]"


def _is_any(mime_type: str, patterns: Sequence[str]) -> bool:
    return any(mime_type == one or (one.endswith("*") and mime_type.startswith(one[:-1])) for one in patterns)
