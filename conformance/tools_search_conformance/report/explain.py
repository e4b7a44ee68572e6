"""Checks and rows for people and programs: the list, a check's page, the traceability of rows to checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, Final

import yaml
from tools_search_spec import Requirement, requirements

from tools_search_conformance.model import SEVERITY, Check, grouped, rule_of
from tools_search_conformance.report.document import members
from tools_search_conformance.report.render import render
from tools_search_conformance.run.rows import DRAFT, every_row, is_base, level_of, own_rows_of, place_of, rows_of

_NOT_RUN: Final = "not run"

_DOCUMENTS: Final = {
    "draft": (DRAFT, "the normative text"),
    "primitives": ("spec/draft/search-primitives.md", "the optional part for resources and prompts"),
    "servers-guide": ("spec/guides/servers.md", "advice for server authors"),
    "hosts-guide": ("spec/guides/hosts.md", "advice for client and host authors"),
    "suite": ("conformance/README.md", "how to test a server or a client"),
    "driver": ("conformance/DRIVER.md", "how to write a driver for a client"),
    "skeleton": ("conformance/drivers/skeleton.py", "a driver to fill in"),
    "server": ("examples/mcpserver_search.py", "a searchable server"),
    "low-level-server": ("examples/lowlevel_search.py", "the same server on the low-level API"),
    "fastmcp-server": ("examples/fastmcp_search.py", "the same server with FastMCP"),
    "plain-server": ("examples/plain_server.mjs", "a server in plain JavaScript, without an SDK"),
    "typescript-server": ("examples/typescript_server/server.mjs", "a server on the TypeScript SDK"),
    "client": ("examples/client_search.py", "a client that searches"),
    "host": ("examples/host_in_100_lines.py", "a host that loads tools on demand"),
}
"""Texts and examples by name, each with its path in the sources and its purpose."""


def documents() -> dict[str, tuple[Path, str]]:
    """Return the texts and examples by name, each with its path and its purpose.

    A wheel has a copy of each in the folder `docs` of this package; an editable install has the sources themselves.
    """
    package = Path(__file__).parent.parent
    copies = package / "docs"
    root = copies if copies.is_dir() else package.parent.parent
    return {name: (root / place, purpose) for name, (place, purpose) in _DOCUMENTS.items()}


def list_checks(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """Return the checks as JSON."""
    return [
        {
            **members(check, "id", "level", "title", "sends", "passes", "eras", "transports", "profiles", "efforts"),
            "methods": list(check.methods),
            "driverFeature": check.driver_feature,
            "fixtureFeature": check.fixture_feature,
            "base": is_base(check.id),
            "requirements": [row.id for row in rows_of(check.id)],
        }
        for check in checks
    ]


def explain_check(check: Check) -> str:
    """Return a check's page as text, as wide as the terminal but at most 100 columns."""
    width = min(100, get_terminal_size((100, 24)).columns)

    def filled(text: str, indent: str) -> str:
        return fill(text, width, initial_indent="  ", subsequent_indent=indent, break_on_hyphens=False)

    return render(
        "check.txt.jinja",
        check=check,
        base=is_base(check.id),
        rows=own_rows_of(check.id),
        place_of=place_of,
        filled=filled,
    )


def trace(report: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return an entry for each row, with the worst status of its checks in `report`, if given."""
    results = report["results"] if report is not None else ()
    statuses = grouped((result["check"], result["status"]) for result in results)
    entries: list[dict[str, Any]] = []
    for row in every_row():
        decided = {"level": level_of(row), "place": place_of(row), "checks": list(row.checks)}
        entry: dict[str, Any] = {**members(row, "id", "role", "text"), **decided}
        if isinstance(row, Requirement) and row.excluded is not None:
            entry |= {"excluded": row.excluded, "kind": row.kind}
        elif report is not None:
            # A rule that does not apply in one cell is decided by the others.
            order = (*SEVERITY[:-2], _NOT_RUN, "pass", "skip")
            found = [status for check in row.checks for status in statuses.get(check, [_NOT_RUN])]
            entry["status"] = min(found, key=order.index)
        entries.append(entry)
    return entries


def trace_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as text for a terminal: a line for each, then the counts."""
    lines: list[str] = []
    for row in rows:
        decided = ", ".join(rule_of(check) for check in row["checks"])
        excluded = "excluded" in row
        what = f"{row['kind']}: {row['excluded']}" if excluded else f"{row.get('status', '')}  {decided}".strip()
        lines.append(f"{row['id']:<10} {row['level']:<10} {row['role']:<7} {what}")
    outcomes = Counter(row["kind"] if "excluded" in row else row.get("status", "checked") for row in rows)
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
    checks = len({check for row in rows for check in row["checks"]})
    base = sum(row["id"].startswith("B-") for row in rows)
    advised = sum(row["level"] == "ADVICE" for row in rows)
    sentences = len(rows) - base - advised
    what = f"{sentences} sentences, {base} rules of the base protocol and {advised} pieces of advice"
    return "\n".join([*lines, "", f"{what}, {checks} checks: {counts}"])


def sep_file(number: int) -> str:
    """Return the traceability file of the base protocol's conformance process, for the proposal `number`.

    There a check's id begins with `sep-<number>-`, and every row is a check or an exclusion with its reason. Rules of
    the base protocol and advice are left out: such a file traces the requirements of its own proposal.
    """
    rows: list[dict[str, str]] = []
    for row in requirements():
        if row.excluded is not None:
            rows.append({"text": row.text, "excluded": row.excluded})
        else:
            rows += [{"check": sep_check(number, check), "text": row.text} for check in row.checks]
    head = {"sep": number, "spec_url": DRAFT, "requirements": rows}
    return yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120)


def sep_check(number: int, check: str) -> str:
    """Return the id of a check in the conformance process for the proposal `number`, as far as it decides that."""
    ours = any(check in row.checks for row in requirements())
    return f"sep-{number}-{check.removeprefix('tools-search-')}" if ours else check
