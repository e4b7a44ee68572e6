"""What a check is about, for people and programs: its sentences, what is sent, what passes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from tools_search_spec import Advice, BaseRule, Requirement, advice, base_rules, requirements

from tools_search_conformance.model import CLIENT_PREFIX, Check

__all__ = [
    "DRAFT",
    "Row",
    "documents",
    "explain_check",
    "level_of",
    "list_checks",
    "place_of",
    "rows_of",
    "run_version",
    "sentences_of",
]

DRAFT: Final = "spec/draft/tools-search.md"
"""Where the sentences stand."""

Row = Requirement | BaseRule | Advice
"""What a check decides: a sentence of the draft, a rule of the base protocol, or a sentence of a guide."""


def run_version() -> str:
    """Return the version of the distribution, or say that the suite runs from its sources."""
    try:
        return version("mcp-ext-tools-search")
    except PackageNotFoundError:
        return "source"


_DOCUMENTS: Final = {
    "draft": (DRAFT, "the normative text"),
    "servers-guide": ("spec/guides/servers.md", "advice for those who write a server"),
    "hosts-guide": ("spec/guides/hosts.md", "advice for those who write a client or a host"),
    "suite": ("conformance/README.md", "how to judge a server or a client"),
    "driver": ("conformance/DRIVER.md", "what the driver of a client has to do"),
    "skeleton": ("conformance/drivers/skeleton.py", "a driver to fill in"),
    "server": ("examples/mcpserver_search.py", "a server that can be searched"),
    "low-level-server": ("examples/lowlevel_search.py", "the same on the low-level API"),
    "fastmcp-server": ("examples/fastmcp_search.py", "the same with FastMCP"),
    "plain-server": ("examples/plain_server.mjs", "a server in plain JavaScript, without an SDK"),
    "client": ("examples/client_search.py", "a client that searches"),
    "host": ("examples/host_in_100_lines.py", "a host that loads tools when they are needed"),
}
"""Texts and examples by name: where they are in the sources, and what each is for."""


def documents() -> dict[str, tuple[Path, str]]:
    """Return by name where the texts and examples are, and what each is for.

    A wheel has a copy of each in the folder `docs` of this package; an editable install has the sources themselves.
    """
    package = Path(__file__).parent.parent
    copies = package / "docs"
    root = copies if copies.is_dir() else package.parent.parent
    return {name: (root / place, purpose) for name, (place, purpose) in _DOCUMENTS.items()}


@cache
def _rows() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in (*requirements(), *base_rules(), *advice()):
        for check in row.checks:
            rows.setdefault(check, []).append(row)
    return rows


def rows_of(check: str) -> list[Row]:
    """Return the rows that the check `check` decides, those of the draft first."""
    return _rows().get(check, [])


def place_of(row: Row) -> str:
    """Return where a row stands: the draft, a guide, or the newest revision of the base protocol that has it."""
    match row:
        case Requirement():
            return f"{DRAFT}{row.section}"
        case Advice():
            return f"spec/{row.place}"
        case BaseRule():
            return next(iter(row.links.values()))


def level_of(row: Row) -> str:
    """Return the keyword of a row, or `ADVICE`."""
    return "ADVICE" if isinstance(row, Advice) else row.level


def sentences_of(check: str) -> list[tuple[str, str]]:
    """Return the sentences behind a check, each with where it stands."""
    return [(row.text, f"{place_of(row)} ({row.id})") for row in rows_of(check)] or [("", DRAFT)]


def list_checks(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """Return the checks as JSON."""
    return [
        {
            "id": check.id,
            "level": check.level,
            "title": check.title,
            "sends": check.sends,
            "passes": check.passes,
            "eras": list(check.eras),
            "transports": list(check.transports),
            "profiles": list(check.profiles),
            "driverFeature": check.driver_feature,
            "fixtureFeature": check.fixture_feature,
            "efforts": list(check.efforts),
            "requirements": [row.id for row in rows_of(check.id)],
        }
        for check in checks
    ]


def explain_check(check: Check) -> str:
    """Return a check's page as text."""
    party = "client" if check.id.startswith(CLIENT_PREFIX) else "server"
    program = "DRIVER" if party == "client" else "COMMAND"
    feature = f" --fixture-features {check.fixture_feature}" if check.fixture_feature else ""
    lines = [check.id, f"  {check.title}", ""]
    for row in rows_of(check.id):
        lines += [
            fill(f'"{row.text}"', 100, initial_indent="  ", subsequent_indent="  "),
            f"    {place_of(row)} ({row.id})",
        ]
    lines += [
        "",
        fill(
            f"{'peer' if party == 'client' else 'sent'}    {check.sends}",
            100,
            initial_indent="  ",
            subsequent_indent="          ",
        ),
        fill(f"passes  {check.passes}", 100, initial_indent="  ", subsequent_indent="          "),
        f"  level   {check.level}{', which no verdict counts' if check.level == 'ADVICE' else ''}",
        "  cells   "
        + "; ".join(" and ".join(each) for each in (check.transports, check.eras, check.profiles, check.efforts)),
        "",
        f"  tools-search-conformance {party} --only {check.rule}{feature} -- {program}",
    ]
    return "\n".join(lines)
