"""Catalogs of invented tools, with requests that they serve and requests that they do not."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random
from typing import Final

from benchmarks.datasets import Dataset, Query
from benchmarks.meaning.examples import EVERY, Row, read_rows, tool_of

_CATALOGS: Final = 150
_SIZES: Final = (8, 500)
"""The fewest and the most tools. Among more, a tool often serves a request that was written for another."""

_RUNS: Final = (2, 60)
"""The fewest and the most neighboring rows to draw at once: they are from one domain, or from one server."""

_REQUESTS: Final = 30
"""The most requests that a catalog serves, and the most that it does not."""

_SEED: Final = 1


def invented_catalogs() -> list[Dataset]:
    """Return catalogs, all with one name, without the tools that requests are compared with in the package."""
    rows = [row for number, row in enumerate(read_rows()) if number % EVERY]
    random = Random(_SEED)  # noqa: S311 - the same in every run
    return [_drawn(rows, random) for _ in range(_CATALOGS)]


def _drawn(rows: Sequence[Row], random: Random) -> Dataset:
    size, run = (round(exp(random.uniform(log(least), log(most)))) for least, most in (_SIZES, _RUNS))
    own = set[int]()
    while len(own) < size:
        start = random.randrange(len(rows))
        own.update(range(start, min(start + run, len(rows))))
    served, others = sorted(own), [number for number in range(len(rows)) if number not in own]

    def asked(numbers: Sequence[int], *, is_served: bool) -> list[Query]:
        drawn = [rows[number] for number in random.sample(numbers, min(_REQUESTS, len(numbers)))]
        return [
            Query(id=row.name, query=random.choice(row.requests), relevant=(row.name,) if is_served else ())
            for row in drawn
        ]

    tools = [tool_of(rows[number]) for number in served]
    queries = [*asked(served, is_served=True), *asked(others, is_served=False)]
    return Dataset("invented", tools, {tool.name: tool.name for tool in tools}, queries)
