"""Compares the database's answers with those of the in-memory ranking, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from mcp_ext_tools_search.ranking import ToolIndex, first_names
from tools_search_ranking import FieldedRanker
from tools_search_ranking.postgres import PostgresIndex, ToolEntry, embed_catalog, import_catalog
from tools_search_ranking.postgres.schema import Connection
from tools_search_ranking.semantic import Embedder, SemanticRanker

from benchmarks.datasets import Dataset
from benchmarks.retrieval.measure import DEPTH, quality


@dataclass(frozen=True)
class Answers:
    """Both rankings on one dataset."""

    dataset: str
    tools: int
    requests: int
    same: float
    """Share of the requests with the same first ten results in the same order."""

    ndcg: float
    """The database's nDCG@10."""

    ndcg_in_memory: float


def compare(connection: Connection, dataset: Dataset, embedder: Embedder | None = None) -> Answers:
    """Import a dataset, and make all of its requests to both rankings, which rank by meaning too with an embedder."""
    wire = (tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in dataset.tools)
    import_catalog(connection, dataset.name, map(ToolEntry, wire))
    if embedder is None:
        memory: ToolIndex = FieldedRanker()(dataset.tools)
    else:
        embed_catalog(connection, dataset.name, embedder)
        ranker = SemanticRanker(embedder)
        memory = ranker(dataset.tools)
        ranker.settle()
    ours = PostgresIndex(connection, dataset.name, embedder=embedder)
    rankings = [(first_ten(ours, asked.query), first_ten(memory, asked.query)) for asked in dataset.queries]
    judged = [
        [quality([dataset.ids[name] for name in names], query.relevant).ndcg_at_10 for names in both]
        for query, both in zip(dataset.queries, rankings, strict=True)
        if query.relevant
    ]
    return Answers(
        dataset=dataset.name,
        tools=len(dataset.tools),
        requests=len(rankings),
        same=fmean(own == other for own, other in rankings),
        ndcg=fmean(own for own, _ in judged),
        ndcg_in_memory=fmean(other for _, other in judged),
    )


def first_ten(index: ToolIndex, query: str) -> Sequence[str]:
    """Return the names of the ten best results."""
    if isinstance(index, PostgresIndex):
        return [hit.name for hit in index.first(query, DEPTH).hits]
    return first_names(index.search(query), DEPTH)
