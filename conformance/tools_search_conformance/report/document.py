"""The run as one JSON document after a versioned schema. Most other reports are made from it."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError

from tools_search_conformance.model import CLIENT_PREFIX, LEVELS, Check, Result, Run
from tools_search_conformance.report.verdict import exit_status, tally, verdict_line
from tools_search_conformance.run.rows import level_of, place_of, rows_of

REPORT_VERSION: Final = 1
"""Version of the format of `report.json`."""

_BYTES_SHOWN: Final = 64 * 1024
_USUAL_OUT: Final = Path("conformance-report")


class ReportError(ValueError):
    """A file is no report of this suite; the message says which and why."""


@cache
def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of `report.json`."""
    return json.loads((files(__package__ or "") / "report.schema.json").read_bytes())


def read_report(path: Path) -> dict[str, Any]:
    """Return the `report.json` at `path`.

    Raises:
        ReportError: It cannot be read, or is not after the schema.
    """
    try:
        document = json.loads(path.read_bytes())
        Draft202012Validator(report_schema()).validate(document)  # pyright: ignore[reportUnknownMemberType] - untyped
    except ValidationError as error:
        raise ReportError(f"{path} is no report of this suite: {error.message}") from error
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read as JSON: {error}") from error
    return document


@cache
def suite() -> dict[str, str]:
    """Return the name and the version of the suite; the version is `source` where it is not installed."""
    try:
        installed = version("mcp-ext-tools-search")
    except PackageNotFoundError:
        installed = "source"
    return {"name": "tools-search-conformance", "version": installed}


def failure_files(run: Run) -> dict[str, Result]:
    """Return each failure of a run, binding or not, by the name of its file in the folder `failures`."""
    failing = run.of("fail", "warn", "advice")
    return {f"{number:02}-{result.check}-{result.cell.name}.json": result for number, result in enumerate(failing, 1)}


def replay_commands(run: Run, out: Path) -> dict[tuple[str, str], str]:
    """Return the command that repeats each failure of a run, by check and name of the cell."""
    return {
        (result.check, result.cell.name): shlex.join(
            ["tools-search-conformance", "replay", f"{out / 'failures' / name}"]
        )
        for name, result in failure_files(run).items()
    }


def report(run: Run, out: Path = _USUAL_OUT) -> dict[str, Any]:
    """Return the run as `report.json` has it; `out` is the folder that it is written into."""
    judged, replay = {result.check for result in run.results}, replay_commands(run, out)
    return {
        "reportVersion": REPORT_VERSION,
        "suite": suite(),
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
        "checks": [_check(check) for check in run.checks if check.id in judged],
        "results": [_result(result, replay.get((result.check, result.cell.name))) for result in run.results],
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "level": check.level,
        "title": check.title,
        "sends": check.sends,
        "passes": check.passes,
        "requirements": [
            {"id": row.id, "level": level_of(row), "text": row.text, "place": place_of(row)}
            for row in rows_of(check.id)
        ],
    }


def _result(result: Result, replay: str | None) -> dict[str, Any]:
    evidence, exchange = result.evidence, None
    if evidence.decisive is not None:
        exchange = evidence.decisive.to_json()
        if len(json.dumps(exchange)) > _BYTES_SHOWN:
            exchange = evidence.decisive.in_brief().to_json()
    entry: dict[str, Any] = {
        "check": result.check,
        "level": result.level,
        "cell": result.cell.name,
        "status": result.status,
        "requirements": [row.id for row in rows_of(result.check)],
        "milliseconds": result.milliseconds,
        "observations": evidence.observations,
        "exchanges": list(evidence.exchanges),
    }
    optional = {
        "message": result.message or None,
        "skip": result.skip,
        "expected": result.expected,
        "case": evidence.case,
        "replay": replay,
        "exchange": exchange,
    }
    return entry | {name: value for name, value in optional.items() if value is not None}


def target_of(run: Run, result: Result) -> dict[str, Any]:
    """Return the server or client that a result is about, as reports describe it."""
    if result.check.startswith(CLIENT_PREFIX):
        return dict(run.target["clients"][0])
    return next(dict(server) for server in run.target["servers"] if server["transport"] == result.cell.transport)
