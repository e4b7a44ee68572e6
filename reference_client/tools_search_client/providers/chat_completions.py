"""Adapter for OpenAI's Chat Completions API, and the many compatible services."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.errors import refuse_single_name
from tools_search_client.json_values import arguments_sent_back, checked, without_nulls
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.results import Attachment, as_text, media_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

_MIME_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "image": ("image/jpeg", "image/png", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"),
}
_NOT_SENT_BACK: Final = ("annotations", "audio", "parsed", "role")
"""Members of a response that requests do not accept."""


class _Function(BaseModel):
    name: str
    arguments: Any = None


class _Call(BaseModel):
    id: str | None = None
    function: _Function


class _Message(BaseModel):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class ChatCompletions(Adapter):
    """A conversation through chat completions: send `request()` as `client.chat.completions.create(**request)`.

    Prompt caching: the system message never changes, and messages are only appended. Every tool is listed in `tools`,
    which grows at its end. Providers that put the tools before the messages then process everything again, unless
    `call_tool` is set.

    If the model `reads` them, pictures and recordings follow the results in a user message. This is the only place
    where a server's content is in the user's role, because results only accept text. Tool failures are reported as
    text. Members that a provider adds to its messages, such as reasoning or signatures, are sent back.

    Args:
        reads: What the model accepts besides text.
        most_tools: How many tools the provider accepts; defaults to OpenAI's limit.
        longest_description: The provider's limit on a tool description in characters; defaults to the limit of OpenAI
            and Azure. If it is too short for the host's own tools, the rest goes to their first parameter.
        options: Additional members for every request, such as `max_completion_tokens` or `stream`.
    """

    _prompt_counts = ("prompt_tokens",)
    _completion_counts = ("completion_tokens",)

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        system: str | None = None,
        call_tool: bool = False,
        reads: Collection[Literal["image", "audio"]] = (),
        most_tools: int | None = 128,
        longest_description: int | None = 1_024,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        limits = ProviderLimits(most_tools, longest_description)
        super().__init__(conversation, model, limits=limits, system=system, call_tool=call_tool, options=options)
        refuse_single_name("reads", reads)
        self._mime_types = [mime_type for kind in sorted(reads) for mime_type in _MIME_TYPES[kind]]

    def _user_item(self, parts: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return {"role": "user", "content": "\n\n".join(texts)}
        return {"role": "user", "content": [_text(part) if isinstance(part, str) else part for part in parts]}

    def _attachment(self, attachment: Attachment) -> dict[str, Any]:
        kind = attachment.mime_type
        if kind in _MIME_TYPES["image"]:
            return {"type": "image_url", "image_url": {"url": attachment.link}}
        if attachment.data is not None and kind in _MIME_TYPES["audio"]:
            audio = {"data": attachment.base64, "format": "wav" if kind.endswith("wav") else "mp3"}
            return {"type": "input_audio", "input_audio": audio}
        if attachment.data is not None and kind == "application/pdf":
            return {"type": "file", "file": {"filename": attachment.name, "file_data": attachment.link}}
        raise attachment.refused("chat completions", "JPEG, PNG, GIF, WebP, or the bytes of WAV, MP3 or PDF")

    def _ids(self, item: dict[str, Any]) -> tuple[list[str], list[str]]:
        calls = [call["id"] for call in (item.get("tool_calls") or ()) if item["role"] == "assistant"]
        if not calls and not isinstance(item["content"], str | list | None):
            raise TypeError("`content` is neither text nor a list")
        return calls, [item["tool_call_id"]] if item["role"] == "tool" else []

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": self._system}] if self._system else []
        for item in self._transcript:
            # Roles alternate, also after a request that was not answered: the templates of many models require it.
            follows = bool(messages) and item.keys() == messages[-1].keys() == {"role", "content"}
            if follows and item["role"] == messages[-1]["role"] == "user":
                item = {"role": "user", "content": _joined(messages.pop()["content"], item["content"])}
            messages.append(item)
        body: dict[str, Any] = {"model": self._model, "messages": messages}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return body

    def _parse(self, response: dict[str, Any]) -> ProviderMessage:
        completion = checked(_Completion, response, "chat completions")
        choice, sent = completion.choices[0], response["choices"][0]["message"]
        message = choice.message
        echo: dict[str, Any] = {"role": "assistant", "content": None} | without_nulls(sent, *_NOT_SENT_BACK)
        audio = sent.get("audio")
        if isinstance(audio, dict) and "id" in audio:
            echo["audio"] = {"id": audio["id"]}
        calls: list[ProviderCall] = []
        sent_back: list[dict[str, Any]] = []
        for call, raw in zip(message.tool_calls or (), echo.pop("tool_calls", ()), strict=True):
            calls.append(ProviderCall(self._new_id(call.id), call.function.name, call.function.arguments))
            # Unchanged, except for corrections that services require.
            corrected = {"name": valid_name(call.function.name), "arguments": arguments_sent_back(calls[-1].arguments)}
            function = without_nulls(raw["function"]) | corrected
            sent_back.append(without_nulls(raw) | {"id": calls[-1].id, "type": "function", "function": function})
        if calls:
            calls[-1] = replace(calls[-1], is_cut=choice.finish_reason == "length")
            echo["tool_calls"] = sent_back
        text = message.content or message.refusal or ""
        if isinstance(text, list):
            texts = [part.get("text") for part in text if part.get("type") in ("text", "output_text")]
            text = "".join(text for text in texts if isinstance(text, str))
        is_empty = not calls and not message.content and not message.refusal
        return ProviderMessage([] if is_empty else [echo], text, calls, choice.finish_reason)

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        media: list[Attachment] = []
        for result in answered:
            text = as_text(result.parts, is_error=result.is_error)
            messages.append({"role": "tool", "tool_call_id": result.call.id, "content": text})
            media += media_of(result.parts, self._mime_types)
        if media:
            introduction = _text("What the tools returned besides text:")
            messages.append({"role": "user", "content": [introduction, *map(self._attachment, media)]})
        return messages


def _tool(tool: SentTool) -> dict[str, Any]:
    parameters, properties = tool.schema, dict(tool.schema["properties"])
    if tool.overflow and properties and tool.definition.tool is None:
        # The description of `search_tools` quotes servers, so its end must not go into a message. It goes to the first
        # parameter, which has no known limit.
        name, first = next(iter(properties.items()))
        words = f"{first.get('description', '')}\n\nThe rest of what the tool's description says:\n{tool.overflow}"
        properties[name] = first | {"description": words}
        parameters = {**parameters, "properties": properties}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _joined(content: str | list[Any], more: str | list[Any]) -> str | list[Any]:
    if isinstance(content, str) and isinstance(more, str):
        return f"{content}\n\n{more}"
    return [part for parts in (content, more) for part in ([_text(parts)] if isinstance(parts, str) else parts)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
