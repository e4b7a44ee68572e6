"""The soak sees what it is there to see; that a gateway passes it is a step of its own."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.server import ToolsSearch, install
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams

from benchmarks.soak.__main__ import main
from benchmarks.soak.callers import Caller
from benchmarks.soak.run import Footprint, compare
from benchmarks.soak.world import Ledger, World, answer

WORLD = World(4, 40)
CALM = Footprint(processes=2, descriptors=50, threads=5, tasks=100, memory_mib=200)


def listing(fault: str) -> list[dict[str, Any]]:
    tools = [plan.tools[own] | {"name": name} for name, (plan, own) in WORLD.by_public_name.items()]
    if fault == "loses a tool":
        return tools[:-1]
    if fault == "lists a tool twice":
        return [*tools, tools[0]]
    if fault == "changes definitions":
        return [tool | {"inputSchema": {"type": "object"}} for tool in tools]
    return tools


async def called(fault: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name not in WORLD.by_public_name:
        raise MCPError(INVALID_PARAMS, "Unknown tool")
    if fault == "fails a call":
        raise MCPError(INTERNAL_ERROR, "No")
    plan, own = WORLD.by_public_name[name]
    if fault != "answers what was given up":
        await anyio.sleep(float(arguments.get("seconds", 0)))
    if fault == "changes arguments":
        arguments = arguments | {"text": "other"}
    return answer(plan, "another" if fault == "calls another tool" else own, arguments, 1) | {"resultType": "complete"}


def gateway(fault: str) -> Server[Any]:
    """Return a server that stands for a gateway, with one fault or, for "", without."""

    async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> dict[str, Any]:
        return {"tools": listing(fault), "ttlMs": 0, "cacheScope": "public", "resultType": "complete"}

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
        return await called(fault, params.name, dict(params.arguments or {}))

    async def falsified(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "tools/search" and isinstance(result, dict):
            if fault == "finds nothing":
                result["tools"] = []
            if fault == "finds what is not listed":
                result["tools"] = [*result["tools"], listing("")[0] | {"name": "s000__hidden"}]
        return result

    server = Server[Any]("gateway", get_tool_input_schema=lambda _: None)
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    install(server, ToolsSearch())
    server.middleware.insert(0, falsified)
    return server


@pytest.mark.anyio
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize(
    ("fault", "seen_by"),
    [
        ("", ()),
        ("loses a tool", (True,)),
        ("lists a tool twice", (True,)),
        ("changes definitions", (False, True)),
        ("fails a call", (False, True)),
        ("calls another tool", (False, True)),
        ("changes arguments", (False, True)),
        ("answers what was given up", (False,)),
        ("finds nothing", (False,)),
        ("finds what is not listed", (False, True)),
    ],
)
async def test_whatever_is_lost_or_wrong_is_a_failure(fault: str, seen_by: tuple[bool, ...], lists: bool) -> None:
    ledger = Ledger()
    with anyio.fail_after(30):
        async with Client(gateway(fault), extensions=[TOOLS_SEARCH], cache=None) as client:
            random = Random(1)  # noqa: S311 - to be repeated
            caller = Caller("", "modern", WORLD, ledger, random, lists, anyio.Event(), longest_pause=0)
            await caller.use(client, 60)
    assert bool(ledger.failed) == (lists in seen_by), ledger.failures
    assert sum(ledger.done.values()) + ledger.failed >= 60


def test_an_error_is_excused_only_while_its_own_server_is_down() -> None:
    ledger = Ledger()

    async def look() -> None:
        began = anyio.current_time()
        assert not ledger.was_down("a", began)
        outage = ledger.begin_outage("a")
        assert ledger.was_down("a", began)
        assert not ledger.was_down("b", began)
        outage.end = anyio.current_time()
        assert ledger.was_down("a", began)
        assert not ledger.was_down("a", outage.end + 0.001)

    anyio.run(look)


@pytest.mark.parametrize(
    "after",
    [
        Footprint(processes=3, descriptors=50, threads=5, tasks=100, memory_mib=200),
        Footprint(processes=2, descriptors=150, threads=5, tasks=100, memory_mib=200),
        Footprint(processes=2, descriptors=50, threads=105, tasks=100, memory_mib=200),
        Footprint(processes=2, descriptors=50, threads=5, tasks=200, memory_mib=200),
        Footprint(processes=2, descriptors=50, threads=5, tasks=100, memory_mib=300),
    ],
)
def test_whatever_is_left_over_is_a_failure(after: Footprint) -> None:
    ledger = Ledger()
    compare(CALM, CALM, CALM, ledger, tools=40_000)
    assert ledger.failed == 0
    compare(CALM, CALM, after, ledger, tools=40_000)
    assert ledger.failed == 1


def test_in_a_short_time_memory_is_judged_by_the_number_of_tools() -> None:
    ledger = Ledger()
    compare(CALM, None, CALM, ledger, tools=2_000)
    assert ledger.failed == 0
    compare(CALM, None, CALM, ledger, tools=1_000)
    assert ledger.failed == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seconds", "1"],
        ["--upstreams", "100000"],
        ["--tools", "10000000"],
        ["--callers", "100000"],
        ["--tools", "10"],
    ],
)
def test_absurd_sizes_are_refused(arguments: list[str]) -> None:
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 2
