"""The command that compares method, tool and listing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import anyio
import click

from benchmarks.bootstrap import mean, ratio_of_medians
from benchmarks.context.catalog import Catalog, Task, read_parts
from benchmarks.context.measure import ENCODING, StandIn, TokenCounter, measurement
from benchmarks.datasets import REAL
from benchmarks.method.gateway import Gateway, gateway_over
from benchmarks.method.ways import BASE, WAYS
from benchmarks.options import data_option, json_option, split_option, tasks_option, write_figures
from benchmarks.processes import Traffic
from benchmarks.report.tables import method_tables


@click.command()
@data_option(REAL)
@split_option("test")
@click.option(
    "--slice", "slices", multiple=True, help="Only requests of this kind, if a dataset has several; can be repeated."
)
@tasks_option
@click.option("--results", type=click.IntRange(1, 20), default=5, show_default=True, help="Tools per search.")
@click.option(
    "--servers",
    "sizes",
    type=click.IntRange(min=1),
    multiple=True,
    help="Only this many servers, if a dataset has servers; can be repeated. [default: all]",
)
@click.option(
    "--steps", "by_steps", is_flag=True, help="Only tasks that have steps, searched by their text and step by step."
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Repetitions of each task with each method.",
)
@json_option
def main(
    directories: Sequence[Path],
    split: str,
    slices: Sequence[str],
    tasks: int | None,
    results: int,
    sizes: Sequence[int],
    by_steps: bool,
    rounds: int,
    json_file: Path | None,
) -> None:
    """Replay requests against one gateway: tools listed, found by the host's request, or found by the model's tool.

    A deterministic policy simulates the model (benchmarks/README.md). The tables are Markdown.
    """
    reports: list[dict[str, Any]] = []
    for numbers, catalog, own in read_parts(directories, split, tasks, sizes, by_steps=by_steps, slices=slices):
        searched = {"": own}
        if by_steps:
            whole_texts = [replace(task, steps=()) for task in own]
            searched = {"searched by their whole text": whole_texts, "searched step by step": own}
        measured = anyio.run(_measured, catalog, searched, results, rounds)
        reports += [numbers | {"searched": how, "ways": ways} for how, ways in measured.items()]
    options = {"split": split, "encoding": ENCODING, "results": results, "rounds": rounds, "by_steps": by_steps}
    write_figures({**options, "datasets": reports}, method_tables, json_file)


async def _measured(
    catalog: Catalog, searched: Mapping[str, Sequence[Task]], results: int, rounds: int
) -> Mapping[str, Sequence[dict[str, Any]]]:
    async with gateway_over(catalog) as gateway:
        return {how: _ways(gateway, catalog, tasks, results, rounds) for how, tasks in searched.items()}


def _ways(
    gateway: Gateway, catalog: Catalog, tasks: Sequence[Task], results: int, rounds: int
) -> Sequence[dict[str, Any]]:
    """Return each method's costs for one task; they take turns, so that other load affects all equally."""
    names = [*WAYS]
    for name in names:  # one-time setup is done
        _replayed(gateway, name, StandIn(tasks[0], catalog), results)
    models = {name: [StandIn(task, catalog) for task in tasks] for name in names}
    traffic: dict[str, list[Traffic]] = {name: [] for name in names}
    for turn in range(rounds):
        for place, task in enumerate(tasks):
            for name in random.Random(f"{turn} {place}").sample(names, len(names)):  # noqa: S311 - no secret
                model = StandIn(task, catalog) if turn else models[name][place]
                traffic[name].append(_replayed(gateway, name, model, results))
    count = TokenCounter()
    seconds = {name: [visit.seconds for visit in own] for name, own in traffic.items()}
    return [
        _costs(name, models[name], traffic[name], count)
        | {
            # Total time from request to answer on the wire per task: the median, and as a multiple of delegated
            # search's.
            "wire_ms": 1000 * median(seconds[name]),
            "wire_ratio": asdict(ratio_of_medians(seconds[name], seconds[BASE])),
        }
        for name in names
    ]


def _costs(name: str, models: Sequence[StandIn], traffic: Sequence[Traffic], count: TokenCounter) -> dict[str, Any]:
    """Return means over the tasks."""
    sent = measurement(name, models, count)
    shares = [len(model.task.needed & model.requests[-1].available) / len(model.task.needed) for model in models]
    return {
        "way": name,
        # Requests to the model, up to the one in which it calls the tools it found or gives up.
        "turns": sent.requests,
        # Requests on the wire before that call, and the bytes of requests and answers.
        "requests": fmean(visit.requests for visit in traffic),
        "bytes": fmean(visit.bytes for visit in traffic),
        # Tokens in the model's first turn, second turn and so on, over the tasks that get this far; in all turns; and
        # the same without the part that a provider has read in the previous turn.
        "turn_tokens": [turn.tokens for turn in sent.turns],
        "tokens": sent.tokens,
        "new_tokens": sent.new_tokens,
        # The share of a task's tools that are found, and the share of tasks for which all are.
        "found": asdict(mean(shares)),
        "complete": asdict(mean([float(share == 1) for share in shares])),
    }


def _replayed(gateway: Gateway, name: str, model: StandIn, results: int) -> Traffic:
    traffic = gateway.plain.traffic = gateway.meta_tools.traffic = Traffic()
    WAYS[name](gateway, model, results)
    return traffic


if __name__ == "__main__":
    main()
