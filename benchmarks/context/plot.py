"""The first request against the number of tools, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.context.sizes import Size

__all__ = ["draw"]


def draw(sizes: Sequence[Size], title: str, file: Path) -> None:
    """Write an SVG file that is the same for the same figures; takes matplotlib."""
    matplotlib: Any = import_module("matplotlib")
    figure_module: Any = import_module("matplotlib.figure")
    matplotlib.rcParams.update({"svg.hashsalt": "tools/search", "svg.fonttype": "none", "font.size": 9})
    figure = figure_module.Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    own: Sequence[Size] = ()
    for way in dict.fromkeys(size.way for size in sizes):
        own = [size for size in sizes if size.way == way]
        axes.plot(
            [size.tools for size in own],
            [size.tokens for size in own],
            marker="o",
            markersize=3,
            linewidth=2 if way.startswith("ours") else 1,
            linestyle="--" if way == "ours, automatic" else "-",
            label=way,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="deferred tools",
        ylabel="tokens about tools in the first request",
        title=title,
    )
    axes.set_xticks([size.tools for size in own], [str(size.tools) for size in own])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
