"""Orders of many servers' answers: `python -m benchmarks.federation`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, TypeAlias

import click
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Tool
from tools_search_client.federation.merging import RememberingRanker, merge, named_among_servers
from tools_search_client.found import Found, FoundTool
from tools_search_hosts import ServerEntry, StdioTarget, qualified_name
from tools_search_ranking import FieldedRanker

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.retrieval.__main__ import RANKERS
from benchmarks.retrieval.datasets import Query, read_dataset, read_servers
from benchmarks.retrieval.measure import DEPTH, Quality, mean_quality, quality

Answers = Sequence[tuple[ServerEntry, Found]]
"""What each server found, as the client's fan-out returns it."""


class Servers:
    """The servers of one data set, in one process: what is measured is the order of the answers, not the way to them.

    Args:
        directory: A data set.
        own_ranker: Ranks the tools of each server, as the server itself would.
        ranker: Ranks the tools of all, where they are in one index.

    Raises:
        OSError: A file is missing.
        pydantic.ValidationError: A line is not of the format.
    """

    def __init__(self, directory: Path, *, own_ranker: Ranker, ranker: Ranker) -> None:
        servers = read_servers(directory)
        self.ids = {
            qualified_name(server, tool.name): key for server in servers for key, tool in servers[server].items()
        }
        self.number = len(servers)
        self._tools: Mapping[str, Mapping[str, Tool]] = {
            server: {tool.name: tool for tool in own.values()} for server, own in servers.items()
        }
        self._indexes = {server: floored(own_ranker)(list(own.values())) for server, own in self._tools.items()}
        self._everything = floored(ranker)(
            [
                tool.model_copy(update={"name": qualified_name(server, name)})
                for server, own in self._tools.items()
                for name, tool in own.items()
            ]
        )

    def search(self, query: str, *, limit: int, known: Collection[str] = ()) -> Answers:
        """Return the answer of every server, `limit` tools at most from each.

        Args:
            query: What is searched.
            limit: Upper bound of each answer.
            known: Ids of tools that their servers put first, wherever their ranking has them.
        """
        return [
            (ServerEntry(server, StdioTarget(server)), self._found(server, query, limit, known))
            for server in self._tools
        ]

    def search_one_index(self, query: str, *, limit: int) -> Sequence[str]:
        """Return the full names of the best tools of all servers, for which every definition has to be at hand."""
        return [hit.name for hit in self._everything.search(query)[:limit]]

    def _found(self, server: str, query: str, limit: int, known: Collection[str]) -> Found:
        hits = self._indexes[server].search(query)[:limit]
        hits = sorted(hits, key=lambda hit: self.ids[qualified_name(server, hit.name)] not in known)
        tools = self._tools[server]
        found = (FoundTool(hit.name, "", tools[hit.name], HitMetadata(score=hit.score)) for hit in hits)
        return Found(tuple(found), "search")


Order: TypeAlias = Callable[[str, Answers, int], Sequence[str]]
"""Makes full names, best first and no more than asked for, of a query and its answers."""
SHIPPED: Final = "as the client does"


def _as_the_client(query: str, answers: Answers, limit: int, *, ranker: Ranker) -> Sequence[str]:
    by_target = [(entry.target, own) for (entry, _), own in zip(answers, _found(answers), strict=True)]
    return [tool.name for tool in merge(query, by_target, limit=limit, ranker=ranker)]


def _by_ranks(query: str, answers: Answers, limit: int, *, votes: int) -> Sequence[str]:
    """Fuse the rankings of the servers and, with so many votes, the one of all that they found."""
    found = _found(answers)
    rankings = [[tool.name for tool in own] for own in found if own]
    if votes:
        rankings += [_ranked_together(query, found)] * votes
    return [name for name, _ in reciprocal_rank_fusion(rankings)][:limit]


def _ranked_again(query: str, answers: Answers, limit: int) -> Sequence[str]:
    """Forget the rankings of the servers."""
    return _ranked_together(query, _found(answers))[:limit]


def _found(answers: Answers) -> Sequence[Sequence[FoundTool]]:
    return [named_among_servers(entry.name, found).tools for entry, found in answers]


def _ranked_together(query: str, found: Sequence[Sequence[FoundTool]]) -> list[str]:
    tools = [tool.tool.model_copy(update={"name": tool.name}) for own in found for tool in own]
    return [hit.name for hit in FieldedRanker()(tools).search(query)]


ORDERS: Final[Mapping[str, Order]] = {
    "rank fusion": partial(_by_ranks, votes=0),
    "ranked again": _ranked_again,
    **{f"fusion, {votes} own votes": partial(_by_ranks, votes=votes) for votes in (1, 2, 4, 8)},
    SHIPPED: partial(_as_the_client, ranker=RememberingRanker(FieldedRanker())),
}


ONE_INDEX: Final = "one index of all tools"


@dataclass(frozen=True)
class Measurement:
    """What one order came to over all queries."""

    order: str
    queries: int
    quality: Quality
    more: Estimate
    """By how much its nDCG@10 is more than that of the client's order, request by request."""

    p50_ms: float
    """Of making the order; the searches of the servers are not counted, except that of the one index."""


def measure(servers: Servers, queries: Sequence[Query], *, informed: bool = False) -> Sequence[Measurement]:
    """Put every query, of which there is at least one, to the servers, and order what they find in every way.

    Servers that are `informed` put what is labelled as right first among what they find: they understand a request
    better than any ranking of its words, and nothing but their ranks shows it.
    """
    qualities: dict[str, list[Quality]] = {name: [] for name in (*ORDERS, ONE_INDEX)}
    seconds: dict[str, list[float]] = {name: [] for name in qualities}

    def judge(order: str, ranked: Sequence[str], query: Query, started: float) -> None:
        seconds[order].append(perf_counter() - started)
        qualities[order].append(quality([servers.ids[name] for name in ranked], query.relevant))

    for query in queries:
        answers = servers.search(query.query, limit=DEPTH, known=query.relevant if informed else ())
        for name, order in ORDERS.items():
            started = perf_counter()
            judge(name, order(query.query, answers, DEPTH), query, started)
        started = perf_counter()
        judge(ONE_INDEX, servers.search_one_index(query.query, limit=DEPTH), query, started)
    return [
        Measurement(
            order=name,
            queries=len(own),
            quality=mean_quality(own),
            more=estimate([a.ndcg_at_10 - b.ndcg_at_10 for a, b in zip(own, qualities[SHIPPED], strict=True)]),
            p50_ms=1000 * median(seconds[name]),
        )
        for name, own in qualities.items()
    ]


_HEADINGS: Final = (
    "| order | nDCG@10 | R@1 | R@5 | R@10 | more nDCG than the client | ms |\n|---|--:|--:|--:|--:|--:|--:|"
)
_INFORMED: Final = "informed"
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--data", "directory", type=_DIRECTORY, required=True, help="Dataset whose tools have servers.")
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True)
@click.option(
    "--server-ranker",
    type=click.Choice([*sorted(RANKERS), _INFORMED]),
    default="fielded",
    show_default=True,
    help="How each server ranks its own tools; `informed` ones know which are right. The client's is `fielded`.",
)
@click.option("--json", "json_file", type=_FILE, help="Write the figures here.")
def main(directory: Path, split: str, server_ranker: str, json_file: Path | None) -> None:
    """Compare orders of what many servers find, each of which knows its own tools alone.

    Every server is asked for its ten best, and ten are kept. The one index of all tools is no federation: it is what
    could be reached if every definition were at hand.
    """
    servers = Servers(directory, own_ranker=RANKERS.get(server_ranker, FieldedRanker()), ranker=FieldedRanker())
    queries = read_dataset(directory, split).queries
    measurements = measure(servers, queries, informed=server_ranker == _INFORMED)
    click.echo(
        f"{directory.name}, {split}: {len(queries)} queries, {servers.number} servers that rank {server_ranker}\n"
    )
    click.echo("\n".join([_HEADINGS, *map(_row, measurements)]))
    if json_file:
        json_file.write_text(json.dumps(_report(measurements, split, server_ranker), indent=2) + "\n", encoding="utf-8")


def _row(one: Measurement) -> str:
    good = one.quality
    figures = (good.ndcg_at_10, good.recall_at_1, good.recall_at_5, good.recall_at_10)
    more = f"{one.more.mean:+.3f} ({one.more.low:+.3f} to {one.more.high:+.3f})"
    return f"| {one.order} | {' | '.join(f'{figure:.3f}' for figure in figures)} | {more} | {one.p50_ms:.1f} |"


def _report(measurements: Sequence[Measurement], split: str, server_ranker: str) -> dict[str, object]:
    rows = [
        {member: value for member, value in asdict(one).items() if member != "quality"} | asdict(one.quality)
        for one in measurements
    ]
    return {"split": split, "server_ranker": server_ranker, "orders": rows}


if __name__ == "__main__":
    main()
