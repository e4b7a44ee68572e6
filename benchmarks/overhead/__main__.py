"""Costs of the gateway: `python -m benchmarks.overhead`.

All ways take turns in one run, so that the other work of the machine falls on all alike.
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
from typing import Any, TypeAlias

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
from benchmarks.overhead.ways import WAYS, accepting, argv_of, connected, free_port, opened, running

Seconds: TypeAlias = Mapping[str, Sequence[float]]
_Once: TypeAlias = Callable[[int], Awaitable[Any]]
_UPSTREAM: dict[str, Any] = {
    "command": sys.executable, "args": ["-m", "benchmarks.overhead.upstream"], "cwd": str(Path(__file__).parents[2]),
}  # fmt: skip
QUERIES = ("resize a photo", "export the invoices", "restart the cluster", "forecast the weather", "close ticket")
_WORDS = ("photo", "invoice", "cluster", "weather", "ticket", "order", "mailbox", "sensor", "payroll", "repository")
_VERBS = ("create", "list", "update", "delete", "restart", "resize", "close", "export", "forecast", "assign")


async def calls(count: int, *, over_http: bool) -> Seconds:
    """Return how long each call of a tool took, by way."""
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            clients = await _clients(stack, Path(folder), over_http=over_http)
            names = {way: (await client.list_tools()).tools[0].name for way, client in clients.items()}

            def call(way: str) -> _Once:
                return lambda turn: clients[way].call_tool(names[way], {"text": f"turn {turn}"})

            return await _by_turns({way: call(way) for way in clients}, count)


async def _clients(stack: AsyncExitStack, folder: Path, *, over_http: bool) -> dict[str, Client]:
    if not over_http:
        made = {way: connected(argv_of(way, folder, _UPSTREAM, None)) for way in WAYS}
        return {way: await stack.enter_async_context(client) for way, client in made.items()}
    clients: dict[str, Client] = {}
    upstream = _UPSTREAM
    for way in WAYS:  # the first is the server itself, which the others then stand in front of
        port = free_port()
        url = stack.enter_context(running(argv_of(way, folder, upstream, port), port))
        await accepting(port)
        clients[way] = await stack.enter_async_context(opened(url))
        upstream = {"type": "http", "url": url} if way == "direct" else upstream
    return clients


async def starts(count: int) -> Seconds:
    """Return how long it took from the start of each to its first answer to `tools/list`, by way."""
    with TemporaryDirectory() as folder:

        def start(way: str) -> _Once:
            async def once(_turn: int) -> None:
                async with connected(argv_of(way, Path(folder), _UPSTREAM, None)) as client:
                    await client.list_tools()
                    ends[way].append(perf_counter())

            return once

        ends: dict[str, list[float]] = {way: [] for way in WAYS}
        took: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(count):
            for way in WAYS:
                began = perf_counter()
                await start(way)(turn)
                took[way].append(ends[way][-1] - began)
        return took


async def searches(count: int, tools: int, servers: int) -> Seconds:
    """Return how long a search over many tools took on stdio, at one server that has all of them and at a gateway.

    A `trip` is a request to the gateway that is refused before anything is searched.
    """
    definitions = catalog(tools)
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            whole = _catalog_server(Path(folder), "whole", definitions)
            server = await stack.enter_async_context(connected([whole["command"], *whole["args"]]))
            gateway = await stack.enter_async_context(connected(_gateway(Path(folder), definitions, servers)))
            for client in (server, gateway):
                await search_tools(client, QUERIES[0])

            async def trip(_turn: int) -> None:
                with suppress(MCPError):
                    await raw_request(gateway, METHOD, {"query": " "}, seconds=None)

            ways: dict[str, _Once] = {
                "trip": trip,
                "one server": lambda turn: search_tools(server, _query(turn)),
                "gateway": lambda turn: search_tools(gateway, _query(turn)),
            }
            return await _by_turns(ways, count)


async def search_work(count: int, tools: int, servers: int) -> Seconds:
    """Return the processor time of a search: in the bare index, and as a request to a gateway in this process.

    The second is all that a gateway adds to the index apart from the trip. Processor time, since both work here.
    """
    definitions = catalog(tools)
    index = floored(FieldedRanker())([Tool.model_validate(one) for one in definitions])
    with TemporaryDirectory() as folder:
        _gateway(Path(folder), definitions, servers)
        options = GatewayOptions(start_deadline=60, call_timeout=60)
        program = gateway_program(Path(folder) / "mcp.json", Limits(), options)
        async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as gateway:
            await search_tools(gateway, QUERIES[0])

            async def bare(turn: int) -> object:
                return list(index.search(_query(turn))[:10])

            ways: dict[str, _Once] = {
                "bare index": bare,
                "gateway": lambda turn: raw_request(gateway, METHOD, {"query": _query(turn)}, seconds=None),
            }
            return await _by_turns(ways, count, clock=process_time)


async def memory(tools: int, servers: int) -> float:
    """Return the bytes of memory that a gateway takes for 1,000 tools that it has listed and searched."""
    used: list[int] = []
    with TemporaryDirectory() as folder:
        for size in (servers, tools):
            file = Path(folder) / "pid"
            argv = _gateway(Path(folder), catalog(size), servers)
            program = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
            program += "os.execv(sys.argv[2], sys.argv[2:])"
            async with connected([sys.executable, "-c", program, str(file), *argv]) as client:
                page = await client.list_tools()
                while page.next_cursor is not None:
                    page = await client.list_tools(cursor=page.next_cursor)
                await search_tools(client, QUERIES[0])
                used.append(_resident(int(await anyio.Path(file).read_text())))
    return (used[1] - used[0]) / (tools - servers) * 1000


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def catalog(count: int) -> list[dict[str, Any]]:
    """Return as many tools of about 700 bytes each, all of them different."""
    return [_tool(number) for number in range(count)]


def _tool(number: int) -> dict[str, Any]:
    verb, word = _VERBS[number % 10], _WORDS[number // 10 % 10]
    other = _WORDS[number // 100 % 10]
    properties = {
        f"{word}_id": {"type": "string", "description": f"Identifier of the {word}"},
        other: {"type": "string", "description": f"The {other} that it belongs to, as {other} list shows it"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "How many to return at most"},
    }
    return {
        "name": f"{verb}_{word}_{number}",
        "title": f"{verb.capitalize()} {word} {number}",
        "description": f"{verb.capitalize()} one {word} or several of them in region {number}, together with its "
        f"{other}. Needs the right to see {other}s; what is not there is passed over and told in the result.",
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
    return QUERIES[turn % len(QUERIES)]


async def _by_turns(ways: Mapping[str, _Once], count: int, clock: Callable[[], float] = perf_counter) -> Seconds:
    took: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(count):
        for way, once in ways.items():
            began = clock()
            await once(turn)
            took[way].append(clock() - began)
    return took


def middle(seconds: Sequence[float]) -> float:
    """Return the median of what counts."""
    return median(counted(seconds))


def counted(seconds: Sequence[float]) -> Sequence[float]:
    """Return all but the first tenth, in which everything is done for the first time."""
    return seconds[len(seconds) // 10 :]


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--calls", "call_count", type=click.IntRange(1), default=500, show_default=True, help="Calls each way.")
@click.option("--searches", "search_count", type=click.IntRange(1), default=200, show_default=True)
@click.option("--starts", "start_count", type=click.IntRange(1), default=5, show_default=True)
@click.option("--tools", type=click.IntRange(20), default=10_000, show_default=True, help="Tools that are searched.")
@click.option("--servers", type=click.IntRange(1), default=4, show_default=True, help="Servers that have them.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(
    call_count: int, search_count: int, start_count: int, tools: int, servers: int, json_file: Path | None
) -> None:
    """Measure what a gateway adds: to calls, searches, the start and memory. Ratios are to the first of each row."""
    rows = {
        "call, stdio": anyio.run(lambda: calls(call_count, over_http=False)),
        "call, HTTP": anyio.run(lambda: calls(call_count, over_http=True)),
        f"search of {tools} tools, work": anyio.run(search_work, search_count, tools, servers),
        f"search of {tools} tools, stdio": anyio.run(searches, search_count, tools, servers),
        "start to first answer": anyio.run(starts, start_count),
    }
    report = {name: _figures(took) for name, took in rows.items()}
    bytes_each = anyio.run(memory, tools, servers)
    for name, figures in report.items():
        cells = [f"{way} {one['ms']:.2f} ms ({one['ratio']:.2f})" for way, one in figures.items()]
        click.echo(f"{name}: {', '.join(cells)}")
    click.echo(f"memory of the gateway for 1,000 tools: {bytes_each / 1e6:.1f} MB")
    if json_file:
        document = {"rows": report, "bytes_for_1000_tools": round(bytes_each)}
        json_file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _figures(took: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    medians = {way: middle(seconds) for way, seconds in took.items()}
    first = counted(next(iter(took.values())))
    ratios = {way: ratio_of_medians(counted(seconds), first) for way, seconds in took.items()}
    return {
        way: {"ms": round(one * 1000, 3), "ratio": round(ratios[way].value, 3), "bounds": asdict(ratios[way])}
        for way, one in medians.items()
    }


if __name__ == "__main__":
    main()
