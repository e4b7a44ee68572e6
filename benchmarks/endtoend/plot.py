"""A picture of how the cost of each kind of request grows with the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.endtoend.requests import DO_NOTHING, LIMITS, WHOLE, search_of
from benchmarks.endtoend.run import Connected, Size
from benchmarks.plots import STYLE

__all__ = ["draw"]

_WAYS: Final = (WHOLE, search_of(LIMITS[-1]), DO_NOTHING)
_LINES: Final = {"stdio": "-", "HTTP": "--"}


def draw(sizes: Sequence[Size], file: Path) -> None:
    """Write an SVG file, which is the same for the same figures; takes matplotlib.

    Times are those of the SDK's client, with the bounds of their medians.
    """
    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        figure = import_module("matplotlib.figure").Figure(figsize=(10, 3.4), layout="constrained")
        panels = figure.subplots(1, 3)
        _draw_weights(panels[0], sizes, "bytes")
        _draw_weights(panels[1], sizes, "tokens")
        _draw_times(panels[2], sizes)
        for axes, label in zip(panels, ("bytes of the answer", "tokens of its definitions", "ms, median"), strict=True):
            tools = [size.tools for size in sizes]
            axes.set(xscale="log", yscale="log", xlabel="tools", ylabel=label)
            axes.set_xticks(tools, [f"{number:,}" for number in tools])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        panels[2].legend(fontsize=7, handlelength=4, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def _draw_weights(axes: Any, sizes: Sequence[Size], member: str) -> None:
    for place, way in enumerate(_WAYS):
        own = [(size.tools, getattr(one, member)) for size in sizes for one in size.weights if one.way == way]
        drawn = [(tools, figure) for tools, figure in own if figure]
        axes.plot(*([*column] for column in zip(*drawn, strict=True)), "o-", color=f"C{place}", markersize=3)


def _draw_times(axes: Any, sizes: Sequence[Size]) -> None:
    for transport, style in _LINES.items():
        for place, way in enumerate(_WAYS):
            own = [(size.tools, _median(size.connected, transport, way)) for size in sizes]
            tools, medians = zip(*own, strict=True)
            values = [one.value for one in medians]
            spread = [[one.value - one.low for one in medians], [one.high - one.value for one in medians]]
            look = {"fmt": "o", "linestyle": style, "color": f"C{place}", "markersize": 3, "capsize": 2}
            axes.errorbar(tools, values, spread, label=f"{way}, {transport}", **look)


def _median(connected: Sequence[Connected], transport: str, way: str) -> Any:
    rows = next(one.rows for one in connected if (one.transport, one.client) == (transport, "SDK"))
    return next(row.p50_ms for row in rows if row.way == way)
