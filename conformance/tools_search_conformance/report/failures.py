"""A file for each broken rule, binding or not, from which `replay` repeats it."""

from __future__ import annotations

import json
import shlex
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tools_search_conformance.model import CLIENT_PREFIX, Result, Run
from tools_search_conformance.run.explain import run_version
from tools_search_conformance.wire.codec import JsonObject, encode
from tools_search_conformance.wire.record import Exchange

__all__ = ["FAILURE_VERSION", "failure", "failure_schema", "replay_commands", "write_failures"]

FAILURE_VERSION: Final = 1
"""Version of the format of these files."""

_FOLDER: Final = "failures"
_BYTES_KEPT: Final = 64 * 1024


@cache
def failure_schema() -> dict[str, Any]:
    """Return the JSON Schema of such a file."""
    return json.loads((files(__package__ or "") / "failure.schema.json").read_bytes())


def replay_commands(run: Run, out: Path) -> dict[tuple[str, str], str]:
    """Return the command that repeats each failure of the run, by check and name of the cell."""
    return {
        (result.check, result.cell.name): shlex.join(["tools-search-conformance", "replay", str(out / _FOLDER / name)])
        for name, result in _named(run)
    }


def write_failures(run: Run, out: Path) -> None:
    """Write the files of a run into a folder below `out`, in place of those of an earlier run."""
    folder = out / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9][0-9]*-tools-search-*.json"):
        old.unlink()
    for name, result in _named(run):
        (folder / name).write_bytes(encode(failure(run, result)) + b"\n")


def failure(run: Run, result: Result) -> JsonObject:
    """Return what a file says. Secrets are no part of it: neither headers of the command line nor its environment."""
    told: JsonObject = {
        "failureVersion": FAILURE_VERSION,
        "suite": {"name": "tools-search-conformance", "version": run_version()},
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
        "target": _target(run, result),
        "catalog": result.evidence.catalog,
        "requests": [_request(exchange) for exchange in result.evidence.requests],
    }
    return {name: value for name, value in told.items() if value is not None}


def _named(run: Run) -> list[tuple[str, Result]]:
    failing = run.of("fail", "warn", "advice")
    return [(f"{number:02}-{result.check}-{result.cell.name}.json", result) for number, result in enumerate(failing, 1)]


def _target(run: Run, result: Result) -> JsonObject:
    if result.check.startswith(CLIENT_PREFIX):
        return dict(run.target["clients"][0])
    return next(dict(server) for server in run.target["servers"] if server["transport"] == result.cell.transport)


def _request(exchange: Exchange) -> JsonObject:
    shown = exchange.to_json()
    answer = shown["answer"]
    if len(encode(answer)) > _BYTES_KEPT:
        answer = {"fault": "too large to be kept here; see the wire log"}
    return {"number": exchange.number, "headers": shown["headers"], "sent": shown["sent"], "answer": answer}
