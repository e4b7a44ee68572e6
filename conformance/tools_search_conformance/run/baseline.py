"""Baselines: known failures, each with a reason, so that a run reports only new ones.

A baseline cannot become stale unnoticed. An entry that names an unknown check or cell is rejected; an entry whose check
passes, or that has expired, fails the run. Advice never fails a run, so an entry about it is neither needed nor ever
stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from tools_search_conformance.model import CELLS, Check, Result, Run, grouped
from tools_search_conformance.wire.codec import as_array, as_object
from tools_search_conformance.wire.display import plain

_REQUIRED: Final = {"check", "reason"}
_MEMBERS: Final = {*_REQUIRED, "cells", "expires", "issue"}
_CELLS: Final = tuple(cell.name for cell in CELLS)
_GRACE: Final = timedelta(days=90)
"""How long a new entry is valid by default."""
_EXPECTABLE: Final = {"fail", "unverified", "warn"}


class BaselineError(ValueError):
    """The baseline cannot be read; the message says where and how to fix it."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A check that is known not to pass."""

    check: str
    reason: str
    cells: tuple[str, ...] = ("*",)
    """Cell names or globs."""
    expires: date | None = None
    """The last day on which it is valid."""

    def covers(self, result: Result) -> bool:
        """Return whether the entry covers a result's check and cell."""
        return result.check == self.check and any(fnmatchcase(result.cell.name, cell) for cell in self.cells)


def read_baseline(path: Path, checks: Sequence[Check]) -> tuple[Entry, ...]:
    """Return the entries for `checks` in the YAML file at `path`, except those about advice.

    Raises `BaselineError` if the file cannot be read, or if an entry is malformed or names something unknown.
    """
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BaselineError(f"cannot read {path}: {error}") from error
    if (entries := as_array(held)) is None:
        raise BaselineError(f"{path} is not a list of entries such as `- check: limit-clamped`")
    known = {name: check for check in checks for name in (check.id, check.rule)}
    read = [_entry(entry, f"{path}, entry {number}", known) for number, entry in enumerate(entries, 1)]
    return tuple(entry for entry in read if known[entry.check].level != "ADVICE")


def _entry(value: Any, where: str, known: Mapping[str, Check]) -> Entry:
    members = as_object(value)
    if members is None or not _REQUIRED <= members.keys() <= _MEMBERS:
        raise BaselineError(f"{where} must have `check` and `reason` and may have `cells`, `expires` and `issue`")
    check = known.get(str(members["check"]))
    if check is None:
        near = ", ".join(get_close_matches(str(members["check"]), known))
        hint = f"did you mean {near}?" if near else "see `tools-search-conformance list`"
        raise BaselineError(f"{where}: there is no check {members['check']!r}; {hint}")
    cells = as_array(members.get("cells", ["*"])) or [members["cells"]]
    for cell in cells:
        if not isinstance(cell, str) or not any(fnmatchcase(name, cell) for name in _CELLS):
            raise BaselineError(f"{where}: there is no cell {cell!r}; name or match one of {', '.join(_CELLS)}")
    if not any(check.applies(cell) and fnmatchcase(cell.name, name) for cell in CELLS for name in cells):
        raise BaselineError(f"{where} has no effect: {check.rule} does not apply in {', '.join(cells)}")
    reason, expires = members["reason"], members.get("expires")
    if not isinstance(reason, str) or not reason.strip():
        raise BaselineError(f"{where} must give a `reason` as text")
    if expires is not None and not isinstance(expires, date):
        raise BaselineError(f"{where} must give `expires` as a date such as 2027-03-31, not {expires!r}")
    return Entry(check=check.id, reason=reason, cells=tuple(cells), expires=expires)


def settle(run: Run, baseline: Sequence[Entry], today: date) -> Run:
    """Return the run with expected failures marked, and with the baseline's problems."""
    results, stale = list(run.results), list[str]()
    for entry in baseline:
        if entry.expires is not None and entry.expires < today:
            stale.append(f"{entry.check} expired on {entry.expires}")
            continue
        covered = [place for place, result in enumerate(results) if entry.covers(result)]
        if passed := [results[place].cell.name for place in covered if results[place].status == "pass"]:
            stale.append(f"{entry.check} passes in {', '.join(passed)}: remove it")
        for place in covered:
            if results[place].status in _EXPECTABLE and results[place].expected is None:
                results[place] = replace(results[place], expected=entry.reason)
    return replace(run, results=tuple(results), stale=tuple(stale))


def baseline_for(document: Mapping[str, Any]) -> str:
    """Return YAML entries for the failures in a `report.json`, with placeholder reasons."""
    open_in = grouped(
        (result["check"], result)
        for result in document["results"]
        if result["status"] in _EXPECTABLE
        and result["level"] != "ADVICE"
        and not result["base"]
        and "expected" not in result
    )
    started = datetime.fromisoformat(document["started"]).date()
    entries = [
        {
            "check": check,
            "cells": [result["cell"] for result in results],
            "reason": f"not investigated yet: {plain(results[0]['message'])}",
            "expires": started + _GRACE,  # another object for each, or YAML would refer to the first one
        }
        for check, results in open_in.items()
    ]
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120)
