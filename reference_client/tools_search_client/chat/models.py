"""Models behind the SDKs of their providers: one streamed answer at a time.

An SDK is imported when a conversation needs it, and nowhere before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final
from uuid import uuid4

from tools_search_ranking.extras import install_command

from tools_search_client.chat.completion_chunks import CompletionChunks
from tools_search_client.chat.endpoint import Endpoint, ShownBy
from tools_search_client.chat.failures import BROKEN_OFF, ModelError, model_error
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.errors import LocalError
from tools_search_client.providers import Adapter, AnthropicMessages, ChatCompletions, OpenAIResponses


class Model(ABC):
    """A model behind its provider's SDK.

    Args:
        client: The SDK's client.
        sdk: The SDK.
        endpoint: Where the model is.
    """

    client_class: ClassVar[str] = "AsyncOpenAI"

    read_counts: ClassVar[tuple[str, ...]]
    """Members of an answer's `usage` that add up to the tokens that the model read."""
    written_count: ClassVar[str]

    def __init__(self, client: Any, sdk: ModuleType, endpoint: Endpoint) -> None:
        self._client = client  # untyped, because this package needs no SDK to be installed
        self._sdk = sdk
        self._endpoint = endpoint

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Send a request of the provider's adapter and return the whole answer, as that adapter reads it.

        Args:
            request: Keyword arguments of the SDK.
            heard: Called with each piece of text as it comes.

        Raises:
            ModelError: There is no answer, or it broke off.
        """
        try:
            return await self.streamed(request, heard)
        except OSError:  # from `heard`, such as a closed pipe: the SDKs have errors of their own
            raise
        except Exception as error:  # a strange stream makes the SDKs raise anything at all
            raise model_error(error, self._sdk, self._endpoint) from error

    def usage(self, answer: Mapping[str, Any], /) -> tuple[int, int]:
        """Return how many tokens were read and written, as the provider counts them."""
        stated: Mapping[str, Any] = answer.get("usage") or {}
        return sum(stated.get(name) or 0 for name in self.read_counts), stated.get(self.written_count) or 0

    @abstractmethod
    async def streamed(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Do as `answer` does, but raise the errors of the SDK."""

    @abstractmethod
    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return an answer that has nothing but `text`, for the adapter to read."""


class CompletionsModel(Model):
    """A model for the adapter `ChatCompletions`."""

    read_counts = ("prompt_tokens",)
    written_count = "completion_tokens"

    async def streamed(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Stream a chat completion."""
        chunks = CompletionChunks()
        body: dict[str, Any] = request | {"stream_options": {"include_usage": True}}
        async with await self._client.chat.completions.create(**body, stream=True) as stream:
            async for chunk in stream:
                if text := chunks.add(chunk.to_dict()):
                    heard(text)
        return chunks.whole()

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return a chat completion."""
        return {"choices": [{"message": {"content": text}}]}


class ResponsesModel(Model):
    """A model for the adapter `OpenAIResponses`."""

    read_counts = ("input_tokens",)
    written_count = "output_tokens"

    async def streamed(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Stream a response."""
        async with await self._client.responses.create(**request, stream=True) as stream:
            async for event in stream:
                match event.type:
                    case "response.output_text.delta" | "response.refusal.delta":
                        heard(event.delta)
                    case "response.completed" | "response.incomplete" | "response.failed":
                        return event.response.to_dict(warnings=False)
                    case _:
                        pass
        raise ModelError(BROKEN_OFF, is_passing=True)

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return a response."""
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": f"msg_{uuid4().hex}", "role": "assistant", "status": "completed"}
        return {"output": [message | {"content": [part]}]}


class MessagesModel(Model):
    """A model for the adapter `AnthropicMessages`."""

    client_class = "AsyncAnthropic"
    read_counts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    written_count = "output_tokens"

    async def streamed(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        """Stream a message."""
        async with self._client.messages.stream(**request) as stream:
            async for event in stream:
                if event.type == "text":
                    heard(event.text)
            message = await stream.get_final_message()
        if message.stop_reason is None:
            raise ModelError(BROKEN_OFF, is_passing=True)
        return message.to_dict(warnings=False)

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        """Return a message."""
        return {"content": [{"type": "text", "text": text}]}


_MODELS: Final[Mapping[str, type[Model]]] = {
    "openai": CompletionsModel,
    "openai-responses": ResponsesModel,
    "anthropic": MessagesModel,
}


def import_sdk(endpoint: Endpoint) -> ModuleType:
    """Return the SDK of the endpoint's provider.

    Raises:
        LocalError: It is not installed.
    """
    name = endpoint.sdk_name
    try:
        return import_module(name)
    except ImportError as error:
        raise LocalError(f"the SDK of {name} is missing ({error}). {install_command(name)}") from error


@asynccontextmanager
async def open_model(endpoint: Endpoint, sdk: ModuleType) -> AsyncGenerator[Model]:
    """Offer the endpoint's model until the block ends.

    Args:
        endpoint: Where the model is.
        sdk: The module that `import_sdk` returned.
    """
    model = _MODELS[endpoint.provider]
    new_client: Any = getattr(sdk, model.client_class)
    # No retries by the SDK: the loop decides whether a request is sent again, and shows that to the user.
    async with new_client(api_key=endpoint.key, base_url=endpoint.url, max_retries=0) as client:
        yield model(client, sdk, endpoint)


def new_adapter(endpoint: Endpoint, conversation: Conversation, *, system: str, shown_by: ShownBy) -> Adapter:
    """Return the adapter of the endpoint's provider, with nothing said yet."""
    native, in_words = shown_by == "provider", shown_by == "call-tool"
    match endpoint.provider:
        case "openai":
            return ChatCompletions(conversation, endpoint.model, system=system, call_tool=in_words)
        case "openai-responses":
            return OpenAIResponses(conversation, endpoint.model, system=system, tool_search=native, call_tool=in_words)
        case "anthropic":
            # Anthropic caches nothing unless asked to, and compatible services may not know the member.
            options = {"cache_control": {"type": "ephemeral"}} if endpoint.url is None else {}
            return AnthropicMessages(
                conversation, endpoint.model, system=system, deferral=native, call_tool=in_words, options=options
            )
