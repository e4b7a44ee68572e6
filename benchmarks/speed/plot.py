"""A picture of the time of a query by the size of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.plots import STYLE
from benchmarks.speed.measure import Speed

__all__ = ["draw"]


def draw(speeds: Sequence[Speed], file: Path) -> None:
    """Write an SVG file, which is the same for the same figures; takes matplotlib.

    A point is a median, with its bounds.
    """
    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        figure = import_module("matplotlib.figure").Figure(figsize=(7, 3.8), layout="constrained")
        axes = figure.subplots()
        for engine in dict.fromkeys(speed.engine for speed in speeds):
            _draw_engine(axes, [speed for speed in speeds if speed.engine == engine])
        sizes = sorted({speed.tools for speed in speeds})
        axes.set(xscale="log", yscale="log", xlabel="tools", ylabel="ms of a query, median")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def _draw_engine(axes: Any, own: Sequence[Speed]) -> None:
    middle = [speed.p50 for speed in own]
    spread = [[one.value - one.low for one in middle], [one.high - one.value for one in middle]]
    tools, values = [speed.tools for speed in own], [one.value for one in middle]
    axes.errorbar(tools, values, spread, fmt="o-", label=own[0].engine, markersize=3, capsize=2)
