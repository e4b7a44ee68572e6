"""A gateway under load for minutes while its servers are killed, and what its callers notice."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from fleet import Fleet, answer
from gateways import Footprint
from mcp import Client, MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.server import ToolsSearch, install
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, PaginatedRequestParams
from soak.callers import Caller
from soak.observations import Observations
from soak.run import compare, soak

FLEET = Fleet(4, 40)
CALM = Footprint(processes=2, descriptors=50, threads=5, tasks=100, memory_mib=200)


def listing(fault: str) -> list[dict[str, Any]]:
    tools = [upstream.tools[own] | {"name": name} for name, (upstream, own) in FLEET.by_public_name.items()]
    if fault == "loses a tool":
        return tools[:-1]
    if fault == "lists a tool twice":
        return [*tools, tools[0]]
    if fault == "changes definitions":
        return [tool | {"inputSchema": {"type": "object"}} for tool in tools]
    return tools


async def called(fault: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name not in FLEET.by_public_name:
        raise MCPError(INVALID_PARAMS, "Unknown tool")
    if fault == "fails a call":
        raise MCPError(INTERNAL_ERROR, "No")
    upstream, own = FLEET.by_public_name[name]
    if fault != "answers what was given up":
        await anyio.sleep(float(arguments.get("seconds", 0)))
    if fault == "changes arguments":
        arguments = arguments | {"text": "other"}
    return answer(upstream, "another" if fault == "calls another tool" else own, arguments, 1) | {
        "resultType": "complete"
    }


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
async def test_every_lost_or_wrong_answer_is_a_failure(fault: str, seen_by: tuple[bool, ...], lists: bool) -> None:
    seen = Observations()
    with anyio.fail_after(30):
        async with Client(gateway(fault), extensions=[TOOLS_SEARCH], cache=None) as client:
            random = Random(1)  # noqa: S311 - to be repeated
            caller = Caller("", "modern", FLEET, seen, random, lists, anyio.Event(), longest_pause=0)
            await caller.use(client, 60)
    assert bool(seen.failed) == (lists in seen_by), seen.failures
    assert sum(seen.done.values()) + seen.failed >= 60


def test_an_error_is_excused_only_while_its_own_server_is_down() -> None:
    seen = Observations()

    async def look() -> None:
        began = anyio.current_time()
        assert not seen.was_down("a", began)
        outage = seen.begin_outage("a")
        assert seen.was_down("a", began)
        assert not seen.was_down("b", began)
        outage.end = anyio.current_time()
        assert seen.was_down("a", began)
        assert not seen.was_down("a", outage.end + 0.001)

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
def test_every_resource_that_is_left_over_is_a_failure(after: Footprint) -> None:
    seen = Observations()
    compare(CALM, CALM, CALM, seen, tools=40_000)
    assert seen.failed == 0
    compare(CALM, CALM, after, seen, tools=40_000)
    assert seen.failed == 1


def test_in_a_short_time_memory_is_judged_by_the_number_of_tools() -> None:
    seen = Observations()
    compare(CALM, None, CALM, seen, tools=2_000)
    assert seen.failed == 0
    compare(CALM, None, CALM, seen, tools=1_000)
    assert seen.failed == 1


@pytest.mark.endurance
def test_a_gateway_stands_minutes_of_use_while_its_servers_are_killed(
    tmp_path: Path, seconds: float, seed: int, say: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # of the clients: failures of theirs are counted
    run = partial(soak, Fleet(200, 10_000), 50, seconds=seconds, seed=seed, folder=tmp_path, say=say)
    seen = anyio.run(run)
    say(json.dumps(seen.figures(), indent=2))
    assert not seen.failed, seen.failures
