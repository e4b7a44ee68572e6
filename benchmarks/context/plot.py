"""Two pictures: the first request against the number of tools, and what is found against what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.context.measure import Measurement
from benchmarks.context.sizes import Size
from benchmarks.plots import STYLE

__all__ = ["draw"]


def draw(title: str, measurements: Sequence[Measurement], sizes: Sequence[Size], file: Path) -> None:
    """Write an SVG file, which is the same for the same figures; takes matplotlib."""
    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        figure = import_module("matplotlib.figure").Figure(figsize=(9, 3.6), layout="constrained")
        first, found = figure.subplots(1, 2)
        colours = {one.way: f"C{place}" for place, one in enumerate(measurements)}
        _draw_sizes(first, sizes, colours)
        _draw_found(found, measurements, colours)
        figure.suptitle(title)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def _draw_sizes(axes: Any, sizes: Sequence[Size], colours: dict[str, str]) -> None:
    for way, colour in colours.items():
        own = [size for size in sizes if size.way == way]
        axes.plot([size.tools for size in own], [size.tokens for size in own], "o-", color=colour, markersize=3)
    tools = sorted({size.tools for size in sizes})
    axes.set(xscale="log", yscale="log", xlabel="deferred tools", ylabel="tokens about tools, first request")
    axes.set_xticks(tools, [str(number) for number in tools])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def _draw_found(axes: Any, measurements: Sequence[Measurement], colours: dict[str, str]) -> None:
    for one in measurements:
        share = one.recall[-1]
        spread = [[share.mean - share.low], [share.high - share.mean]]
        axes.errorbar(one.tokens, share.mean, spread, fmt="o", color=colours[one.way], label=one.way, capsize=2)
    axes.set(xscale="log", ylim=(0, 1.05), xlabel="tokens of all requests of a task", ylabel="tools found")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
