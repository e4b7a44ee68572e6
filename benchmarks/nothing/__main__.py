"""Command line of the benchmark of silence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.nothing.cases import Case, cases_of
from benchmarks.nothing.curve import Point, best_within, bounds, curve
from benchmarks.nothing.generic import generic_stems
from benchmarks.nothing.judges import JUDGES, Judge
from benchmarks.nothing.plot import svg
from benchmarks.nothing.regression import fitted
from benchmarks.retrieval.datasets import SMALL, read_dataset

__all__ = ["main"]

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
@click.option("--plot", "plot_file", type=_FILE, help="Draw the curves here, as SVG.")
def main(
    directories: Sequence[Path],
    split: str,
    pairs: int,
    rankers: Sequence[str],
    fit: bool,
    json_file: Path | None,
    plot_file: Path | None,
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
    if plot_file:
        curves = {
            f"{ranker}, {name}": points for ranker, own in measured.items() for name, points in own.curves.items()
        }
        plot_file.write_text(svg(curves), encoding="utf-8")


@dataclass(frozen=True)
class _Measured:
    """What came of the confidence of one ranking."""

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
    """Return the figures of the first ranking, and beside them those of the others by their names."""
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
