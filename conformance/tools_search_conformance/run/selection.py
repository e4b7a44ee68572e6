"""Which checks a run consists of, and in which cells.

Patterns of one kind are alternatives, and all kinds must hold: `limit-*` or `cursor-*`, and level MUST.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from tools_search_spec import advice, requirements, retired

from tools_search_conformance.model import CELLS, Cell, Check
from tools_search_conformance.run.explain import rows_of

__all__ = ["Criteria", "Selection", "UnknownCheckError", "choose", "choose_checks"]

_NOT_PASSED: Final = frozenset({"fail", "warn", "unverified", "error"})


class UnknownCheckError(LookupError):
    """A pattern matches nothing, or nothing is left to run; the message says which, and what is near."""


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """What was asked for. A kind without patterns leaves nothing out."""

    checks: Sequence[str] = ()
    """Ids of checks, with or without what they begin with; globs."""
    requirements: Sequence[str] = ()
    """Ids of rows, such as `R-PAG-01`; globs."""
    sections: Sequence[str] = ()
    """Anchors of the draft or of a guide, with or without `#`; globs."""
    levels: Sequence[str] = ()
    """`MUST`, `SHOULD` or `ADVICE`."""
    cells: Sequence[str] = ()
    """Names of cells, or their eras, or what either begins with; globs."""
    reports: Sequence[Mapping[str, Any]] = ()
    """Earlier `report.json`: what did not pass there, in the cells in which it did not."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a run consists of."""

    checks: tuple[Check, ...]
    """Those that are wanted in at least one cell, in the order of `every`."""
    pairs: frozenset[tuple[str, str]]
    """Ids of checks with names of cells."""
    partial: bool
    """Whether any check is left out in any cell."""

    def wants(self, check: Check, cell: Cell) -> bool:
        """Tell whether the check is to be run in the cell, if it applies there."""
        return (check.id, cell.name) in self.pairs


def choose(criteria: Criteria, every: Sequence[Check]) -> Selection:
    """Return what `criteria` choose of the checks `every`.

    Raises:
        UnknownCheckError: A pattern matches nothing, or nothing meets all criteria.
    """
    ids = {check.id for check in choose_checks(criteria.checks, every)}
    if criteria.requirements:
        ids &= _behind("requirement", criteria.requirements, _by_requirement(every))
    if criteria.sections:
        ids &= _behind("section", [f"#{name.removeprefix('#')}" for name in criteria.sections], _by_section(every))
    if criteria.levels:
        ids &= {check.id for check in every if check.level in criteria.levels}
    pairs = {(check, cell) for check in ids for cell in _behind("cell", criteria.cells or ["*"], _by_cell_name())}
    if criteria.reports:
        open_there = {pair for report in criteria.reports for pair in _not_passed(report)}
        if not open_there & {(check.id, cell.name) for check in every for cell in CELLS}:
            raise UnknownCheckError("in that report no such check did not pass: there is nothing to run again")
        pairs &= open_there
    if not pairs:
        raise UnknownCheckError("no check meets all of these criteria")
    chosen = {check for check, _ in pairs}
    return Selection(
        checks=tuple(check for check in every if check.id in chosen),
        pairs=frozenset(pairs),
        partial=len(pairs) < len(every) * len(CELLS),
    )


def choose_checks(patterns: Sequence[str], every: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks whose id, with or without its prefix, matches one of the glob `patterns`; all for none.

    Raises:
        UnknownCheckError: A pattern matches nothing.
    """
    names: dict[str, set[str]] = {}
    for check in every:
        for name in (check.rule, check.id):
            names.setdefault(name, set()).add(check.id)  # a rule may be one of servers and one of clients
    chosen = _behind("check", patterns or ["*"], names)
    return tuple(check for check in every if check.id in chosen)


def _behind(kind: str, patterns: Sequence[str], names: Mapping[str, Collection[str]]) -> set[str]:
    """Return what stands behind the names that match one of the patterns, each of which must match a name."""
    found: set[str] = set()
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        if not matched:
            raise UnknownCheckError(f"{pattern!r} matches no {kind}{_hint(kind, pattern, names)}")
        found.update(*(names[name] for name in matched))
    return found


def _by_requirement(every: Iterable[Check]) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for check in every:
        for row in rows_of(check.id):
            names.setdefault(row.id, set()).add(check.id)
    return names


def _by_section(every: Iterable[Check]) -> dict[str, set[str]]:
    deciding = _by_requirement(every)
    names: dict[str, set[str]] = {}
    of_guides = ((row.id, f"#{row.place.partition('#')[2]}") for row in advice())
    for row, section in (*((row.id, row.section) for row in requirements()), *of_guides):
        if row in deciding:
            names.setdefault(section, set()).update(deciding[row])
    return names


def _by_cell_name() -> dict[str, set[str]]:
    """Return each cell behind its name, its era, and all that these begin with."""
    names: dict[str, set[str]] = {}
    for cell in CELLS:
        for whole in (cell.name, cell.era):
            for end in range(1, len(whole) + 1):
                names.setdefault(whole[:end], set()).add(cell.name)
    return names


def _hint(kind: str, pattern: str, names: Mapping[str, Collection[str]]) -> str:
    if kind == "cell":
        return f"; there are {', '.join(cell.name for cell in CELLS)}"
    if kind == "requirement":
        for row in requirements():
            if fnmatchcase(row.id, pattern):
                why = row.excluded or f"{', '.join(row.checks)} decides it"
                return f" that is decided here; {row.id}: {why}"
        for row, why in retired().items():
            if fnmatchcase(row, pattern):
                return f" any more; {row}: {why}"
    near = get_close_matches(pattern, names, cutoff=0.5)
    return f"; near it: {', '.join(near)}" if near else "; see `tools-search-conformance list`"


def _not_passed(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(result["check"], result["cell"]) for result in report["results"] if result["status"] in _NOT_PASSED}
