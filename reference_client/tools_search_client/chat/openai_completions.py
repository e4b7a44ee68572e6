"""Chat completions, by OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tools_search_client.chat.completion_parts import CompletionParts
from tools_search_client.chat.model import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["CompletionsModel"]


class CompletionsModel:
    """A `Model` for the adapter `ChatCompletions`.

    Args:
        client: Of the SDK.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Send a request and return the whole answer; raises what the SDK raises."""
        parts = CompletionParts()
        body: dict[str, Any] = request | {"stream_options": {"include_usage": True}}
        async with await self._client.chat.completions.create(**body, stream=True) as stream:
            async for chunk in stream:
                if text := parts.add(chunk.to_dict()):
                    heard(text)
        return parts.whole()

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that says nothing but `text`."""
        return {"choices": [{"message": {"content": text}}]}

    def usage(self, answer: Mapping[str, Any], /) -> Usage:
        """Return what the provider says that an answer took."""
        stated: Mapping[str, Any] = answer.get("usage") or {}
        return Usage(stated.get("prompt_tokens") or 0, stated.get("completion_tokens") or 0)
