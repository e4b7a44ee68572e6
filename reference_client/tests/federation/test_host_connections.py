"""Connections that a host holds itself, in a federation and a conversation beside configured servers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import fastmcp
import httpx2
import pytest
from mcp import Client
from mcp.client import ClientExtension, advertise
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.server import install
from mcp_types import Implementation, ListToolsResult, TextContent, Tool
from tools_search_client import (
    Configuration,
    ConnectedServer,
    ConnectionOptions,
    Conversation,
    DiscoveryOptions,
    Failure,
    FederationOptions,
    Forward,
    HostError,
    OwnConnection,
    Reply,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolCall,
    ToolDiscovery,
    UnknownToolError,
    open_federation,
)
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget

ASKING = str(Path(__file__).parents[1] / "fixtures" / "servers" / "asking.py")

pytestmark = pytest.mark.anyio


def weather(*, searchable: bool = True) -> MCPServer:
    """A server of the host, in its own process."""
    server = MCPServer("weather")

    @server.tool()
    def get_forecast(city: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Tell the weather of tomorrow in a city."""
        return f"sun in {city}"

    if searchable:
        install(server)
    return server


def only(connection: OwnConnection | Callable[[], OwnConnection | None]) -> Configuration:
    return Configuration((ConnectedServer("own", connection=connection),))


def text_of(result: Any) -> str:
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("kind", ["client", "session", "function"])
async def test_a_connection_of_the_host_is_searched_and_called_and_left_open(mode: str, kind: str):
    with anyio.fail_after(20):
        async with Client(weather(), mode=mode, extensions=[TOOLS_SEARCH]) as client:
            connections: dict[str, OwnConnection] = {"client": client, "session": client.session}
            connection = connections.get(kind) or partial(connections.get, "session")
            async with open_federation(only(connection)) as federation:
                answer = await federation.search("weather forecast")
                assert [(tool.name, tool.mode) for tool in answer.tools] == [("own__get_forecast", "search")]
                assert text_of(await federation.call("get_forecast", {"city": "Oslo"})) == "sun in Oslo"
            assert text_of(await client.call_tool("get_forecast", {"city": "Bergen"})) == "sun in Bergen"


@pytest.mark.parametrize("declared", [[], [advertise("com.example/other")]])
async def test_a_client_that_does_not_declare_the_extension_is_listed(declared: list[ClientExtension]):
    with anyio.fail_after(20):
        async with Client(weather(), extensions=declared) as client, open_federation(only(client)) as federation:
            answer = await federation.search("weather forecast")
    assert [(tool.tool.name, tool.mode) for tool in answer.tools] == [("get_forecast", "list")]
    assert answer.servers[0].mode == "list"


async def test_a_connection_that_ends_fails_that_server_alone_until_the_host_has_another(plain_server: HttpTarget):
    held: list[Client] = []
    own = ConnectedServer("own", connection=lambda: held[-1] if held else None)
    with anyio.fail_after(30):
        async with open_federation(Configuration((ServerEntry("plain", plain_server), own))) as federation:
            missing = [await federation.search("weather forecast", deadline=math.inf)]
            for _ in range(2):
                async with Client(weather(), extensions=[TOOLS_SEARCH]) as client:
                    held.append(client)
                    answer = await federation.search("weather forecast", deadline=math.inf)
                    assert [tool.name for tool in answer.tools] == ["own__get_forecast"]
                    assert not answer.failed
                missing.append(await federation.search("weather forecast", deadline=math.inf))
                with pytest.raises(ServerUnavailableError, match="the host is not connected to it"):
                    await federation.call("own__get_forecast", {"city": "Oslo"})
    for answer in missing:
        assert answer.failed == {"own": Failure("unavailable", "the host is not connected to it")}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_is_under_way_on_a_connection_of_the_host_ends_where_its_server_is_removed(mode: str):
    """And the connection stays open."""
    server, waits = weather(), anyio.Event()

    @server.tool()
    async def wait() -> None:  # pyright: ignore[reportUnusedFunction]
        """Wait for ever."""
        waits.set()
        await anyio.sleep_forever()

    @server.resource("notes://all")
    async def notes() -> str:  # pyright: ignore[reportUnusedFunction]
        waits.set()
        await anyio.sleep_forever()
        return ""

    async def fails(request: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(ServerUnavailableError, match="the server was removed"):
            await request()

    with anyio.fail_after(20):
        async with Client(server, mode=mode) as client, open_federation(only(client)) as federation:
            (entry,) = federation.configuration.servers
            requests: tuple[Callable[[], Awaitable[object]], ...] = (
                lambda: federation.call("own__wait"),
                lambda: federation.read_resource("own", "notes://all"),
            )
            for request in requests:
                async with anyio.create_task_group() as open_requests:
                    open_requests.start_soon(fails, request)
                    await waits.wait()
                    await federation.remove("own")
                waits = anyio.Event()
                federation.add(entry)
            assert text_of(await client.call_tool("get_forecast", {"city": "Oslo"})) == "sun in Oslo"


async def test_a_function_for_connections_that_raises_costs_that_server_alone():
    def lost() -> Client:
        raise KeyError("own")

    with anyio.fail_after(20):
        async with Client(weather(), extensions=[TOOLS_SEARCH]) as client:
            own = (ConnectedServer("lost", connection=lost), ConnectedServer("own", connection=client))
            async with open_federation(Configuration(own)) as federation:
                answer = await federation.search("weather forecast")
    assert [tool.name for tool in answer.tools] == ["own__get_forecast"]
    assert answer.failed == {"lost": Failure("host", "`connection` of the host failed: KeyError")}


async def test_a_connection_of_another_type_costs_that_server_alone_and_says_what_to_give():
    """Whether it is given as it is or by a function; a `fastmcp.Client` has a session, too."""
    other: Any = fastmcp.Client("http://127.0.0.1:9/mcp")
    problem = "`connection` of the host failed: it is of type `fastmcp.client.client.Client`: pass an `mcp.Client`, "
    problem += "an `mcp.ClientSession`, or a function that returns one or `None`"
    with anyio.fail_after(20):
        async with Client(weather(), extensions=[TOOLS_SEARCH]) as client:
            wrong = (ConnectedServer("given", connection=other), ConnectedServer("made", connection=lambda: other))
            servers = Configuration((*wrong, ConnectedServer("own", connection=client)))
            async with open_federation(servers) as federation:
                answer = await federation.search("weather forecast")
                with pytest.raises(HostError):
                    await federation.call("given__get_forecast", {})
    assert [tool.name for tool in answer.tools] == ["own__get_forecast"]
    assert answer.failed == dict.fromkeys(("given", "made"), Failure("host", problem))


async def test_a_connection_that_breaks_while_its_changes_are_followed_costs_that_server_alone():
    class Broken(Client):
        @property
        def server_capabilities(self) -> Any:
            raise KeyError("broken")

    with anyio.fail_after(20):
        async with (
            Broken(weather(), extensions=[TOOLS_SEARCH]) as broken,
            Client(weather(), extensions=[TOOLS_SEARCH]) as client,
        ):
            servers = ConnectedServer("broken", connection=broken), ConnectedServer("own", connection=client)
            async with open_federation(Configuration(servers)) as federation:
                answer = await federation.search("weather forecast")
    assert "own__get_forecast" in [tool.name for tool in answer.tools]
    assert "own" not in answer.failed


async def test_a_late_connection_of_the_host_is_told_alone_since_its_diagnostics_are_the_hosts():
    async def never(*_: Any) -> ListToolsResult:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(20):
        async with Client(Server("late", on_list_tools=never)) as client, open_federation(only(client)) as federation:
            answer = await federation.search("weather forecast", deadline=0.2)
    assert answer.failed["own"].message == "still answering after 0.2 seconds"


async def test_list_changes_of_a_connection_of_the_host_are_followed():
    server = MCPServer("learning", cache_hints={"tools/list": CacheHint(ttl_ms=60_000)})

    @server.tool()
    async def learn(ctx: Context[Any, Any]) -> None:  # pyright: ignore[reportUnusedFunction]
        """Learn to count."""
        server.add_tool(lambda: 1, name="count", description="Count.")
        await ctx.notify_tools_changed()

    with anyio.fail_after(20):
        async with Client(server) as first, Client(server) as second:
            held = [first]
            async with open_federation(only(lambda: held[-1])) as federation:
                for connection in (first, second):  # the host leaves its first one open, even if the server is gone
                    held.append(connection)
                    known = len((await federation.list()).tools)
                    await federation.call("learn")
                    while len((await federation.list()).tools) == known:
                        await anyio.lowlevel.checkpoint()
                    server.remove_tool("count")
                assert federation.changes >= 2


async def test_a_conversation_loads_tools_of_both_kinds_of_connections(plain_server: HttpTarget):
    with anyio.fail_after(30):
        async with Client(weather(), extensions=[TOOLS_SEARCH]) as client:
            own = ConnectedServer("own", connection=client, defer_loading=True)
            entries = (own, ServerEntry("plain", plain_server, defer_loading=True))
            configuration = Configuration(entries, ToolDiscovery(enabled=True))
            async with open_federation(configuration, FederationOptions(deadline=math.inf)) as federation:
                conversation = Conversation(federation)
                await conversation.begin_turn("hello")
                found = await conversation.take(ToolCall("search_tools", {"query": "weather forecast in a city"}))
                assert isinstance(found, Reply)
                assert found.loaded == ("own__get_forecast",)
                step = await conversation.take(ToolCall("own__get_forecast", {"city": "Oslo"}))
                assert isinstance(step, Forward)
                assert text_of(await federation.call(step.tool.name, dict(step.call.arguments))) == "sun in Oslo"


async def test_options_hold_for_one_server_or_for_all():
    def named(name: str) -> ConnectionOptions:
        return ConnectionOptions(client_info=Implementation(name=name, version="1"))

    server = StdioTarget(sys.executable, (ASKING,))
    configuration = Configuration(tuple(ServerEntry(name, server) for name in ("a", "b")))
    options = FederationOptions(
        connection=named("first"), connection_to=lambda entry: named("second") if entry.name == "b" else None
    )
    with anyio.fail_after(30):
        async with open_federation(configuration, options) as federation:
            connected = [await federation.supervised[name].tools() for name in ("a", "b")]
            told = [tools.client.client_info for tools in connected]
    assert [info.name for info in told if info] == ["first", "second"]


async def test_what_a_host_does_not_state_is_as_the_configuration_states_it(liar: Any):
    """In addition to options of its own; and nothing of `connection` is lost where one server has its own."""
    entries = tuple(ServerEntry(name, liar("call-hangs", era="legacy").target) for name in ("a", "b"))
    configuration = Configuration(entries, ToolDiscovery(era="legacy", call_timeout=0.5))
    mine = ConnectionOptions(client_info=Implementation(name="mine", version="1"))
    other = ConnectionOptions(follow_changes=False)
    options = FederationOptions(
        connection=mine, connection_to=lambda entry: other if entry.name == "b" else None, grace=1.0
    )
    with anyio.fail_after(30):
        async with open_federation(configuration, options) as federation:
            for name in ("a", "b"):
                tools = await federation.supervised[name].tools()
                assert tools.era == "legacy"
                assert tools.client.client_info == mine.client_info
                with pytest.raises(ServerTimeoutError):
                    await federation.call(f"{name}__make_alpha", {})


async def test_the_time_that_an_entry_states_for_calls_holds_where_the_server_has_options_of_its_own(liar: Any):
    configuration = Configuration((ServerEntry("a", liar("call-hangs").target, call_seconds=0.5),))
    options = FederationOptions(connection_to=lambda _: ConnectionOptions(follow_changes=False))
    with anyio.fail_after(30):
        async with open_federation(configuration, options) as federation:
            with pytest.raises(ServerTimeoutError):
                await federation.call("a__make_alpha", {})


@pytest.mark.parametrize("late_server_is_asked", [True, False])
async def test_what_one_user_may_see_is_in_no_answer_to_another_user_of_the_federation(late_server_is_asked: bool):
    user, now, asked, gate = ContextVar("user", default=""), ["ada"], anyio.Event(), anyio.Event()

    async def listed(_: Any, __: Any) -> ListToolsResult:
        tool = Tool(name=f"diary_of_{now[0]}", description="Write a diary.", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], ttl_ms=0, cache_scope="private")

    async def late(_: Any, __: Any) -> ListToolsResult:
        asked.set()
        await gate.wait()
        return ListToolsResult(tools=[])

    answers: dict[str, list[str]] = {}
    async with (
        Client(Server("own", on_list_tools=listed)) as own,
        Client(Server("late", on_list_tools=late)) as slow,
        open_federation(
            Configuration((ConnectedServer("own", connection=own), ConnectedServer("late", connection=slow))),
            FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(authorization=user.get))),
        ) as federation,
        anyio.create_task_group() as tasks,
    ):

        async def search(name: str, *servers: str) -> None:
            user.set(name)
            found = await federation.search("write a diary", servers=servers, deadline=20)
            answers[name] = [tool.name for tool in found.tools]

        if late_server_is_asked:
            tasks.start_soon(search, "ada", "own", "late")
            with anyio.fail_after(20):
                await asked.wait()
                while not federation.supervised["own"].connected:  # noqa: ASYNC110 - nothing tells
                    await anyio.sleep(0.01)
                await anyio.wait_all_tasks_blocked()
        else:
            await search("ada", "own")
        now[0] = "bob"
        await search("bob", "own")
        gate.set()
        user.set("bob")
        with pytest.raises(UnknownToolError):
            await federation.resolve("own__diary_of_ada", servers=["own"])
    assert answers == {"ada": ["own__diary_of_ada"], "bob": ["own__diary_of_bob"]}


async def test_fifty_users_side_by_side_call_over_one_connection_with_credentials_of_their_own(
    plain_server: HttpTarget,
):
    user, sent = ContextVar("user", default="nobody"), list[tuple[str, str]]()

    class OfUser(httpx2.Auth):
        requires_request_body = True

        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
            message = json.loads(request.content)
            if message["method"] == "tools/call":
                sent.append((user.get(), message["params"]["arguments"]["text"]))
            yield request

    discovery = ToolDiscovery(enabled=True, defer_all=True, deadline=60)
    configuration = Configuration((ServerEntry("plain", plain_server),), discovery)
    connection = ConnectionOptions(auth=OfUser(), discovery=DiscoveryOptions(authorization=user.get))
    with anyio.fail_after(120):
        async with open_federation(configuration, FederationOptions(connection=connection)) as federation:

            async def chat(name: str) -> None:
                user.set(name)
                conversation = Conversation(federation)
                await conversation.begin_turn("turn my name around")
                await conversation.take(ToolCall("search_tools", {"query": "turn a text around"}))
                step = await conversation.take(ToolCall("plain__reverse_text", {"text": name}))
                assert isinstance(step, Forward)
                assert text_of(await federation.call(step.tool.name, step.call.arguments)) == name[::-1]

            async with anyio.create_task_group() as users:
                for number in range(50):
                    users.start_soon(chat, f"user {number}")
    assert sorted(sent) == sorted((f"user {number}",) * 2 for number in range(50))
