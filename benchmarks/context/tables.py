"""The figures as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bootstrap import Estimate
from benchmarks.context.measure import Measurement
from benchmarks.context.sizes import Size
from benchmarks.context.targets import Target
from benchmarks.markdown import table

__all__ = ["size_table", "summary_table", "target_table", "turn_table"]


def summary_table(measurements: Sequence[Measurement]) -> str:
    """Return one row for each way."""
    rows = [
        (
            one.way,
            f"{one.turns[0].definition_tokens:,.0f}",
            f"{one.requests:.2f}",
            f"{one.tokens:,.0f}",
            f"{one.new_tokens:,.0f}",
            *map(_percent, one.recall),
            _percent(one.complete[-1]),
            f"{one.search_p50_ms:.1f} / {one.search_p95_ms:.1f}",
        )
        for one in measurements
    ]
    return table(
        (
            "",
            "definition tokens, first request",
            "requests",
            "tokens, all requests",
            "of them new",
            "tools found, one search",
            "two searches",
            "every tool found",
            "processor ms a search, p50 / p95",
        ),
        rows,
    )


def turn_table(measurements: Sequence[Measurement]) -> str:
    """Return one row for each request of each way."""
    rows = [
        (
            one.way,
            str(place),
            str(turn.tasks),
            f"{turn.definitions:.1f}",
            f"{turn.definition_tokens:,.0f}",
            f"{turn.tokens:,.0f}",
            *((f"{turn.kept_bytes:,.0f}", f"{turn.kept_share:.0%}") if place > 1 else ("", "")),
        )
        for one in measurements
        for place, turn in enumerate(one.turns, start=1)
    ]
    return table(("", "request", "tasks", "definitions", "their tokens", "all tokens", "bytes kept", "share"), rows)


def size_table(sizes: Sequence[Size]) -> str:
    """Return one row for each way, and a column for each size."""
    columns = list(dict.fromkeys(size.tools for size in sizes))
    rows = [
        (way, *(f"{one.tokens:,.0f} ({one.saved:.0%})" for one in sizes if one.way == way))
        for way in dict.fromkeys(size.way for size in sizes)
    ]
    return table(("", *(f"{tools} tools" for tools in columns)), rows)


def target_table(judged: Sequence[Target]) -> str:
    """Return one row for each target."""
    return table(("target", "measured", ""), [(one.says, one.measured, _verdict(one.met)) for one in judged])


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def _percent(estimate: Estimate) -> str:
    return f"{estimate.mean:.0%} ({estimate.low:.0%}-{estimate.high:.0%})"
