"""A gateway over a gateway serves what the inner one shows it, as if there were only one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from clients import names, server_entry, with_token
from mcp import Client, MCPError
from mcp_ext_search_primitives.client import search_prompts, search_resources
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, search_tools
from tools_search_server.access.principals import new_token, token_hash

pytestmark = pytest.mark.anyio

ARCHIVE = Path(__file__).parents[1] / "servers" / "archive.py"
EXTENSION = "io.github.tools-search/tools-search"
EVERY_ERA = pytest.mark.parametrize("era", ["auto", "legacy"])
INDEXED = pytest.mark.parametrize("options", [[], ["--index-at-most", "0"]], ids=["indexed", "delegated"])

HANDBOOK: dict[str, Any] = {
    "tools": [{"name": "find_page", "description": "Finds a page", "inputSchema": {"type": "object"}}],
    "resources": [{"uri": "docs://returns.md", "name": "returns.md", "title": "Returns and losses"}],
    "prompts": [{"name": "answer", "description": "Drafts a reply."}],
    "texts": {"docs://returns.md": "The carrier refunds a parcel that vanished."},
}


@pytest.fixture
def archive(tmp_path: Path) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """Write what a server has, and return its entry in a configuration."""

    def entry(name: str, spec: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / f"{name}.json").write_text(json.dumps(spec))
        return {"command": sys.executable, "args": [str(ARCHIVE), str(tmp_path / f"{name}.json")]}

    return entry


@pytest.fixture
def start(servers: Any, tmp_path: Path) -> Any:
    """Start a gateway over HTTP with a configuration, and return its URL."""

    async def started(name: str, *options: str, **configuration: Any) -> str:
        file = tmp_path / f"{name}-gateway.json"
        file.write_text(json.dumps(configuration))
        with (tmp_path / f"{name}.err").open("w") as stderr:
            arguments = ["--config", str(file), "--search", "contents,prompts", *options]
            return await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments, stderr=stderr))

    return started


@pytest.mark.rotating
@EVERY_ERA
@INDEXED
async def test_a_caller_gets_what_both_toolsets_show_and_calls_run_through_both(
    start: Any, archive: Any, tmp_path: Path, until: Any, era: str, options: list[str]
) -> None:
    tokens = {name: new_token() for name in ("outer", "clerk", "boss")}
    shown = {"versatile": ["count", "wait", "echo"], "handbook": True}
    steps: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    with anyio.fail_after(90):
        inner = await start(
            "inner",
            mcpServers={
                "versatile": server_entry("versatile.py", tmp_path),
                "handbook": archive("handbook", HANDBOOK),
                "secret": archive("secret", HANDBOOK),
            },
            toolsets={"some": shown},
            principals={"outer": {"token": token_hash(tokens["outer"]), "toolset": "some"}},
        )
        entry = {"url": inner, "headers": {"Authorization": f"Bearer {tokens['outer']}"}, "era": era}
        outer = await start(
            "outer",
            *options,
            mcpServers={"inner": entry},
            toolsets={"few": {"inner": ["versatile__wait", "versatile__die", "handbook__find_page"]}},
            principals={
                "boss": {"token": token_hash(tokens["boss"])},
                "clerk": {"token": token_hash(tokens["clerk"]), "toolset": "few"},
            },
        )
        async with with_token(outer, tokens["boss"], era) as boss, with_token(outer, tokens["clerk"], era) as clerk:
            listed = [set(await names(client)) for client in (boss, clerk)]
            searched = [
                {
                    tool.name
                    for query in ("count wait echo die", "find page")
                    for tool in (await search_tools(client, query)).tools
                }
                for client in (boss, clerk)
            ]
            result = await boss.call_tool("inner__versatile__count", {}, progress_callback=note)
            assert not result.is_error
            for client, name in (
                (boss, "inner__versatile__die"),
                (clerk, "inner__versatile__count"),
                (boss, "inner__secret__find_page"),
            ):
                with pytest.raises(MCPError, match="Unknown tool"):
                    await raw_request(client, "tools/call", {"name": name, "arguments": {}}, seconds=10)
            resources = [[one.uri for one in (await search_resources(boss, "vanished parcel")).resources]]
            prompts = [[one.name for one in (await search_prompts(boss, "drafts")).prompts]]
            read = await boss.read_resource(resources[0][0])
            with pytest.raises(MCPError):
                await boss.read_resource("gateway://inner/gateway://secret/docs://returns.md")
            with anyio.move_on_after(30) as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(boss.call_tool, "inner__versatile__wait")
                    await until((tmp_path / "waiting").exists)
                    tasks.cancel_scope.cancel()
            assert not scope.cancelled_caught
            await until((tmp_path / "cancelled").exists)
    every = {f"inner__versatile__{name}" for name in ("count", "wait", "echo")} | {"inner__handbook__find_page"}
    few = {"inner__versatile__wait", "inner__handbook__find_page"}
    assert listed == [every, few]
    assert searched == [every, few]
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert resources == [["gateway://inner/gateway://handbook/docs://returns.md"]]
    assert "vanished" in str(read.contents)
    assert prompts == [["inner__handbook__answer"]]


@pytest.mark.rotating
@EVERY_ERA
@INDEXED
async def test_a_server_behind_two_gateways_that_does_not_answer_costs_only_its_own(
    start: Any, archive: Any, era: str, options: list[str]
) -> None:
    slow: dict[str, Any] = {
        "tools": [{"name": "dig", "inputSchema": {"type": "object"}}],
        "settings": {"catalogSize": 1, "resources": {}, "prompts": {}},
    }
    mute = ("tools/search", "resources/search", "prompts/search", "resources/list", "prompts/list")
    with anyio.fail_after(90):
        servers = {"slow": archive("slow", slow), "handbook": archive("handbook", HANDBOOK)}
        inner = await start("inner", *options, mcpServers=servers)
        outer = await start("outer", *options, mcpServers={"inner": {"url": inner, "era": era}})
        async with Client(outer, mode=era, extensions=[TOOLS_SEARCH]) as client:
            assert {"inner__slow__dig", "inner__handbook__find_page"} == set(await names(client))
            archive("slow", slow | {"faults": dict.fromkeys(mute, "mute")})
            found = await search_tools(client, "find page")
            found_resources = await search_resources(client, "returns")
            found_prompts = await search_prompts(client, "drafts")
    tools, resources, prompts = found.tools, found_resources.resources, found_prompts.prompts
    # What the inner gateway does not allow to cache, the outer one does not either.
    assert (found_resources.ttl_ms, found_prompts.ttl_ms) == (0, 0)
    assert [one.name for one in tools] == ["inner__handbook__find_page"]
    assert [one.uri for one in resources] == ["gateway://inner/gateway://handbook/docs://returns.md"]
    assert [one.name for one in prompts] == ["inner__handbook__answer"]


@pytest.mark.rotating
@pytest.mark.parametrize(("stated", "kept"), [(0, 0), (700, 700), (60_000, 5_000), ("700", 0)])
@pytest.mark.parametrize("query", ["page", "find handbook page"])
async def test_found_tools_can_be_cached_no_longer_than_the_server_that_found_them_allows(
    start: Any, archive: Any, stated: Any, kept: int, query: str
) -> None:
    page = {"resultType": "complete", "tools": HANDBOOK["tools"], "ttlMs": stated, "cacheScope": "public"}
    searched = {"settings": {"catalogSize": 1}, "faults": {"tools/search": {"result": page}}}
    with anyio.fail_after(60):
        gateway = await start(
            "gateway", "--index-at-most", "0", mcpServers={"handbook": archive("a", HANDBOOK | searched)}
        )
        async with Client(gateway, extensions=[TOOLS_SEARCH]) as client:
            found = await search_tools(client, query)
    assert ([tool.name for tool in found.tools], found.ttl_ms) == (["handbook__find_page"], kept)
