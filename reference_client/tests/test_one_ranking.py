"""What a search finds does not depend on which side ranked it: the servers themselves, a gateway, or the client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_ext_tools_search.types import EXTENSION_ID
from tools_search_client import (
    Conversation,
    Federation,
    FoundTool,
    Reply,
    ToolCall,
    ToolDiscovery,
    load_configuration,
    open_federation,
)
from tools_search_client.federation.configuration import command_server
from tools_search_client.one_server import find_tools, list_and_rank

pytestmark = pytest.mark.anyio

SMALL = Path(__file__).parents[2] / "benchmarks" / "small"
SERVERS = ("gitdesk", "workfs", "coinpath", "trackly", "postbox")
LIMIT = 10
LABELS: list[dict[str, Any]] = [
    {},
    {"group": "keeping accounts", "tags": ["monthly"]},
    {"aliases": ["undo everything"], "category": "not the one that is shown"},
]
"""What some of the tools publish besides."""


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SMALL / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """The tools of the servers, with labels, and with two names that have to be altered."""
    path = tmp_path / "tools.jsonl"
    lines = [line for line in read("tools.jsonl") if line["server"] in SERVERS]
    for number, line in enumerate(lines):
        line["_meta"] = {"io.modelcontextprotocol.experimental/none": 1} | labeled(LABELS[number % len(LABELS)])
    lines[0]["name"] = f"{lines[0]['name']}: the first"
    lines[1]["name"] = "žluťoučký_kůň"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def labeled(labels: dict[str, Any]) -> dict[str, Any]:
    return {EXTENSION_ID: labels} if labels else {}


@pytest.fixture
def configuration(tools: Path, write_configuration: Callable[[dict[str, object]], Path]) -> Path:
    program = str(Path(__file__).parent / "fixtures" / "servers" / "listing.py")
    return write_configuration(
        {name: {"command": sys.executable, "args": [program, str(tools), name]} for name in SERVERS}
    )


def write_catalog(tools: Path, path: Path) -> str:
    lines = [json.loads(line) for line in tools.read_text().splitlines()]
    shown = [{key: value for key, value in line.items() if key not in ("id", "server")} for line in lines]
    path.write_text(json.dumps({"tools": list({tool["name"]: tool for tool in shown}.values())}))
    return str(path)


def queries(tools: Path) -> list[str]:
    """Requests that fit, nearly fit and do not fit, and names of tools, bare and full, that of the first among them."""
    asked = [line["query"] for line in read("queries.jsonl")]
    lines = [json.loads(line) for line in tools.read_text().splitlines()]
    names = [line["name"] for line in lines]
    full = [f"{line['server']}__{line['name']}" for line in lines]
    return [*asked[::4], *names[::4], *full[::4], "undo everything", "monthly", "kůň"]


async def by_the_client(servers: Federation, asked: list[str]) -> dict[str, list[FoundTool]]:
    await servers.list(deadline=60)
    return {query: list((await servers.search(query, limit=LIMIT, deadline=60)).tools) for query in asked}


async def by_a_conversation(servers: Federation, asked: list[str]) -> dict[str, list[str]]:
    conversation = Conversation(servers, ToolDiscovery(enabled=True, defer_all=True, max_search_results=LIMIT))
    await conversation.begin_turn()
    found: dict[str, list[str]] = {}
    for query in asked:
        conversation.start_over()
        reply = await conversation.take(ToolCall("search_tools", {"query": query}))
        assert isinstance(reply, Reply)
        found[query] = list(reply.loaded)
    return found


@pytest.mark.rotating
async def test_a_gateway_and_a_client_find_the_same_tools_in_the_same_order(tools: Path, configuration: Path):
    asked = queries(tools)
    gateway = command_server(f"{sys.executable} -m tools_search_server --config {configuration}", name="")
    direct = load_configuration(configuration)
    with anyio.fail_after(300):
        async with open_federation(gateway) as servers:
            found_there = await by_the_client(servers, asked)
        async with open_federation(direct) as servers:
            found_here = await by_the_client(servers, asked)
            in_conversation = await by_a_conversation(servers, asked)
    # What a gateway calls a tool is what the client calls it that asks the servers itself.
    through_gateway = {query: [item.tool.name for item in found] for query, found in found_there.items()}
    by_client = {query: [tool.name for tool in found] for query, found in found_here.items()}
    assert sum(map(bool, through_gateway.values())) > 100
    assert found_here["kůň"][0].tool.name == "žluťoučký_kůň"
    assert sum(not found for found in through_gateway.values()) > 10, "some requests fit nothing"
    for found in (by_client, in_conversation):
        assert {query: names for query, names in found.items() if names != through_gateway[query]} == {}


async def test_one_server_and_the_page_to_copy_find_the_same_tools_in_the_same_order(tools: Path, tmp_path: Path):
    catalog = write_catalog(tools, tmp_path / "catalog.json")
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "tools_search_server", "--catalog", catalog])
    with anyio.fail_after(120):
        async with Client(parameters, extensions=[TOOLS_SEARCH]) as client:
            for query in queries(tools)[::4]:
                searched = (await search_tools(client, query, limit=LIMIT)).tools[:LIMIT]
                assert [tool.name for tool in await find_tools(client, query, limit=LIMIT)] == [
                    tool.name for tool in searched
                ]
                assert [tool.name for tool in await list_and_rank(client, query, limit=LIMIT)] == [
                    tool.name for tool in searched
                ]
