"""From each row, a rule or advice, to the checks that decide it, and to the outcome of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from tools_search_spec import Requirement, advice, base_rules, requirements

from tools_search_conformance.model import CHECK_PREFIX, SEVERITY
from tools_search_conformance.run.explain import DRAFT, Row, level_of, place_of

__all__ = ["sep_check", "sep_file", "trace", "trace_text"]

_UNKNOWN: Final = "not run"


def trace(report: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return an entry for each row, with the worst status of its checks in `report`, where one is given."""
    statuses: dict[str, set[str]] = {}
    for result in report["results"] if report is not None else ():
        statuses.setdefault(result["check"], set()).add(result["status"])
    return [_row(row, statuses, judged=report is not None) for row in (*requirements(), *base_rules(), *advice())]


def _row(requirement: Row, statuses: Mapping[str, set[str]], *, judged: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": requirement.id,
        "level": level_of(requirement),
        "role": requirement.role,
        "text": requirement.text,
        "place": place_of(requirement),
        "checks": list(requirement.checks),
    }
    if isinstance(requirement, Requirement) and requirement.excluded is not None:
        row |= {"excluded": requirement.excluded, "kind": requirement.kind}
    elif judged:
        row["status"] = _worst([status for check in requirement.checks for status in statuses.get(check, [_UNKNOWN])])
    return row


def _worst(statuses: Sequence[str]) -> str:
    # A rule that does not apply in one cell is decided by the others.
    order = (*SEVERITY[:-2], _UNKNOWN, "pass", "skip")
    return min(statuses, key=order.index)


def trace_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as text for a terminal: the gaps and failures in full, the rest counted."""
    lines = [_line(row) for row in rows]
    told = Counter(row["kind"] if "excluded" in row else row.get("status", "checked") for row in rows)
    counts = ", ".join(f"{count} {what}" for what, count in told.most_common())
    checks = len({check for row in rows for check in row["checks"]})
    base = sum(row["id"].startswith("B-") for row in rows)
    advised = sum(row["level"] == "ADVICE" for row in rows)
    sentences = len(rows) - base - advised
    what = f"{sentences} sentences, {base} rules of the base protocol and {advised} pieces of advice"
    return "\n".join([*lines, "", f"{what}, {checks} checks: {counts}"])


def _line(row: Mapping[str, Any]) -> str:
    decided = ", ".join(check.removeprefix(CHECK_PREFIX) for check in row["checks"])
    what = f"{row['kind']}: {row['excluded']}" if "excluded" in row else f"{row.get('status', '')}  {decided}".strip()
    return f"{row['id']:<10} {row['level']:<10} {row['role']:<7} {what}"


def sep_file(number: int) -> str:
    """Return the traceability file of the base protocol's conformance process, for the proposal `number`.

    There a check's id begins with `sep-<number>-`, and every row is a check or an exclusion with its reason. Rules of
    the base protocol and advice are left out: such a file traces what its own proposal requires.
    """
    rows = [row for requirement in requirements() for row in _sep_rows(number, requirement)]
    head = {"sep": number, "spec_url": DRAFT, "requirements": rows}
    return yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120)


def _sep_rows(number: int, requirement: Requirement) -> list[dict[str, str]]:
    if requirement.excluded is not None:
        return [{"text": requirement.text, "excluded": requirement.excluded}]
    return [{"check": sep_check(number, check), "text": requirement.text} for check in requirement.checks]


def sep_check(number: int, check: str) -> str:
    """Return what the conformance process of the base protocol calls a check of the proposal `number`.

    That is the id itself for a check that decides no sentence of the proposal.
    """
    ours = any(check in row.checks for row in requirements())
    return f"sep-{number}-{check.removeprefix('tools-search-')}" if ours else check
