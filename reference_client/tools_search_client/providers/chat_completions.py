"""Adapter for OpenAI's chat completions, and the many services that are compatible with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.json_values import arguments_sent_back, checked, without_nulls
from tools_search_client.providers.results import Media, as_text, media_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

_MIME_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "image": ("image/jpeg", "image/png", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"),
}
_NOT_SENT_BACK: Final = ("annotations", "audio", "parsed", "role")
"""Members of an answer that no request takes."""


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
    """One conversation by chat completions: send `request()` as `client.chat.completions.create(**request)`.

    Kept between requests: the system message; messages are only appended. Every tool stands in `tools`, which grows at
    its end; providers that put the tools before the messages then compute all of it again, unless `call_tool` is set.

    Pictures and recordings follow the results in a message of the user, if the model `reads` them: the one place where
    something from a server stands in the user's role, because a result takes text alone. A failure of a tool is
    reported in words. Members that a provider adds to its messages, such as reasoning or signatures, are sent back.

    Args:
        reads: What the model accepts besides text.
        most_tools: How many tools the provider accepts: OpenAI's number unless set.
        longest_description: Characters of a tool's description that the provider accepts: as many as OpenAI and Azure
            unless set. Where that is too few for the host's own tools, the rest stands at their first parameter.
        options: Further members of every request, such as `max_completion_tokens` or `stream`.
    """

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
        self._mime_types = [one for kind in sorted(reads) for one in _MIME_TYPES[kind]]

    def _user_item(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"role": "user", "content": "\n\n".join(texts)}

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        before = [{"role": "system", "content": self._system}] if self._system else []
        body: dict[str, Any] = {"model": self._model, "messages": [*before, *self._transcript]}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return body

    def _parse(self, answer: dict[str, Any]) -> ProviderMessage:
        completion = checked(_Completion, answer, "chat completions")
        choice, sent = completion.choices[0], answer["choices"][0]["message"]
        message = choice.message
        echo: dict[str, Any] = {"role": "assistant", "content": None} | without_nulls(sent, *_NOT_SENT_BACK)
        audio = sent.get("audio")
        if isinstance(audio, dict) and "id" in audio:
            echo["audio"] = {"id": audio["id"]}
        stated = message.tool_calls or []
        calls: list[ProviderCall] = []
        for number, call in enumerate(stated):
            is_cut = call is stated[-1] and choice.finish_reason == "length"
            calls.append(ProviderCall(self._new_id(call.id), call.function.name, call.function.arguments, is_cut))
            echo["tool_calls"][number] = _sent_back(echo["tool_calls"][number], calls[-1])
        if not calls:
            echo.pop("tool_calls", None)
        is_empty = not calls and not message.content and not message.refusal
        return ProviderMessage([] if is_empty else [echo], _text(message), calls, choice.finish_reason)

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [
            {
                "role": "tool",
                "tool_call_id": result.call.id,
                "content": as_text(result.parts, is_error=result.is_error),
            }
            for result in answered
        ]
        media = [one for result in answered for one in media_of(result.parts, self._mime_types)]
        if media:
            introduction = {"type": "text", "text": "What the tools returned besides text:"}
            messages.append({"role": "user", "content": [introduction, *map(_content, media)]})
        return messages


def _tool(tool: SentTool) -> dict[str, Any]:
    parameters = tool.schema if tool.definition.tool else _with_overflow(tool.schema, tool.overflow)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _with_overflow(schema: Mapping[str, Any], overflow: str) -> dict[str, Any]:
    """Return a schema with the end of its tool's description at the first parameter, where no limit is known.

    For `search_tools`: its description quotes servers, so the end of it must not stand in a message.
    """
    properties = dict(schema["properties"])
    if not overflow or not properties:
        return dict(schema)
    name, first = next(iter(properties.items()))
    words = f"{first.get('description', '')}\n\nThe rest of what the tool's description says:\n{overflow}"
    properties[name] = first | {"description": words}
    return {**schema, "properties": properties}


def _sent_back(sent: Mapping[str, Any], call: ProviderCall) -> dict[str, Any]:
    """Return a call as it came, corrected where services refuse it: its id, name and arguments."""
    function = without_nulls(sent["function"])
    function |= {"name": valid_name(call.name), "arguments": arguments_sent_back(call.arguments)}
    return without_nulls(sent) | {"id": call.id, "type": "function", "function": function}


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        texts = [part.get("text") for part in message.content if part.get("type") in ("text", "output_text")]
        return "".join(text for text in texts if isinstance(text, str))
    return message.content or message.refusal or ""


def _content(media: Media) -> dict[str, Any]:
    if media.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{media.mime_type};base64,{media.data}"}}
    kind = "wav" if media.mime_type.endswith("wav") else "mp3"
    return {"type": "input_audio", "input_audio": {"data": media.data, "format": kind}}
