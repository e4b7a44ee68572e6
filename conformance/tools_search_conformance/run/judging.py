"""Judging one check in one cell: the workbench that its body works with, and the result that its outcome becomes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import anyio

from tools_search_conformance.model import (
    Cell,
    Check,
    Effort,
    Evidence,
    InapplicableError,
    Level,
    Profile,
    Result,
    SkipReason,
    Status,
    UnverifiableError,
    VerdictError,
    ViolationError,
)
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.display import cut_within, memory
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

_MESSAGE_CHARACTERS: Final = 800
_CASE_CHARACTERS: Final = 2000
_DECISIVE_BYTES: Final = 256 * 1024
"""How much memory an exchange may take to be kept whole for the reports."""
_CHECK_SECONDS: Final[dict[Effort, float]] = {"quick": 30, "default": 60, "deep": 600}
_USUAL_MILLISECONDS: Final = 50
_LONGEST_EXTENSION: Final = 6
_BROKEN: Final[Mapping[Level, Status]] = {"MUST": "fail", "SHOULD": "warn", "ADVICE": "advice"}

_SILENCES: Final = 3
_SILENCES_IN_ALL: Final = 12
_FAILED_STARTS: Final = 2


class Timeouts:
    """How long a silent target is waited for: long at first, then a tenth or a fiftieth, and in the end not at all.

    One cell's connections to its target share it.
    """

    def __init__(self, seconds: float, start_seconds: float = 0) -> None:
        """Take the time for one request, and for one start, while the target answers."""
        self.gone: str | None = None
        """Why the target is not started again; `None` while it is."""
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._silences = Counter[str]()
        self._silences_in_all = 0
        self._failed_starts_in_a_row = 0
        self._failed_starts = 0

    def for_request(self, method: str) -> float:
        """Return how many seconds an answer may take: few for a method that is never answered."""
        if self._silences[method] >= _SILENCES:
            return self._seconds / 50
        return self._seconds / (10 if self._silences_in_all >= _SILENCES_IN_ALL else 1)

    def for_start(self) -> float:
        """Return how many seconds a start may take: few for a target that failed to start twice before."""
        return self._start_seconds / (10 if self._failed_starts >= _FAILED_STARTS else 1)

    def answered(self, method: str) -> None:
        """Note that a request was answered."""
        self._silences[method] = 0
        self._failed_starts_in_a_row = 0

    def timed_out(self, method: str) -> None:
        """Note that a request was not answered in its time."""
        self._silences[method] += 1
        self._silences_in_all += 1

    def started(self) -> None:
        """Note that a start succeeded, or was at least answered."""
        self._failed_starts_in_a_row = 0

    def start_failed(self, reason: str) -> None:
        """Note that a start failed; after two in a row, with nothing answered in between, there is no third."""
        self._failed_starts_in_a_row += 1
        self._failed_starts += 1
        if self._failed_starts_in_a_row >= _FAILED_STARTS:
            self.gone = f"it failed to start twice in a row and is not started again: {reason}"


class Workbench:
    """What the body of a check works with, in one cell. Every verdict is made of `expect`, `require` and `applies`."""

    def __init__(self, options: Options, cell: Cell, recorder: Recorder) -> None:
        self.options = options
        self.cell = cell
        self.recorder = recorder
        """Keeps the exchanges of the current check, and which of them its verdict is based on."""

    @property
    def profile(self) -> Profile:
        """Whose catalog the target serves."""
        return self.options.effective_profile

    def expect(self, condition: bool, exchange: Exchange, message: str, *, case: str | None = None) -> None:
        """Test one expectation against an exchange. A check that tests none cannot pass.

        Raises:
            ViolationError: It does not hold.
        """
        if exchange.replied:
            self.recorder.judged.append(exchange.number)
        if not condition:
            raise ViolationError(message, exchange, case)

    def require(self, condition: bool, message: str, exchange: Exchange | None = None) -> None:
        """Go on only where the rule can be exercised.

        Raises:
            UnverifiableError: It cannot.
        """
        if not condition:
            raise UnverifiableError(message, exchange)

    def require_result(self, exchange: Exchange, what: str) -> None:
        """Go on only where a request that the check builds upon brought a result.

        Raises:
            UnverifiableError: It did not.
        """
        self.require(exchange.result is not None, f"{what} got {exchange.describe()}", exchange)

    def applies(self, condition: bool, message: str) -> None:
        """Go on only where the target has the optional part that the rule is about.

        Raises:
            InapplicableError: It does not.
        """
        if not condition:
            raise InapplicableError(message)


def check_seconds(effort: Effort, milliseconds: float) -> float:
    """Return how long a check may take where the target answers within so many milliseconds on the average.

    Slow is not wrong, so that a slow target gets more time, up to six times as much.
    """
    return _CHECK_SECONDS[effort] * min(max(1, milliseconds / _USUAL_MILLISECONDS), _LONGEST_EXTENSION)


async def run_check(check: Check, bench: Workbench, *, deadline: float) -> Result:
    """Run one check in one cell, until the monotonic `deadline` at most. Every outcome becomes a result."""
    recorder = bench.recorder
    if (reason := _inapplicable(check, bench)) is not None:
        skip, why = reason
        return Result(check=check.id, level=check.level, cell=bench.cell, status="skip", skip=skip, message=why)
    recorder.begin(check.id)
    began = time.monotonic()
    status, verdict = await _outcome(check, bench, deadline - began)
    if recorder.deaths and status in {"pass", "unverified", "skip"}:
        ended, exchange = recorder.deaths[0]
        verdict = ViolationError(f"the target ended in the middle of this check: {ended}", exchange)
        status = _BROKEN[check.level]
    return Result(
        check=check.id,
        level=check.level,
        cell=bench.cell,
        status=status,
        message=cut_within(verdict.message, _MESSAGE_CHARACTERS) if verdict else "",
        skip=verdict.kind if isinstance(verdict, InapplicableError) else None,
        evidence=_evidence(recorder, status, verdict),
        milliseconds=round((time.monotonic() - began) * 1000, 1),
    )


async def _outcome(check: Check, bench: Workbench, left: float) -> tuple[Status, VerdictError | None]:
    seconds = min(check_seconds(bench.options.effort, bench.recorder.milliseconds), max(0, left))
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
    except Exception as error:  # a fault of the suite is a result of one check, and not the end of the run
        return "error", VerdictError(f"the suite failed: {type(error).__name__}: {error}")
    if not bench.recorder.judged:
        return "error", VerdictError("vacuous: the check passed without testing anything")
    return "pass", None


def _evidence(recorder: Recorder, status: Status, verdict: VerdictError | None) -> Evidence:
    decisive = (verdict.exchange if verdict else None) or recorder.last
    if decisive is not None and memory([decisive.sent, decisive.answer.message]) > _DECISIVE_BYTES:
        decisive = decisive.in_brief()
    requests: tuple[Exchange, ...] = ()
    if verdict is not None and verdict.exchange is not None and status in _BROKEN.values():
        requests = verdict.steps or recorder.leading_to(verdict.exchange)
    return Evidence(
        observations=len(recorder.judged),
        exchanges=tuple(sorted({*recorder.judged, *recorder.taken})),
        decisive=None if status == "pass" else decisive,
        case=cut_within(verdict.case, _CASE_CHARACTERS) if verdict and verdict.case is not None else None,
        requests=tuple(map(_repeatable, requests)),
        catalog=verdict.catalog if verdict else None,
    )


def _repeatable(exchange: Exchange) -> Exchange:
    """Return an exchange whose answer is cut where it is very large, and whose request is whole."""
    large = memory(exchange.answer.message) > _DECISIVE_BYTES
    return replace(exchange.in_brief(), sent=exchange.sent) if large else exchange


def _inapplicable(check: Check, bench: Workbench) -> tuple[SkipReason, str] | None:
    options, cell, feature = bench.options, bench.cell, check.fixture_feature
    if cell.era not in check.eras:
        return "era", f"holds in {', '.join(check.eras)} only"
    if cell.transport not in check.transports:
        return "transport", f"holds over {', '.join(check.transports)} only"
    if bench.profile not in check.profiles:
        return "profile", f"needs the {' or '.join(check.profiles)} profile"
    if feature is not None and feature not in options.fixture_features:
        return "fixture-feature", f"needs a fixture that can do more: --fixture-features {feature}"
    if options.effort not in check.efforts:
        return "effort", f"takes --effort {' or '.join(check.efforts)}"
    return None
