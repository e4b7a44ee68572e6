"""Every check on one page of Markdown, by section of the draft: `conformance/CHECKS.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools_search_spec import advice, requirements, retired

from tools_search_conformance.model import CELLS, Check
from tools_search_conformance.report.mutants import Mutant, Power, signatures, unproven
from tools_search_conformance.report.verdict import number_of
from tools_search_conformance.run.rows import Row, place_of, rows_of

_HEAD: Final = """\
# Every check

Generated, like all that follows, by `tools-search-conformance list --markdown --mutants conformance/tests/mutants`.

{counts}

For each check: the sentence that it decides and its row, what is sent, what passes, where it runs, and the mutants,
implementations with one rule broken, that must turn it red. How to choose checks by any of these:
[README](README.md#choosing-what-is-run)."""
_ADVICE: Final = """\
Sentences of the guides. They bind nobody: a target that does not take this advice is reported as `advice`, and no
verdict counts it."""
_BASE: Final = "#base-protocol"
"""The section of the checks that decide rules of the base protocol only."""


def checks_page(checks: Sequence[Check], power: Power | None = None) -> str:
    """Return the page, which has no mutants without `power`."""
    sections = _by_section(check for check in checks if check.level != "ADVICE")
    guides = _by_guide(check for check in checks if check.level == "ADVICE")
    blocks = [_HEAD.format(counts=_counts(checks, power)), "## Contents", _contents(sections | guides)]
    for section, of_section in sections.items():
        blocks += [f"## {_title(section)}", *(_check(check, power) for check in of_section)]
    blocks += ["## Advice", _ADVICE]
    for guide, of_guide in guides.items():
        blocks += [f"### {_title(guide)}", *("#" + _check(check, power) for check in of_guide)]
    if power is not None:
        blocks += ["## Mutants of servers", _mutants(power.servers), "## Mutants of clients", _mutants(power.clients)]
    excluded = ["| Row | Binds | Sentence | Why none |", "|---|---|---|---|"]
    for row in requirements():
        if row.excluded is not None:
            planned = f" Planned: `{row.planned}`." if row.planned else ""
            sentence = row.text.replace("|", r"\|")
            excluded.append(f"| {_link(row)} | {row.role} | {sentence} | {row.kind}: {row.excluded}{planned} |")
    gone = ["Ids of the first edition, each with the row that says the same now, or why none does.", ""]
    gone += ["| Row | Now |", "|---|---|", *(f"| {row} | {why} |" for row, why in retired().items())]
    blocks += ["## Sentences without a check", "\n".join(excluded), "## Retired ids", "\n".join(gone)]
    return "\n\n".join(blocks) + "\n"


def _counts(checks: Sequence[Check], power: Power | None) -> str:
    rows = requirements()
    decided = sum(bool(row.checks) for row in rows)
    lines = [
        f"- {number_of(len(rows), 'sentence')} of the [draft](../spec/draft/tools-search.md) with MUST or SHOULD:"
        f" {decided} decided by checks, {len(rows) - decided} [not](#sentences-without-a-check).",
    ]
    for party in ("server", "client"):
        levels = [check.level for check in checks if check.party == party]
        line = f"- {number_of(len(levels), 'check')} of {party}s: {levels.count('MUST')} MUST,"
        line += f" {levels.count('SHOULD')} SHOULD, {levels.count('ADVICE')} [advice](#advice)"
        if power is not None:
            mutants = power.servers if party == "server" else power.clients
            line += f"; {number_of(len(mutants), 'mutant')} with {len(signatures(mutants))} distinct signatures"
        lines.append(f"{line}.")
    return "\n".join(lines)


def _by_section(checks: Iterable[Check]) -> dict[str, list[Check]]:
    place = {row.id: row.section for row in requirements()}
    found: dict[str, list[Check]] = {section: [] for section in dict.fromkeys([*place.values(), _BASE])}
    for check in checks:
        found[next((place[row.id] for row in rows_of(check.id) if row.id in place), _BASE)].append(check)
    return {section: of_section for section, of_section in found.items() if of_section}


def _by_guide(checks: Iterable[Check]) -> dict[str, list[Check]]:
    guide = {check: row.place.partition("#")[0] for row in advice() for check in row.checks}
    found: dict[str, list[Check]] = {}
    for check in checks:
        found.setdefault(f"#guide-for-{Path(guide[check.id]).stem}", []).append(check)
    return found


def _title(section: str) -> str:
    return section.removeprefix("#").replace("-", " ").capitalize()


def _contents(sections: dict[str, list[Check]]) -> str:
    lines = ["| Section | Checks of servers | Checks of clients |", "|---|--:|--:|"]
    for section, checks in sections.items():
        counts = [sum(check.party == party for check in checks) or "" for party in ("server", "client")]
        lines.append(f"| [{_title(section)}]({section}) | {counts[0]} | {counts[1]} |")
    return "\n".join(lines)


def _check(check: Check, power: Power | None) -> str:
    quoted = [f"> {row.text} ({_link(row)})" for row in rows_of(check.id)]
    lines = [
        f"### {check.rule} ({check.party})",
        "",
        f"{check.title}. **{check.level}**",
        "",
        "\n>\n".join(quoted),
        "",
        f"- **{'The peer' if check.party == 'client' else 'Sent'}**: {check.sends}",
        f"- **Passes**: {check.passes}",
        f"- **Runs**: {_where(check)}",
    ]
    if power is not None:
        mutants = power.clients if check.party == "client" else power.servers
        killers = [f"`{mutant.name}`{_in_cells(mutant)}" for mutant in mutants if check.rule in mutant.kills]
        reasons = {power.excused(place): None for place in unproven([check], mutants)}
        shown = [*([", ".join(killers)] if killers else []), *(f"_{why}_" for why in reasons if why)]
        lines.append(f"- **Mutants**: {'; '.join(shown)}")
    return "\n".join(lines)


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


def _in_cells(mutant: Mutant) -> str:
    return f" ({', '.join(mutant.cells)})" if mutant.cells else ""


def _mutants(mutants: Sequence[Mutant]) -> str:
    alike = {name: names for names in signatures(mutants).values() for name in names}
    alone = sum(len(names) == 1 for names in alike.values())
    lines = [
        f"{alone} of {len(mutants)} have a signature, the set of checks that they turn red, which no other one has.",
        "",
        "| Mutant | Turns red | In cells | Others with this signature |",
        "|---|---|---|---|",
    ]
    for mutant in mutants:
        others = ", ".join(name for name in alike[mutant.name] if name != mutant.name)
        killed = ", ".join(mutant.kills) + (f" ({mutant.because})" if mutant.because else "")
        lines.append(f"| {mutant.name} | {killed} | {', '.join(mutant.cells) or 'all'} | {others} |")
    return "\n".join(lines)
