"""The rows that checks decide: sentences in the draft and the guides, and rules of the base protocol."""

from __future__ import annotations

from functools import cache
from typing import Final

from tools_search_spec import Advice, BaseRule, Requirement, advice, base_rules, requirements

from tools_search_conformance.model import LEVELS, Level, grouped

DRAFT: Final = "spec/draft/tools-search.md"
"""The draft's path in the sources."""

FOR_EVERY_METHOD: Final = "R-PRM-01"
"""The row that extends the rules for `tools/search` to other methods; checks of those methods have it as well."""

Row = Requirement | BaseRule | Advice


@cache
def every_row() -> tuple[Row, ...]:
    """Return every row, those of the draft first."""
    return (*requirements(), *base_rules(), *advice())


@cache
def _rows_by_check() -> dict[str, list[Row]]:
    return grouped((check, row) for row in every_row() for check in row.checks)


def rows_of(check: str) -> list[Row]:
    """Return the rows that the check with this id decides, those of the draft first."""
    return _rows_by_check().get(check, [])


def own_rows_of(check: str) -> list[Row]:
    """Return the rows whose sentences the check with this id is about, for any method."""
    rows = rows_of(check)
    return [row for row in rows if row.id != FOR_EVERY_METHOD] or rows


@cache
def place_in_order(check: str) -> int:
    """Return the index of the check's first row among all rows, those of the draft first."""
    rows = every_row()
    return min((rows.index(row) for row in rows_of(check)), default=len(rows))


def is_base(check: str) -> bool:
    """Return whether the check with this id only decides rules of the base protocol, and none of the extension."""
    rows = rows_of(check)
    return bool(rows) and all(isinstance(row, BaseRule) for row in rows)


def place_of(row: Row) -> str:
    """Return where a row is: in the draft, a guide, or the newest base protocol revision that has it."""
    match row:
        case Requirement():
            return f"spec/draft/{row.page}{row.section}"
        case Advice():
            return f"spec/{row.place}"
        case BaseRule():
            return next(iter(row.links.values()))


@cache
def level_of_check(check: str) -> Level:
    """Return the level of the check with this id: that of its most binding row."""
    levels = {level_of(row).removesuffix(" NOT") for row in rows_of(check)}
    decided: list[Level] = [level for level in LEVELS if level in levels]
    return decided[0] if decided else LEVELS[0]


def level_of(row: Row) -> str:
    """Return a row's keyword, or `ADVICE`."""
    return "ADVICE" if isinstance(row, Advice) else row.level
