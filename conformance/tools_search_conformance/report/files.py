"""The files that a run leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tools_search_conformance.model import SEVERITY, Level, Result, Run, Status
from tools_search_conformance.report.ci import badge_json, badge_svg, junit
from tools_search_conformance.report.document import failure, failure_files, report
from tools_search_conformance.report.explain import sep_check
from tools_search_conformance.report.pages import page, summary
from tools_search_conformance.run.rows import is_base, place_of, rows_of
from tools_search_conformance.wire.codec import encode

_OFFICIAL: Final[Mapping[Status, str]] = {
    "pass": "SUCCESS",
    "fail": "FAILURE",
    "warn": "WARNING",
    "advice": "INFO",
    "skip": "SKIPPED",
    "error": "FAILURE",
}
_OFFICIAL_UNVERIFIED: Final[Mapping[Level, str]] = {"MUST": "FAILURE", "SHOULD": "WARNING", "ADVICE": "INFO"}


def write_reports(run: Run, out: Path, *, sep: int | None = None) -> None:
    """Write every report into the folder `out`, in place of an earlier run's.

    With `sep`, the number of a proposal, `checks.json` names checks as that proposal's traceability file does.
    """
    failures = out / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    for old in failures.glob("[0-9][0-9]*-tools-search-*.json"):
        old.unlink()
    for name, result in failure_files(run).items():
        (failures / name).write_bytes(encode(failure(run, result)) + b"\n")
    document = report(run, out)
    values = {"report": document, "checks": official_checks(run, sep=sep), "badge": badge_json(document)}
    # Escaped, because a target may have sent text that UTF-8 or a viewer cannot take.
    texts = {f"{name}.json": json.dumps(value, indent=2, ensure_ascii=True) + "\n" for name, value in values.items()}
    texts |= {"badge.svg": badge_svg(document), "junit.xml": junit(document)}
    texts |= {"report.html": page(document), "summary.md": summary(document)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def official_checks(run: Run, *, sep: int | None = None) -> list[dict[str, Any]]:
    """Return the run as the official suite's `checks.json`: each check once, by its worst result in any cell.

    With `sep`, the number of a proposal, the ids are as in that proposal's traceability file.
    """
    by_check: dict[str, list[Result]] = {}
    for result in run.results:
        by_check.setdefault(result.check, []).append(result)
    entries: list[dict[str, Any]] = []
    for check, results in by_check.items():
        worst = min(results, key=lambda result: SEVERITY.index(result.status))
        rows, unverified = rows_of(check), worst.status == "unverified"
        status = _OFFICIAL_UNVERIFIED[worst.level] if unverified else _OFFICIAL[worst.status]
        base = is_base(check)
        if base and worst.status != "error" and status == "FAILURE":
            status = "WARNING"
        marks = {"baseProtocol": base, "untestable": unverified, "harnessError": worst.status == "error"}
        details = {"cells": {result.cell.name: result.status for result in results}}
        details |= {name: True for name, holds in marks.items() if holds}
        entry: dict[str, Any] = {
            "id": check if sep is None else sep_check(sep, check),
            "name": check,
            "description": rows[0].text if rows else check,
            "status": status,
            "timestamp": run.started,
            "specReferences": [{"id": row.id, "url": place_of(row)} for row in rows],
            "details": details,
        }
        if status in {"FAILURE", "WARNING"}:
            entry["errorMessage"] = f"Not testable: {worst.message}" if unverified else worst.message
        entries.append(entry)
    return entries
