"""The run as pages for people: an offline HTML page, a Markdown summary, and a matrix of many runs in both formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tools_search_conformance.model import LEVELS, SEVERITY
from tools_search_conformance.report.verdict import PROBLEMS, target_text
from tools_search_conformance.wire.display import plain

_MARKS: Final = {
    "pass": "✓",
    "fail": "✗",
    "warn": "!",
    "advice": "~",
    "unverified": "?",
    "skip": "–",  # noqa: RUF001
    "info": "i",
    "error": "‼",
}
_WORDS: Final = {
    "pass": "passed",
    "fail": "failed",
    "warn": "not followed",
    "advice": "advice not taken",
    "unverified": "could not be verified",
    "skip": "not applicable",
    "info": "for information",
    "error": "ended by a fault of the suite",
}
_TABLE_HEAD: Final = ("| | Check | What happened | In |", "|---|---|---|---|")
_LONGEST_CELL: Final = 300

Document = Mapping[str, Any]
"""A `report.json`."""


def page(document: Document) -> str:
    """Return the text of `report.html`. It needs no script and loads nothing from elsewhere."""
    results: dict[str, dict[str, Any]] = {}
    for result in document["results"]:
        results.setdefault(result["check"], {})[result["cell"]] = result
    checks: list[dict[str, Any]] = []
    for check in document["checks"]:
        by_cell = results[check["id"]]
        worst = min((result["status"] for result in by_cell.values()), key=SEVERITY.index)
        deciding = {cell: result for cell, result in by_cell.items() if result["status"] == worst}
        messages: dict[str, list[str]] = {}
        for cell, result in deciding.items():
            messages.setdefault(result.get("message", ""), []).append(cell)
        first = next(iter(deciding.values()))
        checks.append({**check, "results": by_cell, "worst": worst, "messages": messages, "first": first})
    problems = [
        check
        for check in checks
        if check["worst"] in PROBLEMS and (check["level"] != "ADVICE" or check["worst"] == "error")
    ]
    return _render(
        "report.html.jinja",
        document=document,
        target=target_text(document["target"]),
        good=document["verdict"]["exitStatus"] == 0,
        checks=checks,
        problems=sorted(problems, key=lambda check: SEVERITY.index(check["worst"])),
        advice=[check for check in checks if check["worst"] == "advice"],
    )


def _render(template: str, **facts: Any) -> str:
    """Return a page made from one of the templates in this folder; everything in `facts` is escaped."""
    return _environment().get_template(template).render(marks=_MARKS, words=_WORDS, **facts)


@cache
def _environment() -> Environment:
    def prose(text: str) -> Markup:
        """Return a sentence of ours with the text between backticks as code."""
        parts = text.split("`")
        return Markup().join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))

    def pretty(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        return "\n".join(plain(line, most=4000) for line in text.split("\n"))

    environment = Environment(
        loader=FunctionLoader(lambda name: (files(__package__ or "") / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "pretty": pretty, "prose": prose}
    return environment


def summary(document: Document) -> str:
    """Return the text of `summary.md`, for a job summary or a pull request."""
    lines = [
        f"## tools/search: {_markdown(document['verdict']['text'])}",
        "",
        f"Profile {document['profile']}, effort {document['effort']}, seed {document['seed']}, "
        f"{document['seconds']:g} s, suite {_markdown(document['suite']['version'])}.",
        "",
        f"| Cell | {' | '.join(LEVELS)} |",
        f"|---{'|---' * len(LEVELS)}|",
    ]
    for cell in document["cells"]:
        counts = (", ".join(f"{n} {status}" for status, n in cell["counts"][level].items()) for level in LEVELS)
        lines.append(f"| {cell['name']} | {' | '.join(count or 'none' for count in counts)} |")
    lines += [f"| {entry['cell']} | not run: {_markdown(entry['reason'])} | | |" for entry in document["unavailable"]]
    counting = [r for r in document["results"] if r["level"] != "ADVICE" or r["status"] == "error"]
    if rows := _summary_rows(counting, PROBLEMS):
        lines += ["", *_TABLE_HEAD, *rows]
    if rows := _summary_rows(document["results"], ("advice",)):
        lines += ["", "Advice of the guides that was not taken, which counts against nobody:", "", *_TABLE_HEAD, *rows]
    if commands := [result["replay"] for result in document["results"] if "replay" in result]:
        lines += ["", "To see it again:", "", "```sh", *(plain(command, most=1000) for command in commands), "```"]
    return "\n".join(lines) + "\n"


def _summary_rows(results: Iterable[Document], statuses: Sequence[str]) -> list[str]:
    """Return the results with one of `statuses`, in their order, each check once with its cells."""
    cells: dict[tuple[int, str, str], list[str]] = {}
    for result in results:
        if result["status"] in statuses:
            key = (statuses.index(result["status"]), result["check"], result.get("message", ""))
            cells.setdefault(key, []).append(result["cell"])
    return [
        f"| {statuses[rank]} | {check} | {_markdown(message)} | {', '.join(where)} |"
        for (rank, check, message), where in sorted(cells.items())
    ]


def _markdown(text: str) -> str:
    """Return text of a target with every mark escaped that might mean something in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&@:])", r"\\\1", plain(text, most=_LONGEST_CELL))


def matrix_page(documents: Mapping[str, Document]) -> str:
    """Return a page of reports by the name of their implementation, in the order in which they are given."""
    groups = [(kind, list(group), _matrix_rows(group)) for kind, group in _by_party(documents).items()]
    return _render("matrix.html.jinja", names=list(documents), documents=documents, groups=groups)


def matrix_markdown(documents: Mapping[str, Document]) -> str:
    """Return the same as a Markdown table, or as one of servers and one of clients."""
    tables: dict[str, str] = {}
    for kind, group in _by_party(documents).items():
        names = [_markdown(name) for name in group]
        lines = [f"| Check | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
        for row in _matrix_rows(group):
            marks = (_MARKS.get(row["worst"][name], " ") for name in group)
            lines.append(f"| {row['check']['id']} | {' | '.join(marks)} |")
        verdicts = [_markdown(document["verdict"]["text"].partition(":")[0]) for document in group.values()]
        tables[kind] = "\n".join([*lines, f"| **Verdict** | {' | '.join(verdicts)} |", ""])
    if len(tables) == 1:
        return next(iter(tables.values()))
    return "\n".join(f"## {kind}\n\n{table}" for kind, table in tables.items())


def _by_party(documents: Mapping[str, Document]) -> dict[str, dict[str, Document]]:
    """Return the reports of servers and of clients, as far as there are any: they have no check in common."""
    groups = {
        title: {name: document for name, document in documents.items() if title.lower() in document["target"]}
        for title in ("Servers", "Clients")
    }
    return {title: group for title, group in groups.items() if group}


def _matrix_rows(documents: Mapping[str, Document]) -> list[dict[str, Any]]:
    checks = {check["id"]: check for document in documents.values() for check in document["checks"]}
    # A check that passes in one cell and does not apply in another has passed.
    order = (*SEVERITY[:-2], "pass", "skip")
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
        rows.append({"check": check, "worst": worst, "cells": cells})
    return rows
