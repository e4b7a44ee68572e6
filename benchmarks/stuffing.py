"""Stuffed descriptions: the ranks that they gain: `python -m benchmarks.stuffing`."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Final, cast

import click
from mcp_ext_tools_search.ranking import ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.language import words
from mcp_ext_tools_search.ranking.lexicon import STOP_WORDS, VERB_GROUPS
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.hits import names_of

from benchmarks.bootstrap import estimate
from benchmarks.retrieval.datasets import SMALL, Dataset, Query, read_dataset

MOST_BYTES: Final = 10_000
"""Bytes of a description that an attacker may write."""
_NEIGHBORS: Final = 30
_OVER_AND_OVER: Final = 10_000


@dataclass(frozen=True)
class Knowledge:
    """What an attacker knows: the catalog, and how others phrase their requests."""

    tools: Mapping[str, Tool]
    index: ToolIndex
    requests: Sequence[str]
    """Requests to this catalog, the measured ones among them: more than any attacker has."""

    @cached_property
    def common_words(self) -> list[str]:
        """Return the words of the catalog, those of most tools first."""
        return _most_common(f"{tool.name} {tool.title or ''} {tool.description or ''}" for tool in self.tools.values())

    @cached_property
    def requested_words(self) -> list[str]:
        """Return the words of the requests, those of most requests first."""
        return _most_common(self.requests)


def _most_common(texts: Iterable[str]) -> list[str]:
    counts = Counter(word for text in texts for word in dict.fromkeys(words(text)))
    return [word for word, _ in counts.most_common() if word not in STOP_WORDS]


def _honest(tool: Tool) -> str:
    return (tool.description or tool.name).strip()


def _repetition(tool: Tool, known: Knowledge) -> str:
    """The words of the name, over and over."""
    return " ".join(islice(cycle(words(tool.name)), _OVER_AND_OVER))


def _length(tool: Tool, known: Knowledge) -> str:
    """The honest description, over and over."""
    return " ".join([_honest(tool)] * _OVER_AND_OVER)


def _synonyms(tool: Tool, known: Knowledge) -> str:
    """The honest description, and every verb that names an operation."""
    return f"{_without_end(tool)} {' '.join(VERB_GROUPS)}"


def _neighbors(tool: Tool, known: Knowledge) -> str:
    """The honest description, and those of the tools most like it."""
    found = known.index.search(f"{tool.name} {_honest(tool)}")[:_NEIGHBORS]
    return " ".join([_honest(tool), *(_honest(known.tools[hit.name]) for hit in found if hit.name != tool.name)])


def _catalog(most: int, tool: Tool, known: Knowledge) -> str:
    """The honest description, and `most` bytes of the words that most tools have."""
    return _cut(f"{_without_end(tool)} {' '.join(known.common_words)}", len(_honest(tool).encode()) + most)


def _requests(most: int, tool: Tool, known: Knowledge) -> str:
    """The honest description, and `most` bytes of the words that most requests have."""
    return _cut(f"{_without_end(tool)} {' '.join(known.requested_words)}", len(_honest(tool).encode()) + most)


def _without_end(tool: Tool) -> str:
    """Return the honest description as one sentence that goes on, as first sentences count most."""
    return _honest(tool).rstrip(".").replace(". ", ", ").replace("\n", " ")


def _cut(text: str, most: int) -> str:
    return text.encode()[: min(most, MOST_BYTES)].decode(errors="ignore")


_UNCUT: Final[Mapping[str, Callable[[Tool, Knowledge], str]]] = {
    "repetition": _repetition,
    "length": _length,
    "synonyms": _synonyms,
    "copied neighbors": _neighbors,
    "catalog's words, 300 B": partial(_catalog, 300),
    "catalog's words, 2 kB": partial(_catalog, 2_000),
    "catalog's words, 10 kB": partial(_catalog, MOST_BYTES),
    "requests' words, 300 B": partial(_requests, 300),
    "requests' words, 2 kB": partial(_requests, 2_000),
    "requests' words, 10 kB": partial(_requests, MOST_BYTES),
}


def _bounded(attack: Callable[[Tool, Knowledge], str], tool: Tool, known: Knowledge) -> str:
    return _cut(attack(tool, known), MOST_BYTES)


ATTACKS: Final[Mapping[str, Callable[[Tool, Knowledge], str]]] = {
    name: partial(_bounded, attack) for name, attack in _UNCUT.items()
}
"""Descriptions that an attacker writes, by the name of the attack."""


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


_MOST_RANKS: Final = 3
"""Ranks that a stuffed description may gain, in the median."""
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option(
    "--data", "directories", type=_DIRECTORY, multiple=True, default=[SMALL], help="Dataset; may be repeated."
)
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option("--tools", type=click.IntRange(min=1), default=100, show_default=True, help="Tools stuffed per dataset.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here.")
def main(directories: Sequence[Path], split: str, tools: int, json_file: Path | None) -> None:
    """Measure what a stuffed description gains; the exit code is 1 if it is more than 3 ranks in the median."""
    by_set = {path.name: list(attacked(read_dataset(path, split), tools)) for path in directories}
    outcomes = [one for own in by_set.values() for one in own]
    rows = {
        f"{'right tool' if fits else 'another tool'}, {attack}": summary(_of(outcomes, attack, fits=fits))
        for fits in (True, False)
        for attack in ATTACKS
    }
    width = max(map(len, rows))
    click.echo(f"{'':{width}}  median gain  below first  first five, honest > stuffed  first")
    for name, row in rows.items():
        click.echo(
            f"{name:{width}}  {row['median_gain']:11.1f}  {row['median_gain_below_first']:11.1f}  "
            f"{row['first_five_honest']:17.3f} > {row['first_five_stuffed']:.3f}  {row['first_stuffed']:5.3f}"
        )
    gains = {
        f"{name}, {attack}": summary(_of(own, attack, fits=True))["median_gain"]
        for name, own in by_set.items()
        for attack in ATTACKS
    }
    highest = max(gains, key=lambda name: gains[name])
    click.echo(f"greatest median gain of a right tool: {gains[highest]:g} ({highest})")
    if json_file:
        json_file.write_text(json.dumps({"split": split, "attacks": rows, "by_set": gains}, indent=1) + "\n", "utf-8")
    sys.exit(int(gains[highest] > _MOST_RANKS))


def _of(outcomes: Sequence[Outcome], attack: str, *, fits: bool) -> list[Outcome]:
    return [one for one in outcomes if one.attack == attack and one.fits == fits]


if __name__ == "__main__":
    main()
