"""Invariants of every request, with any tools and any actions of model, user and servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp_types import AudioContent, CallToolResult, ImageContent, TextContent, Tool
from tools_search_client import (
    Conversation,
    Definition,
    ListedSource,
    Offer,
    Reply,
    SyntheticToolResult,
    ToolCall,
    ToolDiscovery,
)
from tools_search_client.providers import Adapter, AnthropicMessages, ChatCompletions, Gemini, OpenAIResponses
from tools_search_hosts.toolsets import EVERYTHING, Rule, Toolset

from .endpoint import RENDERERS, Step
from .rules import RULES
from .sdk_types import check

names = st.one_of(
    st.sampled_from(("find", "call_tool", "search_tools", "a b", "ü" * 70)), st.text(min_size=1, max_size=8)
)
arguments = st.one_of(st.sampled_from(("query", "user.id", "user-id", "2nd", "a b", "", "é" * 70, "$ref")), st.text())
leaves = st.sampled_from(
    (
        {"type": "string", "pattern": "^a", "default": "x"},
        {"type": ["integer", "null"], "exclusiveMinimum": 0},
        {"const": True},
        {"enum": [1, "two", None]},
        {"$ref": "#/$defs/thing"},
        {"$ref": "https://example.org/other"},
        {"type": "array", "items": [{"type": "string"}]},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"type": "object", "properties": {"$id": {"type": "string"}}, "required": ["$id"]},
        True,
    )
)
roots = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(arguments, leaves, max_size=4),
        "required": st.lists(arguments, max_size=2, unique=True),
        "anyOf": st.lists(st.fixed_dictionaries({"required": st.lists(arguments, max_size=1)}), min_size=1, max_size=2),
        "allOf": st.just([{"$ref": "#/$defs/thing"}]),
        "$ref": st.sampled_from(("#/$defs/thing", "#", "#/nowhere")),
        "$schema": st.just("http://json-schema.org/draft-07/schema#"),
        "$defs": st.just({"thing": {"type": "object", "properties": {"x y": {"type": "string"}}}}),
        "description": st.text(max_size=5),
        "additionalProperties": st.booleans(),
        "dependentRequired": st.just({"a b": ["query"]}),
        "minProperties": st.just("many"),
    },
)
catalogs = st.fixed_dictionaries(
    {
        server: st.lists(st.tuples(names, roots), max_size=4, unique_by=lambda pair: pair[0])
        for server in ("alpha", "beta", "gamma")
    }
)
contents = st.one_of(
    st.builds(TextContent, type=st.just("text"), text=st.text(max_size=5)),
    st.builds(
        ImageContent,
        type=st.just("image"),
        data=st.sampled_from(("aGk=", "not base64", "")),
        mime_type=st.sampled_from(("image/png", "image/tiff", "application/pdf")),
    ),
    st.just(AudioContent(type="audio", data="aGk=", mime_type="audio/wav")),
)
results = st.builds(CallToolResult, content=st.lists(contents, max_size=3), is_error=st.booleans())
calls = st.one_of(
    st.tuples(st.just("search"), st.sampled_from(({"query": "find"}, {"server_name": "beta"}, {"query": 5}, {}))),
    st.tuples(st.just("known"), st.integers(0, 20)),
    st.tuples(st.just("unknown"), st.sampled_from(("made_up", "alpha__find", "", "functions.find it", "call_tool"))),
)
actions = st.one_of(
    st.tuples(st.just("answer"), st.lists(calls, max_size=3)),
    st.tuples(st.just("answer"), st.lists(calls, min_size=1, max_size=2)),
    st.tuples(st.just("cancel"), st.lists(calls, min_size=1, max_size=2)),
    st.tuples(st.just("drop"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.integers(1, 3)),
    st.tuples(st.just("toolset"), st.sampled_from((EVERYTHING, Toolset("b", {"beta": Rule(excludes=True)})))),
    st.tuples(st.just("servers"), catalogs),
)


@dataclass(frozen=True)
class Variant:
    kind: Any
    options: Mapping[str, Any]
    kept: str
    """`everything`; `but the end of the tools`; or `but deferred tools`, which are no part of what is read first."""


VARIANTS = {
    "chat completions": Variant(ChatCompletions, {}, "but the end of the tools"),
    "chat completions, seeing": Variant(ChatCompletions, {"reads": ("image", "audio")}, "but the end of the tools"),
    "chat completions by call_tool": Variant(ChatCompletions, {"call_tool": True}, "everything"),
    "messages": Variant(AnthropicMessages, {}, "but deferred tools"),
    "messages with tool changes": Variant(AnthropicMessages, {"tool_changes": True}, "but deferred tools"),
    "messages without deferral": Variant(AnthropicMessages, {"deferral": False}, "but the end of the tools"),
    "messages by call_tool": Variant(AnthropicMessages, {"call_tool": True}, "everything"),
    "responses": Variant(OpenAIResponses, {}, "everything"),
    "responses without search": Variant(OpenAIResponses, {"tool_search": False}, "but the end of the tools"),
    "responses by call_tool": Variant(OpenAIResponses, {"call_tool": True}, "everything"),
    "gemini": Variant(Gemini, {}, "but the end of the tools"),
    "gemini by call_tool": Variant(Gemini, {"call_tool": True}, "everything"),
}


class Lullaby:
    """A tool of the host under a name that no provider takes."""

    name = "sing a lullaby!"
    definition = Definition(name, "host/sing", {"type": "object", "properties": {"for whom": {"type": "string"}}})

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        return SyntheticToolResult("")


def source(catalog: Mapping[str, list[tuple[str, Any]]]) -> ListedSource:
    servers = {
        server: [Tool(name=name, description=f"{server}/{name} find", input_schema=schema) for name, schema in own]
        for server, own in catalog.items()
    }
    return ListedSource.of(servers, deferred={"beta", "gamma"})


class Watched(Conversation):
    """A conversation of which it is known which list was offered last."""

    prefix = 0

    def offer(self) -> Offer:
        offer = super().offer()
        self.prefix = offer.prefix
        return offer


class Play:
    """A conversation through one adapter, and what has to hold after every step of it."""

    def __init__(self, variant: Variant, catalog: Any, outcomes: list[CallToolResult]) -> None:
        self.variant = variant
        self.provider = variant.kind.__name__
        self.source = source(catalog)
        self.state = Watched(self.source, ToolDiscovery(enabled=True), synthetic_tools=[Lullaby()])
        self.adapter: Adapter = variant.kind(self.state, "a-model", system="Be brief.", **variant.options)
        self.outcomes = outcomes
        self.toolset = EVERYTHING
        self.count = 0
        self.earlier: list[dict[str, Any]] = []
        self.before_turns: list[int] = []
        self.may_list_more = False

    async def turn(self) -> None:
        await self.state.begin_turn("find", toolset=self.toolset)
        self.before_turns.append(len(self.earlier))
        self.adapter.say("find \ud800 it")

    def request(self) -> dict[str, Any]:
        prefix = self.state.prefix
        body = self.adapter.request()
        if self.state.prefix != prefix:  # another list was begun, and nothing of the old one is kept
            self.forget()
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        assert RULES[self.provider](body) == []
        check(self.provider, body)
        if self.earlier:
            self.check_kept(self.earlier[-1], body)
        self.earlier.append(body)
        self.may_list_more = False
        return body

    def forget(self) -> None:
        self.earlier.clear()
        self.before_turns = [0] * len(self.before_turns)

    def check_kept(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        (tools, transcript, rest), (tools_now, transcript_now, rest_now) = map(parts, (before, now))
        assert transcript_now[: len(transcript)] == transcript
        if not self.may_list_more:
            assert rest_now == rest
        if self.variant.kept == "everything" and not self.may_list_more:
            assert tools_now == tools
        elif not self.may_list_more:
            assert tools_now[: len(tools)] == tools
        if self.variant.kept == "but deferred tools" and not self.may_list_more:
            assert [tool for tool in tools_now if '"defer_loading"' not in tool] == [
                tool for tool in tools if '"defer_loading"' not in tool
            ]

    async def step(self, kind: str, what: Any) -> None:
        match kind:
            case "answer" | "cancel":
                await self.answer(what, is_cancelled=kind == "cancel")
            case "drop":
                for _ in range(what):
                    self.adapter.drop_turn()
                    del self.earlier[self.before_turns.pop() if self.before_turns else 0 :]
                self.may_list_more = True
                await self.turn()
            case "compact":
                self.adapter.compact(what)
                self.forget()
            case "toolset":
                self.toolset = what
                await self.turn()
            case _:
                self.source.offers = source(what).offers
                self.may_list_more = True
                await self.turn()

    async def answer(self, chosen: list[tuple[str, Any]], *, is_cancelled: bool) -> None:
        body = self.request()
        callable_now = visible(self.provider, body)
        made: list[tuple[str, Any]] = []
        meant: list[str | None] = []
        for kind, what in chosen:
            if kind == "search":
                is_own = any(tool.get("type") == "tool_search" for tool in body.get("tools", []))
                made.append(("tool_search" if is_own else "search_tools", what))
                meant.append(None)
            elif kind == "known" and callable_now:
                name, description, arguments = callable_now[int(what) % len(callable_now)]
                made.append((name, dict.fromkeys(arguments, "x")))
                meant.append(description)
            else:
                made.append((str(what), {"x": 1}))
                meant.append(None)
        self.count += 1
        answer = RENDERERS[self.provider](Step(" " * self.count, calls=made), self.count, body)
        for choice in answer.get("choices", []):
            del choice["message"]["reasoning_content"]  # some services have it, the SDK's types do not
        said = self.adapter.read(answer)
        assert len(said.calls) == len(made)
        if is_cancelled:
            self.adapter.cancel()
            return await self.turn()
        for call, description in zip(said.calls, meant, strict=True):
            self.check_meant(call, description)
            self.adapter.answer(call, await self.outcome(call))
        if not made:
            await self.turn()
        return None

    def check_meant(self, call: ToolCall, description: str | None) -> None:
        """Check that a call of what was described so is a call of the tool that has the description."""
        definition = None if description is None else self.state.definition(call.name)
        if definition is not None and definition.tool is not None:
            assert definition.description == description
            stated = set(definition.input_schema.get("properties", {}))
            assert stated <= set(call.arguments) <= stated | {"x y"}, "which may stand behind a reference at the root"

    async def outcome(self, call: ToolCall) -> Any:
        taken = await self.state.take(call)
        self.count += 1
        return taken if isinstance(taken, Reply) else self.outcomes[self.count % len(self.outcomes)]


def parts(body: dict[str, Any]) -> tuple[list[str], list[str], str]:
    """Return the tools, the transcript and all else of a request, serialized."""
    inner = body.get("config", body)
    tools = inner.get("tools", [])
    tools = tools[0]["functionDeclarations"] if "config" in body and tools else tools
    member = next(name for name in ("messages", "input", "contents") if name in body)
    rest = {key: value for key, value in body.items() if key not in (member, "tools", "config")}
    rest["config"] = {key: value for key, value in inner.items() if "config" in body and key != "tools"}
    return [json.dumps(one) for one in tools], [json.dumps(one) for one in body[member]], json.dumps(rest)


def visible(provider: str, body: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Return name, description and arguments of the tools that a model sees; not of those only described in words."""
    match provider:
        case "ChatCompletions":
            tools = [tool["function"] for tool in body.get("tools", [])]
        case "Gemini":
            tools = [one for tool in body["config"].get("tools", []) for one in tool["functionDeclarations"]]
        case "AnthropicMessages":
            tools = body.get("tools", [])
        case _:
            every = [*body.get("tools", []), *(tool for item in body["input"] for tool in item.get("tools", []))]
            tools = [tool for tool in every if tool["type"] == "function"]
    schemas = [
        next(tool[key] for key in ("parameters", "input_schema", "parametersJsonSchema") if key in tool)
        for tool in tools
    ]
    return [
        (tool["name"], tool["description"], list(schema["properties"]))
        for tool, schema in zip(tools, schemas, strict=True)
    ]


@pytest.mark.rotating
@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(catalogs, st.lists(results, min_size=1, max_size=4), st.lists(actions, min_size=1, max_size=8))
@example(
    {"alpha": [], "beta": [], "gamma": [("find", {"type": "object"})]},
    [CallToolResult(content=[])],
    [("answer", [("search", {"query": "find"})]), ("compact", 1), ("drop", 1)],
)
def test_the_provider_accepts_every_request_and_earlier_content_is_kept(
    name: str, catalog: Any, outcomes: list[CallToolResult], played: list[tuple[str, Any]]
):
    async def play() -> None:
        game = Play(VARIANTS[name], catalog, outcomes)
        await game.turn()
        for kind, what in played:
            await game.step(kind, what)
        game.request()

    anyio.run(play)
