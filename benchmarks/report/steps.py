"""The measurements that make up the report, each as the command that it is on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.plots import can_draw
from benchmarks.retrieval.by_meaning import can_rank_by_meaning
from benchmarks.retrieval.datasets import SMALL
from benchmarks.retrieval.peers import PEERS
from benchmarks.speed.engines import ENGINES, installed

__all__ = ["STEPS", "Material", "Step"]

_RANKERS: Final = ("fielded-never-silent", "fielded", "plain")
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

    draws: bool = False
    """Whether it draws a picture."""

    by_itself: bool = False
    """Whether it does so without matplotlib."""

    @property
    def can_draw(self) -> bool:
        """Whether it can draw here."""
        return self.draws and (self.by_itself or can_draw())


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


def _replicas(material: Material) -> Sequence[str]:
    return ["--tools", "40", "--callers", "2", "--seconds", "0.1"] if material.is_quick else []


def _isolation(material: Material) -> Sequence[str]:
    return ["--seed", "1", *(["--cases", "50"] if material.is_quick else [])]


def _catalog(material: Material) -> Sequence[str]:
    return [*_each("--data", material.data or [SMALL]), "--sizes", material.sizes]


def _each(option: str, values: Sequence[str | Path]) -> list[str]:
    return [part for value in values for part in (option, str(value))]


STEPS: Final[Mapping[str, Step]] = {
    "retrieval": Step("Retrieval: does a request find the right tool?", _retrieval),
    "nothing": Step("Nothing: does a request that no tool serves get no answer?", _nothing, draws=True, by_itself=True),
    "stuffing": Step("Stuffing: what does a description gain that is written to be found?", _stuffing),
    "speed": Step("Speed: how long does an answer take?", _speed, draws=True),
    "endtoend": Step("End to end: what does a search cost beside a request that does nothing?", _endtoend, draws=True),
    "context": Step("Context: what does finding tools on demand save in front of a model?", _context, draws=True),
    "method": Step("Method: what does a search by request cost next to a search tool, and next to listing?", _method),
    "federation": Step("Federation: which order of many servers' answers is best?", _federation),
    "overhead": Step("Overhead: what does the gateway cost?", _overhead),
    "replicas": Step("Replicas: what do more processes give?", _replicas),
    "isolation": Step("Isolation: does anything that a caller does not see move what it is answered?", _isolation),
}
"""By the names of their packages, in the order of the report."""
