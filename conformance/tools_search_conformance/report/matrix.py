"""Many runs on one page: each check against each implementation, servers and clients apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tools_search_conformance.model import SEVERITY
from tools_search_conformance.report.html import MARKS, render
from tools_search_conformance.report.summary import markdown_text

__all__ = ["matrix_markdown", "matrix_page"]

_ABSENT: Final = " "


def matrix_page(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of reports by the name of what they are about, in the order in which they are given."""
    groups = [(kind, list(group), _rows(group)) for kind, group in _apart(documents).items()]
    return render("matrix.html.jinja", names=list(documents), documents=documents, groups=groups)


def matrix_markdown(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the same as a Markdown table, or as one of servers and one of clients."""
    groups = _apart(documents)
    if len(groups) == 1:
        return _table(documents)
    return "\n".join(f"## {kind}\n\n{_table(group)}" for kind, group in groups.items())


def _apart(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the reports of servers and those of clients, as far as there are any: they have no check in common."""
    kinds = {"servers": "Servers", "clients": "Clients"}
    apart = {
        title: {name: document for name, document in documents.items() if kind in document["target"]}
        for kind, title in kinds.items()
    }
    return {title: group for title, group in apart.items() if group}


def _table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    names = [markdown_text(name) for name in documents]
    lines = [f"| Check | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [
        f"| {row['check']['id']} | {' | '.join(MARKS.get(row['worst'][name], _ABSENT) for name in documents)} |"
        for row in _rows(documents)
    ]
    verdicts = [markdown_text(document["verdict"]["text"].partition(":")[0]) for document in documents.values()]
    return "\n".join([*lines, f"| **Verdict** | {' | '.join(verdicts)} |", ""])


def _rows(documents: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    checks = {check["id"]: check for document in documents.values() for check in document["checks"]}
    return [
        {
            "check": check,
            "worst": {name: _worst(_statuses(document, check["id"])) for name, document in documents.items()},
            "cells": {name: _by_cell(document, check["id"]) for name, document in documents.items()},
        }
        for check in checks.values()
    ]


def _by_cell(document: Mapping[str, Any], check: str) -> list[Mapping[str, Any]]:
    return [result for result in document["results"] if result["check"] == check]


def _statuses(document: Mapping[str, Any], check: str) -> list[str]:
    return [result["status"] for result in _by_cell(document, check)]


def _worst(statuses: Sequence[str]) -> str | None:
    # What passes in one cell and does not apply in another has passed.
    order = (*SEVERITY[:-2], "pass", "skip")
    return min(statuses, key=order.index, default=None)
