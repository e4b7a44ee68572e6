"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.errors import InvalidAnswerError
from tools_search_client.providers.base import BaseAdapter
from tools_search_client.providers.exchange import Answered, Heard, WireCall
from tools_search_client.providers.plain_json import (
    arguments_sent_back,
    as_list,
    as_object,
    checked,
    compact,
    without_nulls,
)
from tools_search_client.providers.results import Part, as_text, media_of
from tools_search_client.providers.sent_tools import Limits, SentTool

__all__ = ["OpenAIResponses"]

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_FILES: Final = ("application/pdf",)
_DEFAULTS: Final[Mapping[str, Any]] = {"store": False, "include": ["reasoning.encrypted_content"]}
"""The transcript is here, so nothing has to be kept there, and reasoning comes in a form that can be sent back."""
_NOT_SENT_BACK: Final = ("created_by", "parsed", "parsed_arguments")
"""What an item of an answer has and none of a request takes."""


_NOT_UNDERSTOOD: Final = "Error: the search could not be carried out as it was asked for."


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


class _Reason(BaseModel):
    reason: str | None = None


class _Response(BaseModel):
    output: list[_Item]
    status: str | None = None
    incomplete_details: _Reason | None = None


class OpenAIResponses(BaseAdapter):
    """One conversation by Responses: send `request()` as `client.responses.create(**request)`.

    What is kept between requests: with `tool_search`, everything. `search_tools` is the provider's own `tool_search`,
    carried out here; what it found stands in its output, what the host adds between turns in an item
    `additional_tools`, and the input is only appended to. Without `tool_search`, for models that do not have it, every
    tool is listed, and the list only grows at its end. With `call_tool` it does not grow, and all of a request is kept.

    The provider keeps nothing (`store` is false): the whole input is sent each time, reasoning as it came, encrypted.
    Pictures and PDF files are shown, other files and recordings are told of in words, and so is a failure of a tool.
    What a search says besides the tools that it found has no place in its output: it follows as a message of the user,
    in the project's own words. Definitions stand in `tools`, in outputs of the search and in `additional_tools` alone.

    Args:
        conversation: Whose tools are offered.
        model: The provider's name of the model.
        system: What the model is told before everything else.
        tool_search: Whether the model has tool search.
        call_tool: Whether the list of tools is left as it is at first, and others are called through `call_tool`.
        most_tools: How many tools the provider takes in the list.
        longest_description: Characters of a tool's description that the provider takes; `None` means any number.
        options: Further members of every request, such as `reasoning` or `stream`.
    """

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
            limits=Limits(most_tools, longest_description),
            system=system,
            call_tool=call_tool,
            tells=tool_search,
            options=dict(_DEFAULTS) | dict(options or {}),
        )
        self._search: SentTool | None = None
        self._searches: set[str] = set()

    def _user(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}

    def _added(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        if any(self._is_search(tool) for tool in tools):  # which is no function, and can only be listed
            return None
        return [{"type": "additional_tools", "role": "developer", "tools": [_function(tool) for tool in tools]}]

    def _without(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        if "tools" not in item:
            return item
        left = [tool for tool in item["tools"] if tool["name"] not in names]
        return item | {"tools": left} if left or item["type"] == "tool_search_output" else None

    def _body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        self._search = next((tool for tool in tools if self._is_search(tool)), None) if self._tells else None
        body: dict[str, Any] = {"model": self._model, "input": self._transcript}
        if self._system:
            body["instructions"] = self._system
        if tools:
            body["tools"] = [_tool_search(tool) if tool is self._search else _function(tool) for tool in tools]
        return body

    def _is_search(self, tool: SentTool) -> bool:
        return tool.definition.tool is None and tool.definition.name == self._conversation.search_name

    def _heard(self, answer: dict[str, Any]) -> Heard:
        response = checked(_Response, answer, "OpenAI Responses")
        if response.status in ("failed", "cancelled"):
            raise InvalidAnswerError(f"the response has {response.status}: {compact(answer.get('error'))}")
        items: list[dict[str, Any]] = []
        calls: list[WireCall] = []
        for item, sent in zip(response.output, answer["output"], strict=True):
            echo = _sent_back(sent)
            is_search = item.type == "tool_search_call" and item.execution != "server"
            if is_search or item.type == "function_call":
                key = self._new_id(item.call_id, [one.id for one in calls])
                name = self._search.name if is_search and self._search else item.name or item.type
                arguments = item.arguments
                calls.append(WireCall(key, name, arguments, item.status == "incomplete"))
                echo["call_id"] = key
                if is_search:
                    self._searches.add(key)
                    echo["arguments"] = as_object(arguments)
                else:
                    echo["arguments"] = arguments_sent_back(arguments)
                    echo["name"] = valid_name(name)
            items.append(echo)
        stop = response.incomplete_details.reason if response.incomplete_details else response.status
        return Heard(items, _text(response), calls, stop)

    def _results(self, answered: Sequence[Answered]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        added: list[SentTool] = []
        beside: list[str] = []
        for result in answered:
            key = result.call.id
            if key in self._searches:
                tools = [_function(tool) | {"defer_loading": True} for tool in result.found]
                output = {"type": "tool_search_output", "call_id": key, "execution": "client", "status": "completed"}
                items.append(output | {"tools": tools})
                said = result.remarks or (_NOT_UNDERSTOOD if result.is_error else "")
                beside += [f"The tool search says:\n{said}"] if said.strip() else []
            else:
                items.append({"type": "function_call_output", "call_id": key, "output": _output(result)})
                added += result.found
        items += (self._added(added) or []) if added else []
        return [*items, self._user(beside)] if beside else items


def _function(tool: SentTool) -> dict[str, Any]:
    # Strict schemas are a dialect of their own, and tools of others are not written in it.
    function = {"type": "function", "name": tool.name, "description": tool.description, "strict": False}
    return function | {"parameters": tool.schema}


def _tool_search(tool: SentTool) -> dict[str, Any]:
    # What the conversation says of it says so by its name there.
    description = f"This is '{tool.name}'. {tool.description}"
    search = {"type": "tool_search", "execution": "client", "description": description}
    return search | {"parameters": tool.schema}


def _sent_back(item: Mapping[str, Any]) -> dict[str, Any]:
    echo = without_nulls(item, *_NOT_SENT_BACK)
    if "content" in echo:
        echo["content"] = [without_nulls(part, "parsed") for part in as_list(echo["content"])]
    return echo


def _text(response: _Response) -> str:
    parts = [part for item in response.output if item.type == "message" for part in item.content or ()]
    return "".join(part.text or part.refusal or "" for part in parts if part.type in ("output_text", "refusal"))


def _output(result: Answered) -> str | list[dict[str, Any]]:
    shown = media_of(result.parts, (*_IMAGES, *_FILES))
    if not shown:
        return as_text(result.parts, is_error=result.is_error)
    parts: list[Part] = ["Error:", *result.parts] if result.is_error else result.parts
    return [_content(part, is_shown=part in shown) for part in parts]


def _content(part: Part, *, is_shown: bool) -> dict[str, Any]:
    if isinstance(part, str) or not is_shown:
        return {"type": "input_text", "text": part if isinstance(part, str) else part.note}
    url = f"data:{part.mime_type};base64,{part.data}"
    if part.mime_type in _IMAGES:
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": "result.pdf", "file_data": url}
