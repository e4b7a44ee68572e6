"""The retrieval benchmark's command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored

from benchmarks.bootstrap import mean
from benchmarks.datasets import SMALL, read_dataset
from benchmarks.meaning.catalogs import invented_catalogs
from benchmarks.options import FILE, data_option, json_option, split_option, write_figures
from benchmarks.report.tables import retrieval_tables, silence_tables
from benchmarks.retrieval.fitting import fitted, generic_stems
from benchmarks.retrieval.measure import (
    DEPTH,
    Answer,
    Measurement,
    mean_quality,
    measure,
    with_foreign_requests,
    with_slips,
)  # fmt: skip
from benchmarks.retrieval.rankers import JUDGING, RANKERS
from benchmarks.speed.engines import needs_installed


@click.command()
@data_option(SMALL)
@split_option("dev")
@click.option(
    "--ranker",
    "rankers",
    type=click.Choice(list(RANKERS)),
    multiple=True,
    default=["fielded"],
    show_default=True,
    callback=needs_installed,
    help="Ranker to measure; can be repeated for a comparison.",
)
@click.option(
    "--least-confidence",
    "thresholds",
    type=click.FloatRange(0, 1),
    multiple=True,
    help=f"Compare thresholds of {' or '.join(JUDGING)} with none; can be repeated.",
)
@click.option("--foreign", default=0, help="Number of requests to add from each other dataset, which no tool serves.")
@click.option("--depth", type=click.IntRange(min=DEPTH), default=100, show_default=True, help="Hits to read per query.")
@click.option("--slips", is_flag=True, help="Add a typo to 30 % of the words of five letters or more.")
@click.option(
    "--fit", is_flag=True, help="Print fitted weights for the confidence, and words that carry little information."
)
@json_option
@click.option("--run", "run_file", type=FILE, help="Write the ranked lists to this file, one query per line.")
def main(
    directories: Sequence[Path],
    split: str,
    rankers: Sequence[str],
    thresholds: Sequence[float],
    foreign: int,
    depth: int,
    slips: bool,
    fit: bool,
    json_file: Path | None,
    run_file: Path | None,
) -> None:
    """Measure how well a ranking finds the right tools in catalogs with labeled queries."""
    if run_file and len(rankers) > 1:
        raise click.UsageError("--run requires a single --ranker.")
    if unable := sorted(set(rankers) - set(JUDGING) if thresholds or fit else ()):
        raise click.UsageError(f"{', '.join(unable)} has no confidence; {' and '.join(JUDGING)} have one.")
    datasets = with_foreign_requests([read_dataset(path, split) for path in directories], foreign)
    if slips:
        datasets = [with_slips(dataset) for dataset in datasets]
    if fit:
        click.echo(f"generic: {' '.join(generic_stems(datasets))}")
        for name in rankers:
            intercept, slopes = fitted([*datasets, *invented_catalogs()], JUDGING[name](0))
            click.echo(f"{name}: {intercept}, {slopes}")
    chosen: Mapping[str, Ranker] = {name: RANKERS[name] for name in rankers}
    if thresholds:
        levels = sorted({0.0, *thresholds})
        chosen = {f"{name} at {level:g}": floored(JUDGING[name](level)) for name in rankers for level in levels}
    measured = {
        name: [measure(dataset, ranker, depth=depth) for dataset in datasets] for name, ranker in chosen.items()
    }
    figures = [_report(name, split, own) for name, own in measured.items()]
    write_figures(figures, silence_tables if thresholds else retrieval_tables, json_file)
    if run_file:
        rows = (
            {"id": answer.query.id, "ranked": answer.ranked} for own in measured[rankers[0]] for answer in own.answers
        )
        run_file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _report(ranker: str, split: str, measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return a ranking's figures: for each dataset, and as unweighted means over the datasets."""
    rows = [
        {
            "dataset": measurement.dataset,
            "tools": measurement.tools,
            "queries": len(measurement.qualities),
            "ndcg": asdict(mean(_ndcg(measurement))),
            "unservable": len(measurement.silent(is_served=False)),
            "silent": fmean(measurement.silent(is_served=False) or [0.0]),
            **asdict(mean_quality(measurement.qualities)),
            "slices": {name: _slice(own) for name, own in measurement.slices.items()},
        }
        for measurement in measurements
    ]
    rightly, wrongly = (
        [own for measurement in measurements if (own := measurement.silent(is_served=is_served))] or [[0.0]]
        for is_served in (False, True)
    )
    means = {
        **asdict(mean_quality([mean_quality(measurement.qualities) for measurement in measurements])),
        "ndcg": asdict(mean(*map(_ndcg, measurements))),
        "silent": asdict(mean(*rightly)),
        "wrongly_silent": asdict(mean(*wrongly)),
    }
    return {"ranker": ranker, "split": split, "datasets": rows, "mean": means}


def _slice(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the figures for one kind of request; `silent` is the share with an empty answer."""
    qualities = [answer.quality for answer in answers if answer.quality is not None]
    figures = {
        "silent": [float(not answer.ranked) for answer in answers],
        "ndcg": [quality.ndcg_at_10 for quality in qualities],
        "first": [float(quality.reciprocal_rank == 1) for quality in qualities],
        "among_five": [float(quality.reciprocal_rank >= 1 / 5) for quality in qualities],
    }
    return {"queries": len(answers), **{name: asdict(mean(values)) for name, values in figures.items() if values}}


def _ndcg(measurement: Measurement) -> Sequence[float]:
    return [quality.ndcg_at_10 for quality in measurement.qualities] or [0.0]


if __name__ == "__main__":
    main()
