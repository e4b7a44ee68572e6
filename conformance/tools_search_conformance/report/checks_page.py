"""Every check on one page of Markdown, by section of the draft: `conformance/CHECKS.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools_search_spec import advice, requirements, retired

from tools_search_conformance.model import CELLS, Check
from tools_search_conformance.report.mutants import Mutant, Power, signatures, unproven
from tools_search_conformance.report.render import render
from tools_search_conformance.run.rows import Row, place_of, rows_of

_BASE: Final = "#base-protocol"
"""The section of the checks that decide rules of the base protocol only."""


def checks_page(checks: Sequence[Check], power: Power | None = None) -> str:
    """Return the page, which has no mutants without `power`."""
    rows = requirements()
    place = {row.id: row.section for row in rows}
    guide = {check: Path(row.place.partition("#")[0]).stem for row in advice() for check in row.checks}
    sections: dict[str, list[Check]] = {section: [] for section in [*place.values(), _BASE]}
    guides: dict[str, list[Check]] = {}
    for check in checks:
        if check.level == "ADVICE":
            guides.setdefault(f"#guide-for-{guide[check.id]}", []).append(check)
        else:
            sections[next((place[row.id] for row in rows_of(check.id) if row.id in place), _BASE)].append(check)

    def proof(check: Check) -> str:
        """Return the mutants that turn a check red, and why none does where there is none."""
        if power is None:
            return ""
        mutants = power.clients if check.party == "client" else power.servers
        killing = [mutant for mutant in mutants if check.rule in mutant.kills]
        killers = [f"`{m.name}` ({', '.join(m.cells)})" if m.cells else f"`{m.name}`" for m in killing]
        reasons = dict.fromkeys(power.excused(place) for place in unproven([check], mutants))
        shown = [*([", ".join(killers)] if killers else []), *(f"_{why}_" for why in reasons if why)]
        return "; ".join(shown)

    return render(
        "checks.md.jinja",
        sentences=rows,
        excluded=[row for row in rows if row.excluded is not None],
        retired=retired(),
        parties={party: [c.level for c in checks if c.party == party] for party in ("server", "client")},
        sections={section: of_section for section, of_section in sections.items() if of_section},
        guides=guides,
        power=power and {"server": _signed(power.servers), "client": _signed(power.clients)},
        title=_title,
        rows_of=rows_of,
        link=_link,
        where=_where,
        proof=proof,
    )


def _signed(mutants: Sequence[Mutant]) -> dict[str, Any]:
    """Return mutants with the names of all those that turn the same checks red."""
    found = signatures(mutants)
    alike = {name: names for names in found.values() for name in names}
    alone = sum(len(names) == 1 for names in found.values())
    return {"mutants": mutants, "signatures": len(found), "alike": alike, "alone": alone}


def _title(section: str) -> str:
    return section.removeprefix("#").replace("-", " ").capitalize()


def _link(row: Row) -> str:
    place = place_of(row)
    return f"[{row.id}]({place if '://' in place else f'../{place}'})"


def _where(check: Check) -> str:
    cells = [cell.name for cell in CELLS if check.applies(cell, check.profiles[0])]
    where = "in every cell" if len(cells) == len(CELLS) else f"in {', '.join(cells)}"
    if check.party == "server" and len(check.profiles) == 1:
        where += f", in the {check.profiles[0]} profile"
    if check.fixture_feature:
        where += f", with the fixture feature `{check.fixture_feature}`"
    if check.driver_feature:
        where += f", with the driver feature `{check.driver_feature}`"
    return where
