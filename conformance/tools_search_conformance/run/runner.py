"""Runs checks cell by cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tools_search_conformance.model import Cell, Check, Effort, FixtureFeature, Profile, Result, UnavailableCell
from tools_search_conformance.run.judging import run_check
from tools_search_conformance.run.setting import Setting
from tools_search_conformance.run.smoke import NotOfferedError, UnadvertisedError, claims_legacy, smoke
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.target import Target
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

__all__ = ["Findings", "Plan", "run_checks", "say_nothing", "want_all", "why_nothing"]


def say_nothing(result: Result) -> None:
    """Take a result as it is found, for who does not want to follow."""


def want_all(check: Check, cell: Cell) -> bool:
    """Want a check in a cell, for who leaves none out."""
    return True


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, and how."""

    checks: Sequence[Check]
    eras: Sequence[Era]
    wants: Callable[[Check, Cell], bool] = want_all
    """Which of the checks to run in a cell; one where none is wanted is not run."""
    profile: Profile = "fixture"
    effort: Effort = "default"
    seed: int = 0
    features: frozenset[FixtureFeature] = frozenset()
    brief: bool = False
    """Whether each target is started once for a cell, and of many like cases some are tried."""
    request_seconds: float = 10
    run_seconds: float = 900
    wire: Path | None = None
    """Folder for the wire log; `None` keeps none."""
    secret_headers: frozenset[str] = frozenset()
    """Names, in lower case, of headers whose values the log hides."""
    progress: Callable[[Result], None] = say_nothing


@dataclass
class Findings:
    """What was found out about one target so far. It is whole at any moment, since a run may be interrupted."""

    cells: list[Cell] = field(default_factory=list[Cell])
    unavailable: list[UnavailableCell] = field(default_factory=list[UnavailableCell])
    results: list[Result] = field(default_factory=list[Result])

    @classmethod
    def of(cls, parts: Sequence[Findings]) -> Findings:
        """Return what was found out about several targets, one after the other."""
        return cls(
            cells=[cell for part in parts for cell in part.cells],
            unavailable=[cell for part in parts for cell in part.unavailable],
            results=[result for part in parts for result in part.results],
        )


async def run_checks(targets: Sequence[Target], plan: Plan, found: Sequence[Findings]) -> None:
    """Run the plan's checks in every cell that the targets offer, and keep in `found` what comes of them, for each.

    Fixtures are judged side by side, since most of the time goes into waiting for them to start and to answer. Servers
    with tools of their own might be in each other's way.

    Raises:
        TargetError: no cell can be run; the message is one sentence for the target's author.
    """
    deadline = time.monotonic() + plan.run_seconds
    turns = anyio.CapacityLimiter(len(targets) if plan.profile == "fixture" else 1)

    async def run(target: Target, part: Findings) -> None:
        async with turns:
            await _run_target(target, plan, part, deadline, first=target is targets[0])

    async with anyio.create_task_group() as tasks:
        for target, part in zip(targets, found, strict=True):
            tasks.start_soon(run, target, part)
    whole = Findings.of(found)
    if not whole.cells:
        raise TargetError(why_nothing(whole.unavailable))


async def _run_target(target: Target, plan: Plan, found: Findings, deadline: float, *, first: bool) -> None:
    silent: list[Cell] = []
    offered = len(found.cells)
    promised = False
    for era in plan.eras:
        cell = Cell(transport=target.transport, era=era)
        if not _wanted(plan, cell):
            continue
        known = len(found.cells) > offered
        try:
            claims = await _run_cell(cell, target, plan, found, deadline, known=known, first=first and not known)
            promised = claims or promised
        except UnadvertisedError as error:
            silent.append(cell)
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        except NotOfferedError as error:
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        except RefusedError as error:
            expected = era == LEGACY and promised
            reason = f"server/discover promises {LEGACY}, but {error}" if expected else str(error)
            found.unavailable.append(UnavailableCell(cell=cell, reason=reason, expected=expected))
        except TargetError as error:
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error), expected=True))
            break
    if len(found.cells) > offered:
        # It supports the extension in one era, so its silence in the other one is judged.
        for cell in silent:
            await _run_cell(cell, target, plan, found, deadline, unadvertised=True)


async def _run_cell(
    cell: Cell,
    target: Target,
    plan: Plan,
    found: Findings,
    deadline: float,
    *,
    known: bool = False,
    unadvertised: bool = False,
    first: bool = False,
) -> bool:
    """Run the checks of one cell and tell whether the target promised the legacy era there."""
    log = plan.wire / f"{cell.name}.jsonl" if plan.wire else None
    recorder = Recorder(cell.name, log, secret=plan.secret_headers)
    bench = Bench(_setting(cell, plan, first=first), target, recorder)
    try:
        connection = await bench.connection() if unadvertised else await smoke(bench, known=known)
        if not unadvertised:
            found.cells.append(cell)
        for check in _wanted(plan, cell):
            if "advertised" in check.id or not unadvertised:
                found.results.append(await run_check(check, bench, deadline=deadline))
                plan.progress(found.results[-1])
        return cell.era == MODERN and claims_legacy(connection)
    finally:
        with anyio.CancelScope(shield=True):
            await bench.aclose()
            recorder.close()


def _setting(cell: Cell, plan: Plan, *, first: bool) -> Setting:
    return Setting(
        cell=cell,
        profile=plan.profile,
        effort=plan.effort,
        seed=plan.seed,
        features=plan.features,
        brief=plan.brief,
        seconds=plan.request_seconds,
        first=first,
    )


def _wanted(plan: Plan, cell: Cell) -> list[Check]:
    return [check for check in plan.checks if plan.wants(check, cell)]


def why_nothing(unavailable: Sequence[UnavailableCell]) -> str:
    """Return in one sentence why no cell could be run."""
    reasons = dict.fromkeys(entry.reason for entry in unavailable)
    told = [f"{', '.join(e.cell.name for e in unavailable if e.reason == reason)}: {reason}" for reason in reasons]
    return "there is nothing to judge: " + "; ".join(told)
