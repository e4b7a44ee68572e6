"""The gateway's overhead: `python -m benchmarks.overhead`.

All variants take turns in one run, so that other load on the machine affects them equally.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias

import anyio
import click
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, search_tools
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import METHOD
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import gateway_program

from benchmarks.bootstrap import ratio_of_medians
from benchmarks.options import json_option, write_figures
from benchmarks.processes import ROOT, connected, free_port, serving
from benchmarks.report.tables import overhead_tables

WAYS: Final = ("direct", "gateway", "fastmcp")
"""Ways to reach one server: directly, through the gateway, and through FastMCP's proxy."""

Seconds: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds by variant."""
_Once: TypeAlias = Callable[[int], Awaitable[Any]]
_UPSTREAM: Final[dict[str, Any]] = {
    "command": sys.executable, "args": ["-m", "benchmarks.overhead.upstream"], "cwd": str(ROOT),
}  # fmt: skip
_QUERIES: Final = (
    "resize a photo",
    "export the invoices",
    "restart the cluster",
    "forecast the weather",
    "close ticket",
)
_WORDS: Final = (
    "photo", "invoice", "cluster", "weather", "ticket", "order", "mailbox", "sensor", "payroll", "repository",
)  # fmt: skip
_VERBS: Final = ("create", "list", "update", "delete", "restart", "resize", "close", "export", "forecast", "assign")


async def calls(count: int, folder: Path, *, over_http: bool) -> Seconds:
    """Return the seconds of each tool call."""
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        upstream = _UPSTREAM
        for way in WAYS:
            if not over_http:
                clients[way] = await stack.enter_async_context(connected(_argv(way, folder, upstream, None)))
                continue
            port = free_port()
            url = await stack.enter_async_context(serving(_argv(way, folder, upstream, port), port))
            clients[way] = await stack.enter_async_context(Client(url, extensions=[TOOLS_SEARCH]))
            if way == "direct":  # the server itself, which the others are in front of
                upstream = {"type": "http", "url": url}
        names = {way: (await client.list_tools()).tools[0].name for way, client in clients.items()}

        def call(way: str) -> _Once:
            return lambda turn: clients[way].call_tool(names[way], {"text": f"turn {turn}"})

        return await _by_turns({way: call(way) for way in clients}, count)


def _argv(way: str, folder: Path, upstream: dict[str, Any], port: int | None) -> list[str]:
    """Return the command that serves the upstream's tools with one variant, on stdio or at a port."""
    file = folder / f"{way}.json"
    file.write_text(json.dumps({"mcpServers": {"echo": upstream}}), encoding="utf-8")
    at = [] if port is None else [str(port)]
    match way:
        case "direct":
            return [sys.executable, "-m", "benchmarks.overhead.upstream", *at]
        case "gateway":
            http = [] if port is None else ["--http", f"127.0.0.1:{port}"]
            return [sys.executable, "-m", "tools_search_server", "--config", str(file), *http]
        case _:
            return [sys.executable, "-m", "benchmarks.overhead.fastmcp_proxy", str(file), *at]


async def starts(count: int, folder: Path) -> Seconds:
    """Return the seconds from each variant's start to its first answer to `tools/list`."""
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(count):
        for way in WAYS:
            began = perf_counter()
            async with connected(_argv(way, folder, _UPSTREAM, None)) as client:
                await client.list_tools()
                took[way].append(perf_counter() - began)
    return took


async def searches(count: int, folder: Path, tools: int, servers: int) -> Seconds:
    """Return the seconds of a search over many tools on stdio, on one server that has all of them and on a gateway.

    A `trip` is a request that the gateway refuses before searching.
    """
    definitions = catalog(tools)
    whole = _catalog_server(folder, "whole", definitions)
    async with (
        connected([whole["command"], *whole["args"]]) as server,
        connected(_gateway(folder, definitions, servers)) as gateway,
    ):
        for client in (server, gateway):
            await search_tools(client, _QUERIES[0])

        async def trip(_turn: int) -> None:
            with suppress(MCPError):
                await raw_request(gateway, METHOD, {"query": " "}, seconds=None)

        ways: dict[str, _Once] = {
            "trip": trip,
            "one server": lambda turn: search_tools(server, _query(turn)),
            "gateway": lambda turn: search_tools(gateway, _query(turn)),
        }
        return await _by_turns(ways, count)


async def search_work(count: int, folder: Path, tools: int, servers: int) -> Seconds:
    """Return the processor time of a search: in the bare index, and as a request to a gateway in this process.

    The second includes everything that a gateway adds to the index except the trip. It is processor time because both
    run in this process.
    """
    definitions = catalog(tools)
    index = floored(FieldedRanker())([Tool.model_validate(definition) for definition in definitions])
    _gateway(folder, definitions, servers)
    program = gateway_program(folder / "mcp.json", Limits(), GatewayOptions(start_deadline=60, call_timeout=60))
    async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as gateway:
        await search_tools(gateway, _QUERIES[0])

        async def bare(turn: int) -> object:
            return list(index.search(_query(turn))[:10])

        ways: dict[str, _Once] = {
            "bare index": bare,
            "gateway": lambda turn: raw_request(gateway, METHOD, {"query": _query(turn)}, seconds=None),
        }
        return await _by_turns(ways, count, clock=process_time)


async def memory(folder: Path, tools: int, servers: int) -> float:
    """Return the bytes of memory that a gateway needs for 1,000 tools that it has listed and searched."""
    used: list[int] = []
    file = folder / "pid"
    program = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
    program += "os.execv(sys.argv[2], sys.argv[2:])"
    for size in (servers, tools):
        argv = _gateway(folder, catalog(size), servers)
        async with connected([sys.executable, "-c", program, str(file), *argv]) as client:
            page = await client.list_tools()
            while page.next_cursor is not None:
                page = await client.list_tools(cursor=page.next_cursor)
            await search_tools(client, _QUERIES[0])
            process = await anyio.Path(file).read_text()
            pages = (await anyio.Path(f"/proc/{process}/statm").read_text()).split()[1]
            used.append(int(pages) * os.sysconf("SC_PAGE_SIZE"))
    return (used[1] - used[0]) / (tools - servers) * 1000


def catalog(count: int) -> list[dict[str, Any]]:
    """Return `count` different tools of about 700 bytes each."""
    return [_tool(number) for number in range(count)]


def _tool(number: int) -> dict[str, Any]:
    verb, word, other = _VERBS[number % 10], _WORDS[number // 10 % 10], _WORDS[number // 100 % 10]
    properties = {
        f"{word}_id": {"type": "string", "description": f"Identifier of the {word}"},
        other: {"type": "string", "description": f"The {other} that it belongs to, as {other} list shows it"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "How many to return at most"},
    }
    return {
        "name": f"{verb}_{word}_{number}",
        "title": f"{verb.capitalize()} {word} {number}",
        "description": f"{verb.capitalize()} one {word} or several of them in region {number}, together with its "
        f"{other}. Needs the right to see {other}s; the result names those that do not exist and were left out.",
        "inputSchema": {"type": "object", "properties": properties, "required": [f"{word}_id"]},
    }


def _catalog_server(folder: Path, name: str, definitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"tools": definitions}), encoding="utf-8")
    return {"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", str(file)]}


def _gateway(folder: Path, definitions: Sequence[dict[str, Any]], servers: int) -> list[str]:
    parts = {f"part{n}": _catalog_server(folder, f"part{n}", definitions[n::servers]) for n in range(servers)}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": parts}), encoding="utf-8")
    return [sys.executable, "-m", "tools_search_server", "--config", str(file), "--start-deadline", "60"]


def _query(turn: int) -> str:
    return _QUERIES[turn % len(_QUERIES)]


async def _by_turns(ways: Mapping[str, _Once], count: int, clock: Callable[[], float] = perf_counter) -> Seconds:
    took: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(count):
        for way, once in ways.items():
            began = clock()
            await once(turn)
            took[way].append(clock() - began)
    return took


@click.command()
@click.option("--calls", "call_count", type=click.IntRange(1), default=500, show_default=True, help="Calls each way.")
@click.option("--searches", "search_count", type=click.IntRange(1), default=200, show_default=True)
@click.option("--starts", "start_count", type=click.IntRange(1), default=5, show_default=True)
@click.option("--tools", type=click.IntRange(20), default=10_000, show_default=True, help="Number of tools to search.")
@click.option(
    "--servers", type=click.IntRange(1), default=4, show_default=True, help="Number of servers that have them."
)
@json_option
def main(
    call_count: int, search_count: int, start_count: int, tools: int, servers: int, json_file: Path | None
) -> None:
    """Measure a gateway's overhead for calls, searches, the start and memory.

    Ratios are relative to the first variant in each row.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = {
            "call, stdio": anyio.run(lambda: calls(call_count, folder, over_http=False)),
            "call, HTTP": anyio.run(lambda: calls(call_count, folder, over_http=True)),
            f"search of {tools} tools, work": anyio.run(search_work, search_count, folder, tools, servers),
            f"search of {tools} tools, stdio": anyio.run(searches, search_count, folder, tools, servers),
            "start to first answer": anyio.run(starts, start_count, folder),
        }
        bytes_each = anyio.run(memory, folder, tools, servers)
    report = {name: _figures(took) for name, took in rows.items()}
    figures = {"rows": report, "bytes_for_1000_tools": round(bytes_each)}
    write_figures(figures, overhead_tables, json_file)


def _figures(took: Seconds) -> dict[str, dict[str, Any]]:
    # Discard the first tenth, in which everything is done for the first time.
    counted = {way: seconds[len(seconds) // 10 :] for way, seconds in took.items()}
    first = next(iter(counted.values()))
    return {
        way: {"ms": round(1000 * median(seconds), 3), "bounds": asdict(ratio_of_medians(seconds, first))}
        for way, seconds in counted.items()
    }


if __name__ == "__main__":
    main()
