"""Every check on one page of Markdown, by section of the draft: `conformance/CHECKS.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools_search_spec import Requirement, advice, requirements, retired

from tools_search_conformance.model import CELLS, CLIENT_PREFIX, Check
from tools_search_conformance.report.verdict import number_of
from tools_search_conformance.run.explain import list_checks, place_of, rows_of
from tools_search_conformance.run.mutants import Mutant, Power, signatures, unproven

__all__ = ["checks_page"]

_HEAD: Final = """\
# Every check

Generated, like all that follows, by `tools-search-conformance list --markdown --mutants conformance/tests/mutants`.

{counts}

For each check: the sentence that it decides and its row, what is sent, what passes, where it runs, and the mutants,
implementations with one rule broken, that must turn it red. How to choose checks by any of these:
[README](README.md#choosing-what-is-run)."""
_ADVICE: Final = """\
Sentences of the guides. They bind nobody: what does not take this advice is reported as `advice`, and no verdict counts
it."""
_BASE: Final = ""
"""Stands for the section of what the draft only builds upon."""


def checks_page(checks: Sequence[Check], power: Power | None = None) -> str:
    """Return the page, which says nothing of mutants without `power`."""
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
    blocks += ["## Sentences without a check", _excluded(), "## Retired ids", _retired()]
    return "\n\n".join(blocks) + "\n"


def _counts(checks: Sequence[Check], power: Power | None) -> str:
    rows = requirements()
    decided = sum(bool(row.checks) for row in rows)
    lines = [
        f"- {number_of(len(rows), 'sentence')} of the [draft](../spec/draft/tools-search.md) with MUST or SHOULD:"
        f" {decided} decided by checks, {len(rows) - decided} [not](#sentences-without-a-check).",
    ]
    for party in ("server", "client"):
        of_party = [check for check in checks if _party(check) == party]
        levels = [check.level for check in of_party]
        told = f"- {number_of(len(of_party), 'check')} of {party}s: {levels.count('MUST')} MUST,"
        told += f" {levels.count('SHOULD')} SHOULD, {levels.count('ADVICE')} [advice](#advice)"
        if power is not None:
            mutants = power.servers if party == "server" else power.clients
            told += f"; {number_of(len(mutants), 'mutant')} with {len(signatures(mutants))} distinct signatures"
        lines.append(f"{told}.")
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
    return section.removeprefix("#").replace("-", " ").capitalize() or "Base protocol"


def _party(check: Check) -> str:
    return "client" if check.id.startswith(CLIENT_PREFIX) else "server"


def _contents(sections: dict[str, list[Check]]) -> str:
    lines: list[str] = []
    for section, checks in sections.items():
        title = _title(section)
        links = (f"[{check.rule} ({_party(check)})](#{check.rule}-{_party(check)})" for check in checks)
        lines.append(f"- [{title}](#{title.lower().replace(' ', '-')}): {', '.join(links)}")
    return "\n".join(lines)


def _check(check: Check, power: Power | None) -> str:
    quoted = [f"> {row.text} ([{row.id}]({_link(place_of(row))}))" for row in rows_of(check.id)]
    sent = "The peer" if _party(check) == "client" else "Sent"
    lines = [
        f"### {check.rule} ({_party(check)})",
        "",
        f"{check.title}. **{check.level}**",
        "",
        "\n>\n".join(quoted),
        "",
        f"- **{sent}**: {check.sends}",
        f"- **Passes**: {check.passes}",
        f"- **Runs**: {_where(check)}",
    ]
    if power is not None:
        lines.append(f"- **Mutants**: {_killers(check, power)}")
    return "\n".join(lines)


def _link(place: str) -> str:
    return place if "://" in place else f"../{place}"


def _where(check: Check) -> str:
    cells = [cell.name for cell in CELLS if check.applies(cell, check.profiles[0])]
    told = "in every cell" if len(cells) == len(CELLS) else f"in {', '.join(cells)}"
    if _party(check) == "server" and len(check.profiles) == 1:
        told += f", in the {check.profiles[0]} profile"
    (entry,) = list_checks([check])
    if feature := entry.get("feature"):
        told += f", with the fixture feature `{feature}`"
    if feature := entry["driverFeature"]:
        told += f", with the driver feature `{feature}`"
    return told


def _killers(check: Check, power: Power) -> str:
    mutants = power.clients if _party(check) == "client" else power.servers
    names = [f"`{mutant.name}`{_limits(mutant)}" for mutant in mutants if check.rule in mutant.kills]
    reasons = {power.excused(place): None for place in unproven([check], mutants)}
    return "; ".join([*([", ".join(names)] if names else []), *(f"_{why}_" for why in reasons if why)])


def _limits(mutant: Mutant) -> str:
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


def _excluded() -> str:
    rows = [row for row in requirements() if row.excluded is not None]
    lines = ["| Row | Binds | Sentence | Why none |", "|---|---|---|---|", *map(_exclusion, rows)]
    return "\n".join(lines)


def _retired() -> str:
    head = ["Ids of the first edition, each with the row that says the same now, or why none does.", ""]
    rows = [f"| {row} | {why} |" for row, why in retired().items()]
    return "\n".join([*head, "| Row | Now |", "|---|---|", *rows])


def _exclusion(row: Requirement) -> str:
    planned = f" Planned: `{row.planned}`." if row.planned else ""
    sentence = row.text.replace("|", r"\|")
    return f"| [{row.id}]({_link(place_of(row))}) | {row.role} | {sentence} | {row.kind}: {row.excluded}{planned} |"
