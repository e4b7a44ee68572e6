"""Requests that no tool serves: how often they get no answer, and what that costs: `python -m benchmarks.nothing`.

Few sets have requests that no tool serves, so the requests of each set are also put to the tools of the others. Some of
these pairs fit by chance (the time is to be had in many catalogs); they stay, and count as errors.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Protocol, TypeAlias

import click
import numpy as np
from mcp_ext_tools_search.ranking import ToolIndex
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking import FieldedRanker
from tools_search_ranking.confidence import WEIGHTS, Signs, confidence
from tools_search_ranking.index import Documents
from tools_search_ranking.semantic.embedder import SemanticSigns
from tools_search_ranking.semantic.minilm import WEIGHTS as SEMANTIC_WEIGHTS

from benchmarks.bootstrap import Estimate, mean_of_means
from benchmarks.retrieval.datasets import SMALL, Dataset, Query, read_dataset
from benchmarks.retrieval.measure import DEPTH, Quality, quality
from benchmarks.retrieval.rankers import ByMeaning

Numbers: TypeAlias = tuple[float, ...]
Weights: TypeAlias = tuple[float, Numbers]
"""Intercept and slopes of a logistic regression."""


class Judging(ToolIndex, Protocol):
    """An index with a confidence."""

    def signs(self, query: str) -> Numbers | None:
        """Return the signs that any tool serves `query`; `None` where there are none."""
        ...


@dataclass(frozen=True)
class Judge:
    """A ranking."""

    index: Callable[[Sequence[Tool]], Judging]
    """Indexes tools, and holds nothing back."""

    weights: Weights
    """Those that are shipped."""

    named: Callable[[Numbers], Any]
    """Gives slopes the names of the signs."""


JUDGES: Final[Mapping[str, Judge]] = {
    "fielded": Judge(FieldedRanker(), WEIGHTS, Signs._make),
    "semantic": Judge(ByMeaning(), SEMANTIC_WEIGHTS, SemanticSigns._make),
}
"""By the names that they have in `benchmarks.retrieval`."""


_SEED = 5


@dataclass(frozen=True)
class Case:
    """One request that was put to one catalog."""

    catalog: str
    source: str
    """The set that the request is from."""

    query: str
    quality: Quality | None
    """How good the answer is, were all of it given; `None` for a request that no tool of the catalog serves."""

    found: bool
    """Whether the tools have any of the words at all."""

    signs: Numbers | None

    def confidence(self, weights: Weights) -> float:
        """Return how sure the ranking is: 0 where it found nothing anyway."""
        return confidence(self.signs, weights) if self.found else 0.0


def cases_of(datasets: Sequence[Dataset], pairs: int, judge: Judge) -> list[Case]:
    """Put the requests of each set to its tools, and up to `pairs` of each other set that has other tools."""
    found: list[Case] = []
    for catalog in datasets:
        index = judge.index(catalog.tools)
        found += [_case(catalog, index, catalog.name, query) for query in catalog.queries]
        for other in datasets:
            if set(catalog.ids.values()).isdisjoint(other.ids.values()):
                found += [_case(catalog, index, other.name, query) for query in _sample(other, pairs)]
    return found


def _sample(dataset: Dataset, pairs: int) -> Iterator[Query]:
    served = [query for query in dataset.queries if query.relevant]
    for query in random.Random(_SEED).sample(served, min(pairs, len(served))):  # noqa: S311  # the same in every run
        yield query.model_copy(update={"relevant": ()})


def _case(catalog: Dataset, index: Judging, source: str, query: Query) -> Case:
    hits = index.search(query.query)[:DEPTH]
    ranked = [catalog.ids[hit.name] for hit in hits]
    judged = quality(ranked, query.relevant) if query.relevant else None
    return Case(catalog.name, source, query.query, judged, bool(hits), index.signs(query.query))


@dataclass(frozen=True)
class Point:
    """Outcome of requests where nothing is answered below a confidence; means over the catalogs."""

    least_confidence: float
    silent: float
    """Part of the requests that no tool serves which are answered with nothing."""

    recall_lost: float
    """Recall@5 of the requests that a tool serves, less than with all answers."""

    ndcg_lost: float
    wrongly_silent: float
    """Part of the requests that a tool serves which are answered with nothing."""


@dataclass(frozen=True)
class Bounds:
    """Two figures of a point, with the bounds that other requests like these would stay in."""

    least_confidence: float
    silent: Estimate
    recall_lost: Estimate


def bounds(cases: Sequence[Case], confidence: Callable[[Case], float], threshold: float) -> Bounds:
    """Return the bounds of the point at a threshold."""
    silent: dict[str, list[float]] = {}
    lost: dict[str, list[float]] = {}
    for case in cases:
        says_nothing = confidence(case) < threshold or not case.found
        if case.quality is None:
            silent.setdefault(case.catalog, []).append(float(says_nothing))
        else:
            lost.setdefault(case.catalog, []).append(case.quality.recall_at_5 * says_nothing)
    groups = (list(own.values()) or [[0.0]] for own in (silent, lost))
    return Bounds(threshold, *map(mean_of_means, groups))


def curve(cases: Sequence[Case], confidence: Callable[[Case], float]) -> list[Point]:
    """Return a point for each hundredth from 0 on, and for each thousandth below 0.1."""
    confidences = [confidence(case) for case in cases]
    thresholds = sorted({place / 1000 for place in range(100)} | {place / 100 for place in range(100)})
    return [_point(cases, confidences, threshold) for threshold in thresholds]


def best_within(points: Sequence[Point], recall_lost: float) -> Point:
    """Return the point that is silent most of those which lose no more than `recall_lost`."""
    return max((point for point in points if point.recall_lost <= recall_lost), key=lambda point: point.silent)


def _point(cases: Sequence[Case], confidences: Sequence[float], threshold: float) -> Point:
    silent: dict[str, list[bool]] = {}
    lost: dict[str, list[tuple[float, float, float]]] = {}
    for case, sure in zip(cases, confidences, strict=True):
        says_nothing = sure < threshold or not case.found
        if case.quality is None:
            silent.setdefault(case.catalog, []).append(says_nothing)
        else:
            own = (case.quality.recall_at_5, case.quality.ndcg_at_10, 1.0) if says_nothing else (0.0, 0.0, 0.0)
            lost.setdefault(case.catalog, []).append(own)
    means = [np.mean(own, axis=0) for own in lost.values()]
    recall_lost, ndcg_lost, wrongly_silent = np.mean(means, axis=0).tolist() if means else (0.0, 0.0, 0.0)
    return Point(
        threshold, fmean(map(fmean, silent.values())) if silent else 0.0, recall_lost, ndcg_lost, wrongly_silent
    )


_RIDGE = 0.003
_STEPS = 50


def fitted(cases: Sequence[Case]) -> Weights:
    """Return intercept and weights that separate requests with a tool from those without.

    Each catalog counts the same, and so do both kinds of request in it. A request whose right tool is not among the
    first five is left out, since little is lost with it. Newton's method on standardized signs, with a ridge penalty.
    """
    used = [case for case in cases if case.signs and (case.quality is None or case.quality.recall_at_5 > 0)]
    signs = np.array([case.signs for case in used])
    served = np.array([case.quality is not None for case in used], dtype=np.float64)
    groups = [(case.catalog, case.quality is not None) for case in used]
    weights = np.array([1 / groups.count(group) for group in groups])
    means, deviations = np.mean(signs, axis=0), np.std(signs, axis=0) + 1e-9
    slopes = _newton((signs - means) / deviations, served, weights / weights.sum()).tolist()
    own = [slope / deviation for slope, deviation in zip(slopes[1:], deviations.tolist(), strict=True)]
    intercept = slopes[0] - sum(slope * mean for slope, mean in zip(own, means.tolist(), strict=True))
    return round(intercept, 3), tuple(round(slope, 3) for slope in own)


def _newton(
    signs: NDArray[np.float64], served: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the intercept and the weights of standardized signs."""
    inputs = np.column_stack((np.ones(len(signs)), signs))
    penalty = np.diag([0.0] + [_RIDGE] * signs.shape[1])
    slopes = np.zeros(signs.shape[1] + 1)
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-inputs @ slopes))
        gradient = inputs.T @ (weights * (served - likely)) - penalty @ slopes
        curvature = (inputs.T * (weights * likely * (1 - likely))) @ inputs + penalty
        slopes += np.linalg.solve(curvature, gradient)
    return slopes


_LEAST_SHARE: Final = 0.02
_LEAST_SETS: Final = 2
_BRANDS: Final = frozenset({"azur", "microsoft"})
"""Common in a set of one vendor, and generic nowhere else."""


def generic_stems(datasets: Sequence[Dataset]) -> list[str]:
    """Return the stems of English letters that 2 % of the tools have, in the mean over the sets."""
    shares = [_shares(dataset) for dataset in datasets]
    candidates = {stem for own in shares for stem in own if stem.isascii() and stem.isalpha()} - _BRANDS
    return sorted(
        stem
        for stem in candidates
        if fmean(own.get(stem, 0.0) for own in shares) >= _LEAST_SHARE
        and sum(stem in own for own in shares) >= _LEAST_SETS
    )


def _shares(dataset: Dataset) -> dict[str, float]:
    """Return for each stem the part of the tools that have it."""
    documents = Documents.of(dataset.tools)
    containing: list[int] = documents.containing.tolist()
    return {term: containing[number] / len(dataset.tools) for term, number in documents.vocabulary.numbers.items()}


_AS_SHIPPED: Final = "weights as shipped"
_LOSSES: Final = (0.003, 0.005, 0.01, 0.02, 0.05)
_THRESHOLDS: Final = (0.04, 0.08, 0.11, 0.15, 0.2, 0.3, 0.4, 0.5)
_FEWEST_TO_LEAVE_ONE_OUT: Final = 3
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--data", "directories", type=_DIRECTORY, multiple=True, help="Dataset beside the small own one.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option("--pairs", type=click.IntRange(min=0), default=100, show_default=True, help="Requests per other set.")
@click.option(
    "--ranker",
    "rankers",
    type=click.Choice([*JUDGES]),
    multiple=True,
    default=["fielded"],
    show_default=True,
    help="May be repeated, for a comparison.",
)
@click.option(
    "--fit", is_flag=True, help="Print generic words of these tools, and the weights that fit these requests."
)
@click.option("--json", "json_file", type=_FILE, help="Write the curves here.")
def main(
    directories: Sequence[Path],
    split: str,
    pairs: int,
    rankers: Sequence[str],
    fit: bool,
    json_file: Path | None,
) -> None:
    """Measure how often nothing is answered where nothing fits, and what that costs where something does."""
    paths = list(dict.fromkeys((*directories, SMALL)))
    datasets = [read_dataset(path, split) for path in paths]
    if fit:
        click.echo(f"generic: {' '.join(generic_stems(datasets))}")
    measured: dict[str, _Measured] = {}
    for ranker in dict.fromkeys(rankers):
        judge = JUDGES[ranker]
        cases = cases_of(datasets, pairs, judge)
        fitting = cases if split == "dev" else cases_of([read_dataset(path, "dev") for path in paths], pairs, judge)
        measured[ranker] = own = _measured(cases, fitting, judge)
        for name, points in own.curves.items():
            click.echo(f"{ranker}, {name}, {split}\n{_table(points)}")
        click.echo(_by_kind(cases, own.shipped, best_within(own.curves[_AS_SHIPPED], 0.01).least_confidence))
        if fit:
            intercept, slopes = fitted(cases)
            click.echo(f"fitted: {(intercept, judge.named(slopes))}")
    if json_file:
        json_file.write_text(json.dumps(_report(split, measured), indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class _Measured:
    """Outcome of the confidence of one ranking."""

    cases: Sequence[Case]
    shipped: Callable[[Case], float]
    """Confidence as it is shipped."""

    curves: Mapping[str, Sequence[Point]]


def _measured(cases: Sequence[Case], fitting: Sequence[Case], judge: Judge) -> _Measured:
    def shipped(case: Case) -> float:
        return case.confidence(judge.weights)

    curves = {_AS_SHIPPED: curve(cases, shipped)}
    if len({case.catalog for case in fitting}) >= _FEWEST_TO_LEAVE_ONE_OUT:
        curves["weights fitted without the set"] = curve(cases, _Unseen(fitting))
    return _Measured(cases, shipped, curves)


def _report(split: str, measured: Mapping[str, _Measured]) -> Mapping[str, Any]:
    """Return the figures of the first ranking, and next to them those of the others by their names."""
    first, *others = (
        {
            "curves": {name: [asdict(point) for point in points] for name, points in own.curves.items()},
            "bounds": [asdict(bounds(own.cases, own.shipped, threshold)) for threshold in _THRESHOLDS],
        }
        for own in measured.values()
    )
    ranker, *names = measured
    return {"split": split, "ranker": ranker, **first, "beside": dict(zip(names, others, strict=True))}


class _Unseen:
    """Confidence by weights that were fitted without the set: neither its tools nor its requests."""

    def __init__(self, fitting: Sequence[Case]) -> None:
        names = {case.catalog for case in fitting}
        self._weights = {
            name: fitted([case for case in fitting if name not in (case.catalog, case.source)]) for name in names
        }

    def __call__(self, case: Case) -> float:
        return case.confidence(self._weights[case.catalog])


def _table(points: Sequence[Point]) -> str:
    lines = ["threshold  silent  R@5 lost  nDCG@10 lost  wrongly silent"]
    for loss in _LOSSES:
        threshold, *figures = astuple(best_within(points, loss))
        lines.append(f"{threshold:9.3f}  {figures[0]:6.3f}  {figures[1]:8.4f}  {figures[2]:12.4f}  {figures[3]:14.4f}")
    return "\n".join(lines)


def _by_kind(cases: Sequence[Case], confidence: Callable[[Case], float], threshold: float) -> str:
    """Return how often each catalog is silent for the requests of each set that it does not serve."""
    groups: dict[tuple[str, str], list[bool]] = {}
    for case in cases:
        if case.quality is None:
            says_nothing = confidence(case) < threshold or not case.found
            groups.setdefault((case.catalog, case.source), []).append(says_nothing)
    rows = [
        f"  {catalog} < {source}: {sum(own) / len(own):.2f} of {len(own)}" for (catalog, source), own in groups.items()
    ]
    return "\n".join((f"silent at {threshold:.3f}, catalog < requests:", *rows))


if __name__ == "__main__":
    main()
