"""Transcripts that are saved, and go on elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types import CallToolResult, TextContent, Tool
from tools_search_client import (
    Conversation,
    Forward,
    ListedSource,
    LocalError,
    Reply,
    SavedConversationError,
    ToolDiscovery,
)
from tools_search_client.providers import (
    Adapter,
    AnthropicMessages,
    Attachment,
    ChatCompletions,
    Gemini,
    OpenAIResponses,
)
from tools_search_hosts.json_values import is_list, is_object

from .endpoint import RENDERERS, Step
from .rules import RULES
from .sdk_types import check
from .test_properties import VARIANTS, Lullaby, Play, Watched, actions, catalogs, results

pytestmark = pytest.mark.anyio


class SavedPlay(Play):
    """The same, but before each step it is saved, and goes on in another conversation and another adapter."""

    async def restored(self, text: str) -> Adapter:
        state = Watched(self.source, ToolDiscovery(enabled=True), synthetic_tools=[Lullaby()])
        adapter = self.variant.kind(state, "a-model", system="Be brief.", **self.variant.options)
        await adapter.restore(text, toolset=self.toolset)
        self.restored_state = state
        return adapter

    async def step(self, kind: str, what: Any) -> None:
        text, prefix = self.adapter.save(), self.state.prefix
        other = await self.restored(text)
        if not json.loads(text)["conversation"]["gone"]:
            assert json.loads(other.save()) | {"conversation": None} == json.loads(text) | {"conversation": None}
            assert other.request() == self.adapter.request()
        self.adapter = await self.restored(text)
        self.state = self.restored_state
        self.state.prefix = prefix
        await super().step(kind, what)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield everything in a JSON value, as what holds it and where."""
    keys: list[Any] = [*value] if is_object(value) else [*range(len(value))] if is_list(value) else []
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.rotating
@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(catalogs, st.lists(results, min_size=1, max_size=4), st.lists(actions, min_size=1, max_size=6))
def test_a_transcript_that_was_saved_goes_on_as_one_that_was_not(
    name: str, catalog: Any, outcomes: Sequence[CallToolResult], played: list[tuple[str, Any]]
):
    async def play() -> None:
        game = SavedPlay(VARIANTS[name], catalog, list(outcomes))
        await game.turn()
        for kind, what in played:
            await game.step(kind, what)
        game.request()

    anyio.run(play)


KINDS: list[Any] = [ChatCompletions, AnthropicMessages, OpenAIResponses, Gemini]
FORMS = [(kind, by_call_tool) for kind in KINDS for by_call_tool in (False, True)]
SHOP = [
    Tool(name="find_order", description="Find an order", input_schema={"type": "object", "required": []}),
    Tool(name="delete_order", description="Delete an order", input_schema={"type": "object"}),
]


class Talk:
    """A user, a model that follows instructions, and a shop."""

    def __init__(self, kind: Any, *, call_tool: bool = False, shop: Sequence[Tool] = SHOP) -> None:
        source = ListedSource.of({"shop": shop}, deferred={"shop"})
        self.conversation = Conversation(source, ToolDiscovery(enabled=True, max_search_results=1))
        self.adapter: Adapter = kind(self.conversation, "a-model", call_tool=call_tool)
        self.kind = kind.__name__
        self.count = 0

    async def turn(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Let the user say something, and the model make these calls one after the other."""
        if self.count == 0:
            await self.conversation.begin_turn()
        self.adapter.say(f"Go {self.count}.")
        for call in (*calls, None):
            body = self.adapter.request()
            assert RULES[self.kind](body) == []
            check(self.kind, body)
            self.count += 1
            own = any(tool.get("type") == "tool_search" for tool in body.get("tools", []))
            made = [] if call is None else [("tool_search" if own and call[0] == "search_tools" else call[0], call[1])]
            answer = RENDERERS[self.kind](Step("Well.", calls=made), self.count, body)
            for choice in answer.get("choices", []):
                del choice["message"]["reasoning_content"]
            for call in self.adapter.read(answer).calls:
                step = await self.conversation.take(call)
                done = CallToolResult(content=[TextContent(type="text", text="Done.")])
                self.adapter.answer(call, step if isinstance(step, Reply) else done)

    async def search(self, name: str) -> None:
        await self.turn(("search_tools", {"tool_names": [name]}))


async def test_a_second_process_sends_the_request_that_the_first_would_have_sent():
    saved: list[list[Any]] = []
    requests: list[Any] = []
    for kind, call_tool in FORMS:
        talk = Talk(kind, call_tool=call_tool)
        await talk.search("find_order")
        saved.append([kind.__name__, call_tool, talk.adapter.save()])
        talk.adapter.say("And on.")
        requests.append(talk.adapter.request())
    program = Path(__file__).with_name("go_on.py")
    with anyio.fail_after(60):
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_unset=True) for tool in SHOP]
        done = await anyio.run_process(
            [sys.executable, str(program)], input=json.dumps({"tools": tools, "saved": saved}).encode()
        )
    assert done.stdout.decode().splitlines() == [json.dumps(request) for request in requests]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_transcript_that_was_saved_while_calls_are_open_goes_on_with_them(kind: Any):
    talk = Talk(kind)
    await talk.conversation.begin_turn()
    talk.adapter.say("Find them.")
    body = talk.adapter.request()
    own = any(tool.get("type") == "tool_search" for tool in body.get("tools", []))
    search: tuple[str, dict[str, Any]] = ("tool_search" if own else "search_tools", {"query": "find an order"})
    answer = RENDERERS[talk.kind](Step("Well.", calls=[search, search]), 0, body)
    for choice in answer.get("choices", []):
        del choice["message"]["reasoning_content"]
    first, second = talk.adapter.read(answer).calls
    reply = await talk.conversation.take(first)
    assert isinstance(reply, Reply)
    talk.adapter.answer(first, reply)
    again = Talk(kind)
    await again.adapter.restore(talk.adapter.save())
    assert again.adapter.open_calls == talk.adapter.open_calls == (second,)
    for one in (talk, again):
        one.adapter.cancel()
    assert again.adapter.request() == talk.adapter.request()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", ["before the response", "in the response"])
async def test_a_call_of_a_tool_that_the_same_response_brings_back_keeps_its_arguments_names(kind: Any, moment: str):
    schema = {"type": "object", "properties": {"order id": {"type": "integer"}}}
    shop = [Tool(name="find_order", description="Find an order", input_schema=schema)]
    talk, again = Talk(kind, shop=shop), Talk(kind, shop=shop)
    await talk.search("find_order")
    talk.conversation.start_over()
    talk.adapter.say("Find it again.")
    body = talk.adapter.request()
    if moment == "before the response":
        await again.adapter.restore(talk.adapter.save())
        talk = again
    own = any(tool.get("type") == "tool_search" for tool in body.get("tools", []))
    search = ("tool_search" if own else "search_tools", {"tool_names": ["find_order"]})
    answer = RENDERERS[talk.kind](Step("Well.", calls=[search, ("shop__find_order", {"order_id": 7})]), 9, body)
    for choice in answer.get("choices", []):
        del choice["message"]["reasoning_content"]
    talk.adapter.read(answer)
    if moment == "in the response":
        await again.adapter.restore(talk.adapter.save())
    found, called = again.adapter.open_calls
    await again.conversation.take(found)
    step = await again.conversation.take(called)
    assert isinstance(step, Forward)
    assert step.call.arguments == {"order id": 7}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_during_which_the_process_ended_is_answered_as_unknown_after_a_restart(kind: Any):
    talk = Talk(kind)
    await talk.search("find_order")
    talk.adapter.say("Find it twice.")
    body = talk.adapter.request()
    call: tuple[str, dict[str, Any]] = ("shop__find_order", {})
    answer = RENDERERS[talk.kind](Step("Well.", calls=[call, call]), talk.count, body)
    for choice in answer.get("choices", []):
        del choice["message"]["reasoning_content"]
    started = talk.adapter.read(answer).calls[0]
    assert isinstance(await talk.conversation.take(started), Forward)
    again = Talk(kind)
    await again.adapter.restore(talk.adapter.save())
    unknown, other = again.adapter.open_calls
    assert unknown.id == started.id != other.id
    again.adapter.answer(unknown, again.conversation.interrupted(unknown))
    assert isinstance(await again.conversation.take(other), Forward)
    again.adapter.answer(other, CallToolResult(content=[TextContent(type="text", text="Done.")]))
    body = again.adapter.request()
    assert RULES[again.kind](body) == []
    assert "whether it had its effect is unknown" in json.dumps(body)


@pytest.mark.parametrize(("kind", "call_tool"), FORMS)
async def test_compaction_keeps_what_is_still_referred_to_and_says_what_it_freed(kind: Any, call_tool: bool):
    talk = Talk(kind, call_tool=call_tool)
    await talk.search("delete_order")
    await talk.search("find_order")
    freed = talk.adapter.compact(1)
    assert freed.forgotten == ("shop__delete_order",)
    assert freed.freed_tokens > 10
    assert [definition.name for definition in talk.conversation.definitions] == ["search_tools", "shop__find_order"]
    await talk.turn()
    assert "shop__delete_order" not in json.dumps(talk.adapter.transcript)


@pytest.mark.parametrize(("kind", "call_tool"), FORMS)
async def test_a_tool_whose_call_remains_is_defined_again_once_its_search_is_dropped(kind: Any, call_tool: bool):
    talk = Talk(kind, call_tool=call_tool)
    await talk.search("find_order")
    call: tuple[str, dict[str, Any]] = ("shop__find_order", {})
    await talk.turn(("call_tool", {"name": "shop__find_order", "arguments": {}}) if call_tool else call)
    assert talk.adapter.compact(1).forgotten == ()
    talk.adapter.say("And on.")
    body = talk.adapter.request()
    assert RULES[talk.kind](body) == []
    assert "Find an order" in json.dumps(body)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_transcript_with_an_orphan_is_refused_and_one_without_is_taken(kind: Any):
    talk = Talk(kind)
    await talk.search("find_order")
    items = talk.adapter.transcript
    result = next(place for place, item in enumerate(items) if talk.adapter._ids(item)[1])  # pyright: ignore[reportPrivateUsage]
    for broken in (
        items[:result],
        items[result:],
        [*items, {"role": "user"}],
        [*items, {"type": "function_call"}],
        [object()],
    ):
        with pytest.raises(SavedConversationError, match="transcript"):
            talk.adapter.replace_transcript(broken)
        assert talk.adapter.transcript == items
    talk.adapter.replace_transcript(items)
    await talk.turn(("shop__find_order", {}))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_transcript_of_another_adapter_or_with_broken_items_is_refused(kind: Any):
    talk = Talk(kind)
    await talk.search("find_order")
    saved = json.loads(talk.adapter.save())
    for broken in ({"adapter": "Other"}, {"items": [{"role": "user"}]}, {"items": 5}):
        with pytest.raises(SavedConversationError):
            await Talk(kind).adapter.restore(json.dumps(saved | broken))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_saved_transcript_with_a_value_of_another_type_is_refused_or_goes_on(kind: Any):
    talk = Talk(kind)
    await talk.search("find_order")
    saved = json.loads(talk.adapter.save())
    outcomes: set[bool] = set()
    others: list[Any] = [None, 5, "other", [], {}, [None]]
    for holder, key in list(places(saved["items"])):
        right = holder[key]
        for wrong in others:
            holder[key] = wrong
            adapter = Talk(kind).adapter
            try:
                await adapter.restore(json.dumps(saved))
            except SavedConversationError:
                outcomes.add(False)
            else:
                adapter.say("And on.")
                adapter.request()
                adapter.compact(1)
                outcomes.add(True)
        holder[key] = right
    assert outcomes == {False, True}


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_goes_on_with_a_model_of_another_provider(kind: Any, other: Any):
    talk, next_talk = Talk(kind), Talk(other)
    await talk.search("find_order")
    saved = talk.adapter.save()
    if kind is not other:
        with pytest.raises(
            SavedConversationError, match=f"restore it with {kind.__name__}, or pass it to the conversation's `restore`"
        ):
            await next_talk.adapter.restore(saved)
    await next_talk.conversation.restore(saved)
    await next_talk.turn(("shop__find_order", {}))
    assert next_talk.conversation.statistics.calls_by_tool["shop__find_order"] == 1


ACCEPTED = {
    "ChatCompletions": ("image/png", "application/pdf", "audio/wav", "image/png url"),
    "AnthropicMessages": ("image/png", "application/pdf", "text/plain", "image/png url", "application/pdf url"),
    "OpenAIResponses": ("image/png", "application/pdf", "image/png url", "application/pdf url"),
    "Gemini": ("image/png", "application/pdf", "audio/wav", "text/plain", "image/png url", "application/pdf url"),
}


@pytest.mark.parametrize(
    "members", [{}, {"data": b"x", "url": "https://files.example/1"}, {"data": "ZGF0YQ=="}, {"data": b""}]
)
def test_an_attachment_of_nothing_of_both_or_of_text_is_refused_when_it_is_made(members: Any):
    with pytest.raises(LocalError, match="`data`"):
        Attachment("image/png", **members)


@pytest.mark.parametrize("url", ["", "picture.png", "/files/1", "//files.example/1"])
def test_an_attachment_with_a_url_that_no_provider_could_fetch_is_refused_when_it_is_made(url: str):
    with pytest.raises(LocalError, match="`url` must be absolute"):
        Attachment("image/png", url=url)


@pytest.mark.parametrize("kind", KINDS)
async def test_attachments_are_sent_in_the_providers_form_or_refused_with_what_it_takes(kind: Any):
    accepted = ACCEPTED[kind.__name__]
    for form in (*sorted({form for forms in ACCEPTED.values() for form in forms}), "application/zip"):
        mime_type, _, is_url = form.partition(" ")
        attachment = Attachment(mime_type, None if is_url else b"data", "https://files.example/1" if is_url else None)
        talk = Talk(kind)
        await talk.conversation.begin_turn()
        if form not in accepted:
            with pytest.raises(LocalError, match="does not accept"):
                talk.adapter.say("Look.", attachment)
            assert talk.adapter.transcript == []
            continue
        talk.adapter.say("Look.", attachment)
        other = Talk(kind)
        await other.adapter.restore(talk.adapter.save())
        body = other.adapter.request()
        assert body == talk.adapter.request()
        check(talk.kind, body)
        assert ("https://files.example/1" if is_url else "ZGF0YQ==") in json.dumps(body) or mime_type == "text/plain"


@pytest.mark.parametrize("kind", [AnthropicMessages, Gemini])  # whose calls have objects
async def test_a_call_of_any_depth_is_saved_while_it_is_open(kind: Any):
    arguments: dict[str, Any] = {}
    for _ in range(800):
        arguments = {"a": arguments}
    talk, again = Talk(kind), Talk(kind)
    await talk.conversation.begin_turn()
    talk.adapter.say("Go.")
    body = talk.adapter.request()
    talk.adapter.read(RENDERERS[talk.kind](Step("Well.", calls=[("find_order", arguments)]), 1, body))
    await again.adapter.restore(talk.adapter.save())
    assert again.adapter.open_calls == talk.adapter.open_calls
    assert again.adapter.transcript == talk.adapter.transcript
