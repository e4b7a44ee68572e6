"""The files that a run leaves behind; failures and `checks.json` are made here, of the run itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tools_search_conformance.model import SEVERITY, Level, Result, Run, Status
from tools_search_conformance.report.ci import badge_json, badge_svg, junit
from tools_search_conformance.report.document import failure_files, report, suite, target_of
from tools_search_conformance.report.explain import sep_check
from tools_search_conformance.report.pages import page, summary
from tools_search_conformance.run.rows import place_of, rows_of
from tools_search_conformance.wire.codec import JsonObject, encode
from tools_search_conformance.wire.record import Exchange

FAILURE_VERSION: Final = 1
"""Version of the format of the files in the folder `failures`."""

_ANSWER_BYTES: Final = 64 * 1024

_OFFICIAL: Final[Mapping[Status, str]] = {
    "pass": "SUCCESS",
    "fail": "FAILURE",
    "warn": "WARNING",
    "advice": "INFO",
    "skip": "SKIPPED",
    "info": "INFO",
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
    for name, value in values.items():
        # Escaped, because a target may have sent text that UTF-8 or a viewer cannot take.
        text = json.dumps(value, indent=2, ensure_ascii=True) + "\n"
        (out / f"{name}.json").write_text(text, encoding="utf-8")
    (out / "badge.svg").write_text(badge_svg(document), encoding="utf-8")
    (out / "junit.xml").write_text(junit(document), encoding="utf-8")
    (out / "report.html").write_text(page(document), encoding="utf-8")
    (out / "summary.md").write_text(summary(document), encoding="utf-8")


@cache
def failure_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file in the folder `failures`."""
    return json.loads((files(__package__ or "") / "failure.schema.json").read_bytes())


def failure(run: Run, result: Result) -> JsonObject:
    """Return the content of a failure's file, without secrets: headers of the command line and environment."""
    content: JsonObject = {
        "failureVersion": FAILURE_VERSION,
        "suite": suite(),
        "check": result.check,
        "cell": result.cell.name,
        "transport": result.cell.transport,
        "era": result.cell.era,
        "status": result.status,
        "message": result.message,
        "case": result.evidence.case,
        "seed": run.seed,
        "effort": run.effort,
        "profile": run.profile,
        "target": target_of(run, result),
        "catalog": result.evidence.catalog,
        "requests": [_request(exchange) for exchange in result.evidence.requests],
    }
    return {name: value for name, value in content.items() if value is not None}


def _request(exchange: Exchange) -> JsonObject:
    shown = exchange.to_json()
    answer = shown["answer"]
    if len(encode(answer)) > _ANSWER_BYTES:
        answer = {"fault": "too large to be kept here; see the wire log"}
    return {"number": exchange.number, "headers": shown["headers"], "sent": shown["sent"], "answer": answer}


def official_checks(run: Run, *, sep: int | None = None) -> list[dict[str, Any]]:
    """Return the run as the official suite's `checks.json`: each check once, by its worst result in any cell.

    With `sep`, the number of a proposal, the ids are as in that proposal's traceability file.
    """
    worst: dict[str, Result] = {}
    for result in run.results:
        other = worst.get(result.check)
        if other is None or SEVERITY.index(result.status) < SEVERITY.index(other.status):
            worst[result.check] = result
    return [_official(run, result, sep) for result in worst.values()]


def _official(run: Run, result: Result, sep: int | None) -> dict[str, Any]:
    rows = rows_of(result.check)
    unverified = result.status == "unverified"
    status = _OFFICIAL_UNVERIFIED[result.level] if unverified else _OFFICIAL[result.status]
    cells = {other.cell.name: other.status for other in run.results if other.check == result.check}
    details: dict[str, Any] = {"cells": cells}
    if unverified:
        details["untestable"] = True
    if result.status == "error":
        details["harnessError"] = True
    entry: dict[str, Any] = {
        "id": result.check if sep is None else sep_check(sep, result.check),
        "name": result.check,
        "description": rows[0].text if rows else result.check,
        "status": status,
        "timestamp": run.started,
        "specReferences": [{"id": row.id, "url": place_of(row)} for row in rows],
        "details": details,
    }
    if status in {"FAILURE", "WARNING"}:
        entry["errorMessage"] = f"Not testable: {result.message}" if unverified else result.message
    return entry
