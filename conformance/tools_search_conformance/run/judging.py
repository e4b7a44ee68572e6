"""Runs one check in one cell and turns what its body says into a result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

import anyio

from tools_search_conformance.model import Cell, Check, Effort, Evidence, Level, Profile, Result, SkipReason, Status
from tools_search_conformance.run.setting import Setting
from tools_search_conformance.verdict import InapplicableError, UnverifiableError, VerdictError, ViolationError
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.large import cut_within, memory
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

__all__ = ["Workbench", "check_seconds", "run_check"]

_MESSAGE: Final = 800
_CASE: Final = 2000
_DECISIVE_BYTES: Final = 256 * 1024
"""How much memory an exchange may take to be kept whole for the reports."""
_CHECK_SECONDS: Final[dict[Effort, float]] = {"quick": 30, "default": 60, "deep": 600}
_USUAL_MILLISECONDS: Final = 50
_MOST_PATIENCE: Final = 6
_BROKEN: Final[Mapping[Level, Status]] = {"MUST": "fail", "SHOULD": "warn", "ADVICE": "advice"}


class Workbench(Protocol):
    """What a check's body works with, as far as its verdict stands on it."""

    recorder: Recorder
    judged: list[int]
    """Numbers of the exchanges that expectations were tested against."""
    deaths: list[tuple[str, Exchange]]
    """How the target ended by itself during the current check, and the request that was the last one."""

    @property
    def setting(self) -> Setting:
        """The circumstances."""
        ...

    @property
    def cell(self) -> Cell:
        """Which transport and era."""
        ...

    @property
    def profile(self) -> Profile:
        """Whose catalog is served."""
        ...


def check_seconds(effort: Effort, milliseconds: float) -> float:
    """Return how long a check may take where the target answers within so many milliseconds on the average.

    Slow is not wrong, so that a slow target gets more time, up to six times as much.
    """
    return _CHECK_SECONDS[effort] * min(max(1, milliseconds / _USUAL_MILLISECONDS), _MOST_PATIENCE)


async def run_check(check: Check, bench: Workbench, *, deadline: float) -> Result:
    """Run one check in one cell, until the monotonic `deadline` at most. Whatever happens becomes a result."""
    if (reason := _inapplicable(check, bench)) is not None:
        return Result(
            check=check.id, level=check.level, cell=bench.cell, status="skip", skip=reason[0], message=reason[1]
        )
    bench.recorder.begin(check.id)
    bench.judged, bench.deaths = [], []
    began = time.monotonic()
    status, verdict = await _judge(check, bench, deadline - began)
    if bench.deaths and status in {"pass", "unverified", "skip"}:
        ended, exchange = bench.deaths[0]
        verdict = ViolationError(f"the target ended in the middle of this check: {ended}", exchange)
        status = _BROKEN[check.level]
    return Result(
        check=check.id,
        level=check.level,
        cell=bench.cell,
        status=status,
        message=cut_within(verdict.message, _MESSAGE) if verdict else "",
        skip=verdict.kind if isinstance(verdict, InapplicableError) else None,
        evidence=_evidence(bench, status, verdict),
        milliseconds=round((time.monotonic() - began) * 1000, 1),
    )


async def _judge(check: Check, bench: Workbench, left: float) -> tuple[Status, VerdictError | None]:
    seconds = min(check_seconds(bench.setting.effort, bench.recorder.milliseconds), max(0, left))
    try:
        with anyio.fail_after(seconds):
            await check.run(bench)
    except ViolationError as verdict:
        return _BROKEN[check.level], verdict
    except UnverifiableError as verdict:
        return "unverified", verdict
    except InapplicableError as verdict:
        return "skip", verdict
    except TimeoutError:
        return "unverified", UnverifiableError(f"not finished within {seconds:.0f} s")
    except (RefusedError, TargetError) as error:
        return "unverified", UnverifiableError(f"the target could not be reached again: {error}")
    except Exception as error:  # noqa: BLE001, RUF100 - the top handler: a fault of the suite is a result, not the end of the run
        return "error", VerdictError(f"the suite failed: {type(error).__name__}: {error}")
    if not bench.judged:
        return "error", VerdictError("vacuous: the check passed without testing anything")
    return "pass", None


def _evidence(bench: Workbench, status: Status, verdict: VerdictError | None) -> Evidence:
    taken = bench.recorder.taken
    decisive = (verdict.exchange if verdict else None) or bench.recorder.last
    if decisive is not None and memory([decisive.sent, decisive.answer.message]) > _DECISIVE_BYTES:
        decisive = decisive.in_brief()
    return Evidence(
        observations=len(bench.judged),
        exchanges=tuple(sorted({*bench.judged, *taken})),
        decisive=None if status == "pass" else decisive,
        case=cut_within(verdict.case, _CASE) if verdict and verdict.case is not None else None,
        requests=_requests(bench, status, verdict),
        catalog=verdict.catalog if verdict else None,
    )


def _requests(bench: Workbench, status: Status, verdict: VerdictError | None) -> tuple[Exchange, ...]:
    if verdict is None or verdict.exchange is None or status not in _BROKEN.values():
        return ()
    return tuple(map(_repeatable, verdict.steps or bench.recorder.leading_to(verdict.exchange)))


def _repeatable(exchange: Exchange) -> Exchange:
    """Return an exchange whose answer is cut where it is very large, and whose request is whole."""
    if memory(exchange.answer.message) <= _DECISIVE_BYTES:
        return exchange
    return replace(exchange.in_brief(), sent=exchange.sent)


def _inapplicable(check: Check, bench: Workbench) -> tuple[SkipReason, str] | None:
    if bench.cell.era not in check.eras:
        return "era", f"holds in {', '.join(check.eras)} only"
    if bench.cell.transport not in check.transports:
        return "transport", f"holds over {', '.join(check.transports)} only"
    if bench.profile not in check.profiles:
        return "profile", f"needs the {' or '.join(check.profiles)} profile"
    if check.fixture_feature is not None and check.fixture_feature not in bench.setting.features:
        return "fixture-feature", f"needs a fixture that can do more: --fixture-features {check.fixture_feature}"
    if bench.setting.effort not in check.efforts:
        return "effort", f"takes --effort {' or '.join(check.efforts)}"
    return None
