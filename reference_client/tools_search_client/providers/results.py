"""Media in a transcript: the user's, and those in tool results, which become a list of texts and media."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tools_search_hosts.counts import number_of

from tools_search_client.errors import LocalError, require_kind
from tools_search_client.json_values import compact_json, copied
from tools_search_client.text import shorten

MAX_RESULT_CHARS: Final = 100_000
"""Maximum characters of text in one result; a longer one would fill the model's whole context."""
_MAX_MEDIA: Final = 100
"""Maximum pictures, recordings and files in one result."""
_MAX_MEDIA_BYTES: Final = 5_000_000
"""Maximum size of one picture, recording or file: the smallest of the providers' limits."""
EMPTY_RESULT: Final = "(The result is empty.)"
_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture, a recording or a file, as bytes or as a URL for the provider to fetch."""

    mime_type: str
    """Such as `image/png` or `application/pdf`."""
    data: bytes | None = None
    url: str | None = None
    name: str = "file"
    note: str = ""
    """The text that replaces it, in a tool's result, if the model cannot read it."""

    def __post_init__(self) -> None:
        if (self.data is None) is (self.url is None):
            raise LocalError("an attachment must have either `data` or `url`")
        if self.url is None and not isinstance(cast("object", self.data), bytes):
            raise LocalError("an attachment's `data` must be bytes: decode base64, and encode text")
        if self.data == b"":
            raise LocalError("an attachment's `data` is empty")
        if self.url is not None and not urlsplit(self.url).scheme:
            raise LocalError(f"an attachment's `url` must be absolute, such as https://host/file, not {self.url!r}")

    @property
    def base64(self) -> str:
        """The bytes in standard base64; empty if there is a URL."""
        return base64.b64encode(self.data or b"").decode()

    @property
    def link(self) -> str:
        """The URL, or a data URL that contains the bytes."""
        return self.url or f"data:{self.mime_type};base64,{self.base64}"

    def refused(self, provider: str, accepted: str) -> LocalError:
        """Return the error for a provider that does not accept it."""
        form = "a URL of type" if self.url else "data of type"
        return LocalError(f"{provider} does not accept {form} {self.mime_type!r} from the user: use {accepted}")


Part: TypeAlias = str | Attachment


def result_parts(result: CallToolResult) -> list[str | Attachment]:
    """Return a tool's result as an adapter sends it to a model that reads pictures: its texts and media, in order.

    Limits: 100,000 characters of text, 100 media, 5 MB for each. What exceeds them is mentioned, not left out silently.
    Whether the result is an error is not in it: see `is_error` of `result`.
    """
    require_kind("result", result, CallToolResult, instead="what `Federation.call` returned")
    if not result.content and result.structured_content is not None:
        block = TextContent(type="text", text=compact_json(copied(result.structured_content)))
        result = result.model_copy(update={"content": [block]})
    parts = [_part(block) for block in bounded(result, MAX_RESULT_CHARS).content]
    return [part for part in parts if isinstance(part, Attachment) or part.strip()] or [EMPTY_RESULT]


def result_text(result: CallToolResult) -> str:
    """Return a tool's result as text, as an adapter sends it to a model that reads nothing else.

    It has the texts and resources, up to 100,000 characters, or else the structured content. Pictures, recordings and
    other files are only mentioned. The text of a result with `is_error` starts with `Error`.
    """
    return as_text(result_parts(result), is_error=result.is_error)


def bounded(result: CallToolResult, max_chars: int) -> CallToolResult:
    """Return a result with at most `max_chars` characters of text and 100 media, and a note about what was left out."""
    left, media = max_chars, 0
    content: list[Any] = []
    for block in result.content:
        words = _words(block)
        if words is None:
            media += 1
            content += [block] if media <= _MAX_MEDIA else []
        elif len(words) <= left:
            left -= len(words)
            content.append(block)
        elif left >= 0:
            note = f"[cut: {number_of(text_length(result) - max_chars, 'more character')}; ask for less at once]"
            content.append(TextContent(type="text", text=f"{words[:left]}\n{note}"))
            left = -1  # leave out everything after it, even if short
    if media > _MAX_MEDIA:
        note = f"[left out: {number_of(media - _MAX_MEDIA, 'more attachment')}]"
        content.append(TextContent(type="text", text=note))
    return result.model_copy(update={"content": content})


def text_length(result: CallToolResult) -> int:
    """Return the number of characters in a result that the model reads."""
    return sum(len(_words(block) or "") for block in result.content)


def as_text(parts: Iterable[Part], *, is_error: bool = False) -> str:
    """Return all parts as one text, for providers that only accept text and have no error flag."""
    text = "\n".join(part if isinstance(part, str) else part.note for part in parts)
    return f"Error: {text}" if is_error and not text.startswith("Error") else text


def media_of(parts: Iterable[Part], mime_types: Sequence[str]) -> list[Attachment]:
    """Return the media of the given types."""
    return [part for part in parts if isinstance(part, Attachment) and part.mime_type in mime_types]


def _part(block: ContentBlock) -> Part:
    match block:
        case ImageContent() | AudioContent():
            return _media(block.mime_type, block.data, block.type)
        case EmbeddedResource(resource=BlobResourceContents() as held):
            what = f"resource {shorten(held.uri, _NAME_CHARS)}"
            return _media(held.mime_type or "application/octet-stream", held.blob, what)
        case _:
            return str(copied(_words(block)))


def _words(block: ContentBlock) -> str | None:
    """Return a block's text for the model; `None` for a picture, a recording or a file."""
    match block:
        case TextContent():
            return block.text
        case ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            name, uri, kind = (shorten(text, _NAME_CHARS) for text in (block.name, block.uri, kind))
            return f"[resource {name}: {uri}{kind}]"
        case EmbeddedResource(resource=TextResourceContents() as held):
            return f"[resource {shorten(held.uri, _NAME_CHARS)}]\n{held.text}"
        case _:
            return None


def _media(mime_type: str, data: str, what: str) -> Part:
    kind = mime_type.partition(";")[0].strip().lower()
    described = f"{what} of type {shorten(kind, _NAME_CHARS)}"
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return f"[{described} that could not be decoded]"
    note = f"[{described}, {number_of(len(raw), 'byte')}, not shown]"
    if not raw or len(raw) > _MAX_MEDIA_BYTES:
        return note
    return Attachment(kind, raw, name=f"result.{kind.partition('/')[2]}", note=note)
