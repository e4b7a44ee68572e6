"""What replicas of one gateway tell each other: that a server told of a change, and that a list of theirs changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from pydantic import BaseModel, ConfigDict, ValidationError

__all__ = ["LIST_EVENTS", "Kind", "News", "decode", "encode", "kind_of"]

Kind: TypeAlias = Literal["tools", "prompts", "resources"]

LIST_EVENTS: Final[Mapping[Kind, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}

_MOST_BYTES: Final = 4096
"""Of one message: far more than names need, far less than what would be work to read."""


@dataclass(frozen=True, slots=True)
class News:
    """One thing that a replica tells the others. Saying it twice says nothing more."""

    about: Literal["server", "audience"]
    """`server`: one behind the gateway told that its list changed, so read it again.
    `audience`: the list that some callers see has changed at this replica, which may be the one that answers them."""

    name: str
    """Of the server, or of the audience."""

    kind: Kind
    """Which list."""


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    version: Literal[1] = 1
    sender: str
    about: Literal["server", "audience"]
    name: str
    kind: Kind


def kind_of(event: ServerEvent) -> Kind | None:
    """Return which list has changed; `None` where it is something else that has."""
    return next((kind for kind, told in LIST_EVENTS.items() if told == event), None)


def encode(news: News, sender: str) -> bytes:
    """Return the message with which a replica tells some news."""
    return _Message(sender=sender, about=news.about, name=news.name, kind=news.kind).model_dump_json().encode()


def decode(data: object) -> tuple[News, str] | None:
    """Return the news of a message and who sent it, or `None` for what is no such message."""
    if not isinstance(data, bytes) or len(data) > _MOST_BYTES:
        return None
    try:
        message = _Message.model_validate_json(data)
    except ValidationError:
        return None
    return News(message.about, message.name, message.kind), message.sender
