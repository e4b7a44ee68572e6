"""The catalogues that a fixture is asked to serve."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

__all__ = ["NAMES", "write"]

NAMES: Final = ("core", "empty", "large", "single")
"""`core`: 48 tools with distinctive words, nested schemas and several scripts. `empty`: none. `large`: 120 that have a
word in common. `single`: one of the first."""


def write(name: str, folder: Path) -> Path:
    """Put the catalogue `name` into `folder`, once, and return its path."""
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_bytes((files(__name__) / f"{name}.json").read_bytes())
    return path
