"""Every check on one page of Markdown, `conformance/CHECKS.md`, with the mutants that prove its power.

A mutant is an implementation that breaks one rule. The suite's own tests run each of them. This module only reads which
checks it must turn red, in which cells, and determines which checks no mutant proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from tools_search_spec import METHOD, advice, requirements, retired

from tools_search_conformance.model import CELLS, Cell, Check, Profile, grouped
from tools_search_conformance.report.render import render
from tools_search_conformance.run.rows import Row, own_rows_of, place_of, rows_of

_BASE: Final = "#base-protocol"
"""The section for checks that only test rules of the base protocol."""

_PROFILES: Final[tuple[Profile, ...]] = ("fixture", "live")

Place: TypeAlias = tuple[str, Cell, Profile]
"""A rule, and where it is judged."""


class MutantsError(ValueError):
    """The files of the mutants cannot be read; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A fault, and the checks that it turns red."""

    name: str
    turns_red: tuple[str, ...]
    """Rules of the checks that turn red: their ids without the prefix."""
    cells: tuple[str, ...] = ()
    """Parts of the names of the cells in which it shows; empty for all cells."""
    live: bool = True
    """Whether it also shows in a server that serves its own tools."""
    because: str = ""
    """Why it turns more than one check red."""

    def turns_red_in(self, rule: str, cell: Cell, profile: Profile = "fixture") -> bool:
        """Return whether it turns the check red there, if the check applies."""
        shows = not self.cells or any(part in cell.name for part in self.cells)
        return rule in self.turns_red and shows and (self.live or profile == "fixture")


@dataclass(frozen=True, kw_only=True)
class Power:
    """The mutants of servers and clients, and the exceptions."""

    servers: tuple[Mutant, ...]
    clients: tuple[Mutant, ...]
    exceptions: Mapping[str, str]
    """Why a check has no mutant in a place, by `rule`, or `rule cell profile` with globs."""

    def excused(self, place: Place) -> str | None:
        """Return why no mutant turns a check red in a place; `None` if one should."""
        rule, cell, profile = place
        whole = f"{rule} {cell.name} {profile}"
        return next((why for name, why in self.exceptions.items() if name == rule or fnmatchcase(whole, name)), None)


def read_power(folder: Path) -> Power:
    """Return the folder's `mutants.yaml`, `client_mutants.yaml` and `exceptions.yaml`, or raise `MutantsError`."""
    return Power(
        servers=_mutants(folder / "mutants.yaml"),
        clients=_mutants(folder / "client_mutants.yaml"),
        exceptions={name: str(why) for name, why in rows_in(folder / "exceptions.yaml").items()},
    )


def _mutants(path: Path) -> tuple[Mutant, ...]:
    try:
        return tuple(
            Mutant(
                name=name,
                turns_red=tuple(row["turns_red"]),
                cells=tuple(map(str, row.get("cells", ()))),
                live=row.get("live", True),
                because=row.get("because", ""),
            )
            for name, row in rows_in(path).items()
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise MutantsError(f"{path} has a row that is not a mutant: {type(error).__name__}: {error}") from error


def rows_in(path: Path) -> dict[str, Any]:
    """Return the rows of a YAML file by name, or raise `MutantsError`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), loader) or {}  # noqa: S506 - both are safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MutantsError(f"cannot read {path}: {error}") from error


def unproven(checks: Iterable[Check], mutants: Sequence[Mutant]) -> list[Place]:
    """Return the places where a check applies but no mutant turns it red."""
    return [
        (check.rule, cell, profile)
        for check in checks
        for cell in CELLS
        for profile in _PROFILES
        if check.applies(cell, profile)
        and not any(mutant.turns_red_in(check.rule, cell, profile) for mutant in mutants)
    ]


def signatures(mutants: Iterable[Mutant]) -> dict[tuple[str, ...], list[str]]:
    """Return each set of rules that mutants break, with the names of these mutants."""
    return grouped((tuple(sorted(mutant.turns_red)), mutant.name) for mutant in mutants)


def checks_page(checks: Sequence[Check], power: Power | None = None) -> str:
    """Return the page; without `power`, it has no mutants."""
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
        """Return the mutants that turn a check red, and the reasons for places without one."""
        if power is None:
            return ""
        mutants = power.clients if check.party == "client" else power.servers
        killing = [mutant for mutant in mutants if check.rule in mutant.turns_red]
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
        power=power and {"server": power.servers, "client": power.clients},
        signatures=signatures,
        rows_of=own_rows_of,
        link=_link,
        where=_where,
        proof=proof,
    )


def _link(row: Row) -> str:
    place = place_of(row)
    return f"[{row.id}]({place if '://' in place else f'../{place}'})"


def _where(check: Check) -> str:
    cells = [cell.name for cell in CELLS if check.applies(cell, check.profiles[0])]
    where = "in every cell" if len(cells) == len(CELLS) else f"in {', '.join(cells)}"
    if check.party == "server" and len(check.profiles) == 1:
        where += f", in the {check.profiles[0]} profile"
    if len(check.methods) > 1 or METHOD not in check.methods:
        where += f", for {', '.join(f'`{method}`' for method in check.methods)}"
    if check.fixture_feature:
        where += f", with the fixture feature `{check.fixture_feature}`"
    if check.driver_feature:
        where += f", with the driver feature `{check.driver_feature}`"
    return where
