"""How the first request grows with the number of tools that could be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.context.catalog import Catalog
from benchmarks.context.measure import first_tokens
from benchmarks.context.requests import TokenCounter
from benchmarks.context.ways import LISTED, Way

__all__ = ["Size", "measure_sizes", "sizes_of"]

_SIZES = (10, 30, 100, 300)


@dataclass(frozen=True)
class Size:
    """The first request of one way, for catalogs of one size: samples of the servers of a data set."""

    way: str
    tools: int
    tokens: float
    """Of definitions; the median of the samples."""

    saved: float
    """The share of the tokens of listing everything that is not sent; the median."""

    least_saved: float


def sizes_of(catalog: Catalog) -> Sequence[int]:
    """Return the sizes that can be had of a catalog, its own at the end."""
    whole = len(catalog.tools)
    return [*(size for size in _SIZES if size < whole), whole]


async def measure_sizes(
    ways: Mapping[str, Way], catalog: Catalog, count: TokenCounter, *, samples: int
) -> Sequence[Size]:
    """Measure every way with the same samples; the whole catalog is a sample of itself."""
    sizes: list[Size] = []
    for size in sizes_of(catalog):
        drawn = [catalog.sample(size, seed) for seed in range(samples if size < len(catalog.tools) else 1)]
        listed = [await first_tokens(ways[LISTED], sample, count) for sample in drawn]
        for name, way in ways.items():
            tokens = [await first_tokens(way, sample, count) for sample in drawn]
            saved = [1 - own / whole for own, whole in zip(tokens, listed, strict=True)]
            sizes.append(Size(name, size, median(tokens), median(saved), min(saved)))
    return sizes
