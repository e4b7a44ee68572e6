"""Changes of resources and of lists, from servers of both eras to callers of both, each sent once and in order."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from clients import call, library
from mcp import Client, MCPError
from mcp.server import Server
from mcp_types import (
    EmptyResult,
    InitializedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from tools_search_server.gateway import changes
from tools_search_server.gateway.changes import LegacySessions
from tools_search_server.upstreams import notifications
from tools_search_server.upstreams.notifications import LIST_EVENTS

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])
either_upstream = pytest.mark.parametrize("upstream", ["modern", "legacy"])


class Told:
    """The notifications of a client, as short words."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](100)

    async def on_message(self, message: object) -> None:
        match message:
            case ResourceUpdatedNotification(params=params):
                await self._send.send(params.uri)
            case PromptListChangedNotification():
                await self._send.send("prompts")
            case ResourceListChangedNotification():
                await self._send.send("resources")
            case _:
                pass

    async def until(self, last: str) -> list[str]:
        words = [await self._receive.receive()]
        while words[-1] != last:
            words.append(await self._receive.receive())
        return words

    def close(self) -> None:
        self._send.close()
        self._receive.close()


@pytest.fixture
def told() -> Generator[Told]:
    told = Told()
    yield told
    told.close()


async def subscribe(client: Client, uri: str) -> None:
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def listen(client: Client, uri: str) -> None:
    async with client.listen(resource_subscriptions=[uri]):
        pass


async def unsubscribe(client: Client, uri: str) -> None:
    await client.session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)


@asynccontextmanager
async def following(client: Client, mode: str, *uris: str) -> AsyncGenerator[None]:
    """Follow resources, and changes of lists, as the era does."""
    async with AsyncExitStack() as stack:
        if mode == "legacy":
            for uri in uris:
                await subscribe(client, uri)
        else:
            lists = {"prompts_list_changed": True, "resources_list_changed": True}
            await stack.enter_async_context(client.listen(**lists, resource_subscriptions=uris))
        yield
        if mode == "legacy":
            for uri in uris:
                await unsubscribe(client, uri)


async def change(client: Client, server: str, what: Sequence[str]) -> None:
    assert await call(client, f"{server}__change", what=what) == (False, "changed")


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_changes_of_both_eras_servers_are_told_once_and_in_order(
    connect: Any, configuration: Any, told: Any, transport: str, mode: str
) -> None:
    file = configuration(new=library("modern", "new"), old=library("legacy", "old"))
    public = "gateway://old/file:///shared.txt"
    with anyio.fail_after(60):
        async with connect(transport, mode, "--config", str(file), message_handler=told.on_message) as client:
            before = (await client.session.list_resources()).resources
            async with following(
                client, mode, public, "gateway://new/memo:new:1", "memo:old:1", "memo:old:2", "note://old/a"
            ):
                await change(client, "old", ["memo:old:2"])  # what comes before: servers that were ready late
                await told.until("memo:old:2")
                what = ["memo:old:1", "file:///shared.txt", "memo:old:3", "prompts", "resources", "note://old/a/part"]
                await change(client, "old", [*what, "memo:old:2"])
                from_old = await told.until("memo:old:2")
                after = (await client.session.list_resources()).resources
                await change(client, "new", ["prompts", "resources", "file:///shared.txt", "memo:new:1"])
                from_new = await told.until("gateway://new/memo:new:1")
    assert from_old == ["memo:old:1", public, "prompts", "resources", "note://old/a", "memo:old:2"]
    assert from_new == ["prompts", "resources", "gateway://new/memo:new:1"]
    assert len(after) == len(before) + 1


@both_eras
@either_upstream
async def test_a_server_is_asked_for_as_long_as_somebody_follows(gateway: Any, mode: str, upstream: str) -> None:
    async def asked() -> list[str]:
        return json.loads((await call(client, "one__seen"))[1])

    async def until_none() -> None:
        while await asked():  # noqa: ASYNC110 - another process sets no events
            await anyio.sleep(0.01)

    with anyio.fail_after(60):
        async with gateway(mode, one=library(upstream, "one")) as client:
            async with following(client, mode, "memo:one:1", "gateway://one/memo:one:1", "memo:one:2"):
                assert await asked() == ["memo:one:1", "memo:one:2"]
            await until_none()


@both_eras
@either_upstream
async def test_a_server_that_comes_back_is_asked_again_and_what_may_have_changed_is_told(
    gateway: Any, told: Any, mode: str, upstream: str
) -> None:
    with anyio.fail_after(60):
        async with gateway(mode, one=library(upstream, "one"), client={"message_handler": told.on_message}) as client:
            await client.session.list_resources()
            async with following(client, mode, "memo:one:1"):
                await client.session.call_tool("one__die", {})
                await told.until("memo:one:1")
                assert json.loads((await call(client, "one__seen"))[1]) == ["memo:one:1"]
                await change(client, "one", ["memo:one:2", "memo:one:1"])
                again = await told.until("memo:one:1")
    assert again[-1] == "memo:one:1"
    assert again.count("memo:one:1") == 1


async def test_a_lazy_server_that_ends_while_it_is_followed_comes_back_without_a_request(
    gateway: Any, told: Any, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = library("legacy", "one") | {"lazy": True}
    with anyio.fail_after(60):
        async with gateway("legacy", one=entry, client={"message_handler": told.on_message}) as client:
            await client.session.list_resources()
            await until(lambda: bool(list((tmp_path / "cache").rglob("*.json"))))
            async with following(client, "legacy", "gateway://one/memo:one:1"):
                await client.session.call_tool("one__die", {})
                await told.until("gateway://one/memo:one:1")


@both_eras
async def test_a_subscription_that_cannot_be_carried_is_refused_with_the_reason(
    gateway: Any, versatile: Any, raw: Any, tmp_path: Path, mode: str
) -> None:
    async def refusal(client: Client, uri: str) -> str:
        with pytest.raises(MCPError) as refused:
            await (subscribe(client, uri) if mode == "legacy" else listen(client, uri))
        return refused.value.message

    with anyio.fail_after(60):
        entries = {"busy": versatile(tmp_path), "broken": raw("crashing"), "one": library("modern", "one")}
        async with gateway(mode, **entries) as client:
            await client.session.list_resources()
            unknown = await refusal(client, "memo:two:1")
            unable = await refusal(client, "gateway://busy/file:///a")
            down = await refusal(client, "gateway://broken/file:///a")
    assert unknown.startswith("Resource not found. Use the URI of a listed resource")
    assert "'busy' does not announce changes" in unable
    assert "'broken' is not connected; subscribe again" in down


@both_eras
async def test_a_client_can_follow_only_so_many_resources(
    gateway: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_MAX_RESOURCES", 2)
    uris = [f"memo:one:{number}" for number in (1, 2, 3)]
    with anyio.fail_after(60):
        async with gateway(mode, one=library("modern", "one")) as client:
            if mode == "legacy":
                for uri in (*uris[:2], uris[0]):
                    await subscribe(client, uri)
                with pytest.raises(MCPError, match="at most 2 subscriptions"):
                    await subscribe(client, uris[2])
            else:
                async with client.listen(resource_subscriptions=uris) as followed:
                    assert followed.honored.resource_subscriptions == uris[:2]


async def test_a_client_can_follow_only_so_many_resources_that_it_asks_for_at_once(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []

    async def ask(client: Client, number: int) -> None:
        try:
            await subscribe(client, f"note://one/{number}")
        except MCPError as error:
            refusals.append(error.message)

    monkeypatch.setattr(changes, "_MAX_RESOURCES", 2)
    with anyio.fail_after(60):
        async with gateway("legacy", one=library("modern", "one")) as client:
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(ask, client, number)
            assert refusals == ["A client can have at most 2 subscriptions"] * 3
            for number in (0, 1):
                await unsubscribe(client, f"note://one/{number}")
            with pytest.raises(MCPError, match="not found"):  # and counts no more
                await subscribe(client, "memo:two:1")
            for number in (1, 2):
                await subscribe(client, f"memo:one:{number}")


@both_eras
async def test_a_lazy_server_is_started_to_be_followed(
    gateway: Any, mode: str, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = library("modern", "one") | {"lazy": True}
    with anyio.fail_after(60):
        async with gateway(mode, one=entry):
            await until(lambda: bool(list((tmp_path / "cache").rglob("*.json"))))
        async with gateway(mode, one=entry) as client, following(client, mode, "gateway://one/memo:one:1"):
            pass


async def test_a_server_that_answers_nothing_about_subscriptions_holds_up_nobody(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_SUBSCRIBE_SECONDS", 1)
    mute = library("legacy", "one", "mute")
    with anyio.fail_after(60):
        async with gateway("legacy", one=mute) as client:
            await client.session.list_tools()
            for number in range(6):
                await subscribe(client, f"gateway://one/memo:{number}")
            began = anyio.current_time()
            for number in range(6):
                with pytest.raises(MCPError, match="does not accept subscriptions in time"):
                    await subscribe(client, f"gateway://one/mute:{number}")
            seconds_of_refusals, leaves = anyio.current_time() - began, anyio.current_time()
        seconds_of_leaving = anyio.current_time() - leaves
    assert seconds_of_refusals < 4
    assert seconds_of_leaving < 4


async def test_sessions_whose_list_grows_by_what_they_find_are_told_of_all_that_changes(
    connect: Any, configuration: Any, told: Told
) -> None:
    file = configuration(one=library("legacy", "one"))
    options = ("--compat", "list-changed", "--config", str(file))
    with anyio.fail_after(60):
        async with connect("stdio", "legacy", *options, message_handler=told.on_message) as client:
            tool = next(tool.name for tool in (await client.session.list_tools()).tools)
            assert tool == "search_tools"
            async with following(client, "legacy", "memo:one:1"):
                await change(client, "one", ["prompts", "resources", "memo:one:1"])
                words = await told.until("memo:one:1")
    assert words[-3:] == ["prompts", "resources", "memo:one:1"]


async def test_a_session_is_remembered_until_it_ends_however_often_it_begins() -> None:
    server, sessions = Server[Any]("s"), LegacySessions()
    sessions.install(server)
    async with Client(server, mode="legacy") as client:
        await client.session.send_notification(InitializedNotification())
        await client.session.send_ping()
        [connection] = sessions.owners
    assert connection not in sessions.owners


async def test_what_changes_at_once_is_told_to_a_session_in_full(told: Told) -> None:
    server, sessions = Server[Any]("s"), LegacySessions()
    sessions.install(server)
    with anyio.fail_after(10):
        async with (
            anyio.create_task_group() as tasks,
            Client(server, mode="legacy", message_handler=told.on_message) as client,
        ):
            tasks.start_soon(sessions.run)
            await client.session.send_ping()
            for kind in ("tools", "prompts", "resources", "prompts"):
                sessions.notify(LIST_EVENTS[kind])
            assert await told.until("resources") == ["prompts", "resources"]
            tasks.cancel_scope.cancel()


async def test_a_flood_of_changes_is_announced_now_and_then_and_does_not_hold_up_the_changes_of_another(
    connect: Any, configuration: Any, raw: Any
) -> None:
    heard: list[object] = []
    floods, others = anyio.Event(), anyio.Event()

    async def on_message(message: object) -> None:
        heard.append(type(message))
        if isinstance(message, ResourceUpdatedNotification):
            others.set()
        elif len(heard) > 20:
            floods.set()

    file = configuration(flood=raw("flooding"), old=library("legacy", "old"))
    with anyio.fail_after(60):
        async with connect("stdio", "legacy", "--config", str(file), message_handler=on_message) as client:
            await subscribe(client, "gateway://old/file:///shared.txt")
            began = anyio.current_time()
            await client.session.call_tool("flood__plain")
            await floods.wait()
            seconds = anyio.current_time() - began
            await change(client, "old", ["file:///shared.txt"])
            before = len(heard)
            await others.wait()
    assert seconds > 0.5  # at most 20 a second
    assert len(heard) - before < 400


async def test_a_session_that_does_not_read_delays_the_notifications_of_no_other(
    servers: Any, configuration: Any, told: Told
) -> None:
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "silent", "version": "1"}}
    long = "note://old/" + "a" * 60_000
    file = configuration(old=library("legacy", "old"))
    url = servers.start_http("--config", str(file))
    accept = {"Accept": "application/json, text/event-stream"}
    with anyio.fail_after(60):
        async with httpx2.AsyncClient(headers=accept, timeout=30) as silent:

            async def post(method: str, **rest: Any) -> httpx2.Response:
                answer = await silent.post(url, json={"jsonrpc": "2.0", "method": method, **rest})
                return answer.raise_for_status()

            greeted = await post("initialize", id=1, params=about)
            silent.headers["Mcp-Session-Id"] = greeted.headers["mcp-session-id"]
            await post("notifications/initialized")
            assert '"result"' in (await post("resources/subscribe", id=2, params={"uri": long})).text
            async with (
                silent.stream("GET", url),
                Client(url, mode="legacy", message_handler=told.on_message) as reader,
                following(reader, "legacy", "memo:old:1"),
            ):
                for _ in range(5):
                    await change(reader, "old", [long] * 40)
                with anyio.fail_after(15):
                    await change(reader, "old", ["memo:old:1"])
                    await told.until("memo:old:1")
