"""Adapters between a conversation and the APIs of model providers: plain JSON, without any SDK or network.

`Adapter` is the base of all four, and of one for another provider.
"""

from tools_search_client.errors import InvalidAnswerError
from tools_search_client.providers.adapter import Adapter, ModelMessage, Outcome
from tools_search_client.providers.anthropic_messages import AnthropicMessages
from tools_search_client.providers.chat_completions import ChatCompletions
from tools_search_client.providers.gemini import Gemini
from tools_search_client.providers.openai_responses import OpenAIResponses
from tools_search_client.providers.results import Attachment

__all__ = [
    "Adapter",
    "AnthropicMessages",
    "Attachment",
    "ChatCompletions",
    "Gemini",
    "InvalidAnswerError",
    "ModelMessage",
    "OpenAIResponses",
    "Outcome",
]
