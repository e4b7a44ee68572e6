"""What every adapter offers, so that a host's loop is the same for all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mcp_types import CallToolResult

from tools_search_client.conversation.messages import Reply, ToolCall

__all__ = ["Adapter", "Outcome", "Said"]

Outcome: TypeAlias = Reply | CallToolResult
"""What came of a call: an answer of the conversation or of the host, or the result of a server."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the model answered."""

    text: str
    """To be shown to the user; may be empty."""

    calls: tuple[ToolCall, ...] = ()
    """To be given to `Conversation.take`, each, and answered; names and arguments are those of the original tools."""

    stop: str | None = None
    """Why the model stopped, in the provider's own word, such as `max_tokens`."""


class Adapter(Protocol):
    """One conversation with one model: what is sent, and what came back. Nothing here does input or output.

    `say`, then `request` and `read` until there are no more calls, each of which is answered by `answer`.
    """

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are not answered yet: no provider takes a request before they are."""
        ...

    def say(self, text: str, /) -> None:
        """Append what the user wrote.

        Raises:
            LocalError: There are open calls, or the text is empty.
        """
        ...

    def request(self) -> dict[str, Any]:
        """Return what to send: JSON, the keyword arguments of the provider's own SDK; the caller may alter it.

        Raises:
            LocalError: There are open calls, or nothing was said yet.
        """
        ...

    def read(self, answer: Mapping[str, Any], /) -> Said:
        """Append the provider's answer, whole and as JSON, and return what it says.

        Raises:
            InvalidAnswerError: It is not in the provider's format; nothing was appended.
            LocalError: There are open calls, or there was no request.
        """
        ...

    def answer(self, call: ToolCall, outcome: Outcome, /) -> None:
        """Append what came of one of the open calls; their order does not matter.

        Raises:
            LocalError: The call is not open.
        """
        ...

    def cancel(self, reason: str = ..., /) -> None:
        """Answer every open call by `reason`, so that the conversation can go on after the user interrupted it."""
        ...

    def drop_turn(self) -> None:
        """Forget everything since the last `say`, that text as well, as if it had never been said."""
        ...
