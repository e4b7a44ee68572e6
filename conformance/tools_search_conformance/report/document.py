"""The run as one JSON document after a versioned schema. Every other report is made from it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError

from tools_search_conformance.checks import registered
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.model import LEVELS, Check, Result, Run
from tools_search_conformance.report.failures import replay_commands
from tools_search_conformance.report.verdict import exit_status, tally, verdict_line
from tools_search_conformance.run.explain import level_of, list_checks, place_of, rows_of, run_version

__all__ = ["REPORT_VERSION", "ReportError", "read_report", "report", "report_schema"]

REPORT_VERSION: Final = 1
"""Version of the format of `report.json`."""

_BYTES_SHOWN: Final = 64 * 1024
_USUAL_OUT: Final = Path("conformance-report")


@cache
def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of `report.json`."""
    return json.loads((files(__package__ or "") / "report.schema.json").read_bytes())


class ReportError(ValueError):
    """A file is no report of this suite; the message says which and why."""


def read_report(path: Path) -> dict[str, Any]:
    """Return the `report.json` at `path`.

    Raises:
        ReportError: It cannot be read, or is not after the schema.
    """
    try:
        held = json.loads(path.read_bytes())
        Draft202012Validator(report_schema()).validate(held)  # pyright: ignore[reportUnknownMemberType] - untyped
    except ValidationError as error:
        raise ReportError(f"{path} is no report of this suite: {error.message}") from error
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read as JSON: {error}") from error
    return held


def report(run: Run, out: Path = _USUAL_OUT) -> dict[str, Any]:
    """Return the run as `report.json` has it; `out` is the folder that it is written into."""
    replay = replay_commands(run, out)
    return {
        "reportVersion": REPORT_VERSION,
        "suite": {"name": "tools-search-conformance", "version": run_version()},
        "target": dict(run.target),
        "profile": run.profile,
        "effort": run.effort,
        "seed": run.seed,
        "started": run.started,
        "seconds": run.seconds,
        "verdict": {
            "exitStatus": exit_status(run),
            "text": verdict_line(run),
            "partial": run.partial,
            "strict": run.strict,
        },
        "staleBaseline": list(run.stale),
        "cells": [
            {
                "name": cell.name,
                "transport": cell.transport,
                "era": cell.era,
                "counts": {level: dict(tally(run, cell, level)) for level in LEVELS},
            }
            for cell in run.cells
        ],
        "unavailable": [
            {"cell": entry.cell.name, "reason": entry.reason, "expected": entry.expected} for entry in run.unavailable
        ],
        "checks": [_check(entry) for entry in list_checks(_judged(run))],
        "results": [_result(result, replay.get((result.check, result.cell.name))) for result in run.results],
    }


def _judged(run: Run) -> list[Check]:
    ids = {result.check for result in run.results}
    return [check for check in (*registered(), *client_checks()) if check.id in ids]


def _check(entry: dict[str, Any]) -> dict[str, Any]:
    sentences = [
        {"id": row.id, "level": level_of(row), "text": row.text, "place": place_of(row)} for row in rows_of(entry["id"])
    ]
    return {name: entry[name] for name in ("id", "level", "title", "sends", "passes")} | {"requirements": sentences}


def _result(result: Result, replay: str | None) -> dict[str, Any]:
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
        "expected": result.expected,
        "case": result.evidence.case,
        "replay": replay,
        "exchange": _exchange(result),
    }
    return entry | {name: value for name, value in optional.items() if value is not None}


def _exchange(result: Result) -> dict[str, Any] | None:
    if result.evidence.decisive is None:
        return None
    shown = result.evidence.decisive.to_json()
    return shown if len(json.dumps(shown)) <= _BYTES_SHOWN else result.evidence.decisive.in_brief().to_json()
