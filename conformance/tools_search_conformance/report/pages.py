"""The run as pages for people: an offline HTML page, a Markdown summary, and a matrix of many runs in both formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tools_search_conformance.model import SEVERITY
from tools_search_conformance.report.explain import documents
from tools_search_conformance.report.problems import BASE_HEADING, GROUPS
from tools_search_conformance.report.render import render
from tools_search_conformance.report.verdict import target_text
from tools_search_conformance.run.rows import every_row

Document = Mapping[str, Any]
"""A `report.json`."""


def page(document: Document) -> str:
    """Return the text of `report.html`. It needs no script and loads nothing from elsewhere.

    The result of a check in a cell has the anchor `#CHECK-CELL`, and a rule its id, in every report.
    """
    results: dict[str, dict[str, Document]] = {}
    for result in document["results"]:
        results.setdefault(result["check"], {})[result["cell"]] = result
    checks = {check["id"]: {**check, "results": results[check["id"]]} for check in document["checks"]}

    def shown(check: str, cells: Iterable[str], consequences: Iterable[Document] = ()) -> dict[str, Any]:
        found = sorted((results[check][cell] for cell in cells), key=lambda result: SEVERITY.index(result["status"]))
        messages: dict[str, list[str]] = {}
        for result in found:
            messages.setdefault(result.get("message", ""), []).append(result["cell"])
        follow = [shown(each["check"], each["cells"]) for each in consequences]
        return {**checks[check], "messages": messages, "first": found[0], "consequences": follow}

    def where(held: Callable[[Document], bool]) -> list[dict[str, Any]]:
        cells = {check: [cell for cell, result in found.items() if held(result)] for check, found in results.items()}
        return [shown(check, names) for check, names in cells.items() if names]

    problems = [
        (each["base"], shown(each["check"], each["cells"], each["consequences"])) for each in document["problems"]
    ]
    sections = (
        ("problems", "What is wrong", [each for base, each in problems if not base]),
        ("expected", "What the baseline expects", where(lambda result: "expected" in result)),
        ("base", BASE_HEADING, [each for base, each in problems if base]),
        ("advice", "Advice that was not taken, which counts against nobody", where(_is_advice)),
    )
    detailed = {
        (each["id"], cell)
        for _, _, found in sections
        for problem in found
        for each in (problem, *problem["consequences"])
        for cells in each["messages"].values()
        for cell in cells
    }
    return render(
        "report.html.jinja",
        document=document,
        target=target_text(document["target"]),
        good=document["verdict"]["exitStatus"] == 0,
        checks=list(checks.values()),
        groups=GROUPS,
        sections=[section for section in sections if section[-1]],
        detailed=detailed,
        shown={check for check, _ in detailed},
        open={check for each in document["problems"] for check in _checks_of(each)},
        rules=_rules(document),
        texts=_sections_of_draft(),
    )


def _checks_of(problem: Document) -> list[str]:
    return [problem["check"], *(each["check"] for each in problem["consequences"])]


def _is_advice(result: Document) -> bool:
    return result["status"] == "advice"


def _rules(document: Document) -> list[dict[str, Any]]:
    """Return each rule that a check of the report decides, with those checks."""
    rules: dict[str, dict[str, Any]] = {}
    for check in document["checks"]:
        for row in check["requirements"]:
            rules.setdefault(row["id"], {**row, "section": row["place"].partition("#")[2], "checks": []})
            rules[row["id"]]["checks"].append(check["id"])
    order = [row.id for row in every_row()]
    return sorted(rules.values(), key=lambda rule: order.index(rule["id"]) if rule["id"] in order else len(order))


def _sections_of_draft() -> dict[str, str]:
    """Return the text below each heading of the draft, by the heading's anchor."""
    texts: dict[str, str] = {}
    path, _ = documents()["draft"]
    for part in re.split(r"^(?=#+ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading = part.partition("\n")[0].lstrip("# ")
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        texts[anchor] = part.strip()
    return texts


def summary(document: Document) -> str:
    """Return the text of `summary.md`, for a job summary or a pull request."""
    results = document["results"]
    by_place = {(result["check"], result["cell"]): result for result in results}

    def rows(*, base: bool) -> list[tuple[str, str, str, list[str]]]:
        table: list[tuple[str, str, str, list[str]]] = []
        for each in document["problems"]:
            if each["base"] is base:
                table += _summary_rows(by_place[each["check"], cell] for cell in each["cells"])
                for found in each["consequences"]:
                    table += _summary_rows((by_place[found["check"], cell] for cell in found["cells"]), "↳ ")
        return table

    problems = [each for each in document["problems"] if not each["base"]]
    replays: list[str | None] = [by_place[p["check"], cell].get("replay") for p in problems for cell in p["cells"]]
    expected = _summary_rows((result for result in results if "expected" in result), "expected ")
    return render(
        "summary.md.jinja",
        document=document,
        groups=GROUPS,
        base_heading=BASE_HEADING,
        problems=[*rows(base=False), *expected],
        base=rows(base=True),
        advice=_summary_rows(filter(_is_advice, results)),
        commands=list(filter(None, replays)),
    )


def _summary_rows(results: Iterable[Document], mark: str = "") -> list[tuple[str, str, str, list[str]]]:
    """Return the status after its `mark`, the check, the message and the cells of results, alike ones once."""
    cells: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        cells.setdefault((result["status"], result["check"], result.get("message", "")), []).append(result["cell"])
    return [(f"{mark}{status}", check, message, where) for (status, check, message), where in cells.items()]


def matrix_page(documents: Mapping[str, Document]) -> str:
    """Return a page of reports by the name of their implementation, in the order in which they are given."""
    return render("matrix.html.jinja", documents=documents, groups=_by_party(documents))


def matrix_markdown(documents: Mapping[str, Document]) -> str:
    """Return the same as a Markdown table, or as one of servers and one of clients."""
    return render("matrix.md.jinja", groups=_by_party(documents))


def _by_party(documents: Mapping[str, Document]) -> dict[str, dict[str, Any]]:
    """Return the reports of servers and of clients, as far as there are any: they have no check in common."""
    groups: dict[str, dict[str, Any]] = {}
    for title in ("Servers", "Clients"):
        group = {name: document for name, document in documents.items() if title.lower() in document["target"]}
        if group:
            rows = _matrix_rows(group)
            own, base = ([row for row in rows if row["check"]["base"] is apart] for apart in (False, True))
            tables = ((title.lower(), f"{title}: every check", own), (f"{title.lower()}-base", BASE_HEADING, base))
            tables = [(*table, _totals(group, table[-1])) for table in tables if table[-1]]
            groups[title] = {"documents": group, "tables": tables}
    return groups


def _totals(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many checks came to each status, the worst first, by implementation."""
    counts = {name: Counter(row["worst"][name] for row in rows) for name in names}
    return {name: {status: count[status] for status in SEVERITY if count[status]} for name, count in counts.items()}


def _matrix_rows(documents: Mapping[str, Document]) -> list[dict[str, Any]]:
    """Return each check with its results, and the worst of them, by implementation."""
    checks = {check["id"]: check for document in documents.values() for check in document["checks"]}
    # A check that passes in one cell and does not apply in another has passed.
    order = SEVERITY
    rows: list[dict[str, Any]] = []
    for check in checks.values():
        cells = {
            name: [result for result in document["results"] if result["check"] == check["id"]]
            for name, document in documents.items()
        }
        worst = {
            name: min((result["status"] for result in results), key=order.index, default=None)
            for name, results in cells.items()
        }
        differ = len(set(worst.values())) > 1
        rows.append({"check": check, "worst": worst, "cells": cells, "differ": differ})
    return rows
