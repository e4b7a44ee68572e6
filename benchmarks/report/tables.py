"""Tables of each measurement in Markdown, made of the figures that it writes as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with text in the first column, and figures in the others."""
    ruler = ["---", *["--:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ruler, *rows))


def short(figure: float) -> str:
    """Return three digits, or all of a larger whole number."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def bounded(one: Row, form: Callable[[float], str] = short) -> str:
    """Return an estimate with its bounds."""
    return f"{form(one['value'])} ({form(one['low'])}-{form(one['high'])})"


def percent(one: Row) -> str:
    """Return an estimate of a share with its bounds."""
    return bounded(one, lambda share: f"{share:.0%}")


def retrieval_tables(reports: Sequence[Row]) -> str:
    """Return nDCG@10 of each ranker for each set, and the other figures as means over the sets."""
    names = [one["dataset"] for one in reports[0]["datasets"]]
    ndcg = [
        (
            report["ranker"],
            *(bounded(one["ndcg"], "{:.3f}".format) for one in (*report["datasets"], report["mean"])),
        )
        for report in reports
    ]
    others = [
        (
            report["ranker"],
            *(
                f"{report['mean'][member]:.3f}"
                for member in ("recall_at_1", "recall_at_5", "recall_at_10", "reciprocal_rank")
            ),
            ", ".join(f"{one['silent']:.0%}" for one in report["datasets"] if one["unservable"]),
        )
        for report in reports
    ]
    return "\n\n".join(
        (
            f"nDCG@10 on `{reports[0]['split']}`:",
            table(("", *names, "mean"), ndcg),
            "Means over the sets, and the part of the requests that no tool serves which is answered with nothing:",
            table(("", "Recall@1", "Recall@5", "Recall@10", "MRR", "silent"), others),
            *(_slices(place, reports) for place, one in enumerate(reports[0]["datasets"]) if one.get("slices")),
        )
    )


def _slices(place: int, reports: Sequence[Row]) -> str:
    """Return tables of the kinds of requests of one data set: with a right tool, and with none."""
    figures = {
        "ndcg": "nDCG@10",
        "first": "A right tool in the first place",
        "among_five": "A right tool among the first five",
        "silent": "Answered with nothing",
    }
    slices: Row = reports[0]["datasets"][place]["slices"]
    parts: list[str] = []
    for figure, says in figures.items():
        own = [name for name, one in slices.items() if figure in one]
        form: Callable[[Row], str] = (lambda one: bounded(one, "{:.3f}".format)) if figure == "ndcg" else percent
        rows = [
            (one["ranker"], *(form(one["datasets"][place]["slices"][name][figure]) for name in own)) for one in reports
        ]
        headings = ("", *(f"{name} ({slices[name]['queries']})" for name in own))
        parts += [f"{says}, by the kind of request (their number):", table(headings, rows)]
    return "\n\n".join(parts)


def silence_tables(reports: Sequence[Row]) -> str:
    """Return for each threshold what it silences, and its costs; the first report of a ranker is without one."""
    headings = (
        "least confidence", "answered with nothing, rightly", "Recall@5 lost", "nDCG@10 lost",
        "answered with nothing, wrongly",
    )  # fmt: skip
    parts = ["Means over the sets, in percent and in points:"]
    for ranker in dict.fromkeys(report["ranker"].partition(" at ")[0] for report in reports):
        base, *others = (one for one in reports if one["ranker"].partition(" at ")[0] == ranker)
        rows = [
            (
                one["ranker"].partition(" at ")[2],
                *(bounded(one["mean"]["silent"], lambda share: f"{100 * share:.1f}"),),
                *(f"{100 * (base['mean'][lost] - one['mean'][lost]):.1f}" for lost in ("recall_at_5", "ndcg_at_10")),
                bounded(one["mean"]["wrongly_silent"], lambda share: f"{100 * share:.1f}"),
            )
            for one in others
        ]
        parts += [f"`{ranker}`:", table(headings, rows)]
    return "\n\n".join(parts)


def speed_tables(figures: Row) -> str:
    """Return engines by sizes: the time of a query, its ratio to bm25s, building and changing, and memory."""
    found = {(one["engine"], one["tools"]): one for one in figures["speeds"]}
    engines, sizes = ([*dict.fromkeys(keys)] for keys in zip(*found, strict=True))
    cells: Mapping[str, Callable[[Row], str]] = {
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
    rows = [(f"{one['tools']:,}", f"{one['bytes']:,}", f"{one['tokens']:,}") for one in figures]
    return table(("tools", "bytes", "tokens"), rows)


def context_tables(figures: Row) -> str:
    """Return for each data set the ways, their requests one by one, and the first requests at several sizes."""
    return "\n\n".join(
        part
        for one in figures["datasets"]
        for part in (
            _dataset(one),
            _context_ways(one["ways"]),
            _context_turns(one["ways"]),
            _context_sizes(one["sizes"]),
        )
    )


def _dataset(one: Row) -> str:
    how = f", {one['searched']}" if one.get("searched") else ""
    return f"### {one['dataset']}: {one['tools']} tools of {one['servers']} servers, {one['tasks']} requests{how}"


def _context_ways(ways: Sequence[Row]) -> str:
    headings = (
        "", "definition tokens, first request", "requests", "tokens, all requests", "of them new",
        "tools found, one search", "two searches", "every tool found", "processor ms a search, p50 / p95",
    )  # fmt: skip
    rows = [
        (
            one["way"],
            f"{one['turns'][0]['definition_tokens']:,.0f}",
            f"{one['requests']:.2f}",
            f"{one['tokens']:,.0f}",
            f"{one['new_tokens']:,.0f}",
            *map(percent, one["recall"]),
            percent(one["complete"][-1]),
            f"{one['search_p50_ms']:.1f} / {one['search_p95_ms']:.1f}",
        )
        for one in ways
    ]
    return table(headings, rows)


def _context_turns(ways: Sequence[Row]) -> str:
    rows = [
        (
            one["way"],
            str(place),
            str(turn["tasks"]),
            f"{turn['definitions']:.1f}",
            f"{turn['definition_tokens']:,.0f}",
            f"{turn['tokens']:,.0f}",
            *((f"{turn['kept_bytes']:,.0f}", f"{turn['kept_share']:.0%}") if place > 1 else ("", "")),
        )
        for one in ways
        for place, turn in enumerate(one["turns"], start=1)
    ]
    return table(("", "request", "tasks", "definitions", "their tokens", "all tokens", "bytes kept", "share"), rows)


def _context_sizes(sizes: Sequence[Row]) -> str:
    rows = [
        (way, *(f"{one['tokens']:,.0f} ({one['saved']:.0%})" for one in sizes if one["way"] == way))
        for way in dict.fromkeys(size["way"] for size in sizes)
    ]
    return table(("", *(f"{tools} tools" for tools in dict.fromkeys(size["tools"] for size in sizes))), rows)


def model_tables(figures: Row) -> str:
    """Return the ways for each data set, with a real model."""
    headings = (
        "", "requests", "searches", "tokens read", "of them cached", "tokens written", "seconds", "tools found",
        "every tool found", "other tools called", "tasks without an answer",
    )  # fmt: skip
    parts: list[str] = []
    for dataset in figures["datasets"]:
        rows = [
            (
                one["way"],
                f"{one['requests']:.2f}",
                f"{one['searches']:.2f}",
                f"{one['prompt_tokens']:,.0f}",
                f"{one['cached_tokens']:,.0f}",
                f"{one['completion_tokens']:,.0f}",
                f"{one['seconds']:.1f}",
                percent(one["found"]),
                percent(one["complete"]),
                f"{one['others']:.2f}",
                f"{one['failed']}" + (f" ({one['first_failure'].replace('|', '/')})" if one["failed"] else ""),
            )
            for one in dataset["ways"]
        ]
        parts += [_dataset(dataset), table(headings, rows)]
    return "\n\n".join(parts)


def method_tables(figures: Row) -> str:
    """Return the ways for each data set."""
    headings = (
        "", "turns of the model", "requests on the wire", "kB on the wire", "tokens, turn by turn", "all turns",
        "of them new", "tools found", "every tool found", "wire, ms (median)", "times delegated",
    )  # fmt: skip
    parts: list[str] = []
    for dataset in figures["datasets"]:
        rows = [
            (
                one["way"],
                f"{one['turns']:.2f}",
                f"{one['requests']:.2f}",
                f"{one['bytes'] / 1e3:,.0f}",
                " / ".join(f"{tokens:,.0f}" for tokens in one["turn_tokens"]),
                f"{one['tokens']:,.0f}",
                f"{one['new_tokens']:,.0f}",
                percent(one["found"]) if "found" in one else "-",
                percent(one["complete"]),
                f"{one['wire_ms']:.1f}",
                bounded(one["wire_ratio"], "{:.1f}".format),
            )
            for one in dataset["ways"]
        ]
        parts += [_dataset(dataset), table(headings, rows)]
    return "\n\n".join(parts)
