"""The catalogs that a fixture is asked to serve."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

__all__ = ["NAMES", "place", "write"]

NAMES: Final = ("core", "empty", "large", "single")
"""`core`: 48 tools with distinctive words, nested schemas and several scripts. `empty`: none. `large`: 120 that have a
word in common. `single`: one of the first."""


def write(name: str, folder: Path) -> Path:
    """Put the catalog `name` into `folder`, unless one of that name is there, and return its path."""
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_bytes((files(__name__) / f"{name}.json").read_bytes())
    return path


def place(name: str, document: Mapping[str, Any], folder: Path) -> None:
    """Make `document` the catalog `name` in `folder`, at one stroke: who reads it finds the old or the new one.

    A file that holds it already is left alone, so that nobody sees a change where there is none.
    """
    path, beside = folder / f"{name}.json", folder / f"{name}.new"
    text = json.dumps(document, ensure_ascii=False).encode()
    before = path.stat().st_mtime if path.exists() else None
    if before is None or path.read_bytes() != text:
        beside.write_bytes(text)
        if before is not None:
            later = max(time.time(), before + 1)  # many look at the time of change in whole seconds
            os.utime(beside, (later, later))
        beside.replace(path)
