"""Which rank a tool has with an honest description, and which with a stuffed one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import cast

from mcp_ext_tools_search.ranking import UpdatableIndex
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.hits import names_of

from benchmarks.bootstrap import estimate
from benchmarks.retrieval.datasets import Dataset, Query
from benchmarks.stuffing.attacks import ATTACKS, Knowledge

__all__ = ["Outcome", "attacked", "summary"]

_SEED = 7
_PAGE = 5


@dataclass(frozen=True)
class Outcome:
    """What one attack did to one request."""

    attack: str
    fits: bool
    """Whether the tool serves the request; otherwise it is another, drawn at random."""

    honest: int
    """Rank with the honest description, from 1; one more than there are tools where it is not found."""

    stuffed: int


def attacked(dataset: Dataset, most_tools: int) -> Iterator[Outcome]:
    """Stuff one tool at a time, up to `most_tools` of those that are asked for, and put their requests.

    Each request is put with its right tool stuffed, and with another one that does not serve it.
    """
    draw = random.Random(_SEED)  # noqa: S311  # the same in every run
    names = {own_id: name for name, own_id in dataset.ids.items()}
    tools = {tool.name: tool for tool in dataset.tools}
    index = cast("UpdatableIndex", FieldedRanker()(dataset.tools))
    known = Knowledge(tools, index, [query.query for query in dataset.queries])
    served: dict[str, list[Query]] = {}
    for query in dataset.queries:
        if query.relevant:
            served.setdefault(names[query.relevant[0]], []).append(query)
    for name in draw.sample(sorted(served), min(most_tools, len(served))):
        queries = served[name]
        labelled = {names[own_id] for query in queries for own_id in query.relevant}
        other = draw.choice(sorted(set(tools) - labelled))
        for victim in (name, other):
            yield from _stuffed(index, known, tools[victim], queries, fits=victim == name)


def _stuffed(
    index: UpdatableIndex, known: Knowledge, tool: Tool, queries: Sequence[Query], *, fits: bool
) -> Iterator[Outcome]:
    honest = [_rank(index, query, tool.name, len(known.tools)) for query in queries]
    for attack, write in ATTACKS.items():
        stuffed = tool.model_copy(update={"description": write(tool, known)})
        changed = cast("UpdatableIndex", index.updated([tool.name], [stuffed]))
        for query, before in zip(queries, honest, strict=True):
            yield Outcome(attack, fits, before, _rank(changed, query, tool.name, len(known.tools)))


def _rank(index: UpdatableIndex, query: Query, name: str, count: int) -> int:
    names = names_of(index.search(query.query))
    return names.index(name) + 1 if name in names else count + 1


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the median rank gained, of all and of those that were not first, and the parts in the first five."""
    gains = [one.honest - one.stuffed for one in outcomes]
    below = [gain for gain, one in zip(gains, outcomes, strict=True) if one.honest > 1]
    first_five = estimate([float(one.stuffed <= _PAGE) for one in outcomes] or [0.0])
    return {
        "requests": len(outcomes),
        "median_gain": median(gains or [0]),
        "median_gain_below_first": median(below or [0]),
        "first_five_honest": sum(one.honest <= _PAGE for one in outcomes) / max(1, len(outcomes)),
        "first_five_stuffed": first_five.mean,
        "first_five_stuffed_low": first_five.low,
        "first_five_stuffed_high": first_five.high,
        "first_stuffed": sum(one.stuffed == 1 for one in outcomes) / max(1, len(outcomes)),
    }
