"""Discover, load, call, answer: over HTTP, with each provider's own SDK, to an endpoint that refuses what is wrong.

The SDKs are imported where they are used, as in `sdk_types`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ImageContent, TextContent, Tool
from tools_search_client import (
    Conversation,
    Forward,
    ListedSource,
    Reply,
    ToolCall,
    ToolDiscovery,
    load_configuration,
    open_federation,
)
from tools_search_client.providers import Adapter, AnthropicMessages, ChatCompletions, Gemini, OpenAIResponses
from tools_search_hosts import HttpTarget

from .endpoint import SIGNATURE, Step, scripted_model

Send = Callable[[dict[str, Any]], Mapping[str, Any]]
Connect = Callable[[str], AbstractContextManager[Send]]
Start = Callable[[Conversation], Adapter]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def dumped(resource: Any, body: dict[str, Any]) -> Mapping[str, Any]:
    return resource.create(**body).model_dump(mode="json")


@contextmanager
def by_openai(url: str) -> Generator[Send]:
    import openai

    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        yield lambda body: dumped(client.chat.completions, body)


@contextmanager
def streamed_by_openai(url: str) -> Generator[Send]:
    import openai

    def send(body: dict[str, Any]) -> Mapping[str, Any]:
        with client.chat.completions.stream(**body) as stream:
            return stream.get_final_completion().model_dump(mode="json")

    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        yield send


@contextmanager
def by_responses(url: str) -> Generator[Send]:
    import openai

    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        yield lambda body: dumped(client.responses, body)


@contextmanager
def by_anthropic(url: str) -> Generator[Send]:
    import anthropic

    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        yield lambda body: dumped(client.beta.messages if "betas" in body else client.messages, body)


@contextmanager
def streamed_by_anthropic(url: str) -> Generator[Send]:
    import anthropic

    def send(body: dict[str, Any]) -> Mapping[str, Any]:
        with client.messages.stream(**body) as stream:
            return stream.get_final_message().model_dump(mode="json")

    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        yield send


@contextmanager
def by_gemini(url: str) -> Generator[Send]:
    from google import genai

    with genai.Client(api_key="k", http_options={"base_url": url}) as client:
        yield lambda body: client.models.generate_content(**body).model_dump(mode="json", exclude_none=True)


def adapter(kind: Any, **options: Any) -> Start:
    return lambda conversation: kind(conversation, "a-model", system="Be brief.", **options)


WAYS: dict[str, tuple[Start, Connect, str, bool]] = {
    "chat completions": (adapter(ChatCompletions), by_openai, "search_tools", False),
    "chat completions streamed": (adapter(ChatCompletions), streamed_by_openai, "search_tools", False),
    "chat completions by call_tool": (adapter(ChatCompletions, call_tool=True), by_openai, "search_tools", True),
    "messages": (adapter(AnthropicMessages), by_anthropic, "search_tools", False),
    "messages streamed": (adapter(AnthropicMessages), streamed_by_anthropic, "search_tools", False),
    "messages with tool changes": (adapter(AnthropicMessages, tool_changes=True), by_anthropic, "search_tools", False),
    "messages without deferral": (adapter(AnthropicMessages, deferral=False), by_anthropic, "search_tools", False),
    "messages by call_tool": (adapter(AnthropicMessages, call_tool=True), by_anthropic, "search_tools", True),
    "responses": (adapter(OpenAIResponses), by_responses, "tool_search", False),
    "responses without search": (adapter(OpenAIResponses, tool_search=False), by_responses, "search_tools", False),
    "responses by call_tool": (adapter(OpenAIResponses, call_tool=True), by_responses, "search_tools", True),
    "gemini": (adapter(Gemini), by_gemini, "search_tools", False),
    "gemini by call_tool": (adapter(Gemini, call_tool=True), by_gemini, "search_tools", True),
}


def tools() -> ListedSource:
    schema = {"type": "object", "properties": {"customer name": {"type": "string"}}, "required": ["customer name"]}
    crm = [Tool(name=name, description=f"{name} of a customer", input_schema=schema) for name in ("find_order", "drop")]
    clock = [Tool(name="what_time", input_schema={"type": "object"})]
    return ListedSource.of({"clock": clock, "crm": crm}, deferred={"crm"})


class Host:
    """The loop of a host, with tools that answer what they were called with."""

    def __init__(self, adapter: Adapter, conversation: Conversation, send: Send) -> None:
        self.adapter, self.conversation, self.send = adapter, conversation, send
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.replies: list[Reply] = []

    async def turn(self, text: str) -> str:
        await self.conversation.begin_turn(text)
        self.adapter.say(text)
        while True:
            said = self.adapter.read(self.send(self.adapter.request()))
            if not said.calls:
                return said.text
            for call in said.calls:
                self.adapter.answer(call, await self.outcome(call))

    async def outcome(self, call: ToolCall) -> Reply | CallToolResult:
        step = await self.conversation.take(call)
        if isinstance(step, Reply):
            self.replies.append(step)
            return step
        assert isinstance(step, Forward)
        self.called.append((step.tool.name, dict(call.arguments)))
        text = TextContent(type="text", text=json.dumps(dict(call.arguments)))
        picture = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return CallToolResult(content=[text, picture], is_error=step.tool.name == "crm__drop")


@pytest.mark.rotating
@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_is_found_loaded_called_and_answered_and_the_next_turn_goes_on(way: str):
    start, connect, search, is_inner = WAYS[way]

    def call(name: str, **arguments: Any) -> tuple[str, Any]:
        if is_inner:
            return "call_tool", {"name": name, "arguments": arguments}
        return name, {key.replace(" ", "_"): value for key, value in arguments.items()}

    steps = (
        Step("Let me see.", calls=[(search, {"query": "find the order of a customer"})]),
        Step(
            calls=[call("crm__find_order", **{"customer name": "Ada"}), call("crm__drop", **{"customer name": "Bob"})]
        ),
        Step("Here it is."),
        Step(calls=[(search, {"query": "no such thing at all"}), ("clock__what_time", {}), ("made_up", {"a": 1})]),
        Step("Done."),
    )
    with scripted_model(*steps) as model, connect(model.url) as send:
        conversation = Conversation(tools(), ToolDiscovery(enabled=True))
        host = Host(start(conversation), conversation, send)
        assert await host.turn("Where is Ada's order?") == "Here it is."
        assert host.called == [("crm__find_order", {"customer name": "Ada"}), ("crm__drop", {"customer name": "Bob"})]
        assert await host.turn("And the time?") == "Done."
    assert model.faults == []
    assert host.called[2:] == [("clock__what_time", {})]
    assert [reply.is_error for reply in host.replies] == [False, False, True]
    last = json.dumps(model.requests[-1])
    if "streamed" not in way or "messages" in way:  # nobody streams what chat completions do not have
        assert last.count(SIGNATURE) == len(steps) - 1
    # In the request, and repeated in the answer, unless that stands in a message, which repeats no words of others.
    assert last.count("no such thing at all") == (1 if way == "responses" else 2)
    assert "Ada" in last


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
async def test_an_interrupted_turn_does_not_hinder_the_next_one(way: str):
    start, connect, search, _ = WAYS[way]
    asks = Step("I look.", calls=[(search, {"query": "find order"}), ("clock__what_time", {})])
    steps = (asks, Step("Good."), asks, Step("As if nothing was."))
    with scripted_model(*steps) as model, connect(model.url) as send:
        conversation = Conversation(tools(), ToolDiscovery(enabled=True))
        adapter = start(conversation)
        host = Host(adapter, conversation, send)
        adapter.say("Go.")
        await conversation.begin_turn("Go.")
        said = adapter.read(send(adapter.request()))
        adapter.answer(said.calls[0], await host.outcome(said.calls[0]))
        adapter.cancel()
        assert await host.turn("Never mind.") == "Good."
        before = adapter.request()
        adapter.say("Go on.")
        adapter.read(send(adapter.request()))
        adapter.drop_turn()
        assert adapter.open_calls == ()
        assert adapter.request() == before
        assert await host.turn("Something else.") == "As if nothing was."
    assert model.faults == []
    assert "Go on." not in json.dumps(model.requests[-1])


@pytest.mark.anyio
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_loop_of_the_readme_runs_as_it_stands(
    plain_server: HttpTarget, write_configuration: Callable[[dict[str, object]], Path], is_allowed: bool
):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (snippet,) = [block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "adapter.say" in block]
    loop: dict[str, Any] = {}
    exec(snippet, loop)  # noqa: S102 - of this repository

    asked: list[str] = []

    async def ask(step: Forward) -> bool:
        asked.append(step.tool.name)
        return is_allowed

    import openai

    async def send(request: dict[str, Any]) -> Mapping[str, Any]:
        completions: Any = client.chat.completions
        return (await completions.create(**request)).model_dump(mode="json", exclude_none=True)

    arguments = {"first": 2, "second": 3}
    steps = (Step(calls=[("search_tools", {"query": "add"})]), Step(calls=[("plain__add_numbers", arguments)]))
    plain = {"url": plain_server.url, "defer_loading": True}
    configuration = load_configuration(write_configuration({"plain": plain}))
    configuration = replace(configuration, tool_discovery=ToolDiscovery(enabled=True))
    with anyio.fail_after(30), scripted_model(*steps, Step("5, of course.")) as model:
        async with (
            open_federation(configuration) as servers,
            openai.AsyncOpenAI(api_key="k", base_url=model.url) as client,
        ):
            adapter = ChatCompletions(Conversation(servers), "a-model")
            assert await loop["turn"]("Add.", adapter, send, servers, ask) == "5, of course."
    assert model.faults == []
    result = model.requests[-1]["messages"][-1]["content"]
    assert result == ("5" if is_allowed else "Error: The user does not allow this call.")
