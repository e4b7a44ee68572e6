"""The one line that counts, and the exit status that says the same."""

from __future__ import annotations

from collections import Counter

from tools_search_conformance.model import Cell, Level, Result, Run, Status

__all__ = ["counts_against", "exit_status", "tally", "verdict_line"]


def counts_against(run: Run, result: Result) -> bool:
    """Tell whether a result keeps the target from being conformant."""
    if result.status == "unverified":
        # A fixture serves what the checks need, so what could not be exercised is the target's doing.
        return run.profile == "fixture" and result.level == "MUST"
    return result.status == "fail"


def exit_status(run: Run) -> int:
    """Return 0 for conformant, 1 for not conformant, 4 where the suite itself failed."""
    if run.of("error"):
        return 4
    return 1 if any(counts_against(run, result) for result in run.results) else 0


def tally(run: Run, cell: Cell, level: Level) -> Counter[Status]:
    """Count the statuses of one level in one cell."""
    return Counter(result.status for result in run.results if result.cell == cell and result.level == level)


def verdict_line(run: Run) -> str:
    """Return the verdict in one sentence."""
    against = [result for result in run.results if counts_against(run, result)]
    warned = len({result.check for result in run.of("warn")})
    advice = f"; {warned} recommendation{'s' if warned != 1 else ''} not followed" if warned else ""
    if broken := run.of("error"):
        return f"NO VERDICT: the suite failed in {len(broken)} check{'s' if len(broken) != 1 else ''}"
    if against:
        rules = len({result.check for result in against})
        return f"NOT CONFORMANT: {rules} check{'s' if rules != 1 else ''} failed in {len(run.cells)} cells{advice}"
    passed = len({result.check for result in run.of("pass") if result.level == "MUST"})
    return (
        f"CONFORMANT: {passed} MUST checks passed in {len(run.cells)} cell{'s' if len(run.cells) != 1 else ''}{advice}"
    )
