"""The run in the format of the official MCP suite: `checks.json`, a list of checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_search_conformance.model import SEVERITY, Level, Result, Run, Status
from tools_search_conformance.run.explain import place_of, rows_of
from tools_search_conformance.run.trace import sep_check

__all__ = ["official_checks"]

_OFFICIAL: Final[Mapping[Status, str]] = {
    "pass": "SUCCESS",
    "fail": "FAILURE",
    "warn": "WARNING",
    "advice": "INFO",
    "skip": "SKIPPED",
    "info": "INFO",
    "error": "FAILURE",
}
_UNVERIFIED: Final[Mapping[Level, str]] = {"MUST": "FAILURE", "SHOULD": "WARNING", "ADVICE": "INFO"}


def official_checks(run: Run, *, sep: int | None = None) -> list[dict[str, Any]]:
    """Return the run as the official suite's `checks.json`: each check once, by the worst that it did in any cell.

    With `sep`, the number of a proposal, the ids are those of that proposal's traceability file.
    """
    worst: dict[str, Result] = {}
    for result in run.results:
        held = worst.get(result.check)
        if held is None or SEVERITY.index(result.status) < SEVERITY.index(held.status):
            worst[result.check] = result
    return [_official(run, result, sep) for result in worst.values()]


def _official(run: Run, result: Result, sep: int | None) -> dict[str, Any]:
    rows = rows_of(result.check)
    unverified = result.status == "unverified"
    status = _UNVERIFIED[result.level] if unverified else _OFFICIAL[result.status]
    details: dict[str, Any] = {
        "cells": {other.cell.name: other.status for other in run.results if other.check == result.check}
    }
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
