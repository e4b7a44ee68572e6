"""Runs checks in cells and turns what their bodies say into results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio

from tools_search_conformance.bench import Bench
from tools_search_conformance.model import (
    Cell,
    Check,
    Effort,
    Evidence,
    Profile,
    Result,
    Run,
    SkipReason,
    Status,
    UnavailableCell,
)
from tools_search_conformance.smoke import NotOfferedError, claims_legacy, smoke
from tools_search_conformance.target import Target
from tools_search_conformance.verdict import InapplicableError, UnverifiableError, VerdictError, ViolationError
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

__all__ = ["Plan", "run_checks"]

_CHECK_SECONDS: Final = 60


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, and how."""

    checks: Sequence[Check]
    eras: Sequence[Era]
    profile: Profile = "fixture"
    effort: Effort = "default"
    seed: int = 0
    request_seconds: float = 10
    run_seconds: float = 600
    wire: Path | None = None
    """Folder for the wire log; `None` keeps none."""
    secret_headers: frozenset[str] = frozenset()
    progress: Callable[[Result], None] = lambda _: None


class _Collector:
    """What a run has found so far."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.unavailable: list[UnavailableCell] = []
        self.results: list[Result] = []


async def run_checks(targets: Sequence[Target], plan: Plan) -> Run:
    """Run the plan's checks in every cell that the targets offer.

    Raises:
        TargetError: no cell can be run; the message is one sentence for the target's author.
    """
    found, began, started = _Collector(), time.monotonic(), datetime.now(UTC)
    with anyio.move_on_after(plan.run_seconds) as budget:
        for target in targets:
            await _run_target(target, plan, found)
    if budget.cancelled_caught and not found.results:
        raise TargetError(f"nothing was found out within {plan.run_seconds:g} s")
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


async def _run_target(target: Target, plan: Plan, found: _Collector) -> None:
    promised = False
    for era in plan.eras:
        cell = Cell(transport=target.transport, era=era)
        log = plan.wire / f"{cell.name}.jsonl" if plan.wire else None
        recorder = Recorder(cell.name, log, secret=plan.secret_headers)
        bench = Bench(
            cell, target, recorder,
            profile=plan.profile, effort=plan.effort, seed=plan.seed, timeout=plan.request_seconds,
        )  # fmt: skip
        try:
            connection = await smoke(bench)
            promised = promised or (era == MODERN and claims_legacy(connection))
            found.cells.append(cell)
            await _run_cell(bench, plan, found)
        except (RefusedError, NotOfferedError) as error:
            if era == LEGACY and promised and isinstance(error, RefusedError):
                raise TargetError(f"server/discover promises {LEGACY}, but {error}") from error
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        finally:
            with anyio.CancelScope(shield=True):
                await bench.aclose()
                recorder.close()


async def _run_cell(bench: Bench, plan: Plan, found: _Collector) -> None:
    for check in plan.checks:
        result = await run_check(check, bench)
        found.results.append(result)
        plan.progress(result)


async def run_check(check: Check, bench: Bench) -> Result:
    """Run one check in one cell. Whatever happens becomes a result."""
    if (reason := _inapplicable(check, bench)) is not None:
        return Result(check=check.id, level=check.level, cell=bench.cell, status="skip", skip=reason[0], message=reason[1])
    bench.recorder.begin(check.id)
    bench.judged = []
    began = time.monotonic()
    status, verdict = await _judge(check, bench)
    return Result(
        check=check.id,
        level=check.level,
        cell=bench.cell,
        status=status,
        message=verdict.message if verdict else "",
        skip=verdict.kind if isinstance(verdict, InapplicableError) else None,
        evidence=_evidence(bench, status, verdict),
        milliseconds=round((time.monotonic() - began) * 1000, 1),
    )


async def _judge(check: Check, bench: Bench) -> tuple[Status, VerdictError | None]:
    try:
        with anyio.fail_after(_CHECK_SECONDS):
            await check.run(bench)
    except ViolationError as verdict:
        return ("fail" if check.level == "MUST" else "warn"), verdict
    except UnverifiableError as verdict:
        return "unverified", verdict
    except InapplicableError as verdict:
        return "skip", verdict
    except TimeoutError:
        return "unverified", UnverifiableError(f"not finished within {_CHECK_SECONDS} s")
    except (RefusedError, TargetError) as error:
        return "unverified", UnverifiableError(f"the target could not be reached again: {error}")
    except Exception as error:  # noqa: BLE001, RUF100 - the top handler: a fault of the suite is a result, not the end of the run
        return "error", VerdictError(f"the suite failed: {type(error).__name__}: {error}")
    if not bench.judged:
        return "error", VerdictError("vacuous: the check passed without testing anything")
    return "pass", None


def _evidence(bench: Bench, status: Status, verdict: VerdictError | None) -> Evidence:
    taken = bench.recorder.taken
    decisive = (verdict.exchange if verdict else None) or (taken[-1] if taken else None)
    return Evidence(
        observations=len(bench.judged),
        exchanges=tuple(sorted({*bench.judged, *(exchange.number for exchange in taken)})),
        decisive=None if status == "pass" else decisive,
        case=verdict.case if verdict else None,
    )


def _inapplicable(check: Check, bench: Bench) -> tuple[SkipReason, str] | None:
    if bench.cell.era not in check.eras:
        return "era", f"holds in {', '.join(check.eras)} only"
    if bench.cell.transport not in check.transports:
        return "transport", f"holds over {', '.join(check.transports)} only"
    if bench.profile not in check.profiles:
        return "profile", f"needs the {' or '.join(check.profiles)} profile"
    return None


def _why_nothing(unavailable: Sequence[UnavailableCell]) -> str:
    reasons = dict.fromkeys(entry.reason for entry in unavailable)
    told: list[Any] = [
        f"{', '.join(entry.cell.name for entry in unavailable if entry.reason == reason)}: {reason}" for reason in reasons
    ]
    return "there is nothing to judge: " + "; ".join(told)
