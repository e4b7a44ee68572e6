"""Command line of the end-to-end benchmark: one catalog over each transport, with each client."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias

import anyio
import click
from mcp_ext_tools_search.types import METHOD

from benchmarks.bootstrap import Bounded, percentile, ratio_of_medians
from benchmarks.context.measure import Request, TokenCounter
from benchmarks.endtoend.connections import CLIENTS, TRANSPORTS, Connection, connection
from benchmarks.endtoend.server import NOTHING, PROCESSOR_TIME
from benchmarks.markdown import table
from benchmarks.options import data_option
from benchmarks.provenance import provenance, versions
from benchmarks.speed.corpus import Corpus, read_corpus

LIMITS: Final = (1, 5, 10)
"""Tools of a page; ten is what a server answers where nothing is said."""
DO_NOTHING: Final = "nothing"
FIRST_PAGE: Final = "first page of the list"
WHOLE: Final = "the whole list"
Way: TypeAlias = Callable[[int], tuple[str, Mapping[str, Any]]]
"""Gives the request of a turn: its method and its parameters."""


def ways_of(queries: Sequence[str]) -> Mapping[str, Way]:
    """Return each kind of request that takes turns; searches of one turn have different queries."""
    searches = {
        search_of(limit): _search(queries, limit, place * len(queries) // len(LIMITS))
        for place, limit in enumerate(LIMITS)
    }
    return {DO_NOTHING: lambda _turn: (NOTHING, {}), **searches}


def search_of(limit: int) -> str:
    """Return what a search for so many tools is called."""
    return f"search, {limit} tools" if limit > 1 else "search, 1 tool"


def _search(queries: Sequence[str], limit: int, first: int) -> Way:
    return lambda turn: (METHOD, {"query": queries[(first + turn) % len(queries)], "limit": limit})


async def whole_list(connection: Connection) -> tuple[list[Any], int]:
    """Read every page of `tools/list`, and return the tools and how many bytes carried them."""
    tools: list[Any] = []
    size = 0
    cursor: str | None = None
    while True:
        page, length = await connection.ask("tools/list", {} if cursor is None else {"cursor": cursor})
        tools += page["tools"]
        size += length
        cursor = page.get("nextCursor")
        if cursor is None:
            return tools, size


_BLOCKS: Final = 5
_IN_A_BLOCK: Final = 10


@dataclass(frozen=True)
class Row:
    """What one kind of request took."""

    way: str
    requests: int
    p50_ms: Bounded
    p95_ms: Bounded
    ratio: Bounded
    """Of the medians, to the request that does nothing."""

    server_ms: float
    """Of the server's processor, for one request."""

    client_ms: float
    """Of the client's processor, for one request."""


async def measure(connection: Connection, ways: Mapping[str, Way], requests: int) -> list[Row]:
    """Put each kind of request so many times, of which the first is the one that does nothing.

    They take turns, in another order each time. What is done for the first time is done before.
    """
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    chance = random.Random(_SEED)  # noqa: S311 - the same order in every run
    warm_up = 1 + requests // 10
    for turn in range(warm_up + requests):
        for way in chance.sample(list(ways), len(ways)):
            method, params = ways[way](turn)
            began = perf_counter()
            await connection.ask(method, params)
            seconds[way].append(perf_counter() - began)
    work = await _work(connection, ways, warm_up + requests)
    took = {way: [1000 * one for one in own[warm_up:]] for way, own in seconds.items()}
    return [
        Row(way, requests, *_percentiles(own), ratio_of_medians(own, took[DO_NOTHING]), *work[way])
        for way, own in took.items()
    ]


async def measure_lists(connection: Connection, nothing: Row, times: int) -> list[Row]:
    """Read the first page of the list and the whole list so many times, each by itself.

    Pages are so large that the next request is slowed down. Ratios are to the median of `nothing`, taken as it
    is.
    """
    first = await _measure_alone(lambda: connection.ask("tools/list", {}), connection, times)
    whole = await _measure_alone(lambda: whole_list(connection), connection, times)
    return [_beside(nothing, FIRST_PAGE, *first), _beside(nothing, WHOLE, *whole)]


async def _measure_alone(
    ask: Callable[[], Awaitable[object]], connection: Connection, times: int
) -> tuple[list[float], float, float]:
    """Return the milliseconds of each, and what one takes of the server's processor and of the client's."""
    took: list[float] = []
    client = server = 0.0
    for _ in range(times):
        server -= await _processor_seconds_of_asking(connection)
        before, own = await _processor_seconds(connection), process_time()
        began = perf_counter()
        await ask()
        took.append(1000 * (perf_counter() - began))
        client += process_time() - own
        server += await _processor_seconds(connection) - before
    return took, 1000 * server / times, 1000 * client / times


def _beside(nothing: Row, way: str, took: Sequence[float], server_ms: float, client_ms: float) -> Row:
    p50, p95 = _percentiles(took)
    base = nothing.p50_ms.value
    ratio = Bounded(p50.value / base, p50.low / base, p50.high / base)
    return Row(way, len(took), p50, p95, ratio, server_ms, client_ms)


def _percentiles(milliseconds: Sequence[float]) -> tuple[Bounded, Bounded]:
    return percentile(milliseconds, 50), percentile(milliseconds, 95)


async def _work(connection: Connection, ways: Mapping[str, Way], turn: int) -> dict[str, tuple[float, float]]:
    """Return what one request takes of the server's processor and of the client's, in milliseconds.

    Requests are put in blocks, as asking the server is a request itself; what that takes is measured and left out.
    """
    server, client = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for _ in range(_BLOCKS):
        for way, request in ways.items():
            server[way] -= await _processor_seconds_of_asking(connection)
            before, own = await _processor_seconds(connection), process_time()
            for _ in range(_IN_A_BLOCK):
                turn += 1
                await connection.ask(*request(turn))
            client[way] += process_time() - own
            server[way] += await _processor_seconds(connection) - before
    each = 1000 / (_BLOCKS * _IN_A_BLOCK)
    return {way: (server[way] * each, client[way] * each) for way in ways}


async def _processor_seconds_of_asking(connection: Connection) -> float:
    before = await _processor_seconds(connection)
    return await _processor_seconds(connection) - before


async def _processor_seconds(connection: Connection) -> float:
    answer, _ = await connection.ask(PROCESSOR_TIME, {})
    return answer["seconds"]


@dataclass(frozen=True)
class Weight:
    """The answers to one kind of request, as means."""

    way: str
    bytes: float
    definitions: float
    tokens: float | None
    """Of name, description and parameters of each definition, as in `benchmarks.context`; `None` where nothing that
    counts them is installed."""


async def weigh(connection: Connection, ways: Mapping[str, Way], requests: int) -> list[Weight]:
    """Weigh the answers to so many requests of each kind, and to the whole list."""
    count = TokenCounter() if find_spec("bpe_openai") else None
    weights: list[Weight] = []
    for way, request in ways.items():
        answers = [await connection.ask(*request(turn)) for turn in range(requests)]
        lists = [answer.get("tools", []) for answer, _ in answers]
        weights.append(_weight(way, lists, [size for _, size in answers], count))
    page, first = await connection.ask("tools/list", {})
    tools, size = await whole_list(connection)
    lists = {FIRST_PAGE: (page["tools"], first), WHOLE: (tools, size)}
    return [*weights, *(_weight(way, [tools], [size], count) for way, (tools, size) in lists.items())]


def _weight(
    way: str, lists: Sequence[Sequence[Mapping[str, Any]]], sizes: Sequence[int], count: TokenCounter | None
) -> Weight:
    tokens = None if count is None else fmean(_tokens(tools, count) for tools in lists)
    return Weight(way, fmean(sizes), fmean(map(len, lists)), tokens)


def _tokens(tools: Sequence[Mapping[str, Any]], count: TokenCounter) -> int:
    told = [
        {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["inputSchema"]}
        for tool in tools
    ]
    return count.definitions(Request(told, [], frozenset(), 0))


_LISTS: Final = 10
_RELISTING_PART: Final = 10
_WEIGHED: Final = 100


@dataclass(frozen=True)
class Connected:
    """What one client took over one transport."""

    transport: str
    client: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Size:
    """All that was measured with one catalog."""

    tools: int
    connected: Sequence[Connected]
    relisting: Connected
    """A server on which the search was installed with its defaults, so that each search lists first."""

    weights: Sequence[Weight]


async def measure_size(corpus: Corpus, requests: int) -> Size:
    """Serve the tools of `corpus`, and put each kind of request so many times over each connection.

    Each connection has a server of its own, one after the other. The list is read a few times, and the server
    that lists first is asked a tenth as often.
    """
    queries = corpus.queries
    ways = ways_of(queries)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "catalog.json"
        tools = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in corpus.tools]
        file.write_text(json.dumps({"tools": tools}), encoding="utf-8")
        del tools
        gc.collect()
        gc.freeze()  # the catalog is not the client's, so that looking through it is not its work either
        connected = [
            await _connected(str(file), ways, requests, transport, client)
            for transport in TRANSPORTS
            for client in CLIENTS
        ]
        few = {way: ways[way] for way in (DO_NOTHING, search_of(LIMITS[-1]))}
        async with connection("stdio", "raw", [str(file), "--relists"]) as opened:
            rows = await measure(opened, few, max(2, requests // _RELISTING_PART))
        async with connection("stdio", "raw", [str(file)]) as opened:
            weights = await weigh(opened, ways, min(requests, _WEIGHED))
    gc.unfreeze()
    return Size(len(corpus.tools), connected, Connected("stdio", "raw", rows), weights)


async def _connected(file: str, ways: Mapping[str, Way], requests: int, transport: str, client: str) -> Connected:
    async with connection(transport, client, [file]) as opened:
        rows = await measure(opened, ways, requests)
        return Connected(transport, client, [*rows, *await measure_lists(opened, rows[0], _LISTS)])


_MOST: Final = search_of(LIMITS[-1])


def page(sizes: Sequence[Size]) -> str:
    """Return all tables."""
    parts = [
        "Milliseconds, median / 95th percentile:",
        _by_connection(sizes, lambda row: f"{_short(row.p50_ms.value)} / {_short(row.p95_ms.value)}"),
        "Times a request that does nothing (medians):",
        _by_connection(sizes, lambda row: _bounded(row.ratio)),
        "Milliseconds of the processor, server + client:",
        _by_connection(sizes, lambda row: f"{_short(row.server_ms)} + {_short(row.client_ms)}"),
        "The answers:",
        _weights(sizes),
        "A search that lists first, which it does where the server hands over no listing (stdio, raw):",
        _relisting(sizes),
    ]
    return "\n\n".join(parts)


def _by_connection(sizes: Sequence[Size], cell: Callable[[Row], str]) -> str:
    connections = [f"{one.transport}, {one.client}" for one in sizes[0].connected]
    rows = [
        (f"{size.tools:,}", row.way, *(cell(one.rows[place]) for one in size.connected))
        for size in sizes
        for place, row in enumerate(size.connected[0].rows)
    ]
    return table(("tools", "request", *connections), rows)


def _weights(sizes: Sequence[Size]) -> str:
    rows = [
        (
            f"{size.tools:,}",
            one.way,
            f"{one.bytes:,.0f}",
            f"{one.definitions:,.1f}",
            "" if one.tokens is None else f"{one.tokens:,.0f}",
        )
        for size in sizes
        for one in size.weights
    ]
    return table(("tools", "request", "bytes", "definitions", "their tokens"), rows)


def _relisting(sizes: Sequence[Size]) -> str:
    rows = [
        (f"{size.tools:,}", _short(own.p50_ms.value), _short(own.server_ms), _bounded(own.ratio))
        for size in sizes
        for own in (_searched(size.relisting),)
    ]
    return table(("tools", "median ms", "ms of the server's processor", "times nothing"), rows)


def _searched(connected: Connected) -> Row:
    return next(row for row in connected.rows if row.way == _MOST)


def _bounded(one: Bounded) -> str:
    return f"{_short(one.value)} ({_short(one.low)}-{_short(one.high)})"


def _short(figure: float) -> str:
    """Return three digits, or all of a larger whole number."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


_SEED: Final = 2026
_QUERIES: Final = 1_000
_LONGEST: Final = 1_024
_PACKAGES: Final = ("mcp", "mcp-types", "pydantic", "anyio", "uvicorn", "starlette", "httpx2", "bpe-openai")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@data_option
@click.option("--sizes", default="10,100,1000,10000", show_default=True, help="Numbers of tools.")
@click.option("--requests", type=click.IntRange(2), default=200, show_default=True, help="Of each kind.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(directories: Sequence[Path], sizes: str, requests: int, json_file: Path | None) -> None:
    """Measure what a search takes next to a request that does nothing, and next to the list, over stdio and HTTP.

    Servers run in processes of their own. Two clients ask each: one that writes JSON and does no more than to read the
    JSON that is answered, and that of the SDK, which checks what it reads. The tables are Markdown.
    """
    before = provenance()
    measured = [anyio.run(measure_size, _corpus(directories, size), requests) for size in map(int, sizes.split(","))]
    click.echo(page(measured))
    if json_file:
        taken = {**before, "load_after": provenance()["machine"]["load"], "versions": versions(_PACKAGES)}
        written = {**taken, "requests": requests, "seed": _SEED, "sizes": list(map(asdict, measured))}
        json_file.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def _corpus(directories: Sequence[Path], size: int) -> Corpus:
    """Return tools, and requests of a length that every server accepts."""
    corpus = read_corpus(directories, size, queries=_QUERIES, seed=_SEED)
    return replace(corpus, queries=[query for query in corpus.queries if len(query) <= _LONGEST])


if __name__ == "__main__":
    main()
