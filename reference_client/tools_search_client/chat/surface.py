"""What the loop shows, and whom it asks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias

from mcp_types import CallToolResult

from tools_search_client.conversation.messages import Forward, Reply

__all__ = ["AnswerStopped", "Consent", "Surface"]

Consent: TypeAlias = Literal["yes", "no", "always"]


class AnswerStopped(Exception):
    """The user interrupted the answer while being asked something."""


class Surface(Protocol):
    """Whoever watches a conversation. What it is given was written by others: models and servers."""

    def waiting(self, what: str, /) -> AbstractContextManager[None]:
        """Show that something takes its time, until the block ends or anything else is shown."""
        ...

    def text(self, piece: str, /) -> None:
        """Show a piece of what the model says, as it comes."""
        ...

    def end_of_text(self, *, is_answer: bool) -> None:
        """Take note that the model is done with one message.

        Args:
            is_answer: Whether it ends the turn; otherwise calls follow.
        """
        ...

    def replied(self, reply: Reply, /, *, is_search: bool) -> None:
        """Show a call that was answered without any server's tool: a search, or a mistake of the model."""
        ...

    def calling(self, forward: Forward, /) -> None:
        """Show a call before it is made."""
        ...

    def called(self, forward: Forward, outcome: CallToolResult | Reply, seconds: float, /) -> None:
        """Show what came of a call: a result, or why there is none."""
        ...

    def notice(self, text: str, /) -> None:
        """Show a remark of the program."""
        ...

    async def consent(self, forward: Forward, /) -> Consent:
        """Ask whether a tool is to be called.

        Raises:
            AnswerStopped: The user wants the whole answer to end.
        """
        ...
