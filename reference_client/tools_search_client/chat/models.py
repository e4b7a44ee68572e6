"""Models behind the SDKs of their providers: one streamed answer at a time.

An SDK is imported when a conversation needs it, and nowhere before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeAlias
from uuid import uuid4

import anyio
from tools_search_ranking.extras import install_command

from tools_search_client.chat.completion_chunks import CompletionChunks
from tools_search_client.chat.endpoint import BROKEN_OFF, Endpoint, ModelError, Provider, ShownBy, model_error
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.errors import LocalError
from tools_search_client.providers import Adapter, AnthropicMessages, ChatCompletions, OpenAIResponses
from tools_search_client.text import one_line

Hear: TypeAlias = Callable[[str], None]

_LIST_SECONDS: Final = 30.0
_MOST_MODELS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Api:
    """The differences between the APIs of providers."""

    client: str
    """The SDK's class."""
    stream: Callable[[Any, dict[str, Any], Hear], Awaitable[Mapping[str, Any]]]
    """Sends a request and returns the whole answer; its pieces of text are heard as they come."""
    only_text: Callable[[str], Mapping[str, Any]]
    """Returns an answer that has nothing but a text."""
    read_counts: tuple[str, ...]
    """Members of an answer's `usage` that add up to the tokens that the model read."""
    written_count: str


async def _stream_completion(client: Any, request: dict[str, Any], heard: Hear) -> Mapping[str, Any]:
    chunks = CompletionChunks()
    body: dict[str, Any] = request | {"stream_options": {"include_usage": True}}
    async with await client.chat.completions.create(**body, stream=True) as stream:
        async for chunk in stream:
            if text := chunks.add(chunk.to_dict()):
                heard(text)
    return chunks.whole()


async def _stream_response(client: Any, request: dict[str, Any], heard: Hear) -> Mapping[str, Any]:
    async with await client.responses.create(**request, stream=True) as stream:
        async for event in stream:
            match event.type:
                case "response.output_text.delta" | "response.refusal.delta":
                    heard(event.delta)
                case "response.completed" | "response.incomplete" | "response.failed":
                    return event.response.to_dict(warnings=False)
                case _:
                    pass
    raise ModelError(BROKEN_OFF, is_passing=True)


async def _stream_message(client: Any, request: dict[str, Any], heard: Hear) -> Mapping[str, Any]:
    async with client.messages.stream(**request) as stream:
        async for event in stream:
            if event.type == "text":
                heard(event.text)
        message = await stream.get_final_message()
    if message.stop_reason is None:
        raise ModelError(BROKEN_OFF, is_passing=True)
    return message.to_dict(warnings=False)


def _response_of(text: str) -> Mapping[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": f"msg_{uuid4().hex}", "role": "assistant", "status": "completed"}
    return {"output": [message | {"content": [part]}]}


_APIS: Final[Mapping[Provider, _Api]] = {
    "openai": _Api(
        "AsyncOpenAI",
        _stream_completion,
        lambda text: {"choices": [{"message": {"content": text}}]},
        ("prompt_tokens",),
        "completion_tokens",
    ),
    "openai-responses": _Api("AsyncOpenAI", _stream_response, _response_of, ("input_tokens",), "output_tokens"),
    "anthropic": _Api(
        "AsyncAnthropic",
        _stream_message,
        lambda text: {"content": [{"type": "text", "text": text}]},
        ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        "output_tokens",
    ),
}


class Model:
    """A model behind its provider's SDK; `open_model` makes it."""

    def __init__(self, endpoint: Endpoint, sdk: ModuleType, client: Any) -> None:
        self.endpoint: Final = endpoint
        self._sdk = sdk
        self._client = client  # untyped, because this package needs no SDK to be installed
        self._api = _APIS[endpoint.provider]

    async def answer(self, request: dict[str, Any], heard: Hear, /) -> Mapping[str, Any]:
        """Send a request of the provider's adapter and return the whole answer; `heard` takes its text as it comes.

        Raises:
            ModelError: There is no answer, or it broke off.
        """
        try:
            return await self._api.stream(self._client, request, heard)
        except OSError:  # from `heard`, such as a closed pipe: the SDKs have errors of their own
            raise
        except Exception as error:  # a strange stream makes the SDKs raise anything at all
            raise model_error(error, self._sdk, self.endpoint) from error

    async def siblings(self) -> list[str]:
        """Return the names of the models that the endpoint offers, as far as it lists them, sorted.

        Raises:
            ModelError: There is no list.
        """
        names: set[str] = set()
        try:
            with anyio.fail_after(_LIST_SECONDS):
                async for model in self._client.models.list():
                    names.add(one_line(str(model.id)))
                    if len(names) == _MOST_MODELS:
                        break
        except TimeoutError as error:
            raise ModelError("the list of models did not end in time", is_passing=True) from error
        except Exception as error:  # a strange list makes the SDKs raise anything at all
            raise model_error(error, self._sdk, self.endpoint) from error
        return sorted(names, key=str.casefold)

    def usage(self, answer: Mapping[str, Any], /) -> tuple[int, int]:
        """Return how many tokens were read and written, as the provider counts them."""
        stated: Mapping[str, Any] = answer.get("usage") or {}
        return sum(stated.get(name) or 0 for name in self._api.read_counts), stated.get(self._api.written_count) or 0

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that has nothing but `text`, for the adapter to read."""
        return self._api.only_text(text)

    def new_adapter(self, conversation: Conversation, *, system: str, shown_by: ShownBy) -> Adapter:
        """Return the adapter of the provider, with nothing said yet."""
        model, native, in_words = self.endpoint.model, shown_by == "provider", shown_by == "call-tool"
        match self.endpoint.provider:
            case "openai":
                return ChatCompletions(conversation, model, system=system, call_tool=in_words)
            case "openai-responses":
                return OpenAIResponses(conversation, model, system=system, tool_search=native, call_tool=in_words)
            case "anthropic":
                # Anthropic caches nothing unless asked to, and compatible services may not know the member.
                options = {"cache_control": {"type": "ephemeral"}} if self.endpoint.url is None else {}
                return AnthropicMessages(
                    conversation, model, system=system, deferral=native, call_tool=in_words, options=options
                )


@asynccontextmanager
async def open_model(endpoint: Endpoint) -> AsyncGenerator[Model]:
    """Offer the endpoint's model until the block ends.

    Raises:
        LocalError: The SDK of its provider is not installed.
    """
    name = endpoint.sdk_name
    try:
        sdk = import_module(name)
    except ImportError as error:
        raise LocalError(f"the SDK of {name} is missing ({error}). {install_command(name)}") from error
    new_client: Any = getattr(sdk, _APIS[endpoint.provider].client)
    # No retries by the SDK: the loop decides whether a request is sent again, and shows that to the user.
    async with new_client(api_key=endpoint.key, base_url=endpoint.url, max_retries=0) as client:
        yield Model(endpoint, sdk, client)
