"""The run as pages for people: an offline HTML page, a Markdown summary, and a matrix of many runs in both formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tools_search_conformance.model import SEVERITY, grouped
from tools_search_conformance.report.explain import documents
from tools_search_conformance.report.render import render
from tools_search_conformance.report.verdict import BASE_HEADING, GROUPS, target_text
from tools_search_conformance.run.rows import every_row

Document = Mapping[str, Any]
"""A `report.json`."""


_HEADINGS: Final = {
    "problems": "Problems",
    "expected": "Expected by the baseline",
    "base": BASE_HEADING,
    "advice": "Advice not taken, which never counts",
}


def accounts(document: Document) -> dict[str, list[dict[str, Any]]]:
    """Return what did not pass, by section of a report, each check with its results in the cells concerned.

    The sections are `problems`, `expected` by the baseline, `base` for the base protocol, and `advice`. A check has its
    `consequences`, its `messages` by status and text with their cells, and the worst of its results as `first`.
    """
    checks = {check["id"]: check for check in document["checks"]}
    results = _by_check(document)

    def account(check: str, cells: Iterable[str], consequences: Iterable[Document] = ()) -> dict[str, Any]:
        found = sorted((results[check][cell] for cell in cells), key=lambda result: SEVERITY.index(result["status"]))
        messages = grouped(((result["status"], result.get("message", "")), result["cell"]) for result in found)
        replays = [result["replay"] for result in found if "replay" in result]
        follow = [account(each["check"], each["cells"]) for each in consequences]
        facts = {"messages": messages, "first": found[0], "replays": replays, "consequences": follow}
        return {**checks[check], **facts}

    def where(held: Callable[[Document], bool]) -> list[dict[str, Any]]:
        cells = {check: [cell for cell, result in found.items() if held(result)] for check, found in results.items()}
        return [account(check, names) for check, names in cells.items() if names]

    problems = [
        (each["base"], account(each["check"], each["cells"], each["consequences"])) for each in document["problems"]
    ]
    return {
        "problems": [each for base, each in problems if not base],
        "expected": where(lambda result: "expected" in result),
        "base": [each for base, each in problems if base],
        "advice": where(lambda result: result["status"] == "advice"),
    }


def _by_check(document: Document) -> dict[str, dict[str, Document]]:
    results: dict[str, dict[str, Document]] = {}
    for result in document["results"]:
        results.setdefault(result["check"], {})[result["cell"]] = result
    return results


def page(document: Document) -> str:
    """Return the text of `report.html`. It needs no script and loads nothing from elsewhere.

    The result of a check in a cell has the anchor `#CHECK-CELL`, and a rule its id, in every report.
    """
    results, found = _by_check(document), accounts(document)
    shown = [each for section in found.values() for problem in section for each in (problem, *problem["consequences"])]
    return render(
        "report.html.jinja",
        document=document,
        target=target_text(document["target"]),
        good=document["verdict"]["exitStatus"] == 0,
        checks=[{**check, "results": results[check["id"]]} for check in document["checks"]],
        groups=GROUPS,
        sections=[(name, heading, found[name]) for name, heading in _HEADINGS.items() if found[name]],
        detailed={(each["id"], cell) for each in shown for cells in each["messages"].values() for cell in cells},
        shown={each["id"] for each in shown},
        open={each["check"] for problem in document["problems"] for each in (problem, *problem["consequences"])},
        rules=_rules(document),
        texts=_sections(),
    )


def _rules(document: Document) -> list[dict[str, Any]]:
    """Return each rule that a check of the report decides, with those checks."""
    rules: dict[str, dict[str, Any]] = {}
    for check in document["checks"]:
        for row in check["requirements"]:
            rules.setdefault(row["id"], {**row, "checks": []})
            rules[row["id"]]["checks"].append(check["id"])
    order = [row.id for row in every_row()]
    return sorted(rules.values(), key=lambda rule: order.index(rule["id"]) if rule["id"] in order else len(order))


def _sections() -> dict[str, str]:
    """Return the text below each heading of the draft and the guides, by its place."""
    texts: dict[str, str] = {}
    for path in (documents()[name][0] for name in ("draft", "primitives", "servers-guide", "hosts-guide")):
        for part in re.split(r"^(?=#+ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            heading = part.partition("\n")[0].lstrip("# ")
            anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            texts[f"spec/{path.parent.name}/{path.name}#{anchor}"] = part.strip()
    return texts


def summary(document: Document) -> str:
    """Return the text of `summary.md`, for a job summary or a pull request."""
    facts = {"document": document, "groups": GROUPS, "base_heading": BASE_HEADING}
    return render("summary.md.jinja", **facts, **accounts(document))


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
            tables = ((title.lower(), f"{title}: all checks", own), (f"{title.lower()}-base", BASE_HEADING, base))
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
    rows: list[dict[str, Any]] = []
    for check in checks.values():
        cells = {
            name: [result for result in document["results"] if result["check"] == check["id"]]
            for name, document in documents.items()
        }
        # A check that passes in one cell and does not apply in another has passed.
        worst = {
            name: min((result["status"] for result in results), key=SEVERITY.index, default=None)
            for name, results in cells.items()
        }
        differ = len(set(worst.values())) > 1
        rows.append({"check": check, "worst": worst, "cells": cells, "differ": differ})
    return rows
