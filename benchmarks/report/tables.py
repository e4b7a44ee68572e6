"""Markdown tables of each measurement, from the figures that it writes as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

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


def bounded(one: Row, form: Callable[[float], str] = short) -> str:
    """Return an estimate with its bounds."""
    return f"{form(one['value'])} ({form(one['low'])}-{form(one['high'])})"


def percent(one: Row) -> str:
    """Return an estimate of a share with its bounds."""
    return bounded(one, "{:.0%}".format)


def _figure(member: str, form: str = ",.0f") -> Callable[[Row], str]:
    return lambda one: format(one[member], form)


def _share(member: str) -> Callable[[Row], str]:
    return lambda one: percent(one[member])


def retrieval_tables(reports: Sequence[Row]) -> str:
    """Return nDCG@10 of each ranker for each set, and the other figures as means over the sets."""
    names = [one["dataset"] for one in reports[0]["datasets"]]
    ndcg = [
        (one["ranker"], *(bounded(own["ndcg"], "{:.3f}".format) for own in (*one["datasets"], one["mean"])))
        for one in reports
    ]
    means: Mapping[str, str] = {
        "Recall@1": "recall_at_1",
        "Recall@5": "recall_at_5",
        "Recall@10": "recall_at_10",
        "MRR": "reciprocal_rank",
    }
    others = [
        (
            one["ranker"],
            *(f"{one['mean'][member]:.3f}" for member in means.values()),
            ", ".join(f"{own['silent']:.0%}" for own in one["datasets"] if own["unservable"]),
        )
        for one in reports
    ]
    return "\n\n".join(
        (
            f"nDCG@10 on `{reports[0]['split']}`:",
            table(("", *names, "mean"), ndcg),
            "Means over the sets, and the part of the requests that no tool serves which is answered with nothing:",
            table(("", *means, "silent"), others),
            *(_slices(place, reports) for place, one in enumerate(reports[0]["datasets"]) if one.get("slices")),
        )
    )


def _slices(place: int, reports: Sequence[Row]) -> str:
    """Return tables of the kinds of requests of one data set: with a right tool, and with none."""
    figures: Mapping[str, tuple[str, Callable[[Row], str]]] = {
        "ndcg": ("nDCG@10", lambda one: bounded(one, "{:.3f}".format)),
        "first": ("A right tool in the first place", percent),
        "among_five": ("A right tool among the first five", percent),
        "silent": ("Answered with nothing", percent),
    }
    slices: Row = reports[0]["datasets"][place]["slices"]
    parts: list[str] = []
    for figure, (says, form) in figures.items():
        own = [name for name, one in slices.items() if figure in one]
        rows = [
            (one["ranker"], *(form(one["datasets"][place]["slices"][name][figure]) for name in own)) for one in reports
        ]
        headings = ("", *(f"{name} ({slices[name]['queries']})" for name in own))
        parts += [f"{says}, by the kind of request (their number):", table(headings, rows)]
    return "\n\n".join(parts)


def documents_tables(figures: Row) -> str:
    """Return the quality for each kind of query and searched text, and the cost of indexing contents."""
    quality: list[Row] = figures["quality"]
    parts: list[str] = []
    for condition in dict.fromkeys(one["condition"] for one in quality):
        own = [one for one in quality if one["condition"] == condition]
        kinds = dict.fromkeys(kind for one in own for kind in one["kinds"])
        for figure, name in ("ndcg", "nDCG@10"), ("recall", "Recall@5"):
            rows = [
                (
                    one["tree"],
                    one["engine"],
                    *(
                        bounded(one["kinds"][kind][figure], "{:.3f}".format) if kind in one["kinds"] else ""
                        for kind in kinds
                    ),
                )
                for one in own
            ]
            parts += [f"{name}, {condition}, on `{figures['split']}`:", table(("", "", *kinds), rows)]
    costs: Columns = {
        "": itemgetter("tree"),
        "engine": itemgetter("engine"),
        "documents": _figure("documents"),
        "MB of text": _figure("megabytes", ".1f"),
        "processor seconds to index a MB": lambda one: f"{one['build_seconds'] / one['megabytes']:.2f}",
        "MB held for a MB": _of_memory("held"),
        "at most": _of_memory("peak"),
        "processor ms of a search, median": _figure("search_ms", ".1f"),
    }
    return "\n\n".join((*parts, "What it takes to index contents:", table_of(costs, figures["costs"])))


def _of_memory(member: str) -> Callable[[Row], str]:
    return lambda one: f"{one['memory_mb'][member] / one['megabytes']:.1f}" if one["memory_mb"] else ""


def silence_tables(reports: Sequence[Row]) -> str:
    """Return what each threshold silences, and its cost. The first report of a ranker has no threshold."""
    by_ranker: dict[str, list[Row]] = {}
    for report in reports:
        by_ranker.setdefault(report["ranker"].partition(" at ")[0], []).append(report)
    parts = ["Means over the sets, in percent and in points:"]
    for ranker, (base, *others) in by_ranker.items():
        columns: Columns = {
            "least confidence": lambda one: one["ranker"].partition(" at ")[2],
            "answered with nothing, rightly": lambda one: _points(one["mean"]["silent"]),
            "Recall@5 lost": _lost("recall_at_5", base),
            "nDCG@10 lost": _lost("ndcg_at_10", base),
            "answered with nothing, wrongly": lambda one: _points(one["mean"]["wrongly_silent"]),
        }
        parts += [f"`{ranker}`:", table_of(columns, others)]
    return "\n\n".join(parts)


def _points(one: Row) -> str:
    return bounded(one, lambda share: f"{100 * share:.1f}")


def _lost(member: str, base: Row) -> Callable[[Row], str]:
    return lambda one: f"{100 * (base['mean'][member] - one['mean'][member]):.1f}"


def speed_tables(figures: Row) -> str:
    """Return engines by sizes: the time of a query, its ratio to bm25s, building and changing, and memory."""
    found = {(one["engine"], one["tools"]): one for one in figures["speeds"]}
    engines, sizes = ([*dict.fromkeys(keys)] for keys in zip(*found, strict=True))
    cells: Columns = {
        "Milliseconds of a query, median and 95th percentile:": (
            lambda one: f"{bounded(one['p50'])}; {bounded(one['p95'])}"
        ),
        "Times bm25s (medians over the queries that both were asked):": lambda one: bounded(one["ratio"]),
        "Seconds to build, and milliseconds until one changed tool is found:": (
            lambda one: f"{short(one['build_seconds'])}; {short(max(one['change_ms'], 0))}"
        ),
        "Megabytes held, and at most while it is built:": (
            lambda one: f"{one['memory_mb']['held']:.0f}; {one['memory_mb']['peak']:.0f}" if one["memory_mb"] else ""
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


def postgres_tables(figures: Row) -> str:
    """Return the similarity of a database's answers, and the cost of building and searching it for each size."""
    answers: Columns = {
        "set": itemgetter("dataset"),
        "tools": _figure("tools"),
        "requests": _figure("requests"),
        "the same first ten": lambda one: f"{one['same']:.1%}",
        "nDCG@10 in the database": _figure("ndcg", ".3f"),
        "in memory": _figure("ndcg_in_memory", ".3f"),
    }
    sizes: Columns = {
        "tools": _figure("tools"),
        "import, s": _figure("build_seconds", ",.0f"),
        "on disk, MB": lambda one: f"{sum(one['bytes'].values()) / 1e6:,.0f}",
        "definitions / documents / terms / postings": lambda one: " / ".join(
            f"{size / 1e6:,.0f}" for size in one["bytes"].values()
        ),
        "memory of import / server / connection, MB": lambda one: " / ".join(
            f"{size / 1e6:,.0f}" for size in one["memory"].values()
        ),
        "a change until it is found, ms": _figure("change_ms", ",.0f"),
        "the same first ten as in memory": lambda one: (
            "" if one["same"] is None else f"{one['same']:.1%} ({one['compared']:,} tools)"
        ),
    }
    times: Columns = {
        "tools": _figure("tools"),
        "asked": itemgetter("asked"),
        "visible": lambda one: f"{one['visible']:.0%}",
        "callers": _figure("callers"),
        "p50, ms": _figure("p50", ",.0f"),
        "p95, ms": _figure("p95", ",.0f"),
        "searches a second": _figure("per_second", ",.1f"),
        "processor ms, p50": _figure("processor_p50", ",.1f"),
        "p95": _figure("processor_p95", ",.1f"),
    }
    parts = ["The same answers as of `fielded-never-silent`:", table_of(answers, figures["answers"])]
    if scales := figures["scales"]:
        rows = [{"tools": one["tools"], **own} for one in scales for own in one["times"]]
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
        (name, way, f"{one['ms']:.2f}", bounded(one["bounds"]))
        for name, ways in figures["rows"].items()
        for way, one in ways.items()
    ]
    memory = f"Memory of the gateway for 1,000 tools: {figures['bytes_for_1000_tools'] / 1e6:.0f} MB."
    return f"{table(('', 'way', 'median ms', 'times the first'), rows)}\n\n{memory}"


def listing_tables(figures: Sequence[Row]) -> str:
    """Return the weight of lists of tools."""
    return table_of({name: _figure(name, ",") for name in ("tools", "bytes", "tokens")}, figures)


def context_tables(figures: Row) -> str:
    """Return for each data set the ways, their requests one by one, and the first requests at several sizes."""
    parts: list[str] = []
    for one in figures["datasets"]:
        turns = [
            {"way": way["way"], "place": place, **turn}
            for way in one["ways"]
            for place, turn in enumerate(way["turns"], start=1)
        ]
        parts += [_title(one), table_of(CONTEXT, one["ways"]), table_of(_TURNS, turns), _context_sizes(one["sizes"])]
    return "\n\n".join(parts)


def _title(one: Row) -> str:
    how = f", {one['searched']}" if one.get("searched") else ""
    return f"### {one['dataset']}: {one['tools']} tools of {one['servers']} servers, {one['tasks']} requests{how}"


CONTEXT: Final[Columns] = {
    "": itemgetter("way"),
    "definition tokens, first request": lambda one: f"{one['turns'][0]['definition_tokens']:,.0f}",
    "requests": _figure("requests", ".2f"),
    "tokens, all requests": _figure("tokens"),
    "of them new": _figure("new_tokens"),
    "tools found, one search": lambda one: percent(one["recall"][0]),
    "two searches": lambda one: percent(one["recall"][1]),
    "every tool found": lambda one: percent(one["complete"][-1]),
    "processor ms a search, p50 / p95": lambda one: f"{one['search_p50_ms']:.1f} / {one['search_p95_ms']:.1f}",
}
_TURNS: Final[Columns] = {
    "": itemgetter("way"),
    "request": _figure("place", ""),
    "tasks": _figure("tasks", ""),
    "definitions": _figure("definitions", ".1f"),
    "their tokens": _figure("definition_tokens"),
    "all tokens": _figure("tokens"),
    "bytes kept": lambda one: f"{one['kept_bytes']:,.0f}" if one["place"] > 1 else "",
    "share": lambda one: f"{one['kept_share']:.0%}" if one["place"] > 1 else "",
}


def _context_sizes(sizes: Sequence[Row]) -> str:
    rows = [
        (way, *(f"{one['tokens']:,.0f} ({one['saved']:.0%})" for one in sizes if one["way"] == way))
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
        "tasks without an answer": lambda one: (
            f"{one['failed']}" + (f" ({one['first_failure'].replace('|', '/')})" if one["failed"] else "")
        ),
    }
    return _by_dataset(columns, figures)


def method_tables(figures: Row) -> str:
    """Return the ways for each data set."""
    columns: Columns = {
        "": itemgetter("way"),
        "turns of the model": _figure("turns", ".2f"),
        "requests on the wire": _figure("requests", ".2f"),
        "kB on the wire": lambda one: f"{one['bytes'] / 1e3:,.0f}",
        "tokens, turn by turn": lambda one: " / ".join(f"{tokens:,.0f}" for tokens in one["turn_tokens"]),
        "all turns": _figure("tokens"),
        "of them new": _figure("new_tokens"),
        "tools found": lambda one: percent(one["found"]) if "found" in one else "-",
        "every tool found": _share("complete"),
        "wire, ms (median)": _figure("wire_ms", ".1f"),
        "times delegated": lambda one: bounded(one["wire_ratio"], "{:.1f}".format),
    }
    return _by_dataset(columns, figures)


def _by_dataset(columns: Columns, figures: Row) -> str:
    return "\n\n".join(part for one in figures["datasets"] for part in (_title(one), table_of(columns, one["ways"])))
