"""Requests judged by the types of each provider's own SDK, strictly: no member that they do not have.

The SDKs take as long to import as everything else that the tests need, so only what is judged by one imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator


def check(provider: str, body: Mapping[str, Any]) -> None:
    """Raise pydantic's ValidationError where the SDK's types do not have such a request."""
    _CHECKS[provider](body)


@cache
def _strict(params: Any) -> SchemaValidator:
    """Return the validator of a TypedDict that forbids unknown members, and looks into what the type calls iterable."""
    return SchemaValidator(_closed(TypeAdapter(params).core_schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return [_closed(item) for item in cast("Sequence[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    stated = cast("dict[str, Any]", schema)
    closed: dict[str, Any] = {key: value if key == "metadata" else _closed(value) for key, value in stated.items()}
    if stated.get("type") == "generator":
        closed["type"] = "list"
    if stated.get("type") == "typed-dict" and not _is_open(stated):
        closed["extra_behavior"] = "forbid"
    return closed


def _is_open(schema: dict[str, Any]) -> bool:
    """Return whether the SDK's own type allows any member."""
    config: dict[str, Any] = schema.get("config") or {}
    return "allow" in (schema.get("extra_behavior"), config.get("extra_fields_behavior"))


def _completions(body: Mapping[str, Any]) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as Completions

    _strict(Completions).validate_python(body)


def _responses(body: Mapping[str, Any]) -> None:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as Responses

    _strict(Responses).validate_python(body)


def _messages(body: Mapping[str, Any]) -> None:
    from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as BetaMessages
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as Messages

    _strict(BetaMessages if "betas" in body else Messages).validate_python(body)


def _gemini(body: Mapping[str, Any]) -> None:
    from google.genai.types import Content, GenerateContentConfig

    assert set(body) == {"model", "contents", "config"}
    for content in body["contents"]:  # models that forbid unknown members
        Content.model_validate(content)
    GenerateContentConfig.model_validate(body["config"])


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "ChatCompletions": _completions,
    "AnthropicMessages": _messages,
    "OpenAIResponses": _responses,
    "Gemini": _gemini,
}
