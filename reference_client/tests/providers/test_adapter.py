"""What providers answer is not trusted: what is no answer changes nothing, what is no call is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)
from tools_search_client import (
    Conversation,
    Forward,
    InvalidAnswerError,
    ListedSource,
    LocalError,
    Reply,
    ToolCall,
    ToolDiscovery,
    result_text,
)
from tools_search_client.providers import (
    Adapter,
    AnthropicMessages,
    Attachment,
    ChatCompletions,
    Gemini,
    OpenAIResponses,
)
from tools_search_client.providers.results import result_parts

from .endpoint import RENDERERS, Step
from .rules import RULES
from .sdk_types import check

KINDS = [ChatCompletions, AnthropicMessages, OpenAIResponses, Gemini]
DELETE = Tool(name="delete_order", description="Delete an order", input_schema={"type": "object"})


async def begun(kind: Any, deferred: set[str] | None = None, **options: Any) -> tuple[Conversation, Adapter]:
    source = ListedSource.of({"shop": [DELETE]}, deferred=deferred or set())
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    adapter = kind(conversation, "a-model", **options)
    await conversation.begin_turn("Go.")
    adapter.say("Go.")
    adapter.request()
    return conversation, adapter


def answer(kind: Any, *calls: tuple[str, Any], stop: str | None = None) -> dict[str, Any]:
    rendered = RENDERERS[kind.__name__](Step("Well.", calls=calls, stop=stop), 0, {"model": "a-model"})
    for choice in rendered.get("choices", []):
        del choice["message"]["reasoning_content"]
    return rendered


def transcript(adapter: Adapter) -> list[dict[str, Any]]:
    body = adapter.request()
    provider = type(adapter).__name__
    assert RULES[provider](body) == []
    check(provider, body)
    return next(body[member] for member in ("messages", "input", "contents") if member in body)


NO_ANSWERS: list[Any] = [
    None,
    [],
    "<html>",
    object(),
    {},
    {"choices": [], "content": 5, "output": {}, "candidates": "none"},
    {"choices": [{"message": 5}], "content": [{}], "output": [5], "candidates": [{"content": {"parts": [7]}}]},
    {"error": {"message": "too many requests"}},
    {"choices": [{"message": {"content": object()}}], "content": [object()], "output": [object()]},
    {"choices": [{"message": {"tool_calls": [{"id": 1}]}}], "candidates": [{"content": {"parts": "x"}}]},
]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", NO_ANSWERS)
async def test_an_invalid_answer_is_refused_and_changes_nothing(kind: Any, wrong: Any):
    _, adapter = await begun(kind)
    before = adapter.request()
    with pytest.raises(InvalidAnswerError):
        adapter.read(wrong)
    assert adapter.request() == before
    assert adapter.read(answer(kind)).text == "Well."


USAGE: list[tuple[Any, dict[str, Any], int, int]] = [
    (ChatCompletions, {"usage": {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980}}, 900, 80),
    (OpenAIResponses, {"usage": {"input_tokens": 900, "output_tokens": 80}}, 900, 80),
    (
        AnthropicMessages,
        {
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 90,
                "cache_creation_input_tokens": 7,
                "output_tokens": 8,
            }
        },
        102,
        8,
    ),
    (
        Gemini,
        {"usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 80, "thoughtsTokenCount": 9}},
        900,
        89,
    ),
    (Gemini, {"usage_metadata": {"prompt_token_count": 900, "candidates_token_count": 80}}, 900, 80),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "usage", "read", "written"), USAGE)
async def test_the_tokens_that_an_answer_states_are_counted(kind: Any, usage: dict[str, Any], read: int, written: int):
    conversation, adapter = await begun(kind)
    for _ in range(2):
        said = adapter.read(answer(kind) | usage)
        assert (said.prompt_tokens, said.completion_tokens) == (read, written)
    counts = conversation.statistics
    assert (counts.prompt_tokens, counts.completion_tokens) == (2 * read, 2 * written)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [None, "9", -9, True, 9.5, {}, []])
async def test_counts_of_tokens_that_are_no_numbers_are_passed_over(kind: Any, count: Any):
    conversation, adapter = await begun(kind)
    members = ("prompt_tokens", "input_tokens", "promptTokenCount", "completion_tokens", "output_tokens")
    usage = dict.fromkeys(members, count)
    adapter.read(answer(kind) | {"usage": usage, "usageMetadata": usage})
    adapter.say("Again.")
    adapter.request()
    adapter.read(answer(kind) | {"usage": count, "usageMetadata": count})
    assert conversation.statistics.total_tokens == 0


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_nested_too_deeply_is_refused(kind: Any):
    _, adapter = await begun(kind)
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidAnswerError, match="nested"):
        adapter.read(answer(kind) | {"usage": deep})
    while deep:  # or its destruction would go as deep
        deep = deep["a"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [ChatCompletions, OpenAIResponses])
@pytest.mark.parametrize(
    "arguments", ['{"a": ', "[1]", '"x"', '{"a": NaN}', "[" * 100_000, '{"a": 1' + "0" * 5_000 + "}"]
)
async def test_arguments_that_are_no_object_are_answered_and_nothing_is_called(kind: Any, arguments: str):
    conversation, adapter = await begun(kind)
    said = adapter.read(answer(kind, ("shop__delete_order", arguments)))
    taken = await conversation.take(said.calls[0])
    assert isinstance(taken, Reply)
    assert taken.is_error
    assert "JSON" in taken.text
    adapter.answer(said.calls[0], taken)
    assert taken.text in json.dumps(transcript(adapter), ensure_ascii=False).replace('\\"', '"')


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "stop"), [(ChatCompletions, "length"), (AnthropicMessages, "max_tokens")])
async def test_a_call_that_was_cut_off_is_never_carried_out(kind: Any, stop: str):
    conversation, adapter = await begun(kind)
    said = adapter.read(answer(kind, ("shop__delete_order", {}), ("shop__delete_order", {}), stop=stop))
    whole, cut = [await conversation.take(call) for call in said.calls]
    assert isinstance(whole, Forward)
    assert isinstance(cut, Reply)
    assert "cut off" in cut.text


@pytest.mark.anyio
async def test_calls_without_an_id_or_with_the_same_one_get_ids():
    conversation, adapter = await begun(ChatCompletions)
    given = answer(ChatCompletions, *[("shop__delete_order", {"number": number}) for number in range(3)])
    for call, key in zip(given["choices"][0]["message"]["tool_calls"], ("x", "x", ""), strict=True):
        call["id"] = key
    said = adapter.read(given)
    assert len({call.id for call in said.calls}) == 3
    for call in reversed(said.calls):
        taken = await conversation.take(call)
        adapter.answer(call, Reply(call, f"number {taken.call.arguments['number']}"))
    assert [message["content"] for message in transcript(adapter)[2:]] == ["number 0", "number 1", "number 2"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_out_of_order_is_the_hosts_mistake(kind: Any):
    conversation = Conversation(ListedSource.of({"shop": [DELETE]}))
    await conversation.begin_turn()
    adapter = kind(conversation, "a-model")
    with pytest.raises(LocalError, match="call `say` first"):
        adapter.request()
    with pytest.raises(LocalError, match="message is empty"):
        adapter.say(" ")
    adapter.say("Go.")
    with pytest.raises(LocalError, match="no request"):
        adapter.read(answer(kind))
    adapter.request()
    said = adapter.read(answer(kind, ("shop__delete_order", {})))
    for step in (adapter.request, lambda: adapter.say("More."), lambda: adapter.read(answer(kind))):
        with pytest.raises(LocalError, match="delete_order"):
            step()
    adapter.answer(said.calls[0], Reply(said.calls[0], "Done."))
    with pytest.raises(LocalError, match="no open call"):
        adapter.answer(said.calls[0], Reply(said.calls[0], "Done."))


@pytest.mark.anyio
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize(("options", "own"), [({}, 0), ({"call_tool": True}, 1)])
async def test_of_more_tools_than_the_provider_takes_the_last_are_found_by_search(
    options: Any, own: int, is_late: bool
):
    many = [Tool(name=f"tool_{number}", input_schema={"type": "object"}) for number in range(129)]
    conversation = Conversation(ListedSource.of({"shop": many}))
    adapter = ChatCompletions(conversation, "a-model", **options)
    begun = await conversation.begin_turn()
    if is_late:  # as where a conversation gets another model
        conversation.limit(None)
        conversation.start_over()
        adapter = ChatCompletions(conversation, "a-model", **options)
    adapter.say("Go.")
    names = [tool["function"]["name"] for tool in adapter.request()["tools"]]
    assert len(names) == 128 - 5
    assert names[-1 - own] == "search_tools"
    assert f"so {129 - 122 + own} more are not loaded until 'search_tools' finds them" in begun.problems[0]
    call = ToolCall("search_tools", {"tool_names": ["tool_128"]})
    assert (await taken_reply(conversation, call)).loaded == ("shop__tool_128",)


@pytest.mark.anyio
async def test_the_end_of_a_long_search_description_stands_at_its_first_parameter():
    wordy = Tool(name="wordy", description="y" * 2_000, input_schema={"type": "object"})
    servers = {f"server_{number}": [DELETE] for number in range(30)}
    source = ListedSource.of({"bar": [wordy], **servers}, deferred=servers)
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    await conversation.begin_turn()
    adapter = ChatCompletions(conversation, "a-model", system="Be brief.")
    adapter.say("Go.")
    body = adapter.request()
    assert [len(tool["function"]["description"]) for tool in body["tools"]] == [1_024, 1_024]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    search = next(tool["function"] for tool in body["tools"] if tool["function"]["name"] == "search_tools")
    query = search["parameters"]["properties"]["query"]["description"]
    rest = query.partition("\nThe rest of what the tool's description says:\n")[2]
    assert conversation.manifest in search["description"].removesuffix("…") + rest
    assert "yyy" not in query


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [{}, {"name": 5}, {"name": "shop__delete_order", "arguments": "{"}])
async def test_a_wrong_call_by_call_tool_is_answered(kind: Any, wrong: dict[str, Any]):
    conversation, adapter = await begun(kind, {"shop"}, call_tool=True)
    said = adapter.read(answer(kind, ("call_tool", wrong)))
    taken = await conversation.take(said.calls[0])
    assert isinstance(taken, Reply)
    assert taken.is_error


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_with_call_tool_a_host_sees_the_inner_tool(kind: Any):
    conversation, adapter = await begun(kind, {"shop"}, call_tool=True)
    said = adapter.read(answer(kind, ("search_tools", {"tool_names": ["delete_order"]})))
    taken = await conversation.take(said.calls[0])
    assert isinstance(taken, Reply)
    adapter.answer(said.calls[0], taken)
    assert '\\"parameters\\"' in json.dumps(transcript(adapter))
    said = adapter.read(answer(kind, ("call_tool", {"name": "shop__delete_order", "arguments": '{"number": 1}'})))
    taken = await conversation.take(said.calls[0])
    assert isinstance(taken, Forward)
    assert taken.definition.annotations == DELETE.annotations
    assert taken.call.arguments == {"number": 1}


@pytest.mark.anyio
async def test_in_messages_a_found_tool_is_deferred_and_referred_to_where_it_was_found():
    conversation, adapter = await begun(AnthropicMessages, {"shop"})
    said = adapter.read(answer(AnthropicMessages, ("search_tools", {"tool_names": ["delete_order", "other"]})))
    adapter.answer(said.calls[0], await taken_reply(conversation, said.calls[0]))
    result, beside = transcript(adapter)[-1]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "shop__delete_order"}]
    assert beside["text"] == "Not found: 1 of the names that were asked for."
    assert [tool.get("defer_loading") for tool in adapter.request()["tools"]] == [None, True]


@pytest.mark.anyio
async def test_in_responses_a_found_tool_stands_in_the_output_of_the_search():
    conversation, adapter = await begun(OpenAIResponses, {"shop"})
    assert [tool["type"] for tool in adapter.request()["tools"]] == ["tool_search"]
    said = adapter.read(answer(OpenAIResponses, ("tool_search", {"tool_names": ["delete_order"]})))
    assert said.calls[0].name == "search_tools"
    adapter.answer(said.calls[0], await taken_reply(conversation, said.calls[0]))
    output = transcript(adapter)[-1]
    assert (output["type"], output["execution"], output["call_id"]) == ("tool_search_output", "client", "call_0_0")
    assert [(tool["name"], tool["defer_loading"]) for tool in output["tools"]] == [("shop__delete_order", True)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "options", "place"),
    [
        (OpenAIResponses, {}, ("additional_tools", "tools", "name")),
        (AnthropicMessages, {"tool_changes": True}, ("system", "content", "tool")),
    ],
)
async def test_tools_found_before_a_turn_are_added_in_place(kind: Any, options: Any, place: Any):
    source = ListedSource.of({"shop": [DELETE], "bar": [DELETE]}, deferred={"shop"})

    async def delegate(text: str) -> list[str]:
        return ["shop__delete_order"] if "delete" in text else []

    conversation = Conversation(source, ToolDiscovery(enabled=True), delegate=delegate)
    adapter = kind(conversation, "a-model", **options)
    await conversation.begin_turn("Hello.")
    adapter.say("Hello.")
    before = adapter.request()["tools"]
    adapter.read(answer(kind))
    await conversation.begin_turn("delete it")
    adapter.say("delete it")
    added = transcript(adapter)[-1]
    kind_of, member, inner = place
    assert kind_of in (added.get("type"), added.get("role"))
    assert "shop__delete_order" in json.dumps(added[member][0][inner])
    assert [tool for tool in adapter.request()["tools"] if not tool.get("defer_loading")] == before


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_notices_of_a_dropped_turn_are_repeated(kind: Any):
    source = ListedSource.of({"shop": [DELETE], "bar": [DELETE]})
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    adapter = kind(conversation, "a-model")
    await conversation.begin_turn()
    adapter.say("Hello.")
    adapter.request()
    adapter.read(answer(kind))
    source.offers = ListedSource.of({"shop": [DELETE], "bar": []}).offers
    await conversation.begin_turn()
    for text in ("Go on.", "Or rather."):
        adapter.say(text)
        assert json.dumps(transcript(adapter)).count("no longer offered") == 1
        adapter.drop_turn()
    assert "no longer" not in json.dumps(transcript(adapter)[:-1])


@pytest.mark.anyio
@pytest.mark.parametrize("kind", KINDS)
async def test_only_the_last_of_two_messages_in_a_row_is_dropped(kind: Any):
    _, adapter = await begun(kind)
    adapter.read(answer(kind))
    adapter.say("First.")
    adapter.say("Second.")
    adapter.drop_turn()
    assert [text in json.dumps(transcript(adapter)) for text in ("First.", "Second.")] == [True, False]
    adapter.say("Third.")
    adapter.compact(keep_turns=2)
    assert [text in json.dumps(transcript(adapter)) for text in ("Go.", "First.", "Third.")] == [False, True, True]


@pytest.mark.anyio
@pytest.mark.parametrize("call_tool", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_dropping_a_turn_after_another_leaves_what_dropping_the_earlier_one_alone_does(
    kind: Any, call_tool: bool
):
    bodies: list[dict[str, Any]] = []
    for is_followed in (False, True):
        source = ListedSource.of({"shop": [DELETE], "bar": [DELETE]}, deferred={"shop"})
        conversation = Conversation(source, ToolDiscovery(enabled=True))
        adapter = kind(conversation, "a-model", call_tool=call_tool)
        await conversation.begin_turn()
        adapter.say("Hello.")
        adapter.request()
        adapter.read(answer(kind))
        source.offers = ListedSource.of({"shop": [DELETE], "bar": []}, deferred={"shop"}).offers
        await conversation.begin_turn()
        adapter.say("Delete it.")  # a turn with a notice and with a found tool
        body = json.dumps(adapter.request())
        search = "tool_search" if '"tool_search"' in body else "search_tools"
        (call,) = adapter.read(answer(kind, (search, {"query": "delete"}))).calls
        adapter.answer(call, await taken_reply(conversation, call))
        assert "no longer offered" in json.dumps(transcript(adapter))
        adapter.read(answer(kind))
        if is_followed:
            adapter.say("Thanks.")
            adapter.request()
            adapter.read(answer(kind))
        restored = kind(Conversation(source, ToolDiscovery(enabled=True)), "a-model", call_tool=call_tool)
        await restored.restore(adapter.save())
        if is_followed:
            restored.drop_turn()
        restored.drop_turn()
        restored.say("Or rather.")
        transcript(restored)
        bodies.append(restored.request())
    assert bodies[0] == bodies[1]
    assert "no longer offered" in json.dumps(bodies)


@pytest.mark.anyio
async def test_texts_of_the_user_that_no_answer_separates_are_sent_as_one_message():
    _, adapter = await begun(ChatCompletions)
    adapter.say("Stop.")  # after a request that the provider failed to answer
    assert transcript(adapter) == [{"role": "user", "content": "Go.\n\nStop."}]
    adapter.say("See.", Attachment("image/png", b"a picture"))
    (message,) = transcript(adapter)
    assert [part.get("text") for part in message["content"]] == ["Go.\n\nStop.", "See.", None]


async def taken_reply(conversation: Conversation, call: ToolCall) -> Reply:
    taken = await conversation.take(call)
    assert isinstance(taken, Reply)
    return taken


EVERYTHING = CallToolResult(
    content=[
        TextContent(type="text", text="first"),
        ImageContent(type="image", data="aGk=", mime_type="image/png"),
        AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
        ImageContent(type="image", data="!!", mime_type="image/png"),
        ResourceLink(type="resource_link", name="A file", uri="file:///a"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///b", text="inside")),
        EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri="c", blob="aGk=", mime_type="application/pdf")
        ),
    ],
    is_error=True,
)
IN_WORDS = [
    "first",
    "[image of type image/png, 2 bytes, not shown]",
    "[audio of type audio/wav, 2 bytes, not shown]",
    "[image of type image/png that could not be decoded]",
    "[resource A file: file:///a]",
    "[resource file:///b]\ninside",
    "[resource c of type application/pdf, 2 bytes, not shown]",
]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "options", "shown"),
    [
        (ChatCompletions, {}, []),
        (ChatCompletions, {"reads": ["audio", "image"]}, [1, 2]),
        (AnthropicMessages, {}, [1, 6]),
        (OpenAIResponses, {}, [1, 6]),
        (Gemini, {}, [1, 6]),
        (Gemini, {"reads_media": False}, []),
    ],
)
async def test_media_that_a_provider_can_show_is_shown_and_the_rest_described(
    kind: Any, options: Any, shown: list[int]
):
    _, adapter = await begun(kind, **options)
    said = adapter.read(answer(kind, ("shop__delete_order", {})))
    adapter.answer(said.calls[0], EVERYTHING)
    sent = json.dumps(transcript(adapter)[2:])
    assert sent.count("aGk=") == len(shown)
    told = [json.dumps(text)[1:-1] in sent for place, text in enumerate(IN_WORDS) if place not in shown]
    assert all(told)
    assert '"is_error": true' in sent or "Error" in sent or '"error"' in sent


def test_a_host_without_an_adapter_sends_the_same_text():
    assert result_text(EVERYTHING) == "Error: " + "\n".join(IN_WORDS)
    assert result_text(CallToolResult(content=[], structured_content={"sum": 5})) == '{"sum":5}'


@pytest.mark.anyio
async def test_a_megabyte_of_text_is_cut():
    _, adapter = await begun(AnthropicMessages)
    said = adapter.read(answer(AnthropicMessages, ("shop__delete_order", {})))
    adapter.answer(said.calls[0], CallToolResult(content=[TextContent(type="text", text="x" * 1_000_000)] * 2))
    (only,) = transcript(adapter)[-1]["content"][0]["content"]
    assert only["text"].endswith("xxx\n[cut: 1,900,000 more characters; ask for less at once]")


PICTURE = ImageContent(type="image", data="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    "block",
    [
        TextContent(type="text", text="a short text"),
        ResourceLink(type="resource_link", name="n", uri="x:y"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="x:y", text="")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="x:y", blob="")),
        PICTURE.model_copy(update={"data": "?"}),
    ],
    ids=["texts", "links", "empty texts", "empty files", "no pictures"],
)
def test_a_result_of_very_many_parts_is_cut_with_one_note_and_shows_a_picture_all_the_same(block: Any):
    parts = result_parts(CallToolResult(content=[PICTURE, *[block] * 20_000]))
    words = [part for part in parts if isinstance(part, str)]
    assert len(parts) > len(words)
    assert sum(map(len, words)) < 101_000
    assert sum(part.count("cut:") + part.count("left out") for part in words) == 1
