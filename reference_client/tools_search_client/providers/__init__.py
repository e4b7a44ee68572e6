"""Adapters that bring a conversation to a model's provider: plain JSON, without any SDK and without any network.

What a host uses:
    adapter.py             `Adapter`: what they have in common, and `Said`
    chat_completions.py    OpenAI's chat completions and what is compatible with them
    anthropic_messages.py  Anthropic's Messages, with deferred tools and references to them
    openai_responses.py    OpenAI's Responses, with tool search that the client carries out
    gemini.py              Google's generateContent

What they stand on:
    base.py                the order of things: what was said, called and answered
    exposure.py            what the model was shown of the tools, and where
    exchange.py            what passes between these two and each provider's own form
    call_tool.py           one tool by which others are called, for any provider
    sent_tools.py          names and arguments of tools, mapped there and back
    schemas.py             the schema of a tool, as a provider takes it; keywords.py knows the keywords
    results.py             what a tool returned, in parts
    plain_json.py          JSON that others wrote
"""

from tools_search_client.errors import InvalidAnswerError
from tools_search_client.providers.adapter import Adapter, Outcome, Said
from tools_search_client.providers.anthropic_messages import AnthropicMessages
from tools_search_client.providers.chat_completions import ChatCompletions
from tools_search_client.providers.gemini import Gemini
from tools_search_client.providers.openai_responses import OpenAIResponses

__all__ = [
    "Adapter",
    "AnthropicMessages",
    "ChatCompletions",
    "Gemini",
    "InvalidAnswerError",
    "OpenAIResponses",
    "Outcome",
    "Said",
]
