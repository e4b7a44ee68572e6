"""What the loop needs of a model: one answer at a time, streamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tools_search_client.errors import ToolsSearchClientError

__all__ = ["BROKEN_OFF", "Model", "ModelFailed", "Usage"]

BROKEN_OFF: Final = "the answer broke off before its end"


class ModelFailed(ToolsSearchClientError):
    """The provider gave no answer that can be used; the conversation is as it was before the request.

    Args:
        message: One line, without what a terminal would obey.
        is_passing: Whether the same request may well succeed in a moment.
        retry_after: Seconds that the provider asks to wait.
    """

    def __init__(self, message: str, *, is_passing: bool = False, retry_after: float | None = None) -> None:
        self.is_passing = is_passing
        self.retry_after = retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the provider counts them."""

    prompt: int = 0
    completion: int = 0


class Model(Protocol):
    """A model behind its provider's own SDK."""

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Send a request of the provider's adapter and return the whole answer, as that adapter reads it.

        Args:
            request: Keyword arguments of the SDK.
            heard: Gets each piece of text as it comes.

        Raises:
            ModelFailed: There is no answer, or it broke off.
        """
        ...

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that says nothing but `text`, for the adapter to read."""
        ...

    def usage(self, answer: Mapping[str, Any], /) -> Usage:
        """Return what the provider says that an answer took."""
        ...
