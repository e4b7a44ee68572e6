"""Quality and cost of searches over a folder's documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path, PurePosixPath
from statistics import median
from time import process_time
from typing import Any, Final, TypeAlias

from mcp_ext_search_primitives import RESOURCES
from mcp_ext_search_primitives.index import PrimitiveIndex
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker
from mcp_types import Tool
from tools_search_ranking import default_ranker

from benchmarks.bootstrap import mean
from benchmarks.documents.trees import Tree, read_tree
from benchmarks.memory import memory_of
from benchmarks.retrieval.measure import DEPTH, quality
from benchmarks.speed.engines import BM25S

Search: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the URIs found, best first."""

CONDITIONS: Final[Mapping[str, Sequence[str]]] = {
    "contents alone": ("title", "sentence", "link"),
    "names alone": ("title", "link", "name"),
    "names and contents": ("title", "sentence", "link", "name"),
}
"""What to search, and the kinds of queries it can answer. With contents only, names are numbers."""


_TIMED_QUERIES: Final = 20
"""Number of queries of each kind to time."""


def _extension(ranker: Ranker) -> Callable[[Mapping[str, Any], Mapping[str, str]], Search]:
    def index(resources: Mapping[str, Any], texts: Mapping[str, str]) -> Search:
        indexed = PrimitiveIndex(RESOURCES, resources, ranker, texts)
        return lambda query: [hit.name for hit in indexed.search(query)[:DEPTH]]

    return index


def _bm25s(resources: Mapping[str, Any], texts: Mapping[str, str]) -> Search:
    pages = {uri: f"{item['name']} {uri.replace('_', ' ')}\n{texts.get(uri, '')}" for uri, item in resources.items()}
    return BM25S(
        [Tool(name=uri, description=text, input_schema={}) for uri, text in pages.items()], stemmed=True
    ).search


ENGINES: Final = {
    "gateway": _extension(default_ranker()),
    "extension": _extension(SimpleRanker()),
    "bm25s, stemmed": _bm25s,
}
"""The optional extension with the gateway's ranking and with the readable one, and the baseline for both."""


def resources_of(tree: Tree, condition: str) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, str]]:
    """Return the documents' URIs by path, and the definitions and texts by URI."""
    is_named, is_read = "names" in condition, "contents" in condition
    uris = {path: f"docs:///{path if is_named else number}" for number, path in enumerate(tree.documents)}
    names = {path: PurePosixPath(path if is_named else uri).name for path, uri in uris.items()}
    definitions = {uri: {"uri": uri, "name": names[path]} for path, uri in uris.items()}
    return uris, definitions, {uris[path]: page.text for path, page in tree.documents.items()} if is_read else {}


def measured(tree: Tree, condition: str, engine: str) -> dict[str, Any]:
    """Return nDCG@10 and Recall@5 for each kind of query."""
    uris, definitions, texts = resources_of(tree, condition)
    search = ENGINES[engine](definitions, texts)
    kinds: dict[str, Any] = {}
    for kind in CONDITIONS[condition]:
        if not (queries := tree.queries[kind]):
            continue
        found = [quality(search(query.query), {uris[path] for path in query.relevant}) for query in queries]
        kinds[kind] = {
            "queries": len(queries),
            "ndcg": asdict(mean([each.ndcg_at_10 for each in found])),
            "recall": asdict(mean([each.recall_at_5 for each in found])),
        }
    return {"tree": tree.name, "condition": condition, "engine": engine, "kinds": kinds}


def cost(folder: Path, engine: str, builds: int) -> dict[str, Any]:
    """Return the cost for an engine, alone in a process, to index and search a folder's contents."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_cost, folder, engine, builds).result()


def _cost(folder: Path, engine: str, builds: int) -> dict[str, Any]:
    tree = read_tree(folder, "test", _TIMED_QUERIES)
    _, definitions, texts = resources_of(tree, "contents alone")
    queries = [query.query for kind in CONDITIONS["contents alone"] for query in tree.queries[kind]]
    some = {uri: definitions[uri] for uri in [*definitions][:2]}
    ENGINES[engine](some, {uri: texts[uri] for uri in some})(queries[0])  # one-time loading is done
    memory = memory_of(lambda: ENGINES[engine](definitions, texts), lambda search: list(map(search, queries)))
    seconds = [_processor_seconds(lambda: ENGINES[engine](definitions, texts)) for _ in range(builds)]
    search = ENGINES[engine](definitions, texts)
    answers = [_processor_seconds(lambda query=query: search(query)) for query in queries]
    return {
        "tree": tree.name,
        "engine": engine,
        "documents": len(texts),
        "megabytes": sum(len(text.encode()) for text in texts.values()) / 1e6,
        "build_seconds": min(seconds),
        "memory_mb": memory and asdict(memory),
        "search_ms": 1000 * median(answers),
    }


def _processor_seconds(action: Callable[[], object]) -> float:
    began = process_time()
    action()
    return process_time() - began
