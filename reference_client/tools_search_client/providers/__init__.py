"""Adapters between a conversation and model providers' APIs, in plain JSON, without an SDK or network access.

`Adapter` is the base class of all four. Subclass it to support another provider. `adapted` is for hosts whose framework
sends the tools.
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
from tools_search_client.providers.schemas import adapted as adapted
