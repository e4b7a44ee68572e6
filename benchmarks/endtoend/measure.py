"""What requests take when they are put in turns, so that what else the machine does meets all of them alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Final

from benchmarks.bootstrap import Bounded, percentile, ratio_of_medians
from benchmarks.endtoend.connections import Connection
from benchmarks.endtoend.requests import DO_NOTHING, FIRST_PAGE, WHOLE, Way, whole_list
from benchmarks.endtoend.server import PROCESSOR_TIME

__all__ = ["Row", "measure", "measure_lists"]

_SEED: Final = 2026
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

    Pages are so large that whatever comes after one is slowed down. Ratios are to the median of `nothing`, taken as it
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
