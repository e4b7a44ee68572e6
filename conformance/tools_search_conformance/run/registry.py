"""Registers checks, finds them by id, and selects the checks and cells for a run.

A check's id is derived from its function's name: `pages_disjoint` in the server checks is
`tools-search-server-pages-disjoint`. When selecting checks, patterns of the same kind are alternatives, and all kinds
must match: (`limit-*` or `cursor-*`) and level MUST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from tools_search_spec import Advice, Requirement, requirements, retired

from tools_search_conformance.model import CELLS, Cell, Check, DriverFeature, Effort, FixtureFeature, Profile, grouped
from tools_search_conformance.run.rows import Row, level_of_check, rows_of
from tools_search_conformance.wire.eras import Era, TransportName

_NOT_PASSED: Final = frozenset({"fail", "warn", "unverified", "error"})

BenchT = TypeVar("BenchT")


class UnknownCheckError(LookupError):
    """A pattern matches nothing, or nothing is left to run; the message says which, and suggests alternatives."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The checks selected for a run."""

    checks: tuple[Check, ...]
    """The checks selected in at least one cell, in registration order."""
    pairs: frozenset[tuple[str, str]]
    """Check ids with cell names."""
    partial: bool
    """Whether any check is excluded in any cell."""

    def wanted(self, cell: Cell) -> list[Check]:
        """Return the selected checks for a cell."""
        return [check for check in self.checks if (check.id, cell.name) in self.pairs]


class Applicability(TypedDict, total=False):
    """Where a check applies; the defaults are those of its registry, or else of `Check`."""

    eras: tuple[Era, ...]
    transports: tuple[TransportName, ...]
    profiles: tuple[Profile, ...]
    efforts: tuple[Effort, ...]
    methods: tuple[str, ...]
    fixture_feature: FixtureFeature
    driver_feature: DriverFeature


class Registry(Generic[BenchT]):
    """The checks for one party, servers or clients, in registration order."""

    def __init__(self, prefix: str, **usual: Unpack[Applicability]) -> None:
        """Take the prefix of the checks' ids, and where a check applies unless it says otherwise."""
        self._prefix = prefix
        self._usual = usual
        self._checks: dict[str, Check] = {}

    @property
    def all(self) -> tuple[Check, ...]:
        """Every check registered so far; importing the checks' package registers them."""
        return tuple(self._checks.values())

    def check(
        self, *, title: str, sends: str, passes: str, **applicability: Unpack[Applicability]
    ) -> Callable[[Callable[[BenchT], Awaitable[None]]], Check]:
        """Register the decorated function as the check with its name; raises `ValueError` if the name is not usable.

        It is as binding as the most binding of its rows. If it needs a fixture feature, it is for fixtures only. A
        trailing underscore, which distinguishes a name from a keyword, is dropped.
        """

        def declare(body: Callable[[BenchT], Awaitable[None]]) -> Check:
            name: str = getattr(body, "__name__", repr(body))
            if not name.isidentifier() or name != name.lower() or name.startswith("_"):
                raise ValueError(f"{name!r} is not a valid name of a check: name its function as in `pages_disjoint`")
            fixture: Applicability = {"profiles": ("fixture",)} if "fixture_feature" in applicability else {}
            id_ = self._prefix + name.rstrip("_").replace("_", "-")
            if id_ in self._checks:
                raise ValueError(f"two checks with the id {id_}")
            texts = {"title": title, "sends": sends, "passes": passes}
            where: Applicability = {**self._usual, **fixture, **applicability}
            check = Check(id=id_, run=body, level=level_of_check(id_), **texts, **where)
            self._checks[id_] = check
            return check

        return declare

    def select(
        self,
        checks: Sequence[str] = (),
        *,
        requirements: Sequence[str] = (),
        sections: Sequence[str] = (),
        levels: Sequence[str] = (),
        cells: Sequence[str] = (),
        reports: Sequence[Mapping[str, Any]] = (),
    ) -> Selection:
        """Return the checks that match all filters, or raise `UnknownCheckError`; an empty filter excludes nothing.

        Args:
            checks: Check ids, with or without their prefix, or globs.
            requirements: Row ids, such as `R-PAG-01`, or globs.
            sections: Anchors in the draft or a guide, with or without `#`, or globs.
            levels: `MUST`, `SHOULD` or `ADVICE`.
            cells: Names of cells or eras, prefixes of them, or globs.
            reports: Earlier `report.json` files; selects the checks and cells that did not pass there.
        """
        every = self.all
        ids = {check.id for check in choose_checks(checks, every)}
        rows = [(row, check.id) for check in every for row in rows_of(check.id)]
        if requirements:
            ids &= _match("requirement", requirements, grouped((row.id, check) for row, check in rows))
        if sections:
            anchors = [f"#{name.removeprefix('#')}" for name in sections]
            named = ((name, check) for row, check in rows if (name := _section(row)))
            ids &= _match("section", anchors, grouped(named))
        if levels:
            ids &= {check.id for check in every if check.level in levels}
        by_cell = grouped((name, cell.name) for cell in CELLS for name in (cell.name, cell.era))
        pairs = {(check, cell) for check in ids for cell in _match("cell", cells or ["*"], by_cell)}
        if reports:
            results = [result for report in reports for result in report["results"]]
            not_passed = {(r["check"], r["cell"]) for r in results if r["status"] in _NOT_PASSED}
            if not not_passed & {(check.id, cell.name) for check in every for cell in CELLS}:
                raise UnknownCheckError("that report has no such check that did not pass, so there is nothing to rerun")
            pairs &= not_passed
        if not pairs:
            raise UnknownCheckError("no check matches all of these filters")
        chosen = {check for check, _ in pairs}
        return Selection(
            checks=tuple(check for check in every if check.id in chosen),
            pairs=frozenset(pairs),
            partial=len(pairs) < len(every) * len(CELLS),
        )


def choose_checks(patterns: Sequence[str], every: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks whose id or rule matches a glob (all if there are no globs); raises `UnknownCheckError`."""
    # A server check and a client check can have the same rule.
    names = grouped((name, check.id) for check in every for name in (check.rule, check.id))
    chosen = _match("check", patterns or ["*"], names)
    return tuple(check for check in every if check.id in chosen)


def _section(row: Row) -> str:
    if isinstance(row, Advice):
        return f"#{row.place.partition('#')[2]}"
    return row.section if isinstance(row, Requirement) else ""


def _match(kind: str, patterns: Sequence[str], names: Mapping[str, Collection[str]]) -> set[str]:
    """Return the values of the names that match any of the patterns; each pattern must match a name."""
    found: set[str] = set()
    for pattern in patterns:
        glob = f"{pattern}*" if kind == "cell" else pattern
        matched = [name for name in names if fnmatchcase(name, glob)]
        if not matched:
            raise UnknownCheckError(f"{pattern!r} matches no {kind}{_hint(kind, pattern, names)}")
        found.update(*(names[name] for name in matched))
    return found


def _hint(kind: str, pattern: str, names: Mapping[str, Collection[str]]) -> str:
    if kind == "cell":
        return f"; the cells are {', '.join(cell.name for cell in CELLS)}"
    if kind == "requirement":
        for row in requirements():
            if fnmatchcase(row.id, pattern):
                why = row.excluded or f"{', '.join(row.checks)} decides it"
                return f" for this command; {row.id}: {why}"
        for row, why in retired().items():
            if fnmatchcase(row, pattern):
                return f" anymore; {row}: {why}"
    near = get_close_matches(pattern, names, cutoff=0.5)
    return f"; did you mean {', '.join(near)}?" if near else "; see `tools-search-conformance list`"
