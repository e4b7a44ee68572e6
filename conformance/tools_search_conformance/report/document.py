"""The run as one JSON document after a versioned schema, which most other reports are made from, and each failure."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from jsonschema import Draft202012Validator, ValidationError

from tools_search_conformance.model import CLIENT_PREFIX, Check, Result, Run
from tools_search_conformance.report.verdict import GROUPS, group_of, problems_of, tally, verdict_of
from tools_search_conformance.run.rows import is_base, level_of, own_rows_of, place_of, rows_of
from tools_search_conformance.wire.codec import JsonObject, Spelled, encode
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.record import Exchange

REPORT_VERSION: Final = 2

FAILURE_VERSION: Final = 1

_BYTES_SHOWN: Final = 64 * 1024
_USUAL_OUT: Final = Path("conformance-report")
_REPLAY: Final = ("tools-search-conformance", "replay")


class ReportError(ValueError):
    """A file is not a document of this suite; the message says which and why."""


@cache
def schema_of(kind: Literal["report", "failure"]) -> dict[str, Any]:
    """Return the JSON Schema of `report.json`, or of a file in the folder `failures`."""
    return json.loads((files(__package__ or "") / f"{kind}.schema.json").read_bytes())


def read_document(path: Path, kind: Literal["report", "failure"]) -> dict[str, Any]:
    """Return the `report.json` or the failure at `path`. Raises `ReportError` for any other file."""
    # The numbers of a failure are sent again as they were spelled.
    spelling = Spelled if kind == "failure" else None
    try:
        document = json.loads(path.read_bytes(), parse_float=spelling)
        Draft202012Validator(schema_of(kind)).validate(document)  # pyright: ignore[reportUnknownMemberType] - untyped
    except ValidationError as error:
        raise ReportError(plain(f"{path} is not a {kind} from this suite: {error.message[:300]}")) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(plain(f"cannot read {path} as JSON: {error}")) from error
    return document


@cache
def suite() -> dict[str, str]:
    """Return the name and version of the suite; the version is `source` if it is not installed."""
    try:
        installed = version("mcp-ext-tools-search")
    except PackageNotFoundError:
        installed = "source"
    return {"name": "tools-search-conformance", "version": installed}


def failure_files(run: Run) -> dict[str, Result]:
    """Return each failure of a run, binding or not, by the name of its file in the folder `failures`.

    The numbers follow the order of the report, so that the first file is what its author has to fix first.
    """
    problems = sorted(problems_of(run), key=lambda problem: problem["base"])
    order = [each["check"] for problem in problems for each in (problem, *problem["consequences"])]
    place = {check: number for number, check in reversed([*enumerate(order)])}
    failing = sorted(run.of("fail", "warn", "advice"), key=lambda result: place.get(result.check, len(order)))
    return {f"{number:02}-{result.check}-{result.cell.name}.json": result for number, result in enumerate(failing, 1)}


def report(run: Run, out: Path = _USUAL_OUT) -> dict[str, Any]:
    """Return the run as `report.json` has it; `out` is the folder that it is written into."""
    judged = {result.check for result in run.results}
    replay = {
        (result.check, result.cell): shlex.join([*_REPLAY, str(out / "failures" / name)])
        for name, result in failure_files(run).items()
    }
    return {
        "reportVersion": REPORT_VERSION,
        "suite": suite(),
        "target": dict(run.target),
        **members(run, "profile", "effort", "seed", "started", "seconds"),
        "verdict": verdict_of(run),
        "staleBaseline": list(run.stale),
        "cells": [
            members(cell, "name", "transport", "era")
            | {"counts": {group: dict(tally(run, cell, group)) for group in GROUPS}}
            for cell in run.cells
        ],
        "unavailable": [
            {"cell": entry.cell.name, "reason": entry.reason, "expected": entry.expected} for entry in run.unavailable
        ],
        "problems": problems_of(run),
        "checks": [_check(check) for check in run.checks if check.id in judged],
        "results": [_result(result, replay.get((result.check, result.cell))) for result in run.results],
    }


def members(of: object, *names: str) -> JsonObject:
    """Return some attributes of a value by their names."""
    return {name: getattr(of, name) for name in names}


def _check(check: Check) -> dict[str, Any]:
    rows = [
        {"id": row.id, "level": level_of(row), "text": row.text, "place": place_of(row)}
        for row in own_rows_of(check.id)
    ]
    described = members(check, "id", "level", "title", "sends", "passes")
    return {**described, "base": is_base(check.id), "requirements": rows}


def _result(result: Result, replay: str | None) -> dict[str, Any]:
    evidence, exchange = result.evidence, None
    if evidence.decisive is not None:
        exchange = evidence.decisive.to_json()
        if len(json.dumps(exchange)) > _BYTES_SHOWN:
            exchange = evidence.decisive.in_brief().to_json()
    return _present(
        {
            **members(result, "check", "level", "status", "milliseconds", "skip", "expected"),
            "base": group_of(result) == "BASE",
            "cell": result.cell.name,
            "requirements": [row.id for row in rows_of(result.check)],
            "observations": evidence.observations,
            "exchanges": list(evidence.exchanges),
            "message": result.message or None,
            "consequenceOf": result.consequence_of,
            "case": evidence.case,
            "replay": replay,
            "exchange": exchange,
        }
    )


def failure(run: Run, result: Result) -> JsonObject:
    """Return the content of a failure's file, without secrets: headers of the command line and environment."""
    if result.check.startswith(CLIENT_PREFIX):
        target = run.target["clients"][0]
    else:
        target = next(server for server in run.target["servers"] if server["transport"] == result.cell.transport)
    return _present(
        {
            "failureVersion": FAILURE_VERSION,
            "suite": suite(),
            **members(result, "check", "status", "message"),
            "cell": result.cell.name,
            **members(result.cell, "transport", "era"),
            "case": result.evidence.case,
            **members(run, "seed", "effort", "profile"),
            "target": dict(target),
            "catalog": result.evidence.catalog,
            "requests": [_request(exchange) for exchange in result.evidence.requests],
        }
    )


def _request(exchange: Exchange) -> JsonObject:
    shown = exchange.to_json()
    answer = shown["answer"]
    if len(encode(answer)) > _BYTES_SHOWN:
        answer = {"fault": "too large to keep here; see the wire log"}
    return {"number": exchange.number, "headers": shown["headers"], "sent": shown["sent"], "answer": answer}


def _present(members: JsonObject) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}
