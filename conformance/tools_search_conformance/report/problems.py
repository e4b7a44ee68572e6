"""What did not pass, as every report shows it: consequences under their cause, and what to fix first at the top."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from tools_search_conformance.model import Result, Run, Status
from tools_search_conformance.run.rows import is_base, place_in_order
from tools_search_conformance.wire.codec import JsonObject

Group = Literal["MUST", "SHOULD", "ADVICE", "BASE"]
"""How reports group checks: by their level, and those of the base protocol apart, at any level.

A server or client on an SDK seldom has the base protocol in its own hands, so its rules decide nothing about the
extension, not even with `--strict`."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)

BASE_HEADING: Final = "Base protocol: probably your SDK, not your extension"
"""Heading of the section of `BASE`."""

PROBLEMS: Final[tuple[Status, ...]] = ("error", "fail", "unverified", "warn")
"""The statuses that every report shows first and in full, the worst first; advice stands apart."""


def group_of(result: Result) -> Group:
    """Return the group of a result's check."""
    return "BASE" if is_base(result.check) else result.level


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A check that did not pass, with those that probably did not pass because of it."""

    check: str
    results: list[Result] = field(default_factory=list[Result])
    """Its own, of each cell in which it is no consequence itself."""
    consequences: dict[str, list[Result]] = field(default_factory=dict[str, list[Result]])
    """The results of other checks, by check."""

    @property
    def status(self) -> Status:
        """The worst of its own."""
        return PROBLEMS[min(PROBLEMS.index(result.status) for result in self.results)]

    @property
    def base(self) -> bool:
        """Whether it stands in the section of the base protocol; our own faults do not."""
        return is_base(self.check) and self.status != "error"

    def to_json(self) -> JsonObject:
        """Return the problem as `report.json` has it."""

        def cells(results: Iterable[Result]) -> list[str]:
            return [result.cell.name for result in results]

        consequences = [{"check": check, "cells": cells(found)} for check, found in self.consequences.items()]
        return {
            "check": self.check,
            "status": self.status,
            "base": self.base,
            "cells": cells(self.results),
            "consequences": consequences,
        }


def problems_of(run: Run) -> list[Problem]:
    """Return what did not pass and is not expected to, advice apart.

    Faults of the suite come first, then what is broken, what could not be verified, and what is not followed. Among
    those, what explains most comes first, then what the draft asks for first. A consequence is one of a cause that is
    shown too, so that what a baseline expects hides nothing else.
    """
    shown = [
        result
        for result in run.of(*PROBLEMS)
        if result.expected is None and (result.level != "ADVICE" or result.status == "error")
    ]
    there = {(result.check, result.cell) for result in shown}
    problems: dict[str, Problem] = {}
    for result in shown:
        cause = result.consequence_of
        if cause is not None and (cause, result.cell) in there:
            problem = problems.setdefault(cause, Problem(check=cause))
            problem.consequences.setdefault(result.check, []).append(result)
        else:
            problems.setdefault(result.check, Problem(check=result.check)).results.append(result)
    return sorted(
        problems.values(),
        key=lambda each: (PROBLEMS.index(each.status), -len(each.consequences), place_in_order(each.check)),
    )
