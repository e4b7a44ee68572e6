"""Declaring checks, finding them by id, and choosing which of them a run consists of, in which cells.

A check's id is made of the name of its function: `pages_disjoint` among the checks of servers is
`tools-search-server-pages-disjoint`. Of the criteria by which checks are chosen, patterns of one kind are alternatives,
and all kinds must hold: `limit-*` or `cursor-*`, and level MUST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final, Generic, TypeVar

from tools_search_spec import advice, requirements, retired

from tools_search_conformance.model import (
    CELLS,
    Cell,
    Check,
    DriverFeature,
    Effort,
    FixtureFeature,
    Level,
    Profile,
)
from tools_search_conformance.run.rows import rows_of
from tools_search_conformance.wire.eras import ERAS, Era, TransportName

_NOT_PASSED: Final = frozenset({"fail", "warn", "unverified", "error"})

BenchT = TypeVar("BenchT")


class UnknownCheckError(LookupError):
    """A pattern matches nothing, or nothing is left to run; the message says which, and suggests near ones."""


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """The criteria of a selection. A kind without patterns leaves nothing out."""

    checks: Sequence[str] = ()
    """Ids of checks, with or without their prefix; globs."""
    requirements: Sequence[str] = ()
    """Ids of rows, such as `R-PAG-01`; globs."""
    sections: Sequence[str] = ()
    """Anchors of the draft or of a guide, with or without `#`; globs."""
    levels: Sequence[str] = ()
    """`MUST`, `SHOULD` or `ADVICE`."""
    cells: Sequence[str] = ()
    """Names of cells, or their eras, or the beginning of either; globs."""
    reports: Sequence[Mapping[str, Any]] = ()
    """Earlier `report.json`: chosen is what did not pass there, in the cells in which it did not."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The checks that a run consists of."""

    checks: tuple[Check, ...]
    """The checks that are wanted in at least one cell, in the order of their declaration."""
    pairs: frozenset[tuple[str, str]]
    """Ids of checks with names of cells."""
    partial: bool
    """Whether any check is left out in any cell."""

    def wanted(self, cell: Cell) -> list[Check]:
        """Return the checks to run in a cell, as far as they apply there."""
        return [check for check in self.checks if (check.id, cell.name) in self.pairs]


class Registry(Generic[BenchT]):
    """The checks of one party, servers or clients, in the order of their declaration."""

    def __init__(self, prefix: str, profiles: tuple[Profile, ...] = ("fixture", "live")) -> None:
        self._prefix = prefix
        self._profiles = profiles
        self._checks: dict[str, Check] = {}

    @property
    def all(self) -> tuple[Check, ...]:
        """Every check declared so far; the package of the checks declares them when it is imported."""
        return tuple(self._checks.values())

    def check(
        self,
        *,
        title: str,
        sends: str,
        passes: str,
        level: Level = "MUST",
        eras: tuple[Era, ...] = ERAS,
        transports: tuple[TransportName, ...] = ("stdio", "http"),
        profiles: tuple[Profile, ...] | None = None,
        efforts: tuple[Effort, ...] = ("quick", "default", "deep"),
        fixture_feature: FixtureFeature | None = None,
        driver_feature: DriverFeature | None = None,
    ) -> Callable[[Callable[[BenchT], Awaitable[None]]], Check]:
        """Declare the decorated function as the check of its name; one that needs a fixture feature is for fixtures.

        An underscore at the end of a name, which keeps it apart from a word of Python, is no part of the id.

        Raises:
            ValueError: There is a check of that name already, or the name makes no id.
        """

        def declare(body: Callable[[BenchT], Awaitable[None]]) -> Check:
            name: str = getattr(body, "__name__", repr(body))
            if not name.isidentifier() or name != name.lower() or name.startswith("_"):
                raise ValueError(f"{name!r} makes no id of a check: name its function as in `pages_disjoint`")
            declared = Check(
                id=self._prefix + name.rstrip("_").replace("_", "-"),
                title=title,
                sends=sends,
                passes=passes,
                run=body,
                level=level,
                eras=eras,
                transports=transports,
                profiles=profiles or (("fixture",) if fixture_feature else self._profiles),
                efforts=efforts,
                fixture_feature=fixture_feature,
                driver_feature=driver_feature,
            )
            if declared.id in self._checks:
                raise ValueError(f"two checks with the id {declared.id}")
            self._checks[declared.id] = declared
            return declared

        return declare

    def select(self, patterns: Sequence[str] = ()) -> Selection:
        """Return the checks whose id, with or without its prefix, matches one of the glob `patterns`; all for none.

        Raises:
            UnknownCheckError: A pattern matches nothing.
        """
        return self.choose(Criteria(checks=patterns))

    def choose(self, criteria: Criteria) -> Selection:
        """Return the checks that meet all of `criteria`.

        Raises:
            UnknownCheckError: A pattern matches nothing, or nothing meets all criteria.
        """
        every = self.all
        ids = {check.id for check in choose_checks(criteria.checks, every)}
        if criteria.requirements or criteria.sections:
            by_row = _check_ids_by_row(every)
            if criteria.requirements:
                ids &= _match("requirement", criteria.requirements, by_row)
            if criteria.sections:
                anchors = [f"#{name.removeprefix('#')}" for name in criteria.sections]
                ids &= _match("section", anchors, _check_ids_by_section(by_row))
        if criteria.levels:
            ids &= {check.id for check in every if check.level in criteria.levels}
        pairs = {(check, cell) for check in ids for cell in _match("cell", criteria.cells or ["*"], _cells_by_name())}
        if criteria.reports:
            results = [result for report in criteria.reports for result in report["results"]]
            not_passed = {(r["check"], r["cell"]) for r in results if r["status"] in _NOT_PASSED}
            if not not_passed & {(check.id, cell.name) for check in every for cell in CELLS}:
                raise UnknownCheckError("in that report no such check did not pass: there is nothing to run again")
            pairs &= not_passed
        if not pairs:
            raise UnknownCheckError("no check meets all of these criteria")
        chosen = {check for check, _ in pairs}
        return Selection(
            checks=tuple(check for check in every if check.id in chosen),
            pairs=frozenset(pairs),
            partial=len(pairs) < len(every) * len(CELLS),
        )


def choose_checks(patterns: Sequence[str], every: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks of `every` whose id, with or without its prefix, matches one of the globs; all for none.

    Raises:
        UnknownCheckError: A pattern matches nothing.
    """
    names: dict[str, set[str]] = {}
    for check in every:
        for name in (check.rule, check.id):
            names.setdefault(name, set()).add(check.id)  # a server check and a client check may share a rule
    chosen = _match("check", patterns or ["*"], names)
    return tuple(check for check in every if check.id in chosen)


def _match(kind: str, patterns: Sequence[str], names: Mapping[str, Collection[str]]) -> set[str]:
    """Return the values of the names that match one of the patterns, each of which must match a name."""
    found: set[str] = set()
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        if not matched:
            raise UnknownCheckError(f"{pattern!r} matches no {kind}{_hint(kind, pattern, names)}")
        found.update(*(names[name] for name in matched))
    return found


def _check_ids_by_row(every: Sequence[Check]) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {}
    for check in every:
        for row in rows_of(check.id):
            ids.setdefault(row.id, set()).add(check.id)
    return ids


def _check_ids_by_section(by_row: Mapping[str, set[str]]) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {}
    of_guides = ((row.id, f"#{row.place.partition('#')[2]}") for row in advice())
    for row, section in (*((row.id, row.section) for row in requirements()), *of_guides):
        if row in by_row:
            ids.setdefault(section, set()).update(by_row[row])
    return ids


def _cells_by_name() -> dict[str, set[str]]:
    """Return each cell by its name, by its era, and by every beginning of these."""
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
