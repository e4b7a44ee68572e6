"""Figures that other documents of the repository quote from the records, and the blocks that hold them.

A quoted figure stands between two comments, `<!-- figures: NAME -->` and `<!-- end of figures -->`, which
`python -m benchmarks --tables-only` fills. So a document cannot say what no record says.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

from benchmarks.report.steps import Record
from benchmarks.report.tables import CONTEXT, Columns, Row, table, table_of

_Records: TypeAlias = Mapping[str, Record]

_WIDTH: Final = 120
_OWN_SET: Final = "small"
_NOT_OURS: Final = frozenset({".venv", ".git", "node_modules", "build", "dist"})
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)<!-- figures: (?P<name>[a-z-]+) -->\n(?P<text>.*?)^ *<!-- end of figures -->$",
    re.MULTILINE | re.DOTALL,
)


def documents(root: Path) -> Iterator[Path]:
    """Return every Markdown file of a checkout."""
    return (
        file
        for file in sorted(root.rglob("*.md"))
        if _NOT_OURS.isdisjoint(part for part in file.relative_to(root).parts)
    )


def requote(text: str, records: _Records) -> str:
    """Return a document with its blocks of figures filled from `records`.

    Raises:
        KeyError: A block has an unknown name, or a record is missing.
    """
    return _BLOCK.sub(lambda block: _filled(block["indent"], block["name"], records), text)


def _filled(indent: str, name: str, records: _Records) -> str:
    quote = QUOTES[name](records)
    lines = (
        [indent + line for line in quote.splitlines()]
        if quote.startswith("|")
        else textwrap.wrap(quote, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    )
    # A table needs an empty line around it.
    space = [""] if quote.startswith("|") else []
    return "\n".join((f"{indent}<!-- figures: {name} -->", *space, *lines, *space, f"{indent}<!-- end of figures -->"))


def _listing_size(records: _Records) -> str:
    parts = [
        f"{row['tools']:,} measure {_bytes(row['bytes'])} and {_tokens(row['tokens'])} tokens"
        for row in records["listing"].figures
    ]
    return f"Of a mix of real tools, {'; '.join(parts)}."


def _ranking(records: _Records) -> str:
    fielded = _speed(records, "fielded", 10_000)
    median, build = fielded["p50"]["value"], fielded["build_seconds"]
    ours, peer = _ndcg(records, "fielded"), _ndcg(records, "bm25s, stemmed")
    return (
        f"The default ranking of the reference takes {median:.2g} ms (median) for a query over 10,000 tools "
        f"on one core of a small machine, and {build:.1g} s to index them. On five public sets of "
        f"labeled requests its nDCG@10 is {_part(ours)} in the mean; that of bm25s with a stemmer, the best of the "
        f"plain BM25 engines that were measured, is {_part(peer)}."
    )


def _ratios(records: _Records) -> str:
    sizes = (1_000, 10_000, 100_000)
    ratios = [_speed(records, "fielded", size)["ratio"]["value"] for size in sizes]
    factors = ", ".join(
        f"{ratio:.1f} times as long at {size:,} tools" for ratio, size in zip(ratios, sizes, strict=True)
    )
    return f"Relative to bm25s, a query takes the default ranking {factors}."


def _federation(records: _Records) -> str:
    fused, client, indexed = (
        _part(_report(records["federation"], ranker)["mean"]["ndcg"]["value"])
        for ranker in ("federated: rank fusion", "federated: as the client does", "fielded")
    )
    return (
        f"Over 70 real servers, rank fusion alone has an nDCG@10 of {fused}, the order of the reference client "
        f"{client}, and one index of every definition {indexed}."
    )


def _context(records: _Records) -> str:
    figures = next(row for row in records["context"].figures["datasets"] if row["dataset"] == "livemcpbench")
    not_quoted = ("every tool found", "processor ms a search, p50 / p95")
    return table_of({name: cell for name, cell in CONTEXT.items() if name not in not_quoted}, figures["ways"])


def _method(records: _Records) -> str:
    sets: Mapping[str, Row] = {row["dataset"]: row for row in records["method"].figures["datasets"]}
    ways = {name: {row["way"]: row for row in figures["ways"]} for name, figures in sets.items()}
    cells: Columns = {
        "model turns": lambda row: f"{row['turns']:.2f}",
        "requests on the wire": lambda row: f"{row['requests']:.2f}",
        "kB on the wire": lambda row: f"{row['bytes'] / 1e3:,.0f}",
        "tokens, all turns": lambda row: f"{row['tokens']:,.0f}",
        "wire time": lambda row: f"{row['wire_ratio']['value']:.1f}",
        "every tool found": lambda row: f"{row['complete']['value']:.1%}",
    }
    rows = [
        (way, *(" / ".join(cell(ways[name][way]) for name in sets) for cell in cells.values()))
        for way in next(iter(ways.values()))
    ]
    return table((" / ".join(sets), *cells), rows)


def _scale(records: _Records) -> str:
    sizes = (1_000, 10_000, 100_000)
    fielded, bm25s = ([_speed(records, engine, size) for size in sizes] for engine in ("fielded", "bm25s, no AVX-512"))
    a_thousand = records["overhead"].figures["bytes_for_1000_tools"] / 1e6
    rows = [
        ("a search in the index, median / 95th percentile, ms", *map(_times, fielded)),
        ("the same in bm25s without AVX-512, the fastest engine measured", *map(_times, bm25s)),
        ("memory of the index, MB", *(f"{row['memory_mb']['held']:.0f}" for row in fielded)),
        (
            "memory of a gateway: definitions in both eras, and the index, MB (of a measured figure for each tool)",
            *(f"{a_thousand * size / 1000:,.0f}" for size in sizes),
        ),
        (
            "one changed tool, part of a rebuild",
            *(f"1/{1000 * row['build_seconds'] / row['change_ms']:.0f}" for row in fielded),
        ),
    ]
    return table(("", *(f"{size:,} tools" for size in sizes)), rows)


def _engines(records: _Records) -> str:
    names = ("SQLite FTS5", "tantivy", "bm25s, stemmed", "tantivy, then fielded", "fielded")
    found = "; ".join(f"{name}: {_part(_ndcg(records, name))}" for name in names)
    two_stages = _speed(records, "tantivy, then fielded", 100_000)["p50"]["value"]
    return f"nDCG@10, mean of five public sets: {found}. Two stages take {two_stages:.0f} ms at 100,000 tools."


_ASKED, _FREQUENT = "requests", "frequent words"


def _postgres(records: _Records) -> str:
    figures = records["postgres"].figures
    scales: list[Row] = figures["scales"]

    def times(scale: Row, asked: str, visible: float, callers: int) -> str:
        found = _search_times(scale, asked, visible, callers)
        return f"{found['p50']:,.0f} / {found['p95']:,.0f}" if found else ""

    def row(name: str, cell: Callable[[Row], str]) -> tuple[str, ...]:
        return (name, *map(cell, scales))

    rows = [
        *(
            row(
                f"{callers} at the same time, who see {part:.0%}",
                lambda scale, part=part, callers=callers: times(scale, _ASKED, part, callers),
            )
            for callers in (1, 8, 32)
            for part in (1.0, 0.1, 0.01)
        ),
        *(
            row(
                f"one, of the most frequent words, who sees {part:.0%}",
                lambda scale, part=part: times(scale, _FREQUENT, part, 1),
            )
            for part in (1.0, 0.1, 0.01)
        ),
        row("on disk, MB", lambda scale: f"{sum(scale['bytes'].values()) / 1e6:,.0f}"),
        row("import, s", lambda scale: f"{scale['build_seconds']:,.0f}"),
        row("a change until it is found, ms", lambda scale: f"{scale['change_ms']:.0f}"),
    ]
    return table(("searches, p50 / p95 in ms", *(f"{scale['tools']:,} tools" for scale in scales)), rows)


def _postgres_cluster(records: _Records) -> str:
    largest: Row = records["postgres"].figures["scales"][-1]
    seconds = _search_times(largest, _ASKED, 1.0, 1)["processor_p50"] / 1e3
    return (
        f"With {largest['tools']:,} tools a search takes {seconds:.3f} s at the median: two cores answer "
        f"{2 / seconds:,.0f} a second, three servers of 16 cores {48 / seconds:,.0f}; 32 callers wait "
        f"{32 * seconds / 2:.1f} s for the former, and {max(32 / 48, 1) * seconds:.2f} s for the latter."
    )


def _search_times(scale: Row, asked: str, visible: float, callers: int) -> Row:
    """Return the times of these searches, or nothing if they were not measured."""
    rows = (
        row for row in scale["times"] if (row["asked"], row["visible"], row["callers"]) == (asked, visible, callers)
    )
    return next(rows, dict[str, Any]())


def _speed(records: _Records, engine: str, tools: int) -> Row:
    return next(row for row in records["speed"].figures["speeds"] if (row["engine"], row["tools"]) == (engine, tools))


def _report(record: Record, ranker: str) -> Row:
    return next(row for row in record.figures if row["ranker"] == ranker)


def _ndcg(records: _Records, ranker: str) -> float:
    """Return the mean over the sets that are not the project's own."""
    datasets = _report(records["retrieval"], ranker)["datasets"]
    return fmean(row["ndcg"]["value"] for row in datasets if row["dataset"] != _OWN_SET)


def _times(speed: Row) -> str:
    return f"{speed['p50']['value']:.2g} / {speed['p95']['value']:.2g}"


def _part(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _bytes(number: float) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.0f} kB"


def _tokens(number: float) -> str:
    return f"{number / 1e6:.2f} million" if number >= 1e6 else f"{number:,.0f}"


QUOTES: Final[Mapping[str, Callable[[_Records], str]]] = {
    "listing-size": _listing_size,
    "ranking": _ranking,
    "speed-ratios": _ratios,
    "federation": _federation,
    "context": _context,
    "method": _method,
    "scale": _scale,
    "engines": _engines,
    "postgres": _postgres,
    "postgres-cluster": _postgres_cluster,
}
"""The quotes by the names that documents use."""
