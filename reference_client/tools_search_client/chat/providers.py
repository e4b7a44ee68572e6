"""The adapter and the model of an endpoint; the provider's SDK is imported here, and nowhere before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from tools_search_ranking.extras import install_command

from tools_search_client.chat.anthropic_messages import MessagesModel
from tools_search_client.chat.endpoint import Endpoint, ShownBy
from tools_search_client.chat.failures import failure_of
from tools_search_client.chat.model import Model, Usage
from tools_search_client.chat.openai_completions import CompletionsModel
from tools_search_client.chat.openai_responses import ResponsesModel
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.errors import LocalError
from tools_search_client.providers import AnthropicMessages, ChatCompletions, OpenAIResponses
from tools_search_client.providers.adapter import Adapter

__all__ = ["import_sdk", "new_adapter", "open_model"]


def import_sdk(endpoint: Endpoint) -> ModuleType:
    """Return the SDK of the endpoint's provider.

    Raises:
        LocalError: It is not installed.
    """
    name = endpoint.provider.partition("-")[0]
    try:
        return import_module(name)
    except ImportError as error:
        raise LocalError(f"the SDK of {name} is missing ({error}). {install_command(name)}") from error


def new_adapter(endpoint: Endpoint, conversation: Conversation, *, system: str, shown_by: ShownBy) -> Adapter:
    """Return the adapter of the endpoint's provider, with nothing said yet."""
    native, in_words = shown_by == "provider", shown_by == "call-tool"
    match endpoint.provider:
        case "openai":
            return ChatCompletions(conversation, endpoint.model, system=system, call_tool=in_words)
        case "openai-responses":
            return OpenAIResponses(conversation, endpoint.model, system=system, tool_search=native, call_tool=in_words)
        case "anthropic":
            # Anthropic keeps nothing between requests unless it is told to, and other services may not know the word.
            options = {"cache_control": {"type": "ephemeral"}} if endpoint.url is None else {}
            return AnthropicMessages(
                conversation, endpoint.model, system=system, deferral=native, call_tool=in_words, options=options
            )


@asynccontextmanager
async def open_model(endpoint: Endpoint, sdk: ModuleType) -> AsyncGenerator[Model]:
    """Offer the endpoint's model until the block ends.

    Args:
        endpoint: What to speak to.
        sdk: What `import_sdk` returned for it.
    """
    make: Any = sdk.AsyncAnthropic if endpoint.provider == "anthropic" else sdk.AsyncOpenAI
    # Whether a request is sent again is decided by the loop, which tells the user of it.
    async with make(api_key=endpoint.key, base_url=endpoint.url, max_retries=0) as client:
        yield _Told(_MODELS[endpoint.provider](client), sdk, endpoint)


_MODELS: Final[Mapping[str, Callable[[Any], Model]]] = {
    "openai": CompletionsModel,
    "openai-responses": ResponsesModel,
    "anthropic": MessagesModel,
}


@dataclass(frozen=True, slots=True)
class _Told:
    """A `Model` whose errors are told in clear lines."""

    model: Model
    sdk: ModuleType
    endpoint: Endpoint

    async def answer(self, request: dict[str, Any], heard: Callable[[str], None], /) -> Mapping[str, Any]:
        try:
            return await self.model.answer(request, heard)
        except OSError:  # of whoever hears it, such as a closed pipe: the SDKs have errors of their own
            raise
        except Exception as error:  # a strange stream makes the SDKs raise anything at all
            raise failure_of(error, self.sdk, self.endpoint) from error

    def only_text(self, text: str, /) -> Mapping[str, Any]:
        return self.model.only_text(text)

    def usage(self, answer: Mapping[str, Any], /) -> Usage:
        return self.model.usage(answer)
