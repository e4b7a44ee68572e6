"""Adapter for Google's generateContent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import AliasChoices, BaseModel, Field

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.errors import InvalidAnswerError
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.json_values import as_list, as_object, checked, without_nulls
from tools_search_client.providers.results import as_text, media_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

_MIME_TYPES: Final = ("image/jpeg", "image/png", "image/webp", "application/pdf")
KEYWORDS: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum",
     "minItems", "minimum", "oneOf", "prefixItems", "properties", "propertyOrdering", "required", "title", "type"}
)  # fmt: skip
"""The JSON Schema of the SDK's documentation; other keywords are refused or ignored, depending on the model."""
_MAX_TOOLS: Final = 512


class _Call(BaseModel):
    id: str | None = None
    name: str
    args: Any = None


class _Part(BaseModel):
    text: str | None = None
    thought: bool | None = None
    call: _Call | None = Field(None, validation_alias=AliasChoices("functionCall", "function_call"))


class _Content(BaseModel):
    parts: list[_Part] | None = None


class _Candidate(BaseModel):
    content: _Content | None = None
    stop_reason: str | None = Field(None, validation_alias=AliasChoices("finishReason", "finish_reason"))


class _Feedback(BaseModel):
    reason: str | None = Field(None, validation_alias=AliasChoices("blockReason", "block_reason"))


class _Response(BaseModel):
    candidates: list[_Candidate] | None = None
    feedback: _Feedback | None = Field(None, validation_alias=AliasChoices("promptFeedback", "prompt_feedback"))


class Gemini(Adapter):
    """One conversation by generateContent: send `request()` as `client.models.generate_content(**request)`.

    Kept between requests: the system instruction; contents are only appended. Every tool is declared, and the list
    grows at its end, unless `call_tool` is set.

    An answer is read as `response.model_dump(mode="json", exclude_none=True)` gives it, or as it came over HTTP. Its
    parts are sent back as they came, with their thought signatures. Pictures and PDF files are shown if the model
    accepts them in the response of a function, a failure of a tool is flagged.

    Args:
        reads_media: Whether the model accepts more than text in the response of a function, as Gemini 3 does.
        options: Further members of `config`, such as `temperature` or `thinking_config`.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        system: str | None = None,
        call_tool: bool = False,
        reads_media: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        limits = ProviderLimits(_MAX_TOOLS, keywords=KEYWORDS, plain_arguments=True)
        super().__init__(conversation, model, limits=limits, system=system, call_tool=call_tool)
        self._config = dict(options or {})
        self._mime_types = _MIME_TYPES if reads_media else ()
        self._without_id: set[str] = set()
        """Calls that came without an id, and are answered without."""

    def _user_item(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text} for text in texts]}

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        config: dict[str, Any] = dict(self._config)
        if self._system:
            config["systemInstruction"] = {"parts": [{"text": self._system}]}
        if tools:
            config["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in tools]}]
        return {"model": self._model, "contents": self._transcript, "config": config}

    def _parse(self, answer: dict[str, Any]) -> ProviderMessage:
        response = checked(_Response, answer, "Gemini")
        if not response.candidates:
            if response.feedback is None:
                raise InvalidAnswerError("the answer is not one of Gemini: there is no candidate")
            return ProviderMessage((), "", (), response.feedback.reason)
        candidate = response.candidates[0]
        content = candidate.content or _Content()
        sent = as_list(as_object(answer["candidates"][0].get("content")).get("parts"))
        parts: list[dict[str, Any]] = []
        calls: list[ProviderCall] = []
        for part, echo in zip(content.parts or (), map(without_nulls, sent), strict=True):
            if part.call is not None:
                calls.append(ProviderCall(self._new_id(part.call.id), part.call.name, part.call.args))
                member = "functionCall" if "functionCall" in echo else "function_call"
                echo[member] = self._sent_back(echo[member], calls[-1], part.call.id)
            parts.append(echo)
        text = "".join(part.text or "" for part in content.parts or () if not part.thought)
        items = [{"role": "model", "parts": parts}] if parts else []
        return ProviderMessage(items, text, calls, candidate.stop_reason)

    def _sent_back(self, sent: Mapping[str, Any], call: ProviderCall, stated_id: str | None) -> dict[str, Any]:
        echo = without_nulls(sent) | {"name": valid_name(call.name), "args": as_object(call.arguments)}
        if stated_id:
            return echo | {"id": call.id}
        self._without_id.add(call.id)
        return echo

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        return [{"role": "user", "parts": [{"functionResponse": self._response(result)} for result in answered]}]

    def _response(self, result: AnsweredCall) -> dict[str, Any]:
        shown = media_of(result.parts, self._mime_types)
        in_words = [part for part in result.parts if part not in shown]
        response: dict[str, Any] = {
            "name": valid_name(result.call.name),
            "response": {"error" if result.is_error else "output": as_text(in_words)},
        }
        if result.call.id not in self._without_id:
            response["id"] = result.call.id
        if shown:
            response["parts"] = [{"inlineData": {"mimeType": media.mime_type, "data": media.data}} for media in shown]
        return response


def _declaration(tool: SentTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
