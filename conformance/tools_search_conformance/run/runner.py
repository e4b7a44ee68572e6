"""Conducts a run over servers or a client: findings, signals, the baseline, and the reports."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import METHOD, PRIMITIVES

from tools_search_conformance.model import CELLS, Cell, Result, Run, UnavailableCell, grouped
from tools_search_conformance.report.ci import badge_json, badge_svg, junit, official_checks
from tools_search_conformance.report.document import failure, failure_files, report
from tools_search_conformance.report.pages import page, summary
from tools_search_conformance.run.baseline import settle
from tools_search_conformance.run.causes import with_causes
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.codec import encode
from tools_search_conformance.wire.process import TargetError

Progress = Callable[[Result], None]
"""Called with each result as it is found."""


def no_progress(result: Result) -> None:
    """Ignore a result: a `Progress` that does nothing."""


@dataclass
class Findings:
    """A run's findings so far. They are consistent at any time, because a run can be interrupted."""

    target: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cells: list[Cell] = field(default_factory=list[Cell])
    unavailable: list[UnavailableCell] = field(default_factory=list[UnavailableCell])
    results: list[Result] = field(default_factory=list[Result])
    methods: set[str] = field(default_factory=lambda: {METHOD})
    """The methods under test."""

    def require_cells(self) -> None:
        """Raise a `TargetError` with one sentence for the target's author if no cell could be run."""
        if not self.cells:
            cells = grouped((entry.reason, entry.cell.name) for entry in self.unavailable)
            reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in cells.items())
            raise TargetError(f"there is nothing to judge: {reasons}")


async def conduct(options: Options, judge: Callable[[TaskGroup, Findings], Awaitable[None]]) -> Run:
    """Run `judge` to fill the findings until it finishes or a signal arrives; write the reports and return the run.

    Tasks that it starts in the group are cancelled afterwards. Raises `TargetError` if there is nothing to judge.
    """
    (options.out / "wire").mkdir(parents=True, exist_ok=True)
    began, started = time.monotonic(), datetime.now(UTC)
    found, signals = Findings(), list[int]()
    failure: TargetError | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as judging:
            tasks.start_soon(_cancel_at_signal, judging, signals)
            try:
                await judge(tasks, found)
                found.require_cells()
            except TargetError as error:
                failure = error  # raised outside the group, because a group would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None and not found.unavailable:
        raise failure
    run = Run(
        target=found.target,
        profile=options.effective_profile,
        effort=options.effort,
        seed=options.seed,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 2),
        checks=options.selection.checks,
        cells=tuple(found.cells),
        # A refused era is excluded from the verdict on the others; if there are no others, it counts as missing.
        unavailable=tuple(replace(entry, expected=entry.expected or not found.cells) for entry in found.unavailable),
        results=with_causes(found.results),
        methods=_judged(found, options),
        asked=tuple(cell for cell in CELLS if cell.era in options.eras and options.selection.wanted(cell)),
        partial=options.selection.partial,
        strict=options.strict,
        interrupted=signals[0] if signals else None,
    )
    run = settle(run, options.baseline, datetime.now(UTC).date())
    write_reports(run, options.out, sep=options.sep)
    if failure is not None:
        raise failure  # so that an earlier run's reports are not mistaken for this run's
    return run


def _judged(found: Findings, options: Options) -> tuple[str, ...]:
    """Return the target's methods that the selected checks cover, always including the one for tools."""
    chosen = {METHOD, *(method for check in options.selection.checks for method in check.methods)}
    return tuple(p.method for p in PRIMITIVES if p.method in found.methods & chosen)


def write_reports(run: Run, out: Path, *, sep: int | None = None) -> None:
    """Write all reports to the folder `out`, replacing an earlier run's.

    With `sep`, the number of a proposal, `checks.json` names checks as that proposal's traceability file does.
    """
    failures = out / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    for old in failures.glob("[0-9][0-9]*-tools-search-*.json"):
        old.unlink()
    for name, result in failure_files(run).items():
        (failures / name).write_bytes(encode(failure(run, result)) + b"\n")
    document = report(run, out)
    values = {"report": document, "checks": official_checks(run, sep=sep), "badge": badge_json(document)}
    # Escaped, because a target might have sent text that UTF-8 or a viewer cannot handle.
    texts = {f"{name}.json": json.dumps(value, indent=2, ensure_ascii=True) + "\n" for name, value in values.items()}
    texts |= {"badge.svg": badge_svg(document), "junit.xml": junit(run, document)}
    texts |= {"report.html": page(document), "summary.md": summary(document)}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


async def _cancel_at_signal(scope: anyio.CancelScope, received: list[int]) -> None:
    """Cancel `scope` at the first termination signal; a second one finds no handler and ends the process."""
    # Keep SIGHUP ignored if `nohup` disabled it.
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *hangup) as signals:
        async for number in signals:
            received.append(number)
            scope.cancel()
            return
