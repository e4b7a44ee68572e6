"""The one line that counts, and the exit status that agrees with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tools_search_conformance.model import Cell, Level, Result, Run, Status

EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended a run."""

PROBLEMS: Final[tuple[Status, ...]] = ("error", "fail", "unverified", "warn")
"""The statuses that every report shows first and in full, the worst first; advice stands apart."""

_TALLIED: Final[tuple[Status, ...]] = ("pass", "error", "fail", "unverified", "warn", "advice", "info", "skip")


def counts_against(run: Run, result: Result) -> bool:
    """Return whether a result keeps the target from being conformant, and no baseline expects it."""
    if result.expected is not None:
        return False
    if result.status == "unverified":
        # A fixture serves the catalogs that the checks need, so a rule that it does not exercise is its own doing.
        return run.profile == "fixture" and (result.level == "MUST" or (result.level == "SHOULD" and run.strict))
    return result.status == "fail" or (result.status == "warn" and run.strict)


def exit_status(run: Run) -> int:
    """Return the exit status that a run deserves.

    That is 0 for conformant, 1 for not conformant, 3 where a cell that should be there could not be run, 4 where the
    suite itself failed, and 128 more than the number of the signal that interrupted it.
    """
    if run.interrupted is not None:
        return EXIT_SIGNAL + run.interrupted
    if run.of("error"):
        return 4
    if run.stale or any(counts_against(run, result) for result in run.results):
        return 1
    return 3 if any(entry.expected for entry in run.unavailable) else 0


def tally(run: Run, cell: Cell, level: Level) -> Counter[Status]:
    """Count the statuses of one level in one cell, in the order in which reports show them."""
    counts = Counter(result.status for result in run.results if result.cell == cell and result.level == level)
    return Counter({status: counts[status] for status in _TALLIED if counts[status]})


def number_of(count: int, thing: str) -> str:
    """Return a count with its noun: `1 check`, `2 checks`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def target_text(target: Mapping[str, Any]) -> str:
    """Return the addresses or commands of a run's target."""
    targets: list[dict[str, Any]] = target.get("servers") or target["clients"]
    return "; ".join(str(each.get("url") or " ".join(each["argv"])) for each in targets)


def verdict_line(run: Run) -> str:
    """Return the verdict in one sentence, in which each check counts once, as its worst result in any cell."""
    counts = _counts(run)
    strictly = " (--strict)" if run.strict else ""
    if run.interrupted is not None:
        return f"INTERRUPTED, NO VERDICT: until then, {counts or 'no check was run'}"
    missing = ", ".join(entry.cell.name for entry in run.unavailable if entry.expected)
    match exit_status(run):
        case 0:
            return f"{_success(run)}{strictly}: {counts or 'no check applies'}"
        case 1 if run.stale and not any(counts_against(run, result) for result in run.results):
            return f"STALE BASELINE: {'; '.join(run.stale)}; {counts}"
        case 1:
            return f"NOT CONFORMANT{strictly}: {counts}{f'; {missing} could not be run' if missing else ''}"
        case 3:
            return f"NO VERDICT: {missing} could not be run; {counts}"
        case _:
            return f"NO VERDICT: {counts}"


def _success(run: Run) -> str:
    if any(result.expected is not None and (result.level == "MUST" or run.strict) for result in run.results):
        return "NO WORSE THAN THE BASELINE"
    if run.partial:
        return "PASSED, BUT NOT EVERY CHECK WAS CHOSEN"
    left_out = run.effort == "quick" and any(result.skip == "effort" for result in run.results)
    return "PASSED, BUT --effort quick LEAVES CHECKS OUT" if left_out else "CONFORMANT"


def _counts(run: Run) -> str:
    expected = [result for result in run.results if result.expected is not None]
    unverified = [result for result in run.of("unverified") if result.expected is None and result.level != "ADVICE"]
    passed = run.of("pass")
    of_musts = [result for result in passed if result.level == "MUST"]
    outcomes = (
        (run.of("error"), "check", "hit a fault of the suite"),
        ([result for result in run.of("fail") if result.expected is None], "check", "failed"),
        (unverified, "check", "could not be verified"),
        ([result for result in run.of("warn") if result.expected is None], "recommendation", "not followed"),
        (expected, "check", "did not pass as expected"),
        (of_musts, "MUST check", "passed") if of_musts else (passed, "check", "passed"),
        (run.of("advice"), "piece", "of advice not taken"),
    )
    parts: list[str] = []
    counted: set[str] = set()
    for results, thing, outcome in outcomes:
        checks = {result.check for result in results} - counted
        counted |= checks
        if checks:
            parts.append(f"{number_of(len(checks), thing)} {outcome}")
    return f"{', '.join(parts)}, in {number_of(len(run.cells), 'cell')}" if parts else ""
