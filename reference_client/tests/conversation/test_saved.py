"""Conversations that are saved, and go on elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp_types import Tool
from tools_search_client import (
    Catalog,
    Conversation,
    Failure,
    Forward,
    FoundTool,
    ListedSource,
    LocalError,
    Reply,
    SavedConversation,
    SavedConversationError,
    ServerOffer,
    SourceAnswer,
    ToolCall,
    ToolDiscovery,
    TurnStart,
)
from tools_search_client.conversation.saved import MAX_SAVED_BYTES
from tools_search_hosts.toolsets import Rule, Toolset

from .conftest import SERVERS, Start, Talk
from .test_properties import Play, catalogs, deferred, discoveries, steps

pytestmark = pytest.mark.anyio


class SavedPlay(Play):
    """A conversation, and one that is saved and restored before each step: both are to do the same."""

    async def step(self, kind: str, what: Any) -> None:
        other = Conversation(self.source, self.discovery)
        text = self.state.save()
        sent = [definition.name for definition in self.state.definitions]
        await other.restore(text, toolset=self.toolset)
        gone = set(json.loads(text)["gone"])
        failing = {server.name for server in self.source.offers if server.failure}
        # While a server fails, nobody knows how many tools there are, and tools that are gone make room for others.
        if not (failing or gone) or (self.discovery.max_tools is None and not self.discovery.auto):
            assert [definition.name for definition in other.definitions] == [name for name in sent if name not in gone]
            assert gone or failing or known(other.save()) == known(text)
        self.change(kind, what)
        answers = [await self.played(conversation, kind, what) for conversation in (self.state, other)]
        if not gone and not failing:
            assert answers[0] == answers[1]
            assert self.state.offer() == other.offer()

    async def played(self, conversation: Conversation, kind: str, what: Any) -> object:
        match kind:
            case "search":
                return await conversation.take(ToolCall("search_tools", what))
            case "call":
                return await conversation.take(ToolCall(what))
            case "toolset":
                return await conversation.begin_turn("read a page", toolset=what)
            case "start over":
                return conversation.start_over()
            case _:
                return await conversation.refresh()


def known(text: str) -> dict[str, Any]:
    """Return what was saved, but for the server's side of each tool, which is always what is offered now."""
    return json.loads(text) | {"definitions": [], "discovered": [], "unconfirmed": []}


READ: dict[str, Any] = {"alpha": [], "beta": [("read", None)], "gamma": []}
REDEFINED: Any = ("servers change", READ | {"beta": [("read", "read")]})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(catalogs, deferred, discoveries, st.lists(steps, max_size=8))
@example(
    READ,
    set(),
    ToolDiscovery(enabled=True, auto=True, context_window=100, max_search_results=1),
    [("search", {"query": "read"}), REDEFINED, ("search", {})],
)
@example(
    {"alpha": [("read", None)], "beta": [], "gamma": []},
    set(),
    ToolDiscovery(enabled=True, context_window=100, max_search_results=1),
    [("servers change", {"alpha": [], "beta": [], "gamma": []}), ("a server fails", "alpha"), ("search", {})],
)
def test_a_conversation_that_was_saved_does_and_sends_the_same_as_one_that_was_not(
    catalog: Any, deferred: set[str], discovery: ToolDiscovery, played: list[tuple[str, Any]]
):
    async def play() -> None:
        game = SavedPlay(catalog, deferred, discovery)
        await game.state.begin_turn("read a page")
        for kind, what in played:
            await game.step(kind, what)

    anyio.run(play)


async def restored(begun: Talk, text: str | SavedConversation, **options: Any) -> tuple[Talk, TurnStart]:
    """Return a new conversation over the same servers that goes on with what was saved."""
    again = Talk({}, begun.deferred, **options)
    again.source.offers = begun.source.offers
    return again, await again.state.restore(text)


REFUSED: list[tuple[Callable[[dict[str, Any]], str], str]] = [
    (lambda _: "{", "not JSON"),
    (lambda _: "[" * 100_000, "not JSON"),
    (lambda _: "[]", "valid dictionary"),
    (lambda saved: json.dumps(saved | {"format": "other"}), "format"),
    (lambda saved: json.dumps(saved | {"version": 1}), "`version`: Value error, this program reads 2"),
    (lambda saved: json.dumps(saved | {"more": 1}), "`more`"),
    (lambda saved: json.dumps(saved | {"prefix": -1}), "`prefix`"),
    (lambda saved: json.dumps(saved | {"definitions": [{"name": "x"}]}), "`definitions.0"),
    (lambda saved: json.dumps(saved | {"search_name": "files__read_file"}), "`search_name`"),
    (lambda saved: json.dumps(saved) + " " * MAX_SAVED_BYTES, "more than"),
]


@pytest.mark.parametrize(("changed", "expected"), REFUSED)
async def test_a_text_that_cannot_be_used_is_refused_with_its_fault_and_changes_nothing(
    start: Start, changed: Callable[[Any], str], expected: str
):
    talk = start()
    await talk.state.begin_turn()
    text = changed(json.loads(talk.state.save()))
    fresh = start()
    before = fresh.state.save()
    with pytest.raises(SavedConversationError, match=expected):
        await fresh.state.restore(text)
    assert fresh.state.save() == before
    await fresh.state.restore(talk.state.save())


class Searched(ListedSource):
    """One server that is searched and never listed, and answers when it may."""

    def __init__(self, *tools: Tool) -> None:
        super().__init__([ServerOffer("shop", None, defer_loading=True)])
        self.tools = {f"shop__{tool.name}": FoundTool(f"shop__{tool.name}", "shop", tool) for tool in tools}
        self.may_answer = anyio.Event()
        self.failed: dict[str, Failure] = {}

    async def survey(self, toolset: Toolset, /) -> Catalog:
        return Catalog(self.offers)

    async def search(self, query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        return SourceAnswer(tuple(self.tools.values())[:limit])

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        await self.may_answer.wait()
        return SourceAnswer(tuple(tool for tool in self.tools.values() if tool.name == name), failed=self.failed)


def order(description: str) -> Tool:
    return Tool(name="find_order", description=description, input_schema={"type": "object"})


async def begun_at(source: Searched) -> Conversation:
    """Return a conversation that has found the tool of that server."""
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    await conversation.begin_turn()
    await conversation.take(ToolCall("search_tools", {"query": "order"}))
    conversation.offer()
    return conversation


async def test_a_restoring_that_is_given_up_changes_nothing():
    source = Searched(order("Find an order"))
    saved = (await begun_at(source)).save()
    fresh = Conversation(source, ToolDiscovery(enabled=True))
    before = fresh.save()
    with anyio.move_on_after(0.01) as waiting:
        await fresh.restore(saved)
    assert waiting.cancelled_caught
    assert fresh.save() == before
    assert not fresh.definitions
    source.may_answer.set()
    await fresh.restore(saved)
    assert isinstance(await fresh.take(ToolCall("shop__find_order")), Forward)


async def test_a_tool_of_a_searched_server_that_changed_meanwhile_is_reported_to_user_and_model():
    source = Searched(order("Find an order"))
    source.may_answer.set()
    begun = await begun_at(source)
    source.tools["shop__find_order"] = replace(source.tools["shop__find_order"], item=order("Find and cancel an order"))
    again = Conversation(source, ToolDiscovery(enabled=True))
    started = await again.restore(begun.save())
    assert started.changed == ("shop__find_order",)
    assert [definition.serialized() for definition in again.definitions] == [
        definition.serialized() for definition in begun.definitions
    ]
    (notice,) = again.offer().notices
    assert notice.startswith("The definitions of these tools have changed since you were given them: shop__find_order.")


async def test_changed_tools_are_reported_in_list_order_whichever_was_used_last():
    source = Searched(
        order("Find an order"), Tool(name="cancel", description="Cancel", input_schema={"type": "object"})
    )
    source.may_answer.set()
    begun = await begun_at(source)
    await begun.take(ToolCall("shop__find_order"))
    source.tools = {
        name: replace(tool, item=tool.tool.model_copy(update={"description": "Other"}))
        for name, tool in source.tools.items()
    }
    started = await Conversation(source, ToolDiscovery(enabled=True)).restore(begun.save())
    assert started.changed == ("shop__find_order", "shop__cancel")


async def test_conversations_that_go_on_from_the_same_place_do_not_touch_each_other(start: Start):
    begun = start()
    await begun.state.begin_turn()
    saved = begun.state.saved()
    text = saved.to_text()
    one, _ = await restored(begun, saved)
    other, _ = await restored(begun, saved)
    await one.search(tool_names=["get_alerts"])
    await one.call("weather__get_alerts")
    await begun.search(tool_names=["get_forecast"])
    assert other.state.save() == text == saved.to_text()


async def test_a_conversation_that_was_begun_is_not_overwritten(start: Start):
    talk = start()
    await talk.state.begin_turn()
    with pytest.raises(LocalError, match="before its first turn"):
        await talk.state.restore(talk.state.save())


def forged(text: str, **changes: Any) -> str:
    """Return a saved conversation with one more tool, found and loaded."""
    saved = json.loads(text)
    tool: dict[str, Any] = {
        "name": "weather__get_alerts",
        "server": "weather",
        "mode": "list",
        "tool": {"name": "get_alerts"},
    }
    tool |= changes
    tool["tool"] = {"inputSchema": {"type": "object"}, "description": "forged"} | tool["tool"]
    saved["definitions"].append(tool)
    saved["discovered"].append(tool)
    return json.dumps(saved)


FORGERIES: dict[str, dict[str, Any]] = {
    "no such tool": {"name": "weather__erase", "tool": {"name": "erase"}},
    "no such server": {"name": "bank__pay", "server": "bank", "tool": {"name": "pay"}},
    "under the name of another": {"name": "weather__erase"},
    "a tool without a server": {"name": "erase", "server": "", "tool": {"name": "erase"}},
    "too large": {"tool": {"name": "get_alerts", "description": "x" * 300_000}},
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_saved_conversation_cannot_add_a_tool_that_is_not_offered(start: Start, forgery: str):
    talk = start()
    await talk.state.begin_turn()
    again, _ = await restored(talk, forged(talk.state.save(), **FORGERIES[forgery]))
    assert again.names == talk.names
    answer = await again.call(str(FORGERIES[forgery].get("name", "weather__get_alerts")))
    assert isinstance(answer, Reply)
    assert answer.is_error


async def test_a_saved_conversation_cannot_show_what_the_toolset_hides(start: Start, toolset: Callable[..., Toolset]):
    talk = start()
    hiding = toolset(files=True, weather=["get_forecast"])
    await talk.state.begin_turn(toolset=hiding)
    text = forged(talk.state.save())
    again = start()
    await again.state.restore(text, toolset=hiding)
    assert again.names == talk.names
    everything = json.loads(text) | {"toolset": {"name": "", "description": "", "rules": None}}
    again = start()
    await again.state.restore(json.dumps(everything), toolset=hiding)
    assert again.names == talk.names


async def test_a_tool_with_a_forged_definition_is_called_as_it_is_offered_and_the_user_is_asked_again(start: Start):
    talk = start()
    await talk.state.begin_turn()
    again, begun = await restored(talk, forged(talk.state.save()))
    assert begun.changed == ("weather__get_alerts",)
    assert again.state.offer().notices[0].startswith("The definitions of these tools have changed")
    forward = await again.call("weather__get_alerts")
    assert isinstance(forward, Forward)
    assert forward.is_changed
    assert forward.tool.tool.description == "Tell of severe weather."


async def test_a_loaded_tool_whose_server_is_gone_leaves_the_list_and_the_model_hears_of_it(start: Start):
    talk = start()
    await talk.state.begin_turn()
    await talk.search(tool_names=["get_alerts", "search"])
    before = talk.state.offer()
    talk.offers({name: tools for name, tools in SERVERS.items() if name != "weather"})
    again, _ = await restored(talk, talk.state.save())
    offer = again.state.offer()
    assert [tool.name for tool in offer.tools] == [
        tool.name for tool in before.tools if tool.name != "weather__get_alerts"
    ]
    assert offer.prefix != before.prefix
    assert "These tools are no longer offered; do not call them: weather__get_alerts." in offer.notices


async def test_a_loaded_tool_of_a_failing_server_stays_and_is_called_once_the_server_answers(start: Start):
    talk = start()
    await talk.state.begin_turn()
    await talk.search(tool_names=["get_alerts"])
    before, offers = talk.state.offer(), talk.source.offers
    talk.source.offers = tuple(
        ServerOffer("weather", (), defer_loading=True, failure=Failure("unavailable", "gone"))
        if offer.name == "weather"
        else offer
        for offer in offers
    )
    again, begun = await restored(talk, talk.state.save())
    assert begun.failed == {"weather": Failure("unavailable", "gone")}
    assert again.state.offer().tools == before.tools
    answer = await again.call("weather__get_alerts")
    assert isinstance(answer, Reply)
    assert (
        answer.text == "Error: Server 'weather' is not reachable at present, so 'weather__get_alerts' cannot be called."
    )
    assert answer.failed == begun.failed
    again.source.offers = offers
    await again.state.refresh()
    assert isinstance(await again.call("weather__get_alerts"), Forward)


@pytest.mark.parametrize("changed", [False, True])
async def test_a_full_list_stays_as_it_is_when_one_of_its_tools_is_confirmed(
    start: Start, servers: dict[str, list[Tool]], changed: bool
):
    full: dict[str, Any] = {"discovery": {"max_tools": 4, "max_search_results": 1}}
    talk = start(servers, **full)
    await talk.state.begin_turn()
    await talk.search(tool_names=["get_alerts"])
    before, offers = talk.state.offer(), talk.source.offers
    assert len(before.tools) == 4
    failed = ServerOffer("weather", (), defer_loading=True, failure=Failure("unavailable", "gone"))
    talk.source.offers = tuple(failed if offer.name == "weather" else offer for offer in offers)
    again, _ = await restored(talk, talk.state.save(), **full)
    assert isinstance(await again.call("weather__get_alerts"), Reply)
    if changed:
        servers["weather"][2] = order("Tell of severe weather.").model_copy(update={"name": "get_alerts"})
    again.offers(servers)
    await again.state.refresh()
    step = await again.call("weather__get_alerts")
    assert isinstance(step, Forward)
    assert step.is_changed is changed
    offer = again.state.offer()
    assert offer.prefix == before.prefix
    assert [tool.serialized() for tool in offer.tools] == [tool.serialized() for tool in before.tools]
    await again.state.begin_turn()
    found = await again.search(tool_names=["lock_door"])  # it makes room for the next one, as any found tool
    assert found.loaded == ("home-automation__lock_door",)
    assert len(again.names) == 4


async def test_a_call_that_is_taken_again_after_an_approval_elsewhere_counts_once(start: Start):
    begun = start()
    await begun.state.begin_turn()
    await begun.search(tool_names=["get_alerts"])
    name = "weather__get_alerts"
    call = ToolCall(name, id="call_1")
    assert isinstance(await begun.state.take(call), Forward)
    again, _ = await restored(begun, begun.state.save())
    step = await again.state.take(call)
    assert isinstance(step, Forward)
    assert again.state.statistics.calls_by_tool[name] == 1
    again.state.refused(step)
    assert name not in again.state.statistics.calls_by_tool
    await again.state.take(call)
    await again.state.begin_turn("next")  # some providers number the calls of each turn
    await again.state.take(call)
    assert again.state.statistics.calls_by_tool[name] == 2


async def test_a_tool_that_its_searched_server_no_longer_has_is_not_called_once_the_server_is_back():
    source = Searched(order("Find an order"))
    source.may_answer.set()
    saved = (await begun_at(source)).save()
    failure = {"shop": Failure("unavailable", "gone")}
    found, source.failed = source.tools, failure
    source.tools = {}
    again = Conversation(source, ToolDiscovery(enabled=True))
    assert (await again.restore(saved)).failed == failure
    call = ToolCall("shop__find_order")
    step = await again.take(call)
    assert isinstance(step, Reply)
    assert step.failed == failure
    source.failed = {}
    step = await again.take(call)
    assert isinstance(step, Reply)
    assert step.text.startswith("Error: Server 'shop' no longer offers the tool 'shop__find_order'.")
    source.tools = found
    await again.refresh()
    assert isinstance(await again.take(call), Forward)


async def test_a_definition_whose_members_are_in_another_order_is_sent_as_before_after_a_restart():
    source = Searched(order("Find an order").model_copy(update={"input_schema": {"type": "object", "properties": {}}}))
    source.may_answer.set()
    begun = await begun_at(source)
    before = [definition.serialized() for definition in begun.offer().tools]
    found = source.tools["shop__find_order"]
    other = found.tool.model_copy(update={"input_schema": {"properties": {}, "type": "object"}})
    source.tools["shop__find_order"] = replace(found, item=other)
    await begun.begin_turn()
    again = Conversation(source, ToolDiscovery(enabled=True))
    assert (await again.restore(begun.save())).changed == ()
    assert [definition.serialized() for definition in again.offer().tools] == before


async def test_a_tool_that_was_gone_when_a_conversation_was_restored_does_not_come_back_with_the_next_list():
    source = Searched(order("Find an order"))
    source.may_answer.set()
    saved = (await begun_at(source)).save()
    source.tools = {}
    again = Conversation(source, ToolDiscovery(enabled=True))
    await again.restore(saved)
    await again.begin_turn(toolset=Toolset("others", {"shop": Rule(frozenset({"pay"}), excludes=True)}))
    assert [definition.name for definition in again.definitions] == ["search_tools"]
