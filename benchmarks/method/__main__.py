"""Command line of the comparison of method, tool and listing."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

import anyio
import click

from benchmarks.bootstrap import Bounded, Estimate, ratio_of_medians
from benchmarks.context.catalog import Catalog, Task, read_catalog
from benchmarks.context.measure import ENCODING, StandIn, TokenCounter, measurement
from benchmarks.markdown import table
from benchmarks.method.gateway import Gateway, Traffic, serving
from benchmarks.method.ways import BASE, WAYS

__all__ = ["Cost", "main"]

_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True)
class Cost:
    """What one way came to for one task, as means over the tasks."""

    way: str
    turns: float
    """Requests to the model, to the one in which it calls what it found or gives up."""

    requests: float
    """On the wire, before that call."""

    bytes: float
    """Of them and their answers."""

    turn_tokens: Sequence[float]
    """Before the model in its first turn, its second and so on, over the tasks that get so far."""

    tokens: float
    """In all turns together."""

    new_tokens: float
    """The same without what a provider has read in the turn before."""

    complete: Estimate
    """The share of tasks for which every tool is found."""

    wire_ms: float
    """From each request on the wire to its answer, all of a task together; the median."""

    wire_ratio: Bounded
    """How many times the median of delegated search that is."""


@click.command()
@click.option("--data", "directories", type=_DIRECTORY, multiple=True, required=True, help="Dataset; may be repeated.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="test", show_default=True)
@click.option("--tasks", type=click.IntRange(min=1), help="The first so many of each dataset; all.")
@click.option("--results", type=click.IntRange(1, 20), default=5, show_default=True, help="Tools that a search finds.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Each task in each way.")
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(
    directories: Sequence[Path], split: str, tasks: int | None, results: int, rounds: int, json_file: Path | None
) -> None:
    """Replay requests against one gateway: tools listed, found by the host's request, or found by the model's tool.

    A deterministic policy stands in for the model (see the docstring of the package). The tables are Markdown.
    """
    reports: list[dict[str, object]] = []
    for directory in directories:
        catalog, all_tasks = read_catalog(directory, split)
        costs = anyio.run(_measured, catalog, all_tasks[:tasks], results, rounds)
        numbers = {"tools": len(catalog.tools), "servers": len(catalog.servers), "tasks": len(all_tasks[:tasks])}
        click.echo(_page(directory.name, numbers, costs))
        reports.append({"dataset": directory.name, **numbers, "ways": [*map(asdict, costs)]})
    if json_file:
        written = {"split": split, "encoding": ENCODING, "results": results, "rounds": rounds, "datasets": reports}
        json_file.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


async def _measured(catalog: Catalog, tasks: Sequence[Task], results: int, rounds: int) -> Sequence[Cost]:
    """Let the ways take turns, so that what else the machine does falls on all alike."""
    async with serving(catalog) as gateway:
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
    return [_cost(name, models[name], traffic[name], seconds[BASE], count) for name in names]


def _replayed(gateway: Gateway, name: str, model: StandIn, results: int) -> Traffic:
    traffic = Traffic()
    gateway.plain.traffic = gateway.meta_tools.traffic = traffic
    WAYS[name](gateway, model, results)
    return traffic


def _cost(
    name: str, models: Sequence[StandIn], traffic: Sequence[Traffic], base: Sequence[float], count: TokenCounter
) -> Cost:
    before_model = measurement(name, models, count)
    seconds = [one.seconds for one in traffic]
    return Cost(
        way=name,
        turns=before_model.requests,
        requests=fmean(one.requests for one in traffic),
        bytes=fmean(one.bytes for one in traffic),
        turn_tokens=[turn.tokens for turn in before_model.turns],
        tokens=before_model.tokens,
        new_tokens=before_model.new_tokens,
        complete=before_model.complete[-1],
        wire_ms=1000 * median(seconds),
        wire_ratio=ratio_of_medians(seconds, base),
    )


def _page(dataset: str, numbers: Mapping[str, int], costs: Sequence[Cost]) -> str:
    headings = (
        "", "turns of the model", "requests on the wire", "kB on the wire", "tokens, turn by turn", "all turns",
        "of them new", "every tool found", "wire, ms (median)", "times delegated",
    )  # fmt: skip
    rows = [
        (
            one.way,
            f"{one.turns:.2f}",
            f"{one.requests:.2f}",
            f"{one.bytes / 1e3:,.0f}",
            " / ".join(f"{tokens:,.0f}" for tokens in one.turn_tokens),
            f"{one.tokens:,.0f}",
            f"{one.new_tokens:,.0f}",
            f"{one.complete.mean:.0%} ({one.complete.low:.0%}-{one.complete.high:.0%})",
            f"{one.wire_ms:.1f}",
            f"{one.wire_ratio.value:.1f} ({one.wire_ratio.low:.1f}-{one.wire_ratio.high:.1f})",
        )
        for one in costs
    ]
    title = "{tools} tools of {servers} servers, {tasks} requests".format(**numbers)
    return f"## {dataset}: {title}\n\n{table(headings, rows)}\n"


if __name__ == "__main__":
    main()
