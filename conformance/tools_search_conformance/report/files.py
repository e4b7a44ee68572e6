"""Reports for programs: `report.json` after a versioned schema, `checks.json` as the official suite writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tools_search_conformance.explain import DRAFT, rows_of, run_version
from tools_search_conformance.model import SEVERITY, Result, Run, Status
from tools_search_conformance.report.verdict import exit_status, tally, verdict_line

__all__ = ["REPORT_VERSION", "official_checks", "report", "report_schema", "write_reports"]

REPORT_VERSION: Final = 1
"""Version of the format of `report.json`."""

_BYTES_SHOWN: Final = 64 * 1024
_OFFICIAL: Final[Mapping[Status, str]] = {
    "pass": "SUCCESS",
    "fail": "FAILURE",
    "warn": "WARNING",
    "skip": "SKIPPED",
    "info": "INFO",
    "error": "FAILURE",
}


@cache
def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of `report.json`."""
    return json.loads((files(__package__ or "") / "report.schema.json").read_bytes())


def write_reports(run: Run, out: Path) -> None:
    """Write both files into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "report.json", report(run))
    _write(out / "checks.json", official_checks(run))


def _write(path: Path, value: Any) -> None:
    # Escaped, because a target may have sent what UTF-8 or a viewer cannot take.
    path.write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")


def report(run: Run) -> dict[str, Any]:
    """Return the run as `report.json` has it."""
    return {
        "reportVersion": REPORT_VERSION,
        "suite": {"name": "tools-search-conformance", "version": run_version()},
        "target": dict(run.target),
        "profile": run.profile,
        "effort": run.effort,
        "seed": run.seed,
        "started": run.started,
        "seconds": run.seconds,
        "verdict": {"exitStatus": exit_status(run), "text": verdict_line(run), "partial": run.partial},
        "cells": [
            {
                "name": cell.name,
                "transport": cell.transport,
                "era": cell.era,
                "counts": {level: dict(tally(run, cell, level)) for level in ("MUST", "SHOULD")},
            }
            for cell in run.cells
        ],
        "unavailable": [{"cell": entry.cell.name, "reason": entry.reason} for entry in run.unavailable],
        "results": [_result(result) for result in run.results],
    }


def _result(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "check": result.check,
        "level": result.level,
        "cell": result.cell.name,
        "status": result.status,
        "requirements": [row.id for row in rows_of(result.check)],
        "milliseconds": result.milliseconds,
        "observations": result.evidence.observations,
        "exchanges": list(result.evidence.exchanges),
    }
    optional = {
        "message": result.message or None,
        "skip": result.skip,
        "case": result.evidence.case,
        "exchange": _exchange(result),
    }
    return entry | {name: value for name, value in optional.items() if value is not None}


def _exchange(result: Result) -> dict[str, Any] | None:
    if result.evidence.decisive is None:
        return None
    shown = result.evidence.decisive.to_json()
    size = len(json.dumps(shown))
    if size > _BYTES_SHOWN:
        shown = {"number": result.evidence.decisive.number, "omitted": f"{size} bytes; see the wire log"}
    return shown


def official_checks(run: Run) -> list[dict[str, Any]]:
    """Return the run as the official suite's `checks.json`: each check once, by the worst that it did in any cell."""
    worst: dict[str, Result] = {}
    for result in run.results:
        held = worst.get(result.check)
        if held is None or SEVERITY.index(result.status) < SEVERITY.index(held.status):
            worst[result.check] = result
    return [_official(run, result) for result in worst.values()]


def _official(run: Run, result: Result) -> dict[str, Any]:
    rows = rows_of(result.check)
    unverified = result.status == "unverified"
    status = ("FAILURE" if result.level == "MUST" else "WARNING") if unverified else _OFFICIAL[result.status]
    details: dict[str, Any] = {
        "cells": {other.cell.name: other.status for other in run.results if other.check == result.check}
    }
    if unverified:
        details["untestable"] = True
    if result.status == "error":
        details["harnessError"] = True
    entry: dict[str, Any] = {
        "id": result.check,
        "name": result.check,
        "description": rows[0].text if rows else result.check,
        "status": status,
        "timestamp": run.started,
        "specReferences": [{"id": row.id, "url": f"{DRAFT}{row.section}"} for row in rows],
        "details": details,
    }
    if status in {"FAILURE", "WARNING"}:
        entry["errorMessage"] = f"Not testable: {result.message}" if unverified else result.message
    return entry
