"""What a search may cost: a number of tokens that the host sets, or no more than listing would have cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool
from tools_search_client import (
    Conversation,
    Definition,
    FoundTool,
    ListedSource,
    Reply,
    ToolCall,
    ToolDiscovery,
    load_configuration,
)
from tools_search_client.conversation.messages import estimate_tokens
from tools_search_client.providers import ChatCompletions

pytestmark = pytest.mark.anyio

WORDS = ("invoice", "customer", "shipment", "refund", "weather", "calendar", "branch", "ticket")


def tool(number: int, words: Sequence[str], length: int = 0) -> Tool:
    """Return a tool about some words, whose definition is about so many characters longer than it has to be."""
    described = {"type": "string", "description": "x " * (length // 2)}
    schema = {"type": "object", "properties": {"of": described}}
    return Tool(name=f"{'_'.join(words)}_{number}", description=f"Change {' and '.join(words)}.", input_schema=schema)


def cost_of(tools: Sequence[Tool]) -> int:
    return sum(estimate_tokens(Definition.of(FoundTool(f"s__{tool.name}", "s", tool)).serialized()) for tool in tools)


def about_invoices(*lengths: int) -> list[Tool]:
    return [tool(number, ["invoice"], length) for number, length in enumerate(lengths)]


async def talk(tools: Sequence[Tool], **discovery: Any) -> Conversation:
    stated: dict[str, Any] = {"enabled": True, "defer_all": True, **discovery}
    chosen = ToolDiscovery(**stated)
    conversation = Conversation(ListedSource.of({"s": tools}), chosen)
    await conversation.begin_turn()
    return conversation


async def search(conversation: Conversation, **arguments: Any) -> Reply:
    reply = await conversation.take(ToolCall("search_tools", arguments))
    assert isinstance(reply, Reply)
    return reply


async def test_a_search_loads_what_fits_best_first_and_names_what_it_leaves_out():
    tools = about_invoices(400, 400, 4_000, 400, 400)
    conversation = await talk(tools, max_search_tokens=500)
    plain = await search(await talk(tools, max_search_tokens=100_000), query="change an invoice")
    reply = await search(conversation, query="change an invoice")
    small = [name for name in plain.loaded if name != "s__invoice_2"]
    assert list(reply.loaded) == small[:3]
    left_out = ", ".join(name for name in plain.loaded if name not in reply.loaded)
    assert f"Not loaded, because that would cost too much: {left_out}." in reply.text
    assert "tool_names" in reply.text
    assert reply.remarks is not None
    assert "s__invoice_2" in reply.remarks
    sent = sum(estimate_tokens(conversation.definition(name).serialized()) for name in reply.loaded)  # pyright: ignore
    assert sent <= 500


async def test_what_was_left_out_can_be_loaded_by_its_name():
    conversation = await talk(about_invoices(4_000, 400), max_search_tokens=300)
    assert "s__invoice_0" not in (await search(conversation, query="change an invoice")).loaded
    assert (await search(conversation, tool_names=["invoice_0"])).loaded == ("s__invoice_0",)


async def test_a_whole_server_is_loaded_as_far_as_it_fits():
    conversation = await talk(about_invoices(400, 400, 400), max_search_tokens=320)
    assert (await search(conversation, server_name="s")).loaded == ("s__invoice_0", "s__invoice_1")
    assert len((await search(await talk(about_invoices(400, 400, 400)), server_name="s")).loaded) == 3


async def test_a_search_before_the_models_turn_stays_within_the_budget():
    source = ListedSource.of({"s": about_invoices(400, 400, 400)})

    async def delegate(text: str) -> list[str]:
        return ["change an invoice"]

    chosen = ToolDiscovery(enabled=True, defer_all=True, max_search_tokens=320)
    conversation = Conversation(source, chosen, delegate=delegate)
    assert len((await conversation.begin_turn("bill somebody")).loaded) == 2
    assert json.loads(conversation.save())["searches"] == 1


@pytest.mark.parametrize("stated", [0, -1, 1.5, "many", True])
def test_the_budget_of_the_file_is_a_whole_number(
    write_configuration: Callable[[dict[str, object]], Path], stated: object
):
    path = write_configuration({"s": {"command": "true"}})
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"tool_discovery": {"enabled": True, "max_search_tokens": 900}}))
    assert load_configuration(path).tool_discovery.max_search_tokens == 900
    path.write_text(json.dumps(document | {"tool_discovery": {"enabled": True, "max_search_tokens": stated}}))
    with pytest.raises(Exception, match="`max_search_tokens` must be a whole number of at least 1"):
        load_configuration(path)


async def five_searches(tools: Sequence[Tool], queries: Sequence[str], *, natively: bool, auto: bool) -> list[int]:
    """Return what the model has read before its first search and after each: definitions, calls and answers."""
    conversation = await talk(tools, auto=auto, defer_all=not auto)
    if natively:
        ChatCompletions(conversation, "some")
    costs: list[int] = []
    texts = 0
    for query in ("", *queries):
        if query and conversation.search_name:
            texts += estimate_tokens(json.dumps({"query": query}))
            texts += estimate_tokens((await search(conversation, query=query)).text)
        costs.append(sum(estimate_tokens(tool.serialized()) for tool in conversation.offer().tools) + texts)
    return costs


@settings(deadline=None, max_examples=60)
@given(
    made=st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True), st.integers(280, 2_000)),
        min_size=10,
        max_size=25,
    ),
    queries=st.lists(st.sampled_from(WORDS), min_size=5, max_size=5),
    natively=st.booleans(),
)
def test_the_first_five_searches_of_a_small_catalog_never_cost_more_than_listing_it(
    made: list[tuple[list[str], int]], queries: list[str], natively: bool
):
    tools = [tool(number, words, length) for number, (words, length) in enumerate(made)]
    costs = anyio.run(lambda: five_searches(tools, queries, natively=natively, auto=False))
    assert max(costs) <= cost_of(tools)


@settings(deadline=None, max_examples=30)
@given(
    made=st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 2_000)), min_size=1, max_size=40),
    queries=st.lists(st.sampled_from(WORDS), min_size=5, max_size=5),
)
def test_the_automatic_mode_never_costs_more_than_listing_however_small_the_catalog_is(
    made: list[tuple[str, int]], queries: list[str]
):
    tools = [tool(number, [word], length) for number, (word, length) in enumerate(made)]
    costs = anyio.run(lambda: five_searches(tools, queries, natively=True, auto=True))
    assert max(costs) <= cost_of(tools)


async def test_the_best_tool_is_loaded_although_it_is_as_large_as_several_others():
    tools = [tool(0, ["invoice"], 2_500), *(tool(number, [WORDS[number % 7 + 1]], 600) for number in range(1, 15))]
    assert (await search(await talk(tools), query="invoice")).loaded == ("s__invoice_0",)


@pytest.mark.parametrize(("number", "length"), [(12, 160), (14, 120), (17, 60)])
async def test_the_first_search_of_a_small_catalog_loads_its_best_tool(number: int, length: int):
    conversation = await talk(about_invoices(*[length] * number))
    assert (await search(conversation, query="change an invoice")).loaded == ("s__invoice_0",)


async def test_where_the_definition_is_sent_anyway_an_answer_has_one_sentence_for_each_tool():
    made = tool(0, ["invoice"])
    made.description = "Change an invoice. It must not be paid.\n\nSee also the manual."
    conversation = await talk([made, tool(1, ["weather"])])
    ChatCompletions(conversation, "some")
    reply = await search(conversation, query="invoice")
    assert reply.text == (
        "Found 1 tool:\n- s__invoice_0: Change an invoice.\n\nThis tool is now loaded and available to call."
    )
    again = await search(conversation, query="invoice invoice")
    assert again.text == (
        "Found 1 tool.\n\nAlready loaded: s__invoice_0. Call what fits directly, without searching for it again."
    )
    assert "Parameters: of (string)" in (await search(conversation, query="weather", detail="brief")).text
