"""Models behind their providers' SDKs, one streamed answer at a time.

An SDK is imported only when a conversation needs it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeAlias, cast
from uuid import uuid4

import anyio
from tools_search_hosts.json_values import as_list, as_object
from tools_search_ranking.extras import install_command

from tools_search_client.chat.endpoint import (
    BROKEN_OFF,
    Endpoint,
    ModelError,
    Provider,
    ShownBy,
    model_error,
    refuse_web_page,
)
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.errors import LocalError
from tools_search_client.providers import Adapter, AnthropicMessages, ChatCompletions, OpenAIResponses
from tools_search_client.text import one_line

OnText: TypeAlias = Callable[[str], None]

_LIST_SECONDS: Final = 30.0
_MAX_MODELS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Api:
    """The differences between the providers' APIs."""

    client: str
    """The SDK's client class."""
    stream: Callable[[Any, dict[str, Any], OnText], Awaitable[Mapping[str, Any]]]
    """Sends a request and returns the complete answer; passes pieces of text on as they arrive."""
    only_text: Callable[[str], Mapping[str, Any]]
    """Returns an answer that contains only the text."""


class CompletionChunks:
    """Assembles a streamed chat completion.

    OpenAI's SDK can do that too, but only for OpenAI's own chunks. Other services repeat a name in each chunk, leave
    out the index, use the same index for all calls, or send arguments as an object.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[object, int] = {}
        self._stop_reason: object = None
        self._usage: object = None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Add the next chunk and return its text."""
        self._usage = chunk.get("usage") or self._usage
        choices = as_list(chunk.get("choices"))
        if not choices:
            return ""
        choice = as_object(choices[0])
        self._stop_reason = choice.get("finish_reason") or self._stop_reason
        delta = as_object(choice.get("delta"))
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_object(call))
        _merge(self._message, delta, left_out=("role", "tool_calls"))
        text = delta.get("content") or delta.get("refusal")
        return text if isinstance(text, str) else ""

    def whole(self) -> dict[str, Any]:
        """Return the completion as a non-streamed one; raises `ModelError` if the stream broke off."""
        if self._stop_reason is None:
            raise ModelError(BROKEN_OFF, is_passing=True)
        message = self._message | ({"tool_calls": self._calls} if self._calls else {})
        return {"choices": [{"index": 0, "message": message, "finish_reason": self._stop_reason}], "usage": self._usage}

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        call = self._calls[self._place(piece)]
        call["id"] = call["id"] or piece.get("id")
        function, added = call["function"], as_object(piece.get("function"))
        function["name"] = function["name"] or added.get("name") or ""
        arguments = added.get("arguments")
        if isinstance(arguments, str) and isinstance(function["arguments"], str):
            function["arguments"] += arguments
        elif arguments:
            function["arguments"] = arguments
        _merge(function, added, left_out=("name", "arguments"))
        _merge(call, piece, left_out=("id", "index", "type", "function"))

    def _place(self, piece: Mapping[str, Any]) -> int:
        """Return the position of the call that a piece belongs to: a new one if the piece has a new id."""
        index, key = piece.get("index"), piece.get("id")
        place = self._places.get(index, len(self._calls) - 1 if index is None else -1)
        if place < 0 or (key and self._calls[place]["id"] not in (None, key)):
            place = len(self._calls)
            self._calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
        if index is not None:
            self._places[index] = place
        return place


def _merge(into: dict[str, Any], added: Mapping[str, Any], *, left_out: tuple[str, ...]) -> None:
    """Add a service's own members, such as reasoning: texts and lists grow, anything else is replaced."""
    for name, value in added.items():
        known = into.get(name)
        if name in left_out or value is None:
            continue
        if isinstance(known, str) and isinstance(value, str):
            into[name] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            into[name] = [*cast("list[Any]", known), *cast("list[Any]", value)]
        else:
            into[name] = value


async def _stream_completion(client: Any, request: dict[str, Any], on_text: OnText) -> Mapping[str, Any]:
    chunks = CompletionChunks()
    body: dict[str, Any] = request | {"stream_options": {"include_usage": True}}
    async with await client.chat.completions.create(**body, stream=True) as stream:
        if stream.response.headers.get("content-type", "").startswith("application/json"):  # it does not stream
            whole = as_object(json.loads(await stream.response.aread()))
            for choice in as_list(whole.get("choices")):
                text = as_object(as_object(choice).get("message")).get("content")
                on_text(text if isinstance(text, str) else "")
            return whole
        async for chunk in stream:
            if text := chunks.add(chunk.to_dict()):
                on_text(text)
    return chunks.whole()


async def _stream_response(client: Any, request: dict[str, Any], on_text: OnText) -> Mapping[str, Any]:
    async with await client.responses.create(**request, stream=True) as stream:
        async for event in stream:
            match event.type:
                case "response.output_text.delta" | "response.refusal.delta":
                    on_text(event.delta)
                case "response.completed" | "response.incomplete" | "response.failed":
                    return event.response.to_dict(warnings=False)
                case _:
                    pass
    raise ModelError(BROKEN_OFF, is_passing=True)


async def _stream_message(client: Any, request: dict[str, Any], on_text: OnText) -> Mapping[str, Any]:
    async with client.messages.stream(**request) as stream:
        async for event in stream:
            if event.type == "text":
                on_text(event.text)
        message = await stream.get_final_message()
    if message.stop_reason is None:
        raise ModelError(BROKEN_OFF, is_passing=True)
    return message.to_dict(warnings=False)


def _response_of(text: str) -> Mapping[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": f"msg_{uuid4().hex}", "role": "assistant", "status": "completed"}
    return {"output": [message | {"content": [part]}]}


_APIS: Final[Mapping[Provider, _Api]] = {
    "openai": _Api("AsyncOpenAI", _stream_completion, lambda text: {"choices": [{"message": {"content": text}}]}),
    "openai-responses": _Api("AsyncOpenAI", _stream_response, _response_of),
    "anthropic": _Api("AsyncAnthropic", _stream_message, lambda text: {"content": [{"type": "text", "text": text}]}),
}


class Model:
    """A model behind its provider's SDK; created by `open_model`."""

    def __init__(self, endpoint: Endpoint, sdk: ModuleType, client: Any) -> None:
        self.endpoint: Final = endpoint
        self._sdk = sdk
        self._client = client  # untyped, because the SDKs are optional dependencies
        self._api = _APIS[endpoint.provider]

    async def answer(self, request: dict[str, Any], on_text: OnText, /) -> Mapping[str, Any]:
        """Send the adapter's request and return the complete answer, calling `on_text` with text as it arrives.

        Raises `ModelError` if there is no answer, or it broke off.
        """
        try:
            return await self._api.stream(self._client, request, on_text)
        except OSError:  # from `on_text`, such as a closed pipe: the SDKs never raise it
            raise
        except Exception as error:  # the SDKs can raise anything on a malformed stream
            raise model_error(error, self._sdk, self.endpoint) from error

    async def model_names(self) -> list[str]:
        """Return the names of the models that the endpoint lists, sorted, or raise `ModelError`."""
        names: set[str] = set()
        try:
            with anyio.fail_after(_LIST_SECONDS):
                async for model in self._client.models.list():
                    names.add(one_line(str(model.id)))
                    if len(names) == _MAX_MODELS:
                        break
        except TimeoutError as error:
            raise ModelError("the list of models did not end in time", is_passing=True) from error
        except Exception as error:  # the SDKs can raise anything on a malformed list
            raise model_error(error, self._sdk, self.endpoint) from error
        return sorted(names, key=str.casefold)

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that contains only `text`, for the adapter to read."""
        return self._api.only_text(text)

    def new_adapter(self, conversation: Conversation, *, system: str, shown_by: ShownBy) -> Adapter:
        """Return the provider's adapter, with an empty transcript."""
        model, native, in_words = self.endpoint.model, shown_by == "provider", shown_by == "call-tool"
        match self.endpoint.provider:
            case "openai":
                return ChatCompletions(conversation, model, system=system, call_tool=in_words)
            case "openai-responses":
                return OpenAIResponses(conversation, model, system=system, tool_search=native, call_tool=in_words)
            case "anthropic":
                # Anthropic caches only on request, and compatible services might not support the member.
                options = {"cache_control": {"type": "ephemeral"}} if self.endpoint.url is None else {}
                return AnthropicMessages(
                    conversation, model, system=system, deferral=native, call_tool=in_words, options=options
                )


@asynccontextmanager
async def open_model(endpoint: Endpoint) -> AsyncGenerator[Model]:
    """Open the endpoint's model; raises `LocalError` if the provider's SDK is not installed."""
    name = endpoint.sdk_name
    try:
        sdk = import_module(name)
    except ImportError as error:
        raise LocalError(f"the SDK of {name} is missing ({error}). {install_command(name)}") from error
    new_client: Any = getattr(sdk, _APIS[endpoint.provider].client)
    hooks = {"response": [refuse_web_page]}
    options: dict[str, Any] = {"http_client": cast("Any", sdk).DefaultAsyncHttpxClient(event_hooks=hooks)}
    # No SDK retries: the chat loop decides whether to retry, and shows it to the user.
    async with new_client(api_key=endpoint.key, base_url=endpoint.url, max_retries=0, **options) as client:
        yield Model(endpoint, sdk, client)
