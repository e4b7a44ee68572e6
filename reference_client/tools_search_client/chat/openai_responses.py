"""Responses, by OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tools_search_client.chat.model import BROKEN_OFF, ModelFailed, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["ResponsesModel"]


class ResponsesModel:
    """A `Model` for the adapter `OpenAIResponses`.

    Args:
        client: Of the SDK.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Send a request and return the whole answer; raises what the SDK raises."""
        async with await self._client.responses.create(**request, stream=True) as stream:
            async for event in stream:
                match event.type:
                    case "response.output_text.delta" | "response.refusal.delta":
                        heard(event.delta)
                    case "response.completed" | "response.incomplete" | "response.failed":
                        return event.response.to_dict(warnings=False)
                    case _:
                        pass
        raise ModelFailed(BROKEN_OFF, is_passing=True)

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that says nothing but `text`."""
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": f"msg_{uuid4().hex}", "role": "assistant", "status": "completed"}
        return {"output": [message | {"content": [part]}]}

    def usage(self, answer: Mapping[str, Any], /) -> Usage:
        """Return what the provider says that an answer took."""
        stated: Mapping[str, Any] = answer.get("usage") or {}
        return Usage(stated.get("input_tokens") or 0, stated.get("output_tokens") or 0)
