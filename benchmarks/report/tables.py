"""Markdown tables of each measurement, from the figures that it writes as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from tools_search_hosts.counts import number_of

Row: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = Mapping[str, Callable[[Row], str]]
"""Returns the text of a column's cells, by heading."""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with text in the first column, and figures in the others."""
    ruler = ["---", *["--:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ruler, *rows))


def table_of(columns: Columns, rows: Iterable[Row]) -> str:
    """Return a table with a line for each of these rows of figures."""
    return table([*columns], [[cell(row) for cell in columns.values()] for row in rows])


def short(figure: float) -> str:
    """Return three digits, or all of a larger whole number."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def bounded(estimate: Row, form: Callable[[float], str] = short) -> str:
    """Return an estimate with its bounds."""
    return f"{form(estimate['value'])} ({form(estimate['low'])}-{form(estimate['high'])})"


def percent(estimate: Row) -> str:
    """Return an estimate of a share with its bounds."""
    return bounded(estimate, "{:.0%}".format)


def _figure(member: str, form: str = ",.0f") -> Callable[[Row], str]:
    return lambda row: format(row[member], form)


def _share(member: str) -> Callable[[Row], str]:
    return lambda row: percent(row[member])


def retrieval_tables(reports: Sequence[Row]) -> str:
    """Return nDCG@10 of each ranker for each set, and the other figures as means over the sets."""
    names = [row["dataset"] for row in reports[0]["datasets"]]
    ndcg = [
        (row["ranker"], *(bounded(own["ndcg"], "{:.3f}".format) for own in (*row["datasets"], row["mean"])))
        for row in reports
    ]
    means: Mapping[str, str] = {
        "Recall@1": "recall_at_1",
        "Recall@5": "recall_at_5",
        "Recall@10": "recall_at_10",
        "MRR": "reciprocal_rank",
    }
    others = [
        (
            row["ranker"],
            *(f"{row['mean'][member]:.3f}" for member in means.values()),
            ", ".join(f"{own['silent']:.0%}" for own in row["datasets"] if own["unservable"]),
        )
        for row in reports
    ]
    return "\n\n".join(
        (
            f"nDCG@10 on `{reports[0]['split']}`:",
            table(("", *names, "mean"), ndcg),
            "Means over the sets, and the part of the requests that no tool serves which is answered with nothing:",
            table(("", *means, "silent"), others),
            *(_slices(place, reports) for place, row in enumerate(reports[0]["datasets"]) if row.get("slices")),
        )
    )


def _slices(place: int, reports: Sequence[Row]) -> str:
    """Return tables of the kinds of requests of one data set: with a right tool, and with none."""
    figures: Mapping[str, tuple[str, Callable[[Row], str]]] = {
        "ndcg": ("nDCG@10", lambda estimate: bounded(estimate, "{:.3f}".format)),
        "first": ("A right tool in the first place", percent),
        "among_five": ("A right tool among the first five", percent),
        "silent": ("Answered with nothing", percent),
    }
    slices: Row = reports[0]["datasets"][place]["slices"]
    parts: list[str] = []
    for figure, (says, form) in figures.items():
        own = [name for name, row in slices.items() if figure in row]
        rows = [
            (row["ranker"], *(form(row["datasets"][place]["slices"][name][figure]) for name in own)) for row in reports
        ]
        headings = ("", *(f"{name} ({slices[name]['queries']})" for name in own))
        parts += [f"{says}, by the kind of request (their number):", table(headings, rows)]
    return "\n\n".join(parts)


def documents_tables(figures: Row) -> str:
    """Return the quality for each kind of query and searched text, and the cost of indexing contents."""
    quality: list[Row] = figures["quality"]
    parts: list[str] = []
    for condition in dict.fromkeys(row["condition"] for row in quality):
        own = [row for row in quality if row["condition"] == condition]
        kinds = dict.fromkeys(kind for row in own for kind in row["kinds"])
        for figure, name in ("ndcg", "nDCG@10"), ("recall", "Recall@5"):
            rows = [
                (
                    row["tree"],
                    row["engine"],
                    *(
                        bounded(row["kinds"][kind][figure], "{:.3f}".format) if kind in row["kinds"] else ""
                        for kind in kinds
                    ),
                )
                for row in own
            ]
            parts += [f"{name}, {condition}, on `{figures['split']}`:", table(("", "", *kinds), rows)]
    costs: Columns = {
        "": itemgetter("tree"),
        "engine": itemgetter("engine"),
        "documents": _figure("documents"),
        "MB of text": _figure("megabytes", ".1f"),
        "processor seconds to index a MB": lambda row: f"{row['build_seconds'] / row['megabytes']:.2f}",
        "MB held for a MB": _of_memory("held"),
        "at most": _of_memory("peak"),
        "processor ms of a search, median": _figure("search_ms", ".1f"),
    }
    return "\n\n".join((*parts, "What it takes to index contents:", table_of(costs, figures["costs"])))


def _of_memory(member: str) -> Callable[[Row], str]:
    return lambda row: f"{row['memory_mb'][member] / row['megabytes']:.1f}" if row["memory_mb"] else ""


def silence_tables(reports: Sequence[Row]) -> str:
    """Return what each threshold silences, and its cost. The first report of a ranker has no threshold."""
    by_ranker: dict[str, list[Row]] = {}
    for report in reports:
        by_ranker.setdefault(report["ranker"].partition(" at ")[0], []).append(report)
    parts = ["Means over the sets, in percent and in points:"]
    for ranker, (base, *others) in by_ranker.items():
        columns: Columns = {
            "least confidence": lambda row: row["ranker"].partition(" at ")[2],
            "answered with nothing, rightly": lambda row: _points(row["mean"]["silent"]),
            "Recall@5 lost": _lost("recall_at_5", base),
            "nDCG@10 lost": _lost("ndcg_at_10", base),
            "answered with nothing, wrongly": lambda row: _points(row["mean"]["wrongly_silent"]),
        }
        parts += [f"`{ranker}`:", table_of(columns, others)]
    return "\n\n".join(parts)


def _points(estimate: Row) -> str:
    return bounded(estimate, lambda share: f"{100 * share:.1f}")


def _lost(member: str, base: Row) -> Callable[[Row], str]:
    return lambda row: f"{100 * (base['mean'][member] - row['mean'][member]):.1f}"


def speed_tables(figures: Row) -> str:
    """Return engines by sizes: the time of a query, its ratio to bm25s, building and changing, and memory."""
    found = {(row["engine"], row["tools"]): row for row in figures["speeds"]}
    engines, sizes = ([*dict.fromkeys(keys)] for keys in zip(*found, strict=True))
    cells: Columns = {
        "Milliseconds of a query, median and 95th percentile:": (
            lambda row: f"{bounded(row['p50'])}; {bounded(row['p95'])}"
        ),
        "Times bm25s (medians over the queries that both were asked):": lambda row: bounded(row["ratio"]),
        "Seconds to build, and milliseconds until one changed tool is found:": (
            lambda row: f"{short(row['build_seconds'])}; {short(max(row['change_ms'], 0))}"
        ),
        "Megabytes held, and at most while it is built:": (
            lambda row: f"{row['memory_mb']['held']:.0f}; {row['memory_mb']['peak']:.0f}" if row["memory_mb"] else ""
        ),
    }
    headings = ("engine", *(f"{size:,} tools" for size in sizes))
    parts: list[str] = []
    for says, cell in cells.items():
        rows = [
            (engine, *(cell(found[engine, size]) if (engine, size) in found else "" for size in sizes))
            for engine in engines
        ]
        parts += [says, table(headings, rows)]
    return "\n\n".join(parts)


_ANSWERS: Final[Columns] = {
    "set": itemgetter("dataset"),
    "tools": _figure("tools"),
    "requests": _figure("requests"),
    "the same first ten": lambda row: f"{row['same']:.1%}",
    "nDCG@10 in the database": _figure("ndcg", ".3f"),
    "in memory": _figure("ndcg_in_memory", ".3f"),
}


def postgres_meaning_tables(figures: Row) -> str:
    """Return the similarity of a database's answers by meaning, and how long searches take."""
    times: Columns = {
        "visible tools": _figure("seen"),
        "ranked by": itemgetter("by"),
        "p50, ms": _figure("p50", ",.0f"),
        "p95, ms": _figure("p95", ",.0f"),
        "processor ms, p50": _figure("processor_p50", ",.1f"),
        "p95": _figure("processor_p95", ",.1f"),
    }
    size, stored = figures["tools"], figures["bytes"]
    return "\n\n".join(
        [
            "The same answers as of `semantic`, but for the threshold:",
            table_of(_ANSWERS, figures["answers"]),
            f"Searches in a catalog of {size:,} synthetic tools by one caller, with random vectors of 384 numbers, "
            f"without the model's time. The vectors take {stored / size:,.0f} bytes a tool, and were written in "
            f"{figures['write_seconds']:,.0f} s.",
            table_of(times, figures["times"]),
        ]
    )


def postgres_tables(figures: Row) -> str:
    """Return the similarity of a database's answers, and the cost of building and searching it for each size."""
    sizes: Columns = {
        "tools": _figure("tools"),
        "import, s": _figure("build_seconds", ",.0f"),
        "on disk, MB": lambda row: f"{sum(row['bytes'].values()) / 1e6:,.0f}",
        "definitions / documents / terms / postings": lambda row: " / ".join(
            f"{size / 1e6:,.0f}" for size in row["bytes"].values()
        ),
        "memory of import / server / connection, MB": lambda row: " / ".join(
            f"{size / 1e6:,.0f}" for size in row["memory"].values()
        ),
        "a change until it is found, ms": _figure("change_ms", ",.0f"),
        "the same first ten as in memory": lambda row: (
            "" if row["same"] is None else f"{row['same']:.1%} ({row['compared']:,} tools)"
        ),
    }
    times: Columns = {
        "tools": _figure("tools"),
        "asked": itemgetter("asked"),
        "visible": lambda row: f"{row['visible']:.0%}",
        "callers": _figure("callers"),
        "p50, ms": _figure("p50", ",.0f"),
        "p95, ms": _figure("p95", ",.0f"),
        "searches a second": _figure("per_second", ",.1f"),
        "processor ms, p50": _figure("processor_p50", ",.1f"),
        "p95": _figure("processor_p95", ",.1f"),
    }
    parts = ["The same answers as of `fielded-never-silent`:", table_of(_ANSWERS, figures["answers"])]
    if scales := figures["scales"]:
        rows = [{"tools": row["tools"], **own} for row in scales for own in row["times"]]
        plan = "\n".join(scales[-1]["plan"])
        parts += [
            "Catalogs of synthetic tools, a thousand for each group of callers:",
            table_of(sizes, scales),
            "Searches of the first ten tools with their definitions:",
            table_of(times, rows),
            f"How the postings of the most frequent word are read, at {scales[-1]['tools']:,} tools:",
            f"```\n{plan}\n```",
        ]
    return "\n\n".join(parts)


def overhead_tables(figures: Row) -> str:
    """Return the ways of each row with their medians and ratios, and the memory of a gateway."""
    rows = [
        (name, way, f"{row['ms']:.2f}", bounded(row["bounds"]))
        for name, ways in figures["rows"].items()
        for way, row in ways.items()
    ]
    memory = f"Memory of the gateway for 1,000 tools: {figures['bytes_for_1000_tools'] / 1e6:.0f} MB."
    return f"{table(('', 'way', 'median ms', 'times the first'), rows)}\n\n{memory}"


def listing_tables(figures: Sequence[Row]) -> str:
    """Return the weight of lists of tools."""
    return table_of({name: _figure(name, ",") for name in ("tools", "bytes", "tokens")}, figures)


def context_tables(figures: Row) -> str:
    """Return for each data set the ways, their requests one by one, and the first requests at several sizes."""
    parts: list[str] = []
    for row in figures["datasets"]:
        turns = [
            {"way": way["way"], "place": place, **turn}
            for way in row["ways"]
            for place, turn in enumerate(way["turns"], start=1)
        ]
        parts += [_title(row), table_of(CONTEXT, row["ways"]), table_of(_TURNS, turns), _context_sizes(row["sizes"])]
    return "\n\n".join(parts)


def _title(row: Row) -> str:
    how = f", {row['searched']}" if row.get("searched") else ""
    counts = f"{number_of(row['tools'], 'tool')} of {number_of(row['servers'], 'server')}"
    return f"### {row['dataset']}: {counts}, {number_of(row['tasks'], 'request')}{how}"


CONTEXT: Final[Columns] = {
    "": itemgetter("way"),
    "definition tokens, first request": lambda row: f"{row['turns'][0]['definition_tokens']:,.0f}",
    "requests": _figure("requests", ".2f"),
    "tokens, all requests": _figure("tokens"),
    "of them new": _figure("new_tokens"),
    "tools found, one search": lambda row: percent(row["recall"][0]),
    "two searches": lambda row: percent(row["recall"][1]),
    "every tool found": lambda row: percent(row["complete"][-1]),
    "processor ms a search, p50 / p95": lambda row: f"{row['search_p50_ms']:.1f} / {row['search_p95_ms']:.1f}",
}
_TURNS: Final[Columns] = {
    "": itemgetter("way"),
    "request": _figure("place", ""),
    "tasks": _figure("tasks", ""),
    "definitions": _figure("definitions", ".1f"),
    "their tokens": _figure("definition_tokens"),
    "all tokens": _figure("tokens"),
    "bytes kept": lambda row: f"{row['kept_bytes']:,.0f}" if row["place"] > 1 else "",
    "share": lambda row: f"{row['kept_share']:.0%}" if row["place"] > 1 else "",
}


def _context_sizes(sizes: Sequence[Row]) -> str:
    rows = [
        (way, *(f"{row['tokens']:,.0f} ({row['saved']:.0%})" for row in sizes if row["way"] == way))
        for way in dict.fromkeys(size["way"] for size in sizes)
    ]
    return table(("", *(f"{tools} tools" for tools in dict.fromkeys(size["tools"] for size in sizes))), rows)


def model_tables(figures: Row) -> str:
    """Return the ways for each data set, with a real model."""
    columns: Columns = {
        "": itemgetter("way"),
        "requests": _figure("requests", ".2f"),
        "searches": _figure("searches", ".2f"),
        "tokens read": _figure("prompt_tokens"),
        "of them cached": _figure("cached_tokens"),
        "tokens written": _figure("completion_tokens"),
        "seconds": _figure("seconds", ".1f"),
        "tools found": _share("found"),
        "every tool found": _share("complete"),
        "other tools called": _figure("others", ".2f"),
        "tasks without an answer": lambda row: (
            f"{row['failed']}" + (f" ({row['first_failure'].replace('|', '/')})" if row["failed"] else "")
        ),
    }
    return _by_dataset(columns, figures)


def method_tables(figures: Row) -> str:
    """Return the ways for each data set."""
    columns: Columns = {
        "": itemgetter("way"),
        "turns of the model": _figure("turns", ".2f"),
        "requests on the wire": _figure("requests", ".2f"),
        "kB on the wire": lambda row: f"{row['bytes'] / 1e3:,.0f}",
        "tokens, turn by turn": lambda row: " / ".join(f"{tokens:,.0f}" for tokens in row["turn_tokens"]),
        "all turns": _figure("tokens"),
        "of them new": _figure("new_tokens"),
        "tools found": lambda row: percent(row["found"]) if "found" in row else "-",
        "every tool found": _share("complete"),
        "wire, ms (median)": _figure("wire_ms", ".1f"),
        "times delegated": lambda row: bounded(row["wire_ratio"], "{:.1f}".format),
    }
    return _by_dataset(columns, figures)


def _by_dataset(columns: Columns, figures: Row) -> str:
    return "\n\n".join(part for row in figures["datasets"] for part in (_title(row), table_of(columns, row["ways"])))
