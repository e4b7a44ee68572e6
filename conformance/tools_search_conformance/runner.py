"""Runs checks cell by cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio

from tools_search_conformance.bench import Bench
from tools_search_conformance.judging import run_check
from tools_search_conformance.link import Setting
from tools_search_conformance.model import Cell, Check, Effort, Profile, Result, Run, UnavailableCell
from tools_search_conformance.smoke import NotOfferedError, UnadvertisedError, claims_legacy, smoke
from tools_search_conformance.target import Target
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

__all__ = ["Plan", "run_checks"]


def _say_nothing(result: Result) -> None:
    """Take a result as it is found, for who does not want to follow."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, and how."""

    checks: Sequence[Check]
    eras: Sequence[Era]
    profile: Profile = "fixture"
    effort: Effort = "default"
    seed: int = 0
    request_seconds: float = 10
    run_seconds: float = 900
    wire: Path | None = None
    """Folder for the wire log; `None` keeps none."""
    secret_headers: frozenset[str] = frozenset()
    """Names, in lower case, of headers whose values the log hides."""
    progress: Callable[[Result], None] = _say_nothing


@dataclass
class _Findings:
    """What a run has found so far."""

    deadline: float
    cells: list[Cell] = field(default_factory=list[Cell])
    unavailable: list[UnavailableCell] = field(default_factory=list[UnavailableCell])
    results: list[Result] = field(default_factory=list[Result])


async def run_checks(targets: Sequence[Target], plan: Plan) -> Run:
    """Run the plan's checks in every cell that the targets offer.

    Raises:
        TargetError: no cell can be run; the message is one sentence for the target's author.
    """
    began, started = time.monotonic(), datetime.now(UTC)
    found = _Findings(began + plan.run_seconds)
    for target in targets:
        await _run_target(target, plan, found)
    if not found.cells:
        raise TargetError(_why_nothing(found.unavailable))
    return Run(
        target={"servers": [dict(target.description) for target in targets]},
        profile=plan.profile,
        effort=plan.effort,
        seed=plan.seed,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 2),
        cells=tuple(found.cells),
        unavailable=tuple(found.unavailable),
        results=tuple(found.results),
    )


async def _run_target(target: Target, plan: Plan, found: _Findings) -> None:
    silent: list[Cell] = []
    offered = len(found.cells)
    promised = False
    for era in plan.eras:
        cell = Cell(transport=target.transport, era=era)
        try:
            promised = await _run_cell(cell, target, plan, found) or promised
        except UnadvertisedError as error:
            silent.append(cell)
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        except NotOfferedError as error:
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        except RefusedError as error:
            if era == LEGACY and promised:
                raise TargetError(f"server/discover promises {LEGACY}, but {error}") from error
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
    if len(found.cells) > offered:
        # It supports the extension in one era, so its silence in the other one is judged.
        for cell in silent:
            await _run_cell(cell, target, plan, found, unadvertised=True)


async def _run_cell(cell: Cell, target: Target, plan: Plan, found: _Findings, *, unadvertised: bool = False) -> bool:
    """Run the checks of one cell and tell whether the target promised the legacy era there."""
    log = plan.wire / f"{cell.name}.jsonl" if plan.wire else None
    recorder = Recorder(cell.name, log, secret=plan.secret_headers)
    bench = Bench(_setting(cell, plan), target, recorder)
    try:
        connection = await bench.connection() if unadvertised else await smoke(bench)
        if not unadvertised:
            found.cells.append(cell)
        for check in plan.checks:
            if "advertised" in check.id or not unadvertised:
                found.results.append(await run_check(check, bench, deadline=found.deadline))
                plan.progress(found.results[-1])
        return cell.era == MODERN and claims_legacy(connection)
    finally:
        with anyio.CancelScope(shield=True):
            await bench.aclose()
            recorder.close()


def _setting(cell: Cell, plan: Plan) -> Setting:
    return Setting(cell=cell, profile=plan.profile, effort=plan.effort, seed=plan.seed, seconds=plan.request_seconds)


def _why_nothing(unavailable: Sequence[UnavailableCell]) -> str:
    reasons = dict.fromkeys(entry.reason for entry in unavailable)
    told = [f"{', '.join(e.cell.name for e in unavailable if e.reason == reason)}: {reason}" for reason in reasons]
    return "there is nothing to judge: " + "; ".join(told)
