"""Command line of the retrieval benchmark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Any, Final

import click
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker

from benchmarks.bootstrap import Estimate, mean_of_means
from benchmarks.options import data_option
from benchmarks.retrieval.datasets import Dataset, read_dataset
from benchmarks.retrieval.measure import DEPTH, Measurement, Quality, mean_quality, measure, quality
from benchmarks.retrieval.rankers import PEERS, ByMeaning

_LONG_WORD: Final = re.compile(r"[A-Za-z]{5,}")
_SHARE: Final = 0.3
"""Part of the long words that have an error."""


def with_slips(dataset: Dataset) -> Dataset:
    """Return the dataset with requests as someone types them in a hurry."""
    slipped = [query.model_copy(update={"query": mistyped(query.query, query.id)}) for query in dataset.queries]
    return replace(dataset, queries=slipped)


def mistyped(text: str, seed: str) -> str:
    """Return `text` with one edit in each of 30 % of its words of five letters or more, drawn by `seed`.

    An edit leaves a letter out, adds one, puts another in its place, or swaps two neighbors (Damerau, 1964).
    """
    random = Random(seed)  # noqa: S311  # the same in every run
    return _LONG_WORD.sub(lambda word: _edited(word[0], random) if random.random() < _SHARE else word[0], text)


def _edited(word: str, random: Random) -> str:
    place, letter = random.randrange(len(word) - 1), random.choice(ascii_lowercase)
    before, here, after = word[:place], word[place], word[place + 1 :]
    return random.choice(
        [
            before + after,
            before + letter + here + after,
            before + letter + after,
            before + after[0] + here + after[1:],
        ]
    )


RANKERS: Final[Mapping[str, Ranker]] = {
    "fielded": FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE),
    "fielded-never-silent": FieldedRanker(),
    "simple": SimpleRanker(),
    "semantic": ByMeaning(least_confidence=DEFAULT_LEAST_CONFIDENCE),
    "semantic-never-silent": ByMeaning(),
}
_HEADINGS: Final[tuple[str, ...]] = (
    "dataset",
    "tools",
    "queries",
    "nDCG@10",
    "95 %",
    "R@1",
    "R@5",
    "R@10",
    "MRR",
    "unserved",
    "silent",
    "build s",
    "p50 ms",
    "p95 ms",
)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@data_option
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option(
    "--ranker",
    "rankers",
    type=click.Choice([*RANKERS, *PEERS]),
    multiple=True,
    default=["fielded"],
    show_default=True,
    help="May be repeated, for a comparison.",
)
@click.option("--depth", type=click.IntRange(min=DEPTH), default=100, show_default=True, help="Hits read per query.")
@click.option("--slips", is_flag=True, help="With a typing error in 30 % of the words of five letters or more.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
@click.option("--run", "run_file", type=_FILE, help="Write the ranked lists here, one query per line.")
def main(
    directories: Sequence[Path],
    split: str,
    rankers: Sequence[str],
    depth: int,
    slips: bool,
    json_file: Path | None,
    run_file: Path | None,
) -> None:
    """Measure how well a ranking finds the right tools in catalogs with labelled queries."""
    if run_file and len(rankers) > 1:
        raise click.UsageError("--run writes the lists of one --ranker.")
    datasets = [read_dataset(path, split) for path in directories]
    if slips:
        datasets = [with_slips(dataset) for dataset in datasets]
    measured: dict[str, list[Measurement]] = {}
    for ranker in dict.fromkeys(rankers):
        measured[ranker] = [_measured(dataset, ranker, depth) for dataset in datasets]
        click.echo(f"{ranker}, {split}\n{_table(measured[ranker])}")
    if len(measured) > 1:
        click.echo(f"\nnDCG@10 on {split}\n\n{_comparison(measured)}")
    if json_file:
        reports = [_report(one, ranker, split) for ranker, one in measured.items()]
        json_file.write_text(json.dumps(reports if len(reports) > 1 else reports[0], indent=2) + "\n", encoding="utf-8")
    if run_file:
        run_file.write_text("".join(_run_lines(measured[rankers[0]])), encoding="utf-8")


def _measured(dataset: Dataset, ranker: str, depth: int) -> Measurement:
    if ranker in RANKERS:
        return measure(dataset, RANKERS[ranker], depth=depth)
    try:
        return measure(dataset, PEERS[ranker], depth=depth, has_floor=False)
    except ModuleNotFoundError as error:
        raise click.UsageError(f"{ranker} needs {error.name}: pip install '.[benchmark]'") from error


def _comparison(measured: Mapping[str, Sequence[Measurement]]) -> str:
    """Return one table of all rankers, in Markdown."""
    names = [one.dataset for one in next(iter(measured.values()))]
    rows = [["", *names, "mean"], ["---", *["--:"] * (len(names) + 1)]]
    for ranker, own in measured.items():
        figures = [f"{one.ndcg.mean:.3f} ({_bounds(one.ndcg)})" for one in own]
        rows.append([ranker, *figures, f"{mean_quality([one.quality for one in own]).ndcg_at_10:.3f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _bounds(estimate: Estimate) -> str:
    return f"{estimate.low:.2f}-{estimate.high:.2f}"


def _table(measurements: Sequence[Measurement]) -> str:
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for one in measurements:
        counts = (one.dataset, str(one.tools), str(one.queries))
        times = (f"{one.build_seconds:.2f}", f"{one.p50_ms:.2f}", f"{one.p95_ms:.2f}")
        silence = (str(one.unservable), f"{one.silent:.3f}" if one.unservable else "")
        first, *others = _figures(one.quality)
        rows.append((*counts, first, _bounds(one.ndcg), *others, *silence, *times))
    if len(measurements) > 1:
        first, *others = _figures(mean_quality([one.quality for one in measurements]))
        rows.append(("mean", "", "", first, "", *others, *[""] * 5))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join((first.strip().ljust(widths[0]), *others)).rstrip()


def _figures(quality: Quality) -> tuple[str, ...]:
    return tuple(f"{figure:.3f}" for figure in astuple(quality))


def _report(measurements: Sequence[Measurement], ranker: str, split: str) -> dict[str, Any]:
    rows = [
        {member: value for member, value in asdict(one).items() if member not in ("answers", "quality")}
        | asdict(one.quality)
        for one in measurements
    ]
    mean = asdict(mean_quality([one.quality for one in measurements]))
    return {
        "ranker": ranker,
        "split": split,
        "datasets": rows,
        "mean": mean | {"ndcg": asdict(_mean_ndcg(measurements))},
    }


def _mean_ndcg(measurements: Sequence[Measurement]) -> Estimate:
    """Return the mean over the sets, with its bounds."""
    return mean_of_means(
        [
            [
                quality(answer.ranked, answer.query.relevant).ndcg_at_10
                for answer in one.answers
                if answer.query.relevant
            ]
            or [0.0]
            for one in measurements
        ]
    )


def _run_lines(measurements: Sequence[Measurement]) -> list[str]:
    return [
        json.dumps({"id": answer.query.id, "ranked": answer.ranked}, ensure_ascii=False) + "\n"
        for one in measurements
        for answer in one.answers
    ]


if __name__ == "__main__":
    main()
