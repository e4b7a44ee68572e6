"""The rows that checks decide: sentences of the draft, rules of the base protocol and sentences of the guides."""

from __future__ import annotations

from functools import cache
from typing import Final

from tools_search_spec import Advice, BaseRule, Requirement, advice, base_rules, requirements

from tools_search_conformance.model import LEVELS, Level

DRAFT: Final = "spec/draft/tools-search.md"
"""Path of the draft in the sources."""

FOR_EVERY_METHOD: Final = "R-PRM-01"
"""The row by which what holds for `tools/search` holds for other methods: of such a check it is one more row."""

Row = Requirement | BaseRule | Advice


@cache
def every_row() -> tuple[Row, ...]:
    """Return every row, the draft's first."""
    return (*requirements(), *base_rules(), *advice())


@cache
def _rows_by_check() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in every_row():
        for check in row.checks:
            rows.setdefault(check, []).append(row)
    return rows


def rows_of(check: str) -> list[Row]:
    """Return the rows that the check with this id decides, the draft's first."""
    return _rows_by_check().get(check, [])


def own_rows_of(check: str) -> list[Row]:
    """Return the rows whose sentences the check with this id is about, whichever method it judges."""
    rows = rows_of(check)
    return [row for row in rows if row.id != FOR_EVERY_METHOD] or rows


@cache
def place_in_order(check: str) -> int:
    """Return the place of the first row of the check with this id among all rows, the draft's first."""
    rows = every_row()
    return min((rows.index(row) for row in rows_of(check)), default=len(rows))


def is_base(check: str) -> bool:
    """Return whether the check with this id decides rules of the base protocol only, and none of the extension."""
    rows = rows_of(check)
    return bool(rows) and all(isinstance(row, BaseRule) for row in rows)


def place_of(row: Row) -> str:
    """Return the place of a row: in the draft, a guide, or the newest revision of the base protocol that has it."""
    match row:
        case Requirement():
            return f"spec/draft/{row.page}{row.section}"
        case Advice():
            return f"spec/{row.place}"
        case BaseRule():
            return next(iter(row.links.values()))


@cache
def level_of_check(check: str) -> Level:
    """Return how binding the check with this id is: as the most binding of its rows."""
    levels = {level_of(row).removesuffix(" NOT") for row in rows_of(check)}
    decided: list[Level] = [level for level in LEVELS if level in levels]
    return decided[0] if decided else LEVELS[0]


def level_of(row: Row) -> str:
    """Return the keyword of a row, or `ADVICE`."""
    return "ADVICE" if isinstance(row, Advice) else row.level
