"""Who may use a gateway, what each sees of it and how much it may ask: over HTTP by token, on stdio by `--toolset`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from click.testing import CliRunner, Result
from clients import ToolListChanges, library, names, with_token
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_ext_tools_search.client import iter_pages, search_tools, server_settings
from mcp_types import EmptyResult, ResourceUpdatedNotification, SubscribeRequest, SubscribeRequestParams
from tools_search_server.access.principals import (
    Principal,
    Throttle,
    is_token_hash,
    new_token,
    principal_of,
    token_hash,
)
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.cli import command
from tools_search_server.programs.gateway import gateway_program
from tools_search_server.programs.status import TOKEN_VARIABLE

pytestmark = pytest.mark.anyio

SERVER = """
import asyncio, mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

NAMES = ("log", "diff", "erase")
HEADERS = {"branch": {"type": "string", "x-mcp-header": "Branch"}}

def tool(name):
    schema = {"type": "object", "properties": HEADERS if name == "erase" else {}}
    return types.Tool(name=name, description=f"The {name} of a branch", input_schema=schema)

async def listed(ctx, params):
    return types.ListToolsResult(tools=[tool(name) for name in NAMES])

async def called(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"did {params.name}")])

async def main():
    server = Server("git", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

asyncio.run(main())
"""

GIT = {"command": sys.executable, "args": ["-c", SERVER]}
TOOLSETS = {"reading": {"git": {"exclude": ["erase"]}}, "logs": {"git": ["log"], "other": True}}


@pytest.fixture
def tokens() -> dict[str, str]:
    return {name: new_token() for name in ("reader", "owner", "slow", "busy")}


@pytest.fixture
def file(tmp_path: Path, raw: Any, tokens: dict[str, str]) -> Path:
    limits = {
        "reader": {"toolset": "reading"},
        "owner": {},
        "slow": {"requestsPerMinute": 2},
        "busy": {"openRequests": 2},
    }
    document = {
        "mcpServers": {"git": GIT, "other": raw("good")},
        "toolsets": TOOLSETS,
        "principals": {name: {"token": token_hash(token), **limits[name]} for name, token in tokens.items()},
    }
    written = tmp_path / "who.json"
    written.write_text(json.dumps(document))
    return written


async def all_that_is_told(client: Client) -> dict[str, Any]:
    settings = server_settings(client)
    assert settings is not None
    found = [
        (tool.name, (tool.meta or {}))
        async for page in iter_pages(client, "branch log erase", limit=1)
        for tool in page.tools
    ]
    return {
        "instructions": client.instructions,
        "topics": settings.topics,
        "listed": [tool.name for tool in (await client.session.list_tools()).tools],
        "found": found,
    }


async def error_of(client: Client, name: str, arguments: dict[str, Any]) -> MCPError:
    with pytest.raises(MCPError) as refused:
        await client.session.call_tool(name, arguments)
    return refused.value


@pytest.mark.rotating
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_shows_over_http_what_its_toolset_shows_on_stdio(
    servers: Any, connect: Any, file: Path, tokens: dict[str, str], mode: str
) -> None:
    options = ["--config", str(file), "--toolset", "reading"]
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
        async with AsyncExitStack() as stack:

            async def enter(name: str) -> Client:
                return await stack.enter_async_context(with_token(url, tokens[name], mode))

            reader, owner = await enter("reader"), await enter("owner")
            local = await stack.enter_async_context(connect("stdio", mode, *options))
            read, owned = await all_that_is_told(reader), await all_that_is_told(owner)
            assert read == await all_that_is_told(local)
            assert read["listed"] == ["git__log", "git__diff"]
            assert owned["listed"] == ["git__log", "git__diff", "git__erase", "other__plain"]
            assert "git__erase" in [name for name, _ in owned["found"]]
            # As an unknown tool, and not as one whose header is missing.
            hidden = await error_of(reader, "git__erase", {"branch": "main"})
            assert hidden.error == (await error_of(local, "git__erase", {"branch": "main"})).error
            assert hidden.message.startswith("Unknown tool")
            assert not (await owner.call_tool("git__erase", {"branch": "main"})).is_error
            assert not (await reader.call_tool("git__log", {})).is_error
            # Pages of another caller lead nowhere.
            page = await search_tools(owner, "branch", limit=1)
            with pytest.raises(MCPError):
                await search_tools(reader, "branch", limit=1, cursor=page.next_cursor)
            # Numbers that vary by caller are not published, and nothing is shared between callers.
            settings = [server_settings(reader), server_settings(owner), server_settings(local)]
            *varying, own = [each.catalog_size for each in settings if each]
            assert varying == [None, None]
            assert own in (2, None)  # absent if a server starts slowly
            if mode == "auto":
                assert (await reader.session.list_tools()).cache_scope == "private"
                assert (await search_tools(reader, "branch")).cache_scope == "private"


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    },
}


def post(url: str, token: str | None, session: str | None = None, **headers: str) -> httpx2.Response:
    own = {"Accept": "application/json, text/event-stream"} | headers
    own |= {"Authorization": f"Bearer {token}"} if token is not None else {}
    own |= {"Mcp-Session-Id": session} if session is not None else {}
    return httpx2.post(url, json=INITIALIZE, headers=own, trust_env=False, timeout=20)


def test_the_door(servers: Any, file: Path, tokens: dict[str, str]) -> None:
    url = servers.start_http("--config", str(file))

    absent, wrong = post(url, None), post(url, new_token())
    assert (absent.status_code, absent.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert (wrong.status_code, wrong.headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
    for other in ("Basic Zm9vOmJhcg==", "Bearer"):
        refused = post(url, None, Authorization=other)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")

    opened = post(url, tokens["owner"])
    assert opened.status_code == 200
    # A session belongs to who has opened it.
    assert post(url, tokens["reader"], opened.headers["Mcp-Session-Id"]).status_code == 404
    # Foreign hosts and origins are refused with a token, too.
    assert post(url, tokens["owner"], Host="evil.example").status_code == 421
    assert post(url, tokens["owner"], Origin="https://evil.example").status_code == 403

    answers = [post(url, tokens["slow"]) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 30
    told = answers[2].json()["error"]
    assert (told["code"], told["data"]) == (-32603, {"retryAfterMs": int(answers[2].headers["Retry-After"]) * 1000})

    session = post(url, tokens["busy"]).headers["Mcp-Session-Id"]
    stream = {"Authorization": f"Bearer {tokens['busy']}", "Mcp-Session-Id": session, "Accept": "text/event-stream"}
    with httpx2.stream("GET", url, headers=stream, trust_env=False, timeout=20) as one:
        assert one.status_code == 200
        assert post(url, tokens["busy"]).status_code == 200
        with httpx2.stream("POST", url, **unfinished(tokens["busy"]), trust_env=False, timeout=20) as two:
            assert two.status_code == 200
            full = post(url, tokens["busy"])
            assert (full.status_code, full.headers["Retry-After"]) == (429, "1")

    # Monitors have no token, and learn nothing of servers and tools.
    health = httpx2.get(url.replace("/mcp", "/healthz"), trust_env=False)
    assert health.json() == {"status": "ok"}


async def test_a_request_that_has_come_past_the_door_is_refused(file: Path) -> None:
    program = gateway_program(file, Limits(), GatewayOptions(20, 20), over_http=True)
    app = httpx2.ASGITransport(program.server.streamable_http_app(host="127.0.0.1", stateless_http=True))
    modern = {name: value for name, value in unfinished("")["headers"].items() if name != "Authorization"}
    listing = {"Mcp-Method": "tools/list"}, unfinished("")["json"] | {"method": "tools/list"}
    with anyio.fail_after(30):
        async with (
            program.server.session_manager.run(),
            httpx2.AsyncClient(transport=app, headers=modern, base_url="http://127.0.0.1:1") as http,
        ):
            greeted = await http.post("/mcp", json=INITIALIZE, headers={"Mcp-Protocol-Version": "2025-11-25"})
            listed = await http.post("/mcp", headers=listing[0], json=listing[1])
    assert ["Internal server error" in answer.text for answer in (greeted, listed)] == [True, True]


def unfinished(token: str) -> dict[str, Any]:
    """A modern subscription: its answer is a stream that stays open."""
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    method = "subscriptions/listen"
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": version,
        "Mcp-Method": method,
    }
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    return {"headers": headers, "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, list(arguments))


def test_the_token_command_prints_a_token_and_the_entry_that_knows_it(tmp_path: Path) -> None:
    made = run("token", "alice", "--toolset", "reading")
    assert made.exit_code == 0
    lines = [line.strip() for line in made.stdout.splitlines()]
    [token] = [line for line in lines if line.startswith("tsk_")]
    [entry] = [line for line in lines if line.startswith('"alice": ')]
    stated = json.loads("{" + entry + "}")["alice"]
    assert stated["toolset"] == "reading"
    assert principal_of(token, [Principal("alice", stated["token"])]) is not None
    assert token not in entry


def test_a_token_fits_no_hash_but_its_own() -> None:
    one, other = new_token(), new_token()
    hashed = token_hash(one)
    assert is_token_hash(hashed)
    assert not is_token_hash(one)
    assert token_hash(one) != hashed
    alice = Principal("alice", hashed)
    assert principal_of(one, [Principal("bob", token_hash(other)), alice]) is alice
    assert principal_of(other, [alice]) is None


@pytest.mark.parametrize(
    ("members", "arguments", "says"),
    [
        ({}, ["--http", "0.0.0.0:0"], "tools-search-server token NAME"),
        ({}, ["--http", "0.0.0.0:0", "--allow-remote"], "has no `principals`"),
        ({}, ["--toolset", "reading"], "`toolsets` has no 'reading'"),
        ({"toolsets": {"r": {"git": True}}, "principals": {"a": {"token": token_hash("t")}}},
         ["--http", "127.0.0.1:0", "--toolset", "r"], "set each principal's `toolset`"),
    ],
)  # fmt: skip
def test_what_would_show_more_than_is_meant_does_not_start(
    tmp_path: Path, members: Any, arguments: list[str], says: str
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"git": GIT}, **members}))
    refused = run("--config", str(file), *arguments)
    assert refused.exit_code == 2
    assert says in " ".join(refused.stderr.split())


def test_a_toolset_needs_a_configuration() -> None:
    assert "--config" in run("--toolset", "reading").stderr


def test_principals_may_be_served_on_every_address(servers: Any, file: Path) -> None:
    process = servers.start(
        "-m", "tools_search_server", "--http", "0.0.0.0:0", "--config", str(file), stderr=subprocess.DEVNULL
    )
    url = json.loads(process.stdout.readline())["url"].replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    assert post(url, None).status_code == 401


def test_a_throttle_admits_a_burst_and_then_an_even_flow() -> None:
    throttle = Throttle(60, None)
    assert [throttle.enter(0.0) for _ in range(60)] == [0.0] * 60
    assert throttle.enter(0.0) == 1.0
    assert throttle.enter(0.5) == 0.5
    assert throttle.enter(1.0) == 0.0
    assert throttle.enter(1.0) == 1.0
    assert [throttle.enter(1000.0) for _ in range(60)] == [0.0] * 60
    assert throttle.enter(1000.0) == 1.0


def test_a_throttle_counts_what_is_open() -> None:
    throttle = Throttle(None, 2)
    assert [throttle.enter(0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    throttle.leave()
    assert throttle.enter(0.0) == 0.0


@pytest.mark.rotating
async def test_a_token_that_is_taken_away_stops_working_and_one_that_is_added_works_without_a_restart(
    servers: Any, file: Path, tokens: dict[str, str], until: Any
) -> None:
    def status_of(name: str) -> int:
        headers = {"Authorization": f"Bearer {tokens[name]}"}
        return httpx2.get(url.replace("/mcp", "/healthz"), headers=headers, trust_env=False).status_code

    def replace(change: Callable[[Any], None]) -> None:
        document = json.loads(file.read_text())
        change(document["principals"])
        (file.parent / "new").write_text(json.dumps(document))
        (file.parent / "new").rename(file)

    async def listen() -> None:
        async with (
            with_token(url, tokens["reader"]) as client,
            client.listen(tools_list_changed=True) as events,
        ):
            listening.set()
            with pytest.raises(SubscriptionLost):
                async for _ in events:
                    pass
        cut.set()

    listening, cut = anyio.Event(), anyio.Event()
    tokens["new"] = new_token()
    log = file.parent / "log"
    with log.open("w") as stderr:
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), stderr=stderr))
    with anyio.fail_after(60):
        assert (status_of("reader"), status_of("owner"), status_of("new")) == (200, 200, 401)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await listening.wait()
            added = {"new": {"token": token_hash(tokens["new"])}}
            # Other limits leave what is open.
            replace(lambda document: document.update(added, reader=document["reader"] | {"requestsPerMinute": 900}))
            await until(lambda: status_of("new") == 200)
            assert not cut.is_set()
            replace(lambda principals: principals.pop("reader"))
            await cut.wait()
            assert (status_of("reader"), status_of("owner")) == (401, 200)
            tasks.cancel_scope.cancel()
        replace(lambda principals: principals.update(owner={"token": "wrong"}))
        await until(lambda: "stays in effect" in log.read_text())
        assert "`principals.owner.token`" in log.read_text()
        assert (status_of("owner"), status_of("new")) == (200, 200)


async def test_the_status_shows_a_principal_what_it_sees_and_others_nothing(
    servers: Any, file: Path, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*options: str) -> Result:
        return CliRunner().invoke(command, ["status", "--url", url, *options])

    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
    with anyio.fail_after(60):
        async with with_token(url, tokens["owner"]) as client:
            await client.list_tools()  # which waits for the servers
        token_file = file.parent / "token"
        token_file.write_text(tokens["owner"] + "\n")
        nothing = await anyio.to_thread.run_sync(asked)
        everything = await anyio.to_thread.run_sync(lambda: asked("--token-file", str(token_file)))
        monkeypatch.setenv(TOKEN_VARIABLE, tokens["reader"])
        part = await anyio.to_thread.run_sync(asked)
        monkeypatch.setenv(TOKEN_VARIABLE, "wrong")
        refused = await anyio.to_thread.run_sync(asked)
    assert "servers are shown only" in nothing.stderr
    assert "git" not in nothing.stdout
    assert "git" in everything.stdout
    assert "4 tools" in everything.stdout
    assert "2 tools" in part.stdout
    assert "other" not in part.stdout
    assert refused.exit_code == 1
    assert "does not accept this token" in refused.stderr


@pytest.mark.rotating
async def test_an_open_session_hears_of_the_lists_of_the_toolset_that_its_principal_has_now(
    servers: Any, tmp_path: Path, until: Any
) -> None:
    def write(name: str, document: Any) -> None:
        (tmp_path / "new").write_text(json.dumps(document))
        (tmp_path / "new").rename(tmp_path / name)

    def offer(server: str, number: int) -> None:
        tool = {"name": f"tool_{number}", "inputSchema": {"type": "object"}}
        write(f"{server}.catalog.json", {"tools": [tool]})

    def catalog_server(server: str) -> dict[str, Any]:
        offer(server, 0)
        return {"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", f"{server}.catalog.json"],
                "cwd": str(tmp_path)}  # fmt: skip

    def let_see(server: str) -> None:
        principals = {
            "mover": {"token": hashes[mover], "toolset": server},
            "owner": {"token": hashes[owner]},
        }
        toolsets = {"before": {"before": True}, "after": {"after": True}}
        write("who.json", {"mcpServers": entries, "toolsets": toolsets, "principals": principals})

    mover, owner = new_token(), new_token()
    hashes = {token: token_hash(token) for token in (mover, owner)}
    entries = {server: catalog_server(server) for server in ("before", "after")}
    let_see("before")
    by_mover, by_owner = ToolListChanges(), ToolListChanges()
    url = await anyio.to_thread.run_sync(
        lambda: servers.start_http("--config", str(tmp_path / "who.json"), stderr=subprocess.DEVNULL)
    )
    with anyio.fail_after(60):
        async with (
            with_token(url, mover, "legacy", message_handler=by_mover) as session,
            with_token(url, owner, "legacy", message_handler=by_owner) as other,
        ):
            assert await names(session) == ["before__tool_0"]
            let_see("after")
            listed = list[str]()
            while listed != ["after__tool_0"]:
                await anyio.sleep(0.05)
                with suppress(MCPError):  # what is open ends when the principal changes
                    listed = await names(session)
            by_owner.forget()  # of the servers, as they started
            of_the_start = by_mover.count
            offer("before", 1)
            await by_owner.once_more()
            assert by_mover.count == of_the_start
            for number in range(1, 100):  # until its stream is open again
                offer("after", number)
                with anyio.move_on_after(0.5):
                    await until(lambda: by_mover.count > of_the_start)
                    break
            assert by_mover.count > of_the_start
            assert (await other.session.list_tools()).tools


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_changes_of_a_hidden_server_are_told_to_nobody_else(
    servers: Any, raw: Any, tmp_path: Path, until: Any, mode: str
) -> None:
    tokens = {name: new_token() for name in ("reader", "owner")}
    hashes = {name: token_hash(token) for name, token in tokens.items()}
    document = {
        "mcpServers": {"shown": raw("good"), "grows": raw("growing", tmp_path), "hidden": library("legacy", "hidden")},
        "toolsets": {"some": {"shown": True}},
        "principals": {"reader": {"token": hashes["reader"], "toolset": "some"}, "owner": {"token": hashes["owner"]}},
    }
    (tmp_path / "who.json").write_text(json.dumps(document))
    heard: dict[str, Counter[str]] = {name: Counter() for name in tokens}

    async def follow(name: str, *, task_status: Any) -> None:
        async def on_message(message: Any) -> None:
            heard[name][type(message).__name__.removesuffix("Notification")] += 1

        options = {"message_handler": on_message} if mode == "legacy" else {}
        async with with_token(url, tokens[name], mode, **options) as client:
            await names(client)
            task_status.started(client)
            if mode == "legacy":
                await anyio.sleep_forever()
            lists: Any = {f"{kind}_list_changed": True for kind in ("tools", "prompts", "resources")}
            async with client.listen(**lists) as events:
                async for event in events:
                    await on_message(event)

    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(
            lambda: servers.start_http("--config", str(tmp_path / "who.json"), stderr=subprocess.DEVNULL)
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(follow, "reader")
            owner = await tasks.start(follow, "owner")
            number = 0

            async def change() -> None:
                nonlocal number
                number += 1
                await owner.session.call_tool("grows__plain", {"name": f"tool_{number}"})
                await owner.session.call_tool("hidden__change", {"what": ["prompts", "resources"]})

            def has_heard_all_since(before: Counter[str]) -> bool:
                return all(heard["owner"][kind] > before[kind] for kind in before)

            while len(heard["owner"]) < 3:  # until the stream is open
                await change()
                with anyio.move_on_after(0.5):
                    await until(lambda: len(heard["owner"]) == 3)
            for _ in range(3):
                since = partial(has_heard_all_since, heard["owner"].copy())
                await change()
                await until(since)
            tasks.cancel_scope.cancel()
    # Its own server's tools were new once, as the gateway started.
    assert heard["reader"] <= Counter(ToolListChanged=1, ToolsListChanged=1)


async def test_a_legacy_session_hears_of_no_resource_that_its_toolset_no_longer_shows(
    servers: Any, tmp_path: Path, until: Any
) -> None:
    entries = {name: library("modern", name) for name in ("hidden", "shown")}
    uris = {name: f"gateway://{name}/file:///shared.txt" for name in entries}
    tokens = {name: new_token() for name in ("mover", "owner")}
    hashes = {name: token_hash(token) for name, token in tokens.items()}
    heard = list[str]()

    def let_see(*names: str) -> None:
        toolsets = {"some": dict.fromkeys(names, True)}
        principals = {"mover": {"token": hashes["mover"], "toolset": "some"}, "owner": {"token": hashes["owner"]}}
        document = {"mcpServers": entries, "toolsets": toolsets, "principals": principals}
        (tmp_path / "new").write_text(json.dumps(document))
        (tmp_path / "new").rename(tmp_path / "who.json")

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(message.params.uri)

    let_see("hidden", "shown")
    file = str(tmp_path / "who.json")
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", file, stderr=subprocess.DEVNULL))
    with anyio.fail_after(60):
        async with (
            with_token(url, tokens["mover"], "legacy", message_handler=hear) as mover,
            with_token(url, tokens["owner"], "legacy", message_handler=hear) as owner,
        ):
            for uri in uris.values():
                request = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
                await mover.session.send_request(request, EmptyResult)
            let_see("shown")
            listed = ["hidden__"]
            while any(name.startswith("hidden__") for name in listed):
                await anyio.sleep(0.05)
                with suppress(MCPError):  # what is open ends when the principal changes
                    listed = await names(mover)
            heard.clear()
            while not heard:  # until its stream is open again
                for name in uris:  # in this order, which is kept
                    await owner.session.call_tool(f"{name}__change", {"what": ["file:///shared.txt"]})
                with anyio.move_on_after(0.5):
                    await until(lambda: heard)
    assert set(heard) == {uris["shown"]}


@pytest.mark.rotating
async def test_the_health_of_a_principal_moves_with_nothing_that_it_does_not_see(
    servers: Any, tmp_path: Path, raw: Any, until: Any
) -> None:
    tokens = {name: new_token() for name in ("part", "whole", "other")}

    def write(name: str, hidden: dict[str, Any]) -> str:
        entries = {"git": raw("stated", tmp_path), **hidden}
        principals: dict[str, Any] = {"part": {"token": token_hash(tokens["part"]), "toolset": "reading"}}
        if hidden:
            principals |= {name: {"token": token_hash(tokens[name])} for name in ("whole", "other")}
        document = {"mcpServers": entries, "toolsets": {"reading": {"git": ["log"]}}, "principals": principals}
        (tmp_path / name).write_text(json.dumps(document))
        return servers.start_http("--config", str(tmp_path / name), stderr=subprocess.DEVNULL)

    def health_of(url: str, name: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {tokens[name]}"}
        health = httpx2.get(url.replace("/mcp", "/healthz"), headers=headers, trust_env=False).json()
        for server in health["servers"]:
            del server["since"]
        return health

    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("log", "diff")]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    with anyio.fail_after(60):
        hidden = {"crashing": raw("crashing"), "stuck": raw("hanging"), "other": raw("good")}
        url = await anyio.to_thread.run_sync(lambda: write("all.json", hidden))
        alone = await anyio.to_thread.run_sync(lambda: write("part.json", {}))
        await until(lambda: health_of(url, "part")["ready"] and health_of(alone, "part")["ready"])
        whole = health_of(url, "whole")
        assert [post(url, tokens["other"]).status_code for _ in range(20)] == [200] * 20
        assert health_of(url, "part") == health_of(alone, "part")
        assert health_of(url, "part")["status"] == "ok"
        # One who sees every server sees nothing of the other callers either.
        assert whole.keys() == health_of(url, "whole").keys()
        assert "tasks" not in whole
