"""The engines to compare, each used as its documentation shows.

All return the ten best tools. The peers index name, title and description; FastMCP also indexes parameters, and
`fielded` everything in a definition. Peers are loaded on demand, because nothing else needs them (`pip install
'.[benchmark]'`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast
from weakref import finalize

import click
import numpy as np
from mcp_ext_tools_search.ranking.fields import fields
from mcp_ext_tools_search.ranking.floor import floored
from mcp_types import Tool
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker, UpdatableIndex

__all__ = ["ENGINES", "ENVIRONMENTS", "Built", "installed", "needs_installed"]

_DEPTH: Final = 10
_CANDIDATES: Final = 300
_MARK: Final = re.compile(r"[^\w\s]")


class Built(Protocol):
    """An engine with a catalog. If it has `change(tool)`, it does not need a rebuild when a tool changes."""

    def search(self, query: str) -> Sequence[str]:
        """Return the names of the ten best tools."""
        ...


class Fielded:
    """This project's default ranking with the matching floor, as servers use it."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        ranker = FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE)
        self._index = cast("UpdatableIndex", floored(ranker)(tools))

    def search(self, query: str) -> Sequence[str]:
        return [hit.name for hit in self._index.search(query)[:_DEPTH]]

    def change(self, tool: Tool) -> None:
        self._index = cast("UpdatableIndex", self._index.updated([tool.name], [tool]))


class RankBM25:
    """rank-bm25 over lower-case words."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._names = [tool.name for tool in tools]
        self._bm25 = BM25Okapi([_text(tool).lower().split() for tool in tools])

    def search(self, query: str) -> Sequence[str]:
        scores = np.asarray(self._bm25.get_scores(query.lower().split()))
        best = np.argpartition(-scores, min(_DEPTH, len(scores) - 1))[:_DEPTH]
        return _named(self._names, best[np.argsort(-scores[best])])


class BM25S:
    """bm25s with English stop words, only numpy, and optionally a stemmer."""

    def __init__(self, tools: Sequence[Tool], *, stemmed: bool = False) -> None:
        self._bm25s: Any = import_module("bm25s")
        self._stemmer: Any = import_module("Stemmer").Stemmer("english") if stemmed else None
        self._names = [tool.name for tool in tools]
        self._index = self._bm25s.BM25()
        self._index.index(self._tokens([_text(tool) for tool in tools]), show_progress=False)

    def _tokens(self, texts: Sequence[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def search(self, query: str) -> Sequence[str]:
        k = min(_DEPTH, len(self._names))
        places, _scores = self._index.retrieve(self._tokens([query]), k=k, show_progress=False)
        return _named(self._names, places[0])


class FastMCPIndex:
    """The index in FastMCP's BM25SearchTransform, without the catalog hash that it computes for each search."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        base: Any = import_module("fastmcp.server.transforms.search.base")
        bm25: Any = import_module("fastmcp.server.transforms.search.bm25")
        read = [
            SimpleNamespace(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in tools
        ]
        self._names = [tool.name for tool in tools]
        self._index = bm25._BM25Index()
        self._index.build([base._extract_searchable_text(tool) for tool in read])

    def search(self, query: str) -> Sequence[str]:
        return _named(self._names, np.array(self._index.query(query, _DEPTH), dtype=np.intp))


class CasualMCP:
    """casual-mcp's index."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        module: Any = import_module("casual_mcp.tool_search_index")
        self._index = module.ToolSearchIndex(tools, {})

    def search(self, query: str) -> Sequence[str]:
        return [tool.name for _server, tool in self._index.search(query, _DEPTH)]


class SQLite:
    """SQLite full-text search (FTS5) with its Porter stemmer, matching any word in the request."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._rows: dict[str, int | None] = {}
        self._database = sqlite3.connect(":memory:")
        finalize(self, self._database.close)
        self._database.execute(
            "CREATE VIRTUAL TABLE tools USING fts5(name UNINDEXED, text, tokenize='porter unicode61')"
        )
        for tool in tools:
            self._add(tool)
        self._database.commit()

    def _add(self, tool: Tool) -> None:
        added = self._database.execute("INSERT INTO tools (name, text) VALUES (?, ?)", (tool.name, _text(tool)))
        self._rows[tool.name] = added.lastrowid

    def search(self, query: str) -> Sequence[str]:
        words = "".join(mark if mark.isalnum() else " " for mark in query).split()
        wanted = " OR ".join(f'"{word}"' for word in words)
        best = "SELECT name FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?"
        return [name for (name,) in self._database.execute(best, (wanted, _DEPTH))]

    def change(self, tool: Tool) -> None:
        self._database.execute("DELETE FROM tools WHERE rowid = ?", (self._rows[tool.name],))
        self._add(tool)
        self._database.commit()


class Tantivy:
    """tantivy in memory with its English stemmer, matching any word in the request."""

    def __init__(self, tools: Sequence[Tool], *, text_of: Callable[[Tool], str] | None = None) -> None:
        self._text_of = text_of or _text
        self._tantivy: Any = import_module("tantivy")
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("name", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", tokenizer_name="en_stem")
        self._index = self._tantivy.Index(builder.build())
        self._writer = self._index.writer(num_threads=1)
        for tool in tools:
            self._add(tool)
        self._commit()

    def _add(self, tool: Tool) -> None:
        self._writer.add_document(self._tantivy.Document(name=tool.name, text=self._text_of(tool)))

    def _commit(self) -> None:
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, query: str, *, depth: int = _DEPTH) -> Sequence[str]:
        # Remove its query syntax, in which `user:` is a field and `-draft` an exclusion.
        wanted, _errors = self._index.parse_query_lenient(_MARK.sub(" ", query), ["text"])
        found = self._searcher.search(wanted, depth).hits
        return [self._searcher.doc(address)["name"][0] for _score, address in found]

    def change(self, tool: Tool) -> None:
        self._writer.delete_documents_by_term("name", tool.name)
        self._add(tool)
        self._commit()


class TwoStages:
    """tantivy over all texts that `fielded` reads, and `fielded` over its best: for catalogs that exceed memory."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._first = Tantivy(tools, text_of=_all_text)
        self._second = FieldedRanker()

    def search(self, query: str) -> Sequence[str]:
        best = [self._tools[name] for name in self._first.search(query, depth=_CANDIDATES)]
        return [hit.name for hit in self._second(best).search(query)[:_DEPTH]]

    def change(self, tool: Tool) -> None:
        self._tools[tool.name] = tool
        self._first.change(tool)


def _named(names: Sequence[str], places: NDArray[np.integer]) -> Sequence[str]:
    own: list[int] = places.tolist()
    return [names[place] for place in own]


def _text(tool: Tool) -> str:
    name = tool.name.replace("_", " ")
    return " ".join(filter(None, (name, tool.title, tool.description)))


def _all_text(tool: Tool) -> str:
    return " ".join(text.replace("_", " ") for own in fields(tool) for text in own.texts)


ENGINES: Final[Mapping[str, Callable[[Sequence[Tool]], Built]]] = {
    "fielded": Fielded,
    "rank-bm25": RankBM25,
    "bm25s": BM25S,
    "bm25s, no AVX-512": BM25S,
    "bm25s, stemmed": lambda tools: BM25S(tools, stemmed=True),
    "FastMCP": FastMCPIndex,
    "casual-mcp": CasualMCP,
    "SQLite FTS5": SQLite,
    "tantivy": Tantivy,
    "tantivy, then fielded": TwoStages,
}

ENVIRONMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "bm25s, no AVX-512": {
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    }
}
"""Environment variables for an engine's process.

numpy's `argpartition` with AVX-512 takes many times as long for an array of mostly equal values, such as the scores for
a query that few tools match, and bm25s spends most of a search in it. If a processor has AVX-512, the same engine
without it shows the time of bm25s itself.
"""

_NEEDS: Final = {
    "bm25s": "bm25s", "bm25s, no AVX-512": "bm25s", "bm25s, stemmed": "Stemmer", "FastMCP": "fastmcp",
    "casual-mcp": "casual_mcp", "tantivy": "tantivy", "tantivy, then fielded": "tantivy",
}  # fmt: skip
"""The packages that each engine needs, in addition to this project's dependencies."""


def installed(engines: Iterable[str]) -> list[str]:
    """Return the engines that are installed."""
    return [engine for engine in engines if find_spec(_NEEDS.get(engine, "rank_bm25"))]


def needs_installed(_context: click.Context, _option: click.Parameter, engines: Sequence[str]) -> Sequence[str]:
    """Reject engines that are not installed, before measuring."""
    if missing := sorted(frozenset(engines).difference(installed(engines))):
        raise click.UsageError(f"not installed: {', '.join(missing)}; pip install '.[benchmark]'")
    return engines
