"""A conversation over real servers: some are searched and never listed, some are listed, some fail."""

from __future__ import annotations

import gc
import json
import math
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp_types import TextContent, Tool
from tools_search_client import (
    Configuration,
    ConnectedServer,
    ConnectionOptions,
    Conversation,
    DiscoveryOptions,
    Failure,
    Federation,
    FederationOptions,
    FederationSource,
    Forward,
    ListedSource,
    Reply,
    ServerError,
    ServerOffer,
    ServerUnavailableError,
    ToolCall,
    ToolDiscovery,
    UnknownToolError,
    open_federation,
)
from tools_search_client.demo.stage import WireMeter
from tools_search_client.federation.fanout import MAX_PARTIAL
from tools_search_client.known_tools import MANY
from tools_search_hosts import HttpTarget, Rule, ServerEntry, StdioTarget, Toolset
from tools_search_ranking import FieldedRanker
from tools_search_ranking.ranker import FieldedIndex

pytestmark = pytest.mark.anyio

ARCHIVE = Path(__file__).parents[3] / "reference_server" / "tests" / "servers" / "archive.py"
MISSING = StdioTarget("/nowhere/program")


class Session:
    """A conversation and the servers below it."""

    def __init__(self, federation: Federation, state: Conversation) -> None:
        self.federation, self.state = federation, state

    @property
    def names(self) -> list[str]:
        return [definition.name for definition in self.state.offer().tools]

    async def search(self, **arguments: Any) -> Reply:
        reply = await self.state.take(ToolCall("search_tools", arguments))
        assert isinstance(reply, Reply)
        return reply

    async def forward(self, name: str, **arguments: Any) -> Forward:
        step = await self.state.take(ToolCall(name, arguments))
        assert isinstance(step, Forward)
        return step

    async def call(self, name: str, **arguments: Any) -> str:
        step = await self.forward(name, **arguments)
        (part,) = (await self.federation.call(step.tool.name, dict(step.call.arguments))).content
        assert isinstance(part, TextContent)
        return part.text

    async def call_that_changes(self, name: str) -> None:
        """Call a tool, and return when it is known that the call has changed the tools of its server."""
        before = self.federation.changes
        await self.call(name)
        while self.federation.changes == before:  # noqa: ASYNC110 - a notification sets no event
            await anyio.sleep(0.01)


Open = Callable[..., AbstractAsyncContextManager[Session]]


@pytest.fixture
def talk_to() -> Open:
    """Return an opener of conversations about servers, which are all deferred unless something else is said."""

    @asynccontextmanager
    async def opened(
        *entries: ServerEntry,
        deadline: float = 10,
        delegate: Any = None,
        meter: WireMeter | None = None,
        **discovery: Any,
    ) -> AsyncGenerator[Session]:
        stated: dict[str, Any] = {"enabled": True, "defer_all": True, **discovery}
        configuration = Configuration(entries, ToolDiscovery(**stated))
        with anyio.fail_after(30):
            options = FederationOptions(connection=ConnectionOptions(observer=meter), deadline=deadline)
            async with open_federation(configuration, options) as federation:
                yield Session(federation, Conversation(federation, delegate=delegate))

    return opened


async def test_searched_and_listed_servers_are_one_to_the_model(
    talk_to: Open, reference_server: HttpTarget, plain_server: HttpTarget, liar: Any
):
    entries = [
        ServerEntry("shop", reference_server, defer_loading=True),
        ServerEntry("plain", plain_server, defer_loading=True),
        ServerEntry("near", liar(tools=1).target),
    ]
    async with talk_to(*entries, defer_all=False) as session:
        begun = await session.state.begin_turn("hello")
        assert not begun.failed
        assert session.names == ["near__make_alpha", "search_tools"]
        assert session.state.manifest.splitlines()[0].startswith("- shop (about 12 tools)")
        assert "- plain (3 tools): add_numbers, reverse_text, fail_always" in session.state.manifest
        assert (await session.search(query="add two numbers")).loaded[0] == "plain__add_numbers"
        assert "- shop:create_invoice" in (await session.search(query="create an invoice")).text
        assert session.state.definition("shop__create_invoice")
        assert await session.call("plain__add_numbers", first=2, second=3) == "5"
        assert session.state.statistics.calls_by_server == {"_synthetic": 2, "plain": 1}
        assert session.state.statistics.definitions_listed > 15


async def test_a_deferred_server_that_can_be_searched_is_never_listed(talk_to: Open, liar: Any):
    server = liar()
    async with talk_to(ServerEntry("one", server.target)) as session:
        await session.state.begin_turn("hello")
        assert "- one (about 6 tools)" in session.state.manifest
        assert "one__make_alpha" in (await session.search(query="alpha")).loaded
        assert (await session.search(tool_names=["make_zeta"])).loaded == ("one__make_zeta",)
        unknown = await session.search(tool_names=["make_omega"])
        assert (unknown.is_error, "Not found: make_omega." in unknown.text) == (True, True)
        assert '"make_zeta"' in await session.call("one__make_zeta")
    assert server.asked("tools/list") == []


async def test_searches_that_a_model_makes_at_once_load_each_tool_once(talk_to: Open, liar: Any):
    replies: list[Reply] = []
    async with talk_to(ServerEntry("one", liar().target)) as session:
        await session.state.begin_turn()

        async def search() -> None:
            replies.append(await session.search(query="alpha"))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(search)
        assert sorted(len(reply.loaded) for reply in replies) == [0, 0, 5]
        assert session.names.count("one__make_alpha") == 1
        assert "now loaded" not in replies[-1].text


async def test_an_exact_name_is_found_on_servers_that_were_never_listed_whatever_they_think_best(
    talk_to: Open, liar: Any
):
    entries = [ServerEntry(f"s{number}", liar().target) for number in range(2)]
    async with talk_to(*entries, max_search_results=1) as session:
        await session.state.begin_turn()
        assert (await session.search(query="make_zeta")).loaded[0].endswith("__make_zeta")


async def test_a_bare_name_means_the_tools_of_listed_and_of_searched_servers(talk_to: Open, liar: Any):
    searched = liar()
    entries = ServerEntry("listed", liar(place="nowhere").target), ServerEntry("searched", searched.target)
    async with talk_to(*entries) as session:
        await session.state.begin_turn()
        reply = await session.search(tool_names=["make_alpha"])
        assert reply.loaded == ("listed__make_alpha", "searched__make_alpha")
        asked = len(searched.asked())
        assert (await session.search(tool_names=["listed__make_beta", "listed:make_gamma"])).loaded
        assert len(searched.asked()) == asked  # a full name needs no search


async def test_an_unknown_name_is_answered_with_the_closest_of_servers_that_were_never_listed(talk_to: Open, liar: Any):
    hidden = Toolset("most", {"one": Rule(frozenset({"make_beta"}), excludes=True)})
    async with talk_to(ServerEntry("one", liar(tools=3).target)) as session:
        await session.state.begin_turn(toolset=hidden)
        assert "Closest matches: one__make_alpha" in (await session.search(tool_names=["make_alphabet"])).text
        assert "one__make_beta" not in (await session.search(tool_names=["make_betas"])).text


@pytest.mark.parametrize("name", ["one__make_zeta", "one:make_zeta"])
async def test_a_full_name_finds_a_tool_of_a_server_that_was_never_listed(talk_to: Open, liar: Any, name: str):
    async with talk_to(ServerEntry("one", liar().target), max_search_results=1) as session:
        await session.state.begin_turn()
        too_early = await session.state.take(ToolCall(name))
        assert isinstance(too_early, Reply)
        assert "is not yet loaded" in too_early.text
        assert (await session.search(query=name)).loaded == ("one__make_zeta",)


async def test_browsing_lists_a_small_server_that_was_never_listed(talk_to: Open, liar: Any):
    server = liar(tools=3)
    async with talk_to(ServerEntry("one", server.target)) as session:
        await session.state.begin_turn()
        reply = await session.search(server_name="one")
        assert reply.loaded == ("one__make_alpha", "one__make_beta", "one__make_gamma")
    assert server.asked("tools/list") == ["tools/list"]


async def test_a_toolset_hides_tools_of_servers_that_are_searched(talk_to: Open, liar: Any):
    server = liar(tools=4)
    hidden = Toolset("most", {"one": Rule(frozenset({"make_alpha", "make_beta"}), excludes=True)})
    async with talk_to(ServerEntry("one", server.target), max_search_results=2) as session:
        await session.state.begin_turn(toolset=hidden)
        assert "- one (about 2 tools)" in session.state.manifest
        assert (await session.search(query="make")).loaded == ("one__make_gamma", "one__make_delta")
        assert (await session.search(tool_names=["make_alpha"])).is_error
        assert (await session.search(server_name="one")).loaded == ()
        await session.state.begin_turn(toolset=Toolset("none", {}))
        assert session.names == []
    assert server.asked("tools/list") == ["tools/list"]  # for browsing


async def test_a_conversation_over_a_federation_has_what_its_configuration_states(plain_server: HttpTarget):
    few = Toolset("few", {"plain": Rule(frozenset({"add_numbers"}), excludes=False)})
    discovery = ToolDiscovery(enabled=True, defer_all=True, ranker="plain")
    configuration = Configuration((ServerEntry("plain", plain_server),), discovery, {"few": few})
    with anyio.fail_after(30):
        async with open_federation(configuration) as federation:
            conversation = Conversation(federation)
            await conversation.begin_turn("hello", toolset="few")
            assert conversation.search_name == "search_tools"
            found = await conversation.take(ToolCall("search_tools", {"query": "reverse a text or add two numbers"}))
            assert isinstance(found, Reply)
            assert found.loaded == ("plain__add_numbers",)


async def test_a_conversation_may_list_what_its_federation_searches_and_the_other_way_around(liar: Any):
    listing, searching = ToolDiscovery(), ToolDiscovery(enabled=True, defer_all=True)
    with anyio.fail_after(30):
        for configured, chosen, is_listed in ((searching, listing, True), (listing, searching, False)):
            server = liar()
            async with open_federation(Configuration((ServerEntry("one", server.target),), configured)) as federation:
                conversation = Conversation(federation, chosen)
                await conversation.begin_turn()
                offered = [tool.name for tool in conversation.offer().tools]
            assert ("one__make_alpha" in offered, "search_tools" in offered) == (is_listed, not is_listed)
            assert bool(server.asked("tools/list")) == is_listed


async def test_a_toolset_that_names_tools_of_a_searched_server_needs_no_listing(talk_to: Open, liar: Any):
    server = liar()
    named = Toolset("few", {"one": Rule(frozenset({"make_alpha", "make_alpah"}), excludes=False)})
    async with talk_to(ServerEntry("one", server.target)) as session:
        begun = await session.state.begin_turn(toolset=named)
        assert begun.problems == ("toolset 'few': server 'one' has no tool 'make_alpah'; the closest is 'make_alpha'",)
        assert "- one (1 tool): make_alpha" in session.state.manifest
        assert (await session.search(query="make")).loaded == ("one__make_alpha",)
    assert server.asked("tools/list") == []


async def test_a_server_that_refuses_searches_for_the_tools_of_a_toolset_is_reported_with_its_reason(
    talk_to: Open, liar: Any
):
    named = Toolset("few", {"one": Rule(frozenset({"make_alpha", "make_beta"}), excludes=False)})
    async with talk_to(ServerEntry("one", liar("refuses:-32000").target)) as session:
        begun = await session.state.begin_turn(toolset=named)
    assert (begun.failed["one"].kind, begun.failed["one"].code) == ("refused", -32000)


async def test_a_server_that_the_toolset_hides_is_not_even_started(talk_to: Open, liar: Any):
    shown, hidden = liar(), liar()
    async with talk_to(ServerEntry("shown", shown.target), ServerEntry("hidden", hidden.target)) as session:
        await session.state.begin_turn(toolset=Toolset("some", {"shown": Rule(excludes=True)}))
        await session.search(query="alpha")
        await session.search(tool_names=["make_beta", "nothing"])
    assert hidden.asked() == []


async def test_a_server_that_fails_is_told_of_and_the_others_go_on(talk_to: Open, plain_server: HttpTarget):
    async with talk_to(ServerEntry("gone", MISSING), ServerEntry("plain", plain_server)) as session:
        begun = await session.state.begin_turn()
        assert "/nowhere/program" in begun.failed["gone"].message
        assert "- gone (not reachable at present)" in session.state.manifest
        told = await session.search(server_name="gone")
        assert (told.is_error, "Not reachable at present: gone (" in told.text) == (True, True)
        assert (await session.search(query="add two numbers")).loaded[0] == "plain__add_numbers"


async def test_tools_that_a_server_listed_before_its_list_broke_off_can_be_found_and_none_is_taken_for_gone(
    talk_to: Open, tmp_path: Path
):
    file = tmp_path / "long.json"
    tools = [{"name": f"make_{word}", "inputSchema": {"type": "object"}} for word in ("alpha", "beta", "gamma")]
    long: dict[str, Any] = {"tools": tools, "page": 1, "quiet": True}
    broken = {"faults": {"tools/list 2": -32603}}
    file.write_text(json.dumps(long | broken))
    async with talk_to(ServerEntry("long", StdioTarget(sys.executable, (str(ARCHIVE), str(file))))) as session:
        begun = await session.state.begin_turn()
        assert begun.failed["long"].message.startswith("its list broke off after 2 entries: ")
        assert "- long (2 tools, others not reachable at present): make_alpha, make_beta" in session.state.manifest
        assert (await session.search(query="beta")).loaded == ("long__make_beta",)
        file.write_text(json.dumps(long))
        assert not (await session.state.begin_turn()).failed
        assert (await session.search(query="gamma")).loaded == ("long__make_gamma",)
        # The first tool is renamed, and the third is not listed this time.
        first = {**tools[0], "name": "make_delta"}
        file.write_text(json.dumps(long | broken | {"tools": [first, *tools[1:]]}))
        assert (await session.state.begin_turn()).failed
        assert (await session.forward("long__make_gamma")).tool.name == "long__make_gamma"
        assert (await session.search(query="delta")).loaded == ("long__make_delta",)


async def test_a_server_that_fails_only_when_a_tool_is_looked_up_is_named_with_the_reason(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar().target)) as session:
        await session.state.begin_turn()
        await session.search(tool_names=["make_alpha"])
        saved = session.state.save()
    async with talk_to(ServerEntry("one", liar("refuses:-32000").target)) as session:
        begun = await session.state.restore(saved)
        called = await session.state.take(ToolCall("one__make_alpha"))
        assert isinstance(called, Reply)
        named = await session.search(tool_names=["make_beta"])
        instead = await session.search(tool_names=["make_beta"], query="beta")
    assert [reply.failed["one"].code for reply in (begun, called, named, instead)] == [-32000] * 4


async def test_a_server_that_hangs_holds_up_one_turn_and_not_the_next(talk_to: Open, liar: Any):
    servers = [ServerEntry("mute", liar("mute", era="legacy").target), ServerEntry("one", liar().target)]
    async with talk_to(*servers, deadline=1) as session:
        assert "mute" in (await session.state.begin_turn()).failed
        with anyio.fail_after(0.9):
            assert "mute" in (await session.state.begin_turn()).failed
            assert (await session.search(query="alpha")).loaded


async def test_a_server_whose_listing_hangs_holds_up_one_turn_and_not_the_next(talk_to: Open, liar: Any):
    hung, fine = liar("list-hangs", place="nowhere"), liar()
    async with talk_to(ServerEntry("hung", hung.target), ServerEntry("one", fine.target), deadline=5) as session:
        await session.federation.search("warm", servers=["one"])
        began = anyio.current_time()
        for _turn in range(4):
            assert set((await session.state.begin_turn()).failed) == {"hung"}
        assert (await session.search(query="alpha")).loaded
        assert anyio.current_time() - began < 10


async def test_a_server_whose_list_takes_too_long_is_searched_instead(liar: Any):
    slow = liar("list-hangs")
    configuration = Configuration((ServerEntry("slow", slow.target),), ToolDiscovery(enabled=True))
    with anyio.fail_after(30):
        async with open_federation(configuration, FederationOptions(deadline=1)) as federation:
            # It connects, so that the deadline is that of the list alone.
            await federation.search("alpha", deadline=math.inf)
            state = Conversation(federation)
            assert (await state.begin_turn()).failed == {}
            reply = await state.take(ToolCall("search_tools", {"query": "alpha"}))
    assert isinstance(reply, Reply)
    assert reply.loaded[0] == "slow__make_alpha"
    assert slow.asked("tools/list")


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "make_omega"},
        {"query": "hung__make_omega"},
        {"tool_names": [f"make_{number}" for number in range(100)]},
        {"tool_names": [f"hung__make_{number}" for number in range(50)], "query": "alpha"},
    ],
)
async def test_a_call_of_the_model_costs_one_deadline_whatever_it_looks_up(
    talk_to: Open, liar: Any, arguments: dict[str, Any]
):
    entries = [ServerEntry("hung", liar("hangs").target), ServerEntry("one", liar().target)]
    async with talk_to(*entries, deadline=6) as session:
        await session.state.begin_turn()
        began = anyio.current_time()
        assert "hung (" in (await session.search(**arguments)).text
        assert anyio.current_time() - began < 12


async def test_names_are_looked_up_at_the_same_time(talk_to: Open, liar: Any):
    waiting: list[str] = []
    both = anyio.Event()

    class Patient(FederationSource):
        async def look_up(self, name: str, /, *, servers: Any) -> Any:
            waiting.append(name)
            if len(waiting) == 2:
                both.set()
            await both.wait()
            return await super().look_up(name, servers=servers)

    configuration = Configuration((ServerEntry("one", liar().target),), ToolDiscovery(enabled=True, defer_all=True))
    with anyio.fail_after(30):
        async with open_federation(configuration) as federation:
            state = Conversation(Patient(federation))
            await state.begin_turn()
            reply = await state.take(ToolCall("search_tools", {"tool_names": ["make_beta", "make_alpha"]}))
    assert isinstance(reply, Reply)
    assert reply.loaded == ("one__make_beta", "one__make_alpha")


async def test_a_search_that_a_server_does_not_answer_says_so(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar("hangs").target), deadline=4) as session:
        await session.state.begin_turn()
        reply = await session.search(query="alpha")
        assert reply.is_error
        assert "Not reachable at present: one (still answering after 4 seconds)." in reply.text


async def test_the_users_text_reaches_only_servers_that_are_switched_on(talk_to: Open, liar: Any):
    asked, spared = liar(), liar()
    entries = [ServerEntry("asked", asked.target, delegate="turn"), ServerEntry("spared", spared.target)]
    async with talk_to(*entries) as session:
        begun = await session.state.begin_turn("make an alpha thing of my secret " + "and more " * 500)
        assert "asked__make_alpha" in begun.loaded
        assert all(name.startswith("asked__") for name in begun.loaded)
    assert (len(asked.asked("tools/search")), spared.asked("tools/search")) == (1, [])


async def test_a_function_of_the_host_finds_tools_on_every_server(talk_to: Open, liar: Any):
    async def delegate(text: str) -> list[str]:
        return ["an alpha thing", " "]

    servers = [liar(), liar()]
    entries = [ServerEntry(f"s{number}", server.target) for number, server in enumerate(servers)]
    async with talk_to(*entries, delegate=delegate, max_search_results=2) as session:
        begun = await session.state.begin_turn("whatever")
        assert set(begun.loaded) == {"s0__make_alpha", "s1__make_alpha"}
    assert [len(server.asked("tools/search")) for server in servers] == [1, 1]


@pytest.mark.parametrize(("window", "loaded"), [(100_000, 6), (100, 0)])
async def test_automatic_mode_lists_a_small_server_although_it_can_be_searched(
    talk_to: Open, liar: Any, window: int, loaded: int
):
    server = liar()
    async with talk_to(ServerEntry("one", server.target), defer_all=False, auto=True, context_window=window) as session:
        await session.state.begin_turn()
        assert len([name for name in session.names if name != "search_tools"]) == loaded
    assert server.asked("tools/list") == ["tools/list"]


async def test_automatic_mode_does_not_list_a_server_that_does_not_say_how_large_it_is(talk_to: Open, liar: Any):
    server = liar("uncounted")
    async with talk_to(ServerEntry("one", server.target), defer_all=False, auto=True) as session:
        await session.state.begin_turn()
        assert session.names == ["search_tools"]
        assert "- one (to be searched)" in session.state.manifest
    assert server.asked("tools/list") == []


async def test_automatic_mode_takes_a_server_of_unknown_size_for_a_large_one(talk_to: Open, liar: Any):
    entries = [
        ServerEntry("unknown", liar("uncounted").target),
        ServerEntry("small", liar(tools=1, place="nowhere").target),
    ]
    async with talk_to(*entries, defer_all=False, auto=True) as session:
        await session.state.begin_turn()
        assert session.names == ["search_tools"]


async def test_the_groups_of_tools_that_were_found_are_told_of_a_server_that_names_no_topics(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar("grouped").target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        await session.state.begin_turn()
        assert session.state.manifest == "- one (about 6 tools): topics letters"


async def test_browsing_a_server_that_cannot_be_listed_says_so(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar("list-refused").target)) as session:
        await session.state.begin_turn()
        reply = await session.search(server_name="one")
        assert (reply.is_error, "Not reachable at present: one (no list today" in reply.text) == (True, True)
        assert (reply.failed["one"].kind, reply.failed["one"].code) == ("refused", -32603)
        assert "asked before" not in (await session.search(server_name="one")).text  # it may answer next time


async def test_a_searched_server_that_says_it_is_large_is_not_loaded_whole(talk_to: Open):
    shop = StdioTarget(sys.executable, ("-m", "tools_search_server"))  # with its bundled catalog
    meter = WireMeter()
    async with talk_to(ServerEntry("shop", shop), meter=meter) as session:
        await session.state.begin_turn()
        manifest = session.state.manifest
        reply = await session.search(server_name="shop")
        found = await session.search(server_name="shop", query="refund a payment")
    assert manifest.startswith("- shop (about ")
    assert ": topics " in manifest
    assert (reply.loaded, "too many to load at once" in reply.text) == ((), True)
    assert all(name.startswith("shop__") for name in found.loaded)
    assert list(meter.exchanges("tools/list")) == []


async def test_with_discovery_switched_off_every_server_is_listed(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar(tools=2).target), enabled=False) as session:
        await session.state.begin_turn()
        assert session.names == ["one__make_alpha", "one__make_beta"]


async def test_a_call_that_fails_is_told_to_the_model(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("mortal", liar("call-dies").target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        step = await session.forward("mortal__make_alpha")
        with pytest.raises(ServerError) as error:
            await session.federation.call(step.tool.name)
        reply = session.state.failed(step, error.value)
        assert reply.is_error
        assert reply.text.startswith("Error: Server 'mortal' failed to call 'mortal__make_alpha': ")
        assert reply.failed == {"mortal": Failure.of(error.value)}


async def test_a_tool_that_a_call_shows_to_be_gone_is_gone_until_it_is_found_again(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar().target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        step = await session.forward("one__make_alpha")
        unknown = UnknownToolError("one__make_alpha")
        assert "no longer offers the tool 'one__make_alpha'" in session.state.failed(step, unknown).text
        again = await session.state.take(ToolCall("one__make_alpha"))
        assert isinstance(again, Reply)
        assert again.text == session.state.failed(step, unknown).text
        back = await session.search(query="alpha")
        assert (back.loaded, "now loaded" in back.text) == (("one__make_alpha",), True)
        assert "one__make_alpha" not in back.text.partition("Already loaded: ")[2]
        assert await session.forward("one__make_alpha")


async def test_a_server_that_was_not_asked_is_not_said_to_have_lost_a_tool(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar().target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        step = await session.forward("one__make_alpha")
        error = UnknownToolError("one__make_alpha", errors={"one": ServerUnavailableError("it died")})
        reply = session.state.failed(step, error)
        assert "no longer offers" not in reply.text
        assert "failed: one" in reply.text
        assert reply.failed == error.failed


async def test_a_list_change_is_known_at_the_next_turn(talk_to: Open, liar: Any):
    server = liar(era="legacy", place="nowhere")  # it says nothing of time, so that its listing is kept
    async with talk_to(ServerEntry("one", server.target)) as session:
        for _turn in range(2):
            await session.state.begin_turn()
        assert server.asked("tools/list") == ["tools/list"]
        await session.search(tool_names=["make_alpha"])
        await session.call("one__make_alpha")  # the server says that its tools changed
        await session.state.begin_turn()
        assert len(server.asked("tools/list")) == 2
        assert session.names == ["search_tools", "one__make_alpha"]


async def test_a_search_finds_what_a_call_of_the_same_turn_added_and_not_what_it_removed(
    talk_to: Open, liar: Any, era: str
):
    server = liar(era=era, place="nowhere", fault="call-toggles")
    async with talk_to(ServerEntry("one", server.target)) as session:
        await session.state.begin_turn()
        await session.search(tool_names=["make_beta"])
        for loaded in ((), ("one__make_alpha",)):
            await session.call_that_changes("one__make_beta")
            assert (await session.search(query="alpha")).loaded == loaded
        asked = len(server.asked())
        await session.search(query="gamma")
        assert len(server.asked()) == asked  # nothing has changed since


async def test_a_tool_of_a_server_that_is_not_deferred_can_be_called_in_the_turn_that_adds_it(
    talk_to: Open, liar: Any, era: str
):
    server = liar(era=era, place="nowhere", fault="call-toggles")
    async with talk_to(ServerEntry("one", server.target), defer_all=False) as session:
        await session.state.begin_turn()
        await session.call_that_changes("one__make_beta")
        await session.state.begin_turn()
        session.state.start_over()
        assert "one__make_alpha" not in session.names
        await session.call_that_changes("one__make_beta")
        assert "make_alpha" in await session.call("one__make_alpha")


async def test_a_found_tool_that_its_searched_server_no_longer_has_after_a_change_is_gone_with_the_next_turn(
    talk_to: Open, liar: Any, era: str
):
    server = liar(era=era, fault="call-loses")
    async with talk_to(ServerEntry("one", server.target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        asked = len(server.asked("tools/search"))
        await session.state.begin_turn()
        assert len(server.asked("tools/search")) == asked  # nothing changed, so nothing is asked
        assert session.state.offer().notices == ()
        await session.call("one__make_alpha")
        begun = await session.state.begin_turn()
        assert (begun.failed, begun.changed) == ({}, ())
        (notice,) = session.state.offer().notices
        assert "one__make_alpha" in notice
        assert "one__make_beta" not in notice
        assert server.asked("tools/list") == []
        await session.state.begin_turn()
        assert session.state.offer().notices == ()


async def test_a_found_tool_that_its_searched_server_has_again_after_a_change_is_back_with_the_next_turn(
    talk_to: Open, liar: Any, era: str
):
    async with talk_to(ServerEntry("one", liar(era=era, fault="call-toggles").target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        await session.call("one__make_beta")
        await session.state.begin_turn()
        assert session.state.offer().notices == (
            "These tools are no longer offered; do not call them: one__make_alpha.",
        )
        await session.call("one__make_beta")
        assert (await session.state.begin_turn()).changed == ()
        assert session.state.offer().notices == ("These tools are offered again: one__make_alpha.",)
        assert await session.forward("one__make_alpha")


async def test_a_repeated_search_that_finds_fewer_tools_is_not_called_a_repetition(talk_to: Open, liar: Any, era: str):
    async with talk_to(ServerEntry("one", liar(era=era, fault="call-loses", tools=1).target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        await session.call("one__make_alpha")
        assert "asked before" not in (await session.search(query="alpha")).text
        assert "asked before" in (await session.search(query="alpha")).text


async def test_a_found_tool_that_its_searched_server_has_altered_after_a_change_is_reported_as_changed(
    talk_to: Open, liar: Any, era: str
):
    async with talk_to(ServerEntry("one", liar(era=era, fault="call-alters").target)) as session:
        await session.state.begin_turn()
        loaded = (await session.search(query="alpha")).loaded
        await session.call("one__make_alpha")
        assert (await session.state.begin_turn()).changed == loaded
        assert "one__make_alpha" in session.state.offer().notices[0]
        assert (await session.state.begin_turn()).changed == ()


async def test_a_server_that_fails_after_a_change_keeps_its_found_tools(talk_to: Open, liar: Any, era: str):
    async with talk_to(ServerEntry("one", liar(era=era, fault="call-breaks", size=1000).target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        await session.call("one__make_alpha")
        await session.state.begin_turn()
        assert session.state.offer().notices == ()
        assert await session.forward("one__make_alpha")


async def test_a_server_that_is_added_is_known_with_the_next_turn_and_a_removed_one_leaves_at_once(liar: Any):
    files, crm = liar(tools=2), ServerEntry("crm", liar().target, defer_loading=True)
    configuration = Configuration((ServerEntry("files", files.target),), ToolDiscovery(enabled=True))
    with anyio.fail_after(30):
        async with open_federation(configuration) as federation:
            session = Session(federation, Conversation(federation))
            await session.state.begin_turn()
            begun = session.state.offer()
            assert [tool.name for tool in begun.tools] == ["files__make_alpha", "files__make_beta"]
            federation.add(crm)
            await session.state.begin_turn()
            assert (await session.search(tool_names=["make_zeta"])).loaded == ("crm__make_zeta",)
            before = session.state.offer()
            assert (before.prefix, before.tools[2].name) == (begun.prefix, "search_tools")
            federation.add(ServerEntry("eager", liar(tools=1).target))
            await session.state.refresh()
            offer = session.state.offer()
            assert (offer.prefix, offer.tools[: len(before.tools)]) == (before.prefix, before.tools)
            assert offer.tools[-1].name == "eager__make_alpha"
            await federation.remove("crm")
            assert "Unknown server 'crm'." in (await session.search(server_name="crm")).text
            assert not (await session.search(query="make omega")).loaded
            assert not (await session.search(tool_names=["make_omega"])).loaded
            offer = session.state.offer()
            assert offer.prefix == before.prefix
            assert any("no longer offered" in notice and "crm__make_zeta" in notice for notice in offer.notices)
            gone = await session.state.take(ToolCall("crm__make_zeta"))
            assert isinstance(gone, Reply)
            assert "no longer offers" in gone.text
            federation.add(crm)
            await session.state.refresh()
            await session.search(tool_names=["crm__make_zeta"])
            assert '"make_zeta"' in await session.call("crm__make_zeta")


@pytest.mark.parametrize("deferred", [True, False])
async def test_a_server_in_the_place_of_a_removed_one_is_another_until_the_conversation_looks_again(
    liar: Any, deferred: bool
):
    entry, other = (ServerEntry("crm", liar(tools=number).target, defer_loading=deferred) for number in (2, 3))
    with anyio.fail_after(30):
        async with open_federation(Configuration((entry,), ToolDiscovery(enabled=True))) as federation:
            session = Session(federation, Conversation(federation))
            await session.state.begin_turn()
            if deferred:
                await session.search(tool_names=["crm__make_alpha"])
            assert '"make_alpha"' in await session.call("crm__make_alpha")
            await federation.remove("crm")
            federation.add(other)
            gone = await session.state.take(ToolCall("crm__make_alpha"))
            assert isinstance(gone, Reply)
            assert gone.text.startswith("Error: Server 'crm' no longer offers the tool 'crm__make_alpha'.")
            await session.state.refresh()
            if deferred:
                await session.search(tool_names=["crm__make_alpha"])
            assert '"make_alpha"' in await session.call("crm__make_alpha")


@pytest.mark.parametrize("returns", [True, False])
async def test_a_server_that_comes_and_goes_ten_times_leaves_one_true_notice(liar: Any, returns: bool):
    entry = ServerEntry("crm", liar(place="nowhere").target, defer_loading=True)
    others = ServerEntry("files", liar(place="nowhere").target, defer_loading=True)
    configuration = Configuration((others, entry), ToolDiscovery(enabled=True))
    with anyio.fail_after(60):
        async with open_federation(configuration) as federation:
            session = Session(federation, Conversation(federation))
            await session.state.begin_turn()
            await session.search(tool_names=["crm__make_zeta"])
            assert session.state.offer().notices == ()
            for time in range(10):
                await federation.remove("crm")
                await session.state.refresh()
                if returns or time < 9:
                    federation.add(entry)
                    await session.state.refresh()
            saved = session.state.save()
            again = Session(federation, Conversation(federation))
            await again.state.restore(saved)
            gone = (
                "These tools are no longer offered; do not call them: crm__make_zeta.",
                "What 'search_tools' can find has changed: servers that are gone: crm.",
            )
            for one in (session, again):
                assert one.state.offer().notices == (() if returns else gone)
                assert one.state.offer().notices == ()
            if not returns:
                federation.add(entry)
                await session.state.refresh()
                assert session.state.offer().notices == (
                    "These tools are offered again: crm__make_zeta.",
                    "What 'search_tools' can find has changed: new servers: crm.",
                )


async def test_a_server_that_fails_and_answers_again_is_told_as_that(liar: Any):
    held: list[Client] = []
    own = ConnectedServer("own", connection=lambda: held[-1] if held else None)
    discovery = ToolDiscovery(enabled=True, defer_all=True)
    server = liar(place="nowhere").target
    parameters = StdioServerParameters(command=server.command, args=list(server.args))
    notices: list[tuple[str, ...]] = []
    with anyio.fail_after(30):
        async with open_federation(Configuration((own, ServerEntry("fine", liar().target)), discovery)) as federation:
            conversation = Conversation(federation)
            for _ in range(2):
                await conversation.begin_turn()
                notices.append(conversation.offer().notices)
                async with Client(parameters) as client:
                    held.append(client)
                    await conversation.begin_turn()
                    notices.append(conversation.offer().notices)
                held.clear()
    begins = "What 'search_tools' can find has changed: "
    assert notices == [
        (),
        (f"{begins}servers that are reachable again: own.",),
        (f"{begins}servers not reachable at present: own.",),
        (f"{begins}servers that are reachable again: own.",),
    ]


async def test_what_a_host_tells_a_server_beside_a_call_arrives(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar().target)) as session:
        await session.state.begin_turn()
        await session.search(query="alpha")
        step = await session.forward("one__make_alpha")
        result = await session.federation.call(step.tool.name, meta={"example.com/note": "for Ada"})
    (part,) = result.content
    assert isinstance(part, TextContent)
    assert '"note": "for Ada"' in part.text


async def test_a_server_that_takes_long_to_start_is_asked_as_soon_as_it_is_there(
    talk_to: Open, liar: Any, until: Callable[[Callable[[], bool]], Awaitable[None]]
):
    late = liar(tools=1).target
    command = [late.command, *late.args]
    source = f"import subprocess, sys, time; time.sleep(1.5); sys.exit(subprocess.call({command!r}))"
    async with talk_to(ServerEntry("late", StdioTarget(sys.executable, ("-c", source))), deadline=0.5) as session:
        assert "late" in (await session.state.begin_turn()).failed
        await until(lambda: session.federation.supervised["late"].connected is not None)
        begun = await session.state.begin_turn()
        assert begun.failed == {}
        assert session.names == ["search_tools"]


async def test_a_megabyte_in_a_description_reaches_neither_the_texts_nor_the_list(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar("huge").target)) as session:
        await session.state.begin_turn()
        for detail in ("brief", "full"):
            reply = await session.search(query="alpha", detail=detail)
            assert "its definition is larger than any model should read: one__make_huge" in reply.text
            assert len(reply.text) < 20_000
        assert session.names == ["search_tools"]


@pytest.mark.parametrize("deferred", [True, False])
@pytest.mark.parametrize("place", ["extensions", "nowhere"])
async def test_answers_in_the_turn_of_a_removal_agree_that_the_server_is_gone(liar: Any, deferred: bool, place: str):
    """Whether the server is searched or listed, and its tools are loaded from the start or found."""
    crm = ServerEntry("crm", liar(place=place).target, defer_loading=deferred)
    files = ServerEntry("files", liar(place="nowhere", tools=2).target, defer_loading=True)
    configuration = Configuration((files, crm), ToolDiscovery(enabled=True))
    with anyio.fail_after(30):
        async with open_federation(configuration) as federation:
            session = Session(federation, Conversation(federation))
            await session.state.begin_turn()
            if deferred:
                await session.search(tool_names=["crm__make_alpha"])
            forward = await session.forward("crm__make_alpha")
            await federation.remove("crm")
            with pytest.raises(UnknownToolError) as unknown:
                await federation.call(forward.tool.name)
            gone = "Error: Server 'crm' no longer offers the tool 'crm__make_alpha'."
            assert session.state.failed(forward, unknown.value).text.startswith(gone)
            assert "Unknown server 'crm'. Valid servers: files." in (await session.search(server_name="crm")).text
            for arguments in ({"query": "make alpha"}, {"tool_names": ["crm__make_alpha", "crm__make_beta"]}):
                reply = await session.search(**arguments)
                assert not any(name.startswith("crm") for name in reply.loaded)
                assert "crm" not in reply.text.replace("Not found: crm__make_alpha, crm__make_beta.", "")
            again = await session.state.take(ToolCall("crm__make_alpha"))
            assert isinstance(again, Reply)
            assert again.text.startswith(gone)
            offer = session.state.offer()
            assert any("no longer offered" in notice and "crm__" in notice for notice in offer.notices) is not deferred
            assert any("servers that are gone: crm" in notice for notice in offer.notices) is deferred


@pytest.mark.parametrize("deferred", [True, False])
async def test_a_search_does_not_offer_a_tool_that_a_call_showed_to_be_gone_from_its_servers_list(deferred: bool):
    server = MCPServer("crm")
    server.add_tool(lambda: "found", "find_customer", description="Find a customer")
    server.add_tool(lambda: "bill", "find_invoice", description="Find an invoice of a customer")
    with anyio.fail_after(30):
        async with Client(server) as client:
            crm = ConnectedServer("crm", connection=client, defer_loading=deferred)
            async with open_federation(Configuration((crm,), ToolDiscovery(enabled=True))) as federation:
                session = Session(federation, Conversation(federation))
                await session.state.begin_turn()
                if deferred:
                    await session.search(query="find a customer")
                forward = await session.forward("crm__find_customer")
                server.remove_tool("find_customer")
                federation.forget()
                with pytest.raises(UnknownToolError) as unknown:
                    await federation.call(forward.tool.name)
                assert "no longer offers" in session.state.failed(forward, unknown.value).text
                for arguments in ({"query": "find a customer"}, {"tool_names": ["find_customer"]}):
                    step = await session.state.take(ToolCall("search_tools", arguments))
                    assert isinstance(step, Reply)
                    assert "crm__find_customer" not in step.loaded
                again = await session.state.take(ToolCall("crm__find_customer"))
                assert isinstance(again, Reply)
                server.add_tool(lambda: "found", "find_customer", description="Find a customer")
                federation.forget()
                await session.state.refresh()
                assert "These tools are offered again: crm__find_customer." in session.state.offer().notices
                assert await session.call("crm__find_customer") == "found"


async def test_a_large_definition_stays_in_memory_no_longer_than_the_answer_that_has_it(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar("huge-kept").target)) as session:
        await session.state.begin_turn()
        assert "larger than any model should read" in (await session.search(query="huge")).text
        assert (await session.federation.search("huge")).tools
        gc.collect()
        kept = [each for each in gc.get_objects() if isinstance(each, Tool) and len(each.description or "") > 1_000_000]
        assert kept == []
        assert (await session.federation.resolve("one__make_huge")).tool.name == "make_huge"


async def test_definitions_that_a_server_no_longer_offers_are_not_kept():
    def offers(turn: int) -> tuple[ServerOffer, ...]:
        meta = {"anthropic/alwaysLoad": True}
        named = [Tool(name=f"make_{turn}_{number}", input_schema={"type": "object"}, _meta=meta) for number in range(9)]
        earlier.append(weakref.ref(named[8]))  # not one of those that are loaded from the start
        return ListedSource.of({"one": named}, deferred=["one"]).offers

    earlier: list[weakref.ref[Tool]] = []
    source = ListedSource(offers(0))
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    for turn in range(1, 4):
        await conversation.begin_turn()
        source.offers = offers(turn)
    await conversation.begin_turn()
    gc.collect()
    assert [tool() is None for tool in earlier] == [True, True, True, False]
    assert len(json.loads(conversation.save())["pins"]) == 5


async def test_conversations_over_one_source_index_and_count_its_tools_once(monkeypatch: pytest.MonkeyPatch):
    indexed, counted = list[str](), list[str]()
    index = FieldedRanker.__call__

    def noted(ranker: FieldedRanker, tools: Sequence[Tool]) -> FieldedIndex:
        indexed.extend(tool.name for tool in tools)
        return index(ranker, tools)

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    monkeypatch.setattr(FieldedRanker, "__call__", noted)
    tools = [Tool(name=name, input_schema={"type": "object"}) for name in ("make_alpha", "make_beta")]
    source = ListedSource.of({"one": tools}, deferred=["one"])
    for _ in range(3):
        conversation = Conversation(source, ToolDiscovery(enabled=True), count_tokens=count)
        await conversation.begin_turn()
        reply = await conversation.take(ToolCall("search_tools", {"query": "alpha"}))
        assert isinstance(reply, Reply)
        assert reply.loaded == ("one__make_alpha",)
    assert indexed == ["one__make_alpha", "one__make_beta"]
    assert sum('"one__make_beta"' in text for text in counted) == 1


def many_tools() -> ListedSource:
    tools = [Tool(name=f"make_{number}", input_schema={"type": "object"}) for number in range(MANY)]
    return ListedSource.of({"one": tools}, deferred=["one"])


@pytest.mark.parametrize("is_restored", [False, True])
async def test_many_tools_are_indexed_once_while_the_event_loop_goes_on(
    patient_ranker: Any, until: Any, is_restored: bool
):
    conversation = Conversation(many_tools(), ToolDiscovery(enabled=True), ranker=patient_ranker)
    begin = partial(conversation.restore, conversation.save()) if is_restored else conversation.begin_turn
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            await until(patient_ranker.is_at_many.is_set)
            patient_ranker.goes_on.set()
        reply = await conversation.take(ToolCall("search_tools", {"query": "make 7"}))
        await conversation.begin_turn()
    assert isinstance(reply, Reply)
    assert reply.loaded[0] == "one__make_7"
    assert [len(names) for names in patient_ranker.indexed if names] == [MANY]


@pytest.mark.parametrize("is_conversation", [False, True])
async def test_of_a_list_that_broke_off_no_more_is_indexed_than_takes_a_second(
    liar: Any, patient_ranker: Any, is_conversation: bool
):
    server = liar("list-breaks", place="nowhere", more=MAX_PARTIAL)
    options = FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(ranker=patient_ranker)))
    patient_ranker.goes_on.set()
    with anyio.fail_after(60):
        async with open_federation(Configuration((ServerEntry("long", server.target),)), options) as federation:
            if is_conversation:
                failed = (await Conversation(federation).begin_turn()).failed
            else:
                failed = (await federation.search("alpha", deadline=30)).failed
    assert failed["long"].listed == MAX_PARTIAL + 5
    assert max(map(len, patient_ranker.indexed)) == MAX_PARTIAL


async def test_conversations_that_begin_at_once_index_many_tools_once(monkeypatch: pytest.MonkeyPatch):
    indexed = list[int]()
    index = FieldedRanker.__call__

    def noted(ranker: FieldedRanker, tools: Sequence[Tool]) -> FieldedIndex:
        indexed.append(len(tools))
        return index(ranker, tools)

    monkeypatch.setattr(FieldedRanker, "__call__", noted)
    source = many_tools()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(Conversation(source, ToolDiscovery(enabled=True)).begin_turn)
    assert [number for number in indexed if number] == [MANY]


async def test_the_tools_of_an_unchanged_list_are_the_same_objects_for_every_conversation_and_rule(liar: Any):
    server = liar(era="legacy", place="nowhere")  # it says nothing of time, so that its listing is kept
    everything = Toolset("", None)
    rest = Toolset("rest", {"one": Rule(frozenset({"make_alpha"}), excludes=True)})
    async with open_federation(Configuration((ServerEntry("one", server.target),))) as federation:
        surveyed = [(await FederationSource(federation).survey(toolset)).tools for toolset in (everything, rest) * 2]
        for first, second in ((0, 2), (1, 3)):
            assert len(surveyed[first]) > 1
            assert all(one is other for one, other in zip(surveyed[first], surveyed[second], strict=True))
        assert len(surveyed[1]) == len(surveyed[0]) - 1
        await federation.call("one__make_alpha", {})  # the server says that its tools changed
        while federation.changes == 0:  # noqa: ASYNC110 - a notification sets no event
            await anyio.sleep(0.01)
        again = (await FederationSource(federation).survey(everything)).tools
        assert all(one is not other for one, other in zip(surveyed[0], again, strict=False))


async def test_what_cannot_be_sent_to_a_server_finds_nothing(talk_to: Open, liar: Any):
    async with talk_to(ServerEntry("one", liar().target)) as session:
        assert await session.state.refresh() == ()  # before the first turn, too
        reply = await session.search(query="\ud800")
        assert reply.text.startswith("No tools found")
        assert not reply.failed


async def test_a_server_that_fails_when_it_is_searched_before_a_turn_is_told_to_the_host(talk_to: Open, liar: Any):
    async def delegate(text: str) -> list[str]:
        return ["an alpha thing"]

    async with talk_to(ServerEntry("one", liar("dies").target), delegate=delegate) as session:
        begun = await session.state.begin_turn("whatever")
        assert (begun.loaded, list(begun.failed)) == ((), ["one"])


async def test_all_tools_of_a_searched_server_that_does_not_say_how_many_it_has_are_loaded_by_its_name(
    talk_to: Open, liar: Any
):
    async with talk_to(ServerEntry("one", liar("uncounted").target)) as session:
        await session.state.begin_turn()
        assert len((await session.search(server_name="one")).loaded) == 6


async def test_a_toolset_is_not_blamed_for_a_tool_of_a_server_that_fails(talk_to: Open):
    async with talk_to(ServerEntry("one", MISSING)) as session:
        named = Toolset("some", {"one": Rule(frozenset({"make_alpha"}), excludes=False)})
        begun = await session.state.begin_turn(toolset=named)
        assert (list(begun.failed), begun.problems) == (["one"], ())
