"""Messages, by Anthropic's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tools_search_client.chat.model import BROKEN_OFF, ModelFailed, Usage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["MessagesModel"]


class MessagesModel:
    """A `Model` for the adapter `AnthropicMessages`.

    Args:
        client: Of the SDK.
    """

    def __init__(self, client: AsyncAnthropic) -> None:
        self._client = client

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Send a request and return the whole answer; raises what the SDK raises."""
        async with self._client.messages.stream(**request) as stream:
            async for event in stream:
                if event.type == "text":
                    heard(event.text)
            message = await stream.get_final_message()
        if message.stop_reason is None:
            raise ModelFailed(BROKEN_OFF, is_passing=True)
        return message.to_dict(warnings=False)

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that says nothing but `text`."""
        return {"content": [{"type": "text", "text": text}]}

    def usage(self, answer: Mapping[str, Any], /) -> Usage:
        """Return what the provider says that an answer took; what its cache held counts as well."""
        stated: Mapping[str, Any] = answer.get("usage") or {}
        read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return Usage(sum(stated.get(name) or 0 for name in read), stated.get("output_tokens") or 0)
