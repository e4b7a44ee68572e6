"""The run as a short Markdown page, for a job summary or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tools_search_conformance.model import LEVELS
from tools_search_conformance.report.plain import plain

__all__ = ["markdown_text", "summary"]

_SHOWN: Final = ("error", "fail", "unverified", "warn")
_HEAD: Final = ("| | Check | What happened | In |", "|---|---|---|---|")
_LONGEST: Final = 300


def summary(document: Mapping[str, Any]) -> str:
    """Return the text of `summary.md`."""
    lines = [f"## tools/search: {markdown_text(document['verdict']['text'])}", ""]
    lines += [
        f"Profile {document['profile']}, effort {document['effort']}, seed {document['seed']}, "
        f"{document['seconds']:g} s, suite {markdown_text(document['suite']['version'])}.",
        "",
        f"| Cell | {' | '.join(LEVELS)} |",
        f"|---{'|---' * len(LEVELS)}|",
    ]
    lines += [
        f"| {cell['name']} | {' | '.join(_counts(cell, level) for level in LEVELS)} |" for cell in document["cells"]
    ]
    lines += [
        f"| {entry['cell']} | not run: {markdown_text(entry['reason'])} | | |" for entry in document["unavailable"]
    ]
    counting = [r for r in document["results"] if r["level"] != "ADVICE" or r["status"] == "error"]
    if rows := _rows(counting, _SHOWN):
        lines += ["", *_HEAD, *rows]
    if rows := _rows(document["results"], ("advice",)):
        lines += ["", "Advice of the guides that was not taken, which counts against nobody:", "", *_HEAD, *rows]
    if commands := [result["replay"] for result in document["results"] if "replay" in result]:
        lines += ["", "To see it again:", "", "```sh", *(plain(command, most=1000) for command in commands), "```"]
    return "\n".join(lines) + "\n"


def _counts(cell: Mapping[str, Any], level: str) -> str:
    return ", ".join(f"{count} {status}" for status, count in cell["counts"][level].items()) or "none"


def _rows(results: Iterable[Mapping[str, Any]], statuses: Sequence[str]) -> list[str]:
    """Return what came to one of `statuses`, in their order, each check once with its cells."""
    cells: dict[tuple[int, str, str], list[str]] = {}
    for result in results:
        if result["status"] in statuses:
            key = (statuses.index(result["status"]), result["check"], result.get("message", ""))
            cells.setdefault(key, []).append(result["cell"])
    return [
        f"| {statuses[rank]} | {check} | {markdown_text(message)} | {', '.join(where)} |"
        for (rank, check, message), where in sorted(cells.items())
    ]


def markdown_text(text: str) -> str:
    """Return text of a target so that Markdown takes it for text: every mark that might mean something escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&@:])", r"\\\1", plain(text, most=_LONGEST))
