"""Adapter for Google's generateContent API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import AliasChoices, BaseModel, Field
from tools_search_hosts.json_values import as_list, as_object

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.errors import InvalidAnswerError
from tools_search_client.json_values import checked, without_nulls
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.results import Attachment, as_text, media_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

_MIME_TYPES: Final = ("image/jpeg", "image/png", "image/webp", "application/pdf")
KEYWORDS: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum",
     "minItems", "minimum", "oneOf", "prefixItems", "properties", "propertyOrdering", "required", "title", "type"}
)  # fmt: skip
"""The JSON Schema keywords in the SDK's documentation; others are rejected or ignored, depending on the model."""
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
    """A conversation through generateContent: send `request()` as `client.models.generate_content(**request)`.

    Prompt caching: the system instruction never changes, and contents are only appended. Every tool is declared, and
    the list grows at its end, unless `call_tool` is set.

    Pass a response as `response.model_dump(mode="json", exclude_none=True)`, or as received over HTTP. Its parts are
    sent back unchanged, with thought signatures. The model sees pictures and PDF files if it accepts them in function
    responses. Tool failures are flagged.

    Args:
        reads_media: Whether the model accepts more than text in function responses, as Gemini 3 does.
        options: Additional members for `config`, such as `temperature` or `thinking_config`.
    """

    _usage_members = ("usageMetadata", "usage_metadata")
    _prompt_counts = ("promptTokenCount", "prompt_token_count")
    _completion_counts = (
        "candidatesTokenCount",
        "candidates_token_count",
        "thoughtsTokenCount",
        "thoughts_token_count",
    )

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

    def _user_item(self, parts: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}

    def _attachment(self, attachment: Attachment) -> dict[str, Any]:
        kind = attachment.mime_type
        if kind not in _MIME_TYPES and not kind.startswith(("audio/", "video/", "text/")):
            raise attachment.refused("Gemini", "JPEG, PNG, WebP, PDF, audio, video or text")
        if attachment.url is not None:
            return {"fileData": {"mimeType": kind, "fileUri": attachment.url}}
        return {"inlineData": {"mimeType": kind, "data": attachment.base64}}

    def _ids(self, item: dict[str, Any]) -> tuple[list[str], list[str]]:
        def ids(member: str, spelled: str) -> list[str]:  # uses the name if there is no id
            stated = [part.get(member) or part.get(spelled) for part in item["parts"]]
            return [function.get("id") or function["name"] for function in stated if function is not None]

        return ids("functionCall", "function_call"), ids("functionResponse", "function_response")

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        config: dict[str, Any] = dict(self._config)
        if self._system:
            config["systemInstruction"] = {"parts": [{"text": self._system}]}
        if tools:
            declarations = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
                for tool in tools
            ]
            config["tools"] = [{"functionDeclarations": declarations}]
        return {"model": self._model, "contents": self._transcript, "config": config}

    def _parse(self, response: dict[str, Any]) -> ProviderMessage:
        read = checked(_Response, response, "Gemini")
        if not read.candidates:
            if read.feedback is None:
                raise InvalidAnswerError("the answer is not in Gemini's format: it has no candidate")
            return ProviderMessage((), "", (), read.feedback.reason)
        candidate = read.candidates[0]
        content = candidate.content or _Content()
        sent = as_list(as_object(response["candidates"][0].get("content")).get("parts"))
        parts: list[dict[str, Any]] = []
        calls: list[ProviderCall] = []
        for part, echo in zip(content.parts or (), map(without_nulls, sent), strict=True):
            if part.call is not None:
                key, has_id = self._new_id(part.call.id), bool(part.call.id)
                calls.append(ProviderCall(key, part.call.name, part.call.args, is_special=not has_id))
                member = "functionCall" if "functionCall" in echo else "function_call"
                corrected = {"name": valid_name(part.call.name), "args": as_object(part.call.args)}
                if has_id:
                    corrected["id"] = key
                echo[member] = without_nulls(echo[member]) | corrected
            parts.append(echo)
        text = "".join(part.text or "" for part in content.parts or () if not part.thought)
        items = [{"role": "model", "parts": parts}] if parts else []
        return ProviderMessage(items, text, calls, candidate.stop_reason)

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for result in answered:
            shown = media_of(result.parts, self._mime_types)
            said = as_text([part for part in result.parts if part not in shown])
            response: dict[str, Any] = {
                "name": valid_name(result.call.name),
                "response": {"error" if result.is_error else "output": said},
            }
            if not result.call.is_special:  # otherwise the call had no id either
                response["id"] = result.call.id
            if shown:
                response["parts"] = [self._attachment(file) for file in shown]
            parts.append({"functionResponse": response})
        return [{"role": "user", "parts": parts}]
