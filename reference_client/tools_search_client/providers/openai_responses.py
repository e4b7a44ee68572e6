"""Adapter for OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from tools_search_hosts.json_values import as_list, as_object

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.errors import InvalidAnswerError
from tools_search_client.json_values import arguments_sent_back, checked, compact_json, without_nulls
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.results import Attachment, as_text, media_of
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_DEFAULTS: Final[Mapping[str, Any]] = {"store": False, "include": ["reasoning.encrypted_content"]}
"""The transcript is kept here, so the provider need not store it; reasoning is requested in a form that can be sent
back.
"""
_NOT_SENT_BACK: Final = ("created_by", "parsed", "parsed_arguments")
"""Members of a response's items that requests do not accept."""
_SEARCH_FAILED: Final = "Error: the search could not be carried out as it was asked for."


class _Part(BaseModel):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Item(BaseModel):
    type: str
    name: str | None = None
    call_id: str | None = None
    arguments: Any = None
    execution: str | None = None
    status: str | None = None
    content: list[_Part] | None = None


class _Incomplete(BaseModel):
    reason: str | None = None


class _Response(BaseModel):
    output: list[_Item]
    status: str | None = None
    incomplete_details: _Incomplete | None = None


class OpenAIResponses(Adapter):
    """A conversation through Responses: send `request()` as `client.responses.create(**request)`.

    Prompt caching: with `tool_search`, everything stays cached. `search_tools` is the provider's own `tool_search`,
    executed by this client. Found tools are in its output, tools that the host adds between turns are in an
    `additional_tools` item, and the input is only appended to. Without `tool_search`, for models that do not support
    it, every tool is listed, and the list grows at its end.

    The provider stores nothing (`store` is false): the whole input is sent each time, including encrypted reasoning.
    The model sees pictures and PDF files. Other files and recordings are mentioned in text, as are tool failures. A
    search's output can only contain tools, so remarks follow in a user message, in this project's own words.
    Definitions are only in `tools`, in search outputs and in `additional_tools`.

    Args:
        tool_search: Whether the model supports tool search.
        most_tools: How many tools the provider accepts in the list.
        longest_description: The provider's limit on a tool description in characters; `None` means no limit.
        options: Additional members for every request, such as `reasoning` or `stream`.
    """

    _prompt_counts = ("input_tokens",)
    _completion_counts = ("output_tokens",)

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        system: str | None = None,
        tool_search: bool = True,
        call_tool: bool = False,
        most_tools: int | None = 128,
        longest_description: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            conversation,
            model,
            limits=ProviderLimits(most_tools, longest_description),
            system=system,
            call_tool=call_tool,
            in_transcript=tool_search,
            options=dict(_DEFAULTS) | dict(options or {}),
        )

    def _user_item(self, parts: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
        content = [{"type": "input_text", "text": part} if isinstance(part, str) else part for part in parts]
        return {"type": "message", "role": "user", "content": content}

    def _attachment(self, attachment: Attachment) -> dict[str, Any]:
        if attachment.mime_type in _IMAGES:
            return {"type": "input_image", "detail": "auto", "image_url": attachment.link}
        if attachment.mime_type != _PDF:
            raise attachment.refused("Responses", "JPEG, PNG, GIF, WebP or PDF")
        if attachment.url is not None:
            return {"type": "input_file", "file_url": attachment.url}
        return {"type": "input_file", "filename": attachment.name, "file_data": attachment.link}

    def _ids(self, item: dict[str, Any]) -> tuple[list[str], list[str]]:
        kind: object = item.get("type", "message")
        if kind == "message" and not isinstance(item["content"], str | list):
            raise TypeError("`content` is neither text nor a list")
        if item.get("execution") == "server":
            return [], []
        if kind in ("function_call", "tool_search_call"):
            return [item["call_id"]], []
        return [], [item["call_id"]] if kind in ("function_call_output", "tool_search_output") else []

    def _additions(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        if any(self._is_search(tool) for tool in tools):  # it is not a function, and can only be listed
            return None
        return [{"type": "additional_tools", "role": "developer", "tools": [_function(tool) for tool in tools]}]

    def _without_tools(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        if "tools" not in item:
            return item
        left = [tool for tool in item["tools"] if tool["name"] not in names]
        return item | {"tools": left} if left or item["type"] == "tool_search_output" else None

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "input": self._transcript}
        if self._system:
            body["instructions"] = self._system
        if tools:
            body["tools"] = [_tool_search(tool) if self._is_search(tool) else _function(tool) for tool in tools]
        return body

    def _is_search(self, tool: SentTool) -> bool:
        """Return whether a tool is sent as the provider's own `tool_search`."""
        is_own = tool.definition.tool is None and tool.original_name == self.conversation.search_name
        return self._in_transcript and is_own

    def _parse(self, response: dict[str, Any]) -> ProviderMessage:
        read = checked(_Response, response, "OpenAI Responses")
        if read.status in ("failed", "cancelled"):
            raise InvalidAnswerError(f"the response has {read.status}: {compact_json(response.get('error'))}")
        items: list[dict[str, Any]] = []
        calls: list[ProviderCall] = []
        for item, sent in zip(read.output, response["output"], strict=True):
            echo = without_nulls(sent, *_NOT_SENT_BACK)
            if "content" in echo:
                echo["content"] = [without_nulls(part, "parsed") for part in as_list(echo["content"])]
            is_search = item.type == "tool_search_call" and item.execution != "server"
            if is_search or item.type == "function_call":
                key = self._new_id(item.call_id)
                search = next(filter(self._is_search, self._tools.whole_list), None) if is_search else None
                name = search.name if search else item.name or item.type
                calls.append(ProviderCall(key, name, item.arguments, item.status == "incomplete", is_search))
                echo["call_id"] = key
                if is_search:
                    echo["arguments"] = as_object(item.arguments)
                else:
                    echo |= {"name": valid_name(name), "arguments": arguments_sent_back(item.arguments)}
            items.append(echo)
        parts = [part for item in read.output if item.type == "message" for part in item.content or ()]
        text = "".join(part.text or part.refusal or "" for part in parts if part.type in ("output_text", "refusal"))
        stop_reason = read.incomplete_details.reason if read.incomplete_details else read.status
        return ProviderMessage(items, text, calls, stop_reason)

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        added: list[SentTool] = []
        remarks: list[str] = []
        for result in answered:
            key = result.call.id
            if result.call.is_special:
                tools = [_function(tool) | {"defer_loading": True} for tool in result.found]
                output = {"type": "tool_search_output", "call_id": key, "execution": "client", "status": "completed"}
                items.append(output | {"tools": tools})
                words = result.remarks or (_SEARCH_FAILED if result.is_error else "")
                remarks += [f"The tool search says:\n{words}"] if words.strip() else []
            else:
                items.append({"type": "function_call_output", "call_id": key, "output": self._output(result)})
                added += result.found
        items += (self._additions(added) or []) if added else []
        return [*items, self._user_item(remarks)] if remarks else items

    def _output(self, result: AnsweredCall) -> str | list[dict[str, Any]]:
        if not media_of(result.parts, (*_IMAGES, _PDF)):
            return as_text(result.parts, is_error=result.is_error)
        parts = ["Error:", *result.parts] if result.is_error else result.parts
        return self._user_item(self._with_media(parts, (*_IMAGES, _PDF)))["content"]


def _function(tool: SentTool) -> dict[str, Any]:
    # Strict schemas are a separate dialect, which servers do not use.
    function = {"type": "function", "name": tool.name, "description": tool.description, "strict": False}
    return function | {"parameters": tool.schema}


def _tool_search(tool: SentTool) -> dict[str, Any]:
    # The conversation's texts refer to it by its name there.
    description = f"This is '{tool.name}'. {tool.description}"
    return {"type": "tool_search", "execution": "client", "description": description, "parameters": tool.schema}
