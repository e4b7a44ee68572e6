"""The figures as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.bootstrap import Bounded
from benchmarks.endtoend.measure import Row
from benchmarks.endtoend.requests import LIMITS, search_of
from benchmarks.endtoend.run import Connected, Size
from benchmarks.markdown import table

__all__ = ["page"]

_TARGET: Final = 1.5
"""Times a request that does nothing that a search may take."""

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
        f"Parts of a search ({_MOST}), each alone, in milliseconds of the processor:",
        _parts(sizes),
        "A search that lists first, which it does where the server hands over no listing (stdio, raw):",
        _relisting(sizes),
        f"The target, at most {_TARGET:g} times a request that does nothing:",
        _targets(sizes),
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


def _parts(sizes: Sequence[Size]) -> str:
    rows = [
        (f"{size.tools:,}", *map(_short, (own.index, own.written, own.read_raw, own.read, own.checked)))
        for size in sizes
        for own in (size.parts,)
    ]
    return table(("tools", "index", "JSON written", "read, raw", "read, SDK", "definitions checked, SDK"), rows)


def _relisting(sizes: Sequence[Size]) -> str:
    rows = [
        (f"{size.tools:,}", _short(own.p50_ms.value), _short(own.server_ms), _bounded(own.ratio))
        for size in sizes
        for own in (_searched(size.relisting),)
    ]
    return table(("tools", "median ms", "ms of the server's processor", "times nothing"), rows)


def _targets(sizes: Sequence[Size]) -> str:
    rows = [
        (f"{size.tools:,}", f"{one.transport}, {one.client}", _bounded(own.ratio), _verdict(own.ratio))
        for size in sizes
        for one in size.connected
        for own in (_searched(one),)
    ]
    return table(("tools", "connection", _MOST, ""), rows)


def _searched(connected: Connected) -> Row:
    return next(row for row in connected.rows if row.way == _MOST)


def _verdict(ratio: Bounded) -> str:
    """Judge by the bounds: what lies between them is not decided."""
    if ratio.high <= _TARGET:
        return "met"
    return "**missed**" if ratio.low > _TARGET else "not decided"


def _bounded(one: Bounded) -> str:
    return f"{_short(one.value)} ({_short(one.low)}-{_short(one.high)})"


def _short(figure: float) -> str:
    """Return three digits, or all of a larger whole number."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
