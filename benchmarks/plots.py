"""How pictures look."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

__all__ = ["STYLE", "can_draw", "needs_matplotlib"]

STYLE: Final = {"svg.hashsalt": "tools/search", "svg.fonttype": "none", "font.size": 9, "legend.frameon": False}
"""For matplotlib; the same figures give the same file."""


def can_draw() -> bool:
    """Tell whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def needs_matplotlib(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    """Refuse an option that draws where nothing can: before the measurement, not after it."""
    if file is not None and not can_draw():
        raise click.UsageError("--plot needs matplotlib: pip install '.[benchmark]'")
    return file
