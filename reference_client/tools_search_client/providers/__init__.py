"""Adapters between a conversation and the APIs of model providers: plain JSON, without any SDK or network.

`Adapter` is the base of all four, and of one for another provider.
"""

from tools_search_client.errors import InvalidAnswerError as InvalidAnswerError
from tools_search_client.providers.adapter import Adapter as Adapter
from tools_search_client.providers.adapter import ModelMessage as ModelMessage
from tools_search_client.providers.adapter import Outcome as Outcome
from tools_search_client.providers.anthropic_messages import AnthropicMessages as AnthropicMessages
from tools_search_client.providers.chat_completions import ChatCompletions as ChatCompletions
from tools_search_client.providers.gemini import Gemini as Gemini
from tools_search_client.providers.openai_responses import OpenAIResponses as OpenAIResponses
from tools_search_client.providers.results import Attachment as Attachment
