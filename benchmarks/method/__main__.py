"""Command line of the comparison of method, tool and listing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median

import anyio
import click

from benchmarks.bootstrap import Estimate, mean, ratio_of_medians
from benchmarks.context.catalog import Catalog, Task, read_catalog
from benchmarks.context.measure import ENCODING, StandIn, TokenCounter, measurement
from benchmarks.method.gateway import Gateway, gateway_over
from benchmarks.method.ways import BASE, WAYS
from benchmarks.options import (
    json_option,
    servers_option,
    slice_option,
    split_option,
    tasks_option,
    write_figures,
)
from benchmarks.processes import Traffic
from benchmarks.report.tables import method_tables


@dataclass(frozen=True)
class Cost:
    """The cost of one way for one task, as means over the tasks."""

    way: str
    turns: float
    """Requests to the model, to the one in which it calls the tools that it found or gives up."""

    requests: float
    """On the wire, before that call."""

    bytes: float
    """Of them and their answers."""

    turn_tokens: Sequence[float]
    """Before the model in its first turn, its second and so on, over the tasks that get so far."""

    tokens: float
    """In all turns together."""

    new_tokens: float
    """The same without the part that a provider has read in the turn before."""

    found: Estimate
    """The share of the tools that a task takes which are found."""

    complete: Estimate
    """The share of tasks for which every tool is found."""

    wire_ms: float
    """From each request on the wire to its answer, all of a task together; the median."""

    wire_ratio: Estimate
    """That median, as a multiple of the one of delegated search."""


@click.command()
@servers_option
@split_option("test")
@slice_option
@tasks_option
@click.option("--results", type=click.IntRange(1, 20), default=5, show_default=True, help="Tools that a search finds.")
@click.option(
    "--servers",
    "sizes",
    type=click.IntRange(min=1),
    multiple=True,
    help="Only so many servers, where a set has them; may be repeated; all.",
)
@click.option("--steps", "by_steps", is_flag=True, help="Only tasks that have steps: by their text, and by steps.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Each task in each way.")
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

    A deterministic policy stands in for the model (benchmarks/README.md). The tables are Markdown.
    """
    reports: list[dict[str, object]] = []
    for directory in directories:
        whole, all_tasks = read_catalog(directory, split, by_steps=by_steps, slices=slices)
        for size in [size for size in sizes if size <= len(whole.servers)] or [len(whole.servers)]:
            catalog = whole.of_servers(size, all_tasks)
            own_tasks = [task for task in all_tasks if task.needed <= catalog.tools.keys()][:tasks]
            if not own_tasks:
                raise click.UsageError(f"{directory.name}: no task can be served by {size} servers")
            numbers = {"tools": len(catalog.tools), "servers": len(catalog.servers), "tasks": len(own_tasks)}
            searched = {"": own_tasks}
            if by_steps:
                whole_texts = [replace(task, steps=()) for task in own_tasks]
                searched = {"searched by their whole text": whole_texts, "searched step by step": own_tasks}
            for how, one in searched.items():
                costs = anyio.run(_measured, catalog, one, results, rounds)
                reports.append({"dataset": directory.name, **numbers, "searched": how, "ways": [*map(asdict, costs)]})
    options = {"split": split, "encoding": ENCODING, "results": results, "rounds": rounds, "by_steps": by_steps}
    figures = {**options, "datasets": reports}
    write_figures(figures, method_tables, json_file)


async def _measured(catalog: Catalog, tasks: Sequence[Task], results: int, rounds: int) -> Sequence[Cost]:
    """Let the ways take turns, so that other work of the machine falls on all alike."""
    async with gateway_over(catalog) as gateway:
        names = [*WAYS]
        for name in names:  # what is made once is made
            _replayed(gateway, name, StandIn(tasks[0], catalog), results)
        models = {name: [StandIn(task, catalog) for task in tasks] for name in names}
        traffic: dict[str, list[Traffic]] = {name: [] for name in names}
        for turn in range(rounds):
            for place, task in enumerate(tasks):
                for name in random.Random(f"{turn} {place}").sample(names, len(names)):  # noqa: S311 - no secret
                    model = StandIn(task, catalog) if turn else models[name][place]
                    traffic[name].append(_replayed(gateway, name, model, results))
    count = TokenCounter()
    seconds = {name: [one.seconds for one in own] for name, own in traffic.items()}
    costs: list[Cost] = []
    for name in names:
        sent = measurement(name, models[name], count)
        shares = [
            len(model.task.needed & model.requests[-1].available) / len(model.task.needed) for model in models[name]
        ]
        costs.append(
            Cost(
                way=name,
                turns=sent.requests,
                requests=fmean(one.requests for one in traffic[name]),
                bytes=fmean(one.bytes for one in traffic[name]),
                turn_tokens=[turn.tokens for turn in sent.turns],
                tokens=sent.tokens,
                new_tokens=sent.new_tokens,
                found=mean(shares),
                complete=mean([float(share == 1) for share in shares]),
                wire_ms=1000 * median(seconds[name]),
                wire_ratio=ratio_of_medians(seconds[name], seconds[BASE]),
            )
        )
    return costs


def _replayed(gateway: Gateway, name: str, model: StandIn, results: int) -> Traffic:
    traffic = gateway.plain.traffic = gateway.meta_tools.traffic = Traffic()
    WAYS[name](gateway, model, results)
    return traffic


if __name__ == "__main__":
    main()
