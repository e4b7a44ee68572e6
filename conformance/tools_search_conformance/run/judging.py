"""Runs one check in one cell: the workbench for its body, and the result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

import anyio
from tools_search_spec import PRIMITIVES, Primitive

from tools_search_conformance.model import (
    CELLS,
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
from tools_search_conformance.run.causes import ENDED, GONE, NOT_FINISHED, named
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.display import cut_within, memory
from tools_search_conformance.wire.http import WAITING
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

_MESSAGE_CHARACTERS: Final = 800
_CASE_CHARACTERS: Final = 2000
_DECISIVE_BYTES: Final = 256 * 1024
"""The most memory for an exchange that is kept in full for the reports."""
RUN_SECONDS: Final[dict[Effort, float]] = {"quick": 1800, "default": 3600, "deep": 7200}
_CHECK_SECONDS: Final[dict[Effort, float]] = {"quick": 30, "default": 60, "deep": 600}
_USUAL_MILLISECONDS: Final = 50
_LONGEST_EXTENSION: Final = 6
_LISTINGS: Final = 10
_LISTINGS_SECONDS: Final = 600.0
_BROKEN: Final[Mapping[Level, Status]] = {"MUST": "fail", "SHOULD": "warn", "ADVICE": "advice"}
_MAX_SILENCES: Final = 3
"""Unanswered requests of a method after which the timeout for it becomes very short."""
_MAX_SILENCES_IN_ALL: Final = 12
_MAX_FAILED_STARTS: Final = 2

Case = TypeVar("Case")
Found = TypeVar("Found")


class Timeouts:
    """Timeouts of a cell's connections for a silent target: long at first, then a tenth, and finally very short."""

    def __init__(self, seconds: float, start_seconds: float = 0) -> None:
        """Set the timeouts in seconds for a request and for a start, while the target answers."""
        self.gone: str | None = None
        """Why the target is not started again; `None` if it is."""
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._silences = Counter[str]()
        self._silences_in_all = 0
        self._failed_starts_in_a_row = 0
        self._failed_starts = 0

    def for_request(self, method: str) -> float:
        """Return the timeout in seconds for a request: short for a method that is never answered."""
        if self._silences[method] >= _MAX_SILENCES:
            return self._seconds / 50
        return self._seconds / (10 if self._silences_in_all >= _MAX_SILENCES_IN_ALL else 1)

    def for_start(self) -> float:
        """Return the timeout in seconds for a start: short for a target that failed to start twice before."""
        return self._start_seconds / (10 if self._failed_starts >= _MAX_FAILED_STARTS else 1)

    def answered(self, method: str) -> None:
        """Record that a request was answered; the first one on a connection means that a start succeeded."""
        self._silences[method] = 0
        self._failed_starts_in_a_row = 0

    def timed_out(self, method: str) -> None:
        """Record that a request timed out."""
        self._silences[method] += 1
        self._silences_in_all += 1

    def start_failed(self, reason: str) -> None:
        """Record a failed start; after two in a row, with no answer in between, the target is not started again."""
        self._failed_starts_in_a_row += 1
        self._failed_starts += 1
        if self._failed_starts_in_a_row >= _MAX_FAILED_STARTS:
            self.gone = f"it failed to start twice in a row and is not started again: {reason}"


class Workbench:
    """What a check's body uses in one cell. Every verdict comes from `expect`, `require` and `applies`."""

    primitive: Primitive = PRIMITIVES[0]
    """The list to search. A check runs with one bench for each of its methods."""

    def __init__(self, options: Options, cell: Cell, recorder: Recorder) -> None:
        self.options = options
        self.cell = cell
        self.recorder = recorder
        """Records the current check's exchanges, and which of them its verdict is based on."""

    @property
    def profile(self) -> Profile:
        """The profile, which says whose catalog the target serves."""
        return self.options.effective_profile

    @property
    def share_of_examples(self) -> float:
        """The share of the usual number of generated cases for this list in this cell."""
        return 1

    @property
    def listing_seconds(self) -> float:
        """The observed duration of a complete listing, if checks list."""
        return 0

    @property
    def performances(self) -> int:
        """Maximum number of times to run a check, once for each method it covers."""
        return 1

    @property
    def method(self) -> str:
        """The search method."""
        return self.primitive.method

    def counts_unverified(self, verdict: UnverifiableError) -> bool:
        """Return whether a rule that could not be exercised with this workbench counts as unverified."""
        return True

    async def benches_for(self, check: Check) -> Sequence[Workbench]:
        """Return the workbenches to run a check with, one for each method: this one first, if at all."""
        return [self]

    async def run(self, check: Check) -> None:
        """Run the body of a check with this workbench."""
        await check.run(self)

    async def perform(self, check: Check) -> None:
        """Run a check for each method that it covers and the target offers.

        Messages about a method other than `tools/search` start with that method. Violations take precedence over
        outcomes that could not be verified.
        """
        verdicts, passed = list[VerdictError](), False
        for bench in await self.benches_for(check):
            tested = len(self.recorder.judged)
            try:
                await bench.run(check)
                passed = passed or len(self.recorder.judged) > tested or bench is self
            except VerdictError as verdict:
                if bench is not self:
                    verdict.message = f"{bench.method}: {verdict.message}"
                if not isinstance(verdict, UnverifiableError) or bench.counts_unverified(verdict):
                    verdicts.append(verdict)
                left_out = isinstance(verdict, InapplicableError) and verdict.kind != "not-offered"
                if isinstance(verdict, ViolationError) or (left_out and bench is self):
                    raise
        for kind in (UnverifiableError, *(() if passed else (InapplicableError,))):
            for verdict in verdicts:
                if isinstance(verdict, kind):
                    raise verdict
        if not passed:
            raise InapplicableError("no search that this is about is offered, or it is judged in another cell")

    async def each(self, cases: Iterable[Case], act: Callable[[Case], Awaitable[Found]]) -> list[Found]:
        """Return the results of `act` for each case, in order; raises the error of the first case that fails.

        Cases must be independent, because several can run concurrently.
        """
        return [await act(case) for case in cases]

    def expect(self, condition: bool, exchange: Exchange, message: str, *, case: str | None = None) -> None:
        """Test an expectation against an exchange; raises `ViolationError`. A check that tests none cannot pass."""
        if exchange.replied:
            self.recorder.judged.append(exchange.number)
        if not condition:
            raise ViolationError(message, exchange, case)

    def expect_result(self, exchange: Exchange, what: str, *, case: str | None = None) -> None:
        """Expect a request to return a result."""
        self.expect(exchange.result is not None, exchange, f"{what} got {exchange.describe()}", case=case)

    def require(
        self, condition: bool, message: str, exchange: Exchange | None = None, *, consequence_of: str | None = None
    ) -> None:
        """Continue only if the rule can be exercised; otherwise, raise `UnverifiableError`.

        The rule of another check names the cause, if that check failed in this cell.
        """
        if not condition:
            raise UnverifiableError(message, exchange, consequence_of=consequence_of)

    def require_result(self, exchange: Exchange, what: str) -> None:
        """Continue only if a request that the check depends on returned a result."""
        self.require(exchange.result is not None, f"{what} got {exchange.describe()}", exchange)

    def applies(self, condition: bool, message: str) -> None:
        """Continue only if the target has the optional feature that the rule is about; raises `InapplicableError`."""
        if not condition:
            raise InapplicableError(message)


def check_seconds(effort: Effort, milliseconds: float, listing_seconds: float = 0) -> float:
    """Return the time limit in seconds for a check, given the target's average response time in milliseconds.

    Being slow is not an error, so a slow target gets up to six times as much time. If a complete listing is slow, the
    limit allows for ten of them, up to ten minutes.
    """
    usual = _CHECK_SECONDS[effort] * min(max(1, milliseconds / _USUAL_MILLISECONDS), _LONGEST_EXTENSION)
    return usual + min(_LISTINGS * listing_seconds, _LISTINGS_SECONDS)


async def run_check(check: Check, bench: Workbench, *, deadline: float) -> Result:
    """Run a check in a cell, until the monotonic `deadline` at most. Every outcome becomes a result."""
    recorder = bench.recorder
    if (skipped := _skipped(check, bench)) is not None:
        return skipped
    recorder.begin(check.id, in_every_cell=all(map(check.applies, CELLS)))
    began = time.monotonic()
    verdict = await _verdict(check, bench, deadline - began)
    if recorder.deaths and (verdict is None or isinstance(verdict, UnverifiableError | InapplicableError)):
        ended, exchange = recorder.deaths[0]
        verdict = ViolationError(f"{ENDED}: {ended}", exchange)
    status: Status = verdict.status if verdict else "pass"
    if isinstance(verdict, ViolationError):
        status = _BROKEN[check.level]
    message = cut_within(verdict.message, _MESSAGE_CHARACTERS) if verdict else ""
    return replace(
        _result(check, bench, status, message, verdict.consequence_of if verdict else None),
        skip=verdict.kind if isinstance(verdict, InapplicableError) else None,
        evidence=_evidence(recorder, verdict),
        milliseconds=round((time.monotonic() - began) * 1000, 1),
    )


def not_run(check: Check, bench: Workbench, why: str, *, consequence_of: str) -> Result:
    """Return the result of a check that was not run; it is skipped if it does not apply in the cell anyway."""
    return _skipped(check, bench) or _result(check, bench, "unverified", why, consequence_of)


def _skipped(check: Check, bench: Workbench) -> Result | None:
    if (reason := _inapplicable(check, bench)) is None:
        return None
    skip, why = reason
    return replace(_result(check, bench, "skip", why), skip=skip)


def _result(check: Check, bench: Workbench, status: Status, message: str, cause: str | None = None) -> Result:
    return Result(
        check=check.id,
        level=check.level,
        cell=bench.cell,
        status=status,
        message=message,
        consequence_of=named(check.id, cause) if cause else None,
    )


async def _verdict(check: Check, bench: Workbench, left: float) -> VerdictError | None:
    """Run a check's body and return what ended it early, or `None` if it passed."""
    usual = check_seconds(bench.options.effort, bench.recorder.milliseconds, bench.listing_seconds)
    usual *= bench.performances
    seconds = min(usual, max(0, left))
    latest = anyio.current_time() + left
    try:
        with anyio.fail_after(seconds) as time_limit:

            def wait_longer(waited: float) -> None:
                time_limit.deadline = min(time_limit.deadline + waited, latest)

            token = WAITING.set(wait_longer)  # such as for a rate limit
            try:
                await bench.perform(check)
            finally:
                WAITING.reset(token)
    except Exception as raised:  # an error in the suite becomes this check's result, and does not end the run
        error = raised
        while isinstance(error, ExceptionGroup):  # it came from a task group
            error = cast("ExceptionGroup[Exception]", error).exceptions[0]
        if isinstance(error, VerdictError):
            return error
        if isinstance(error, TimeoutError):
            if anyio.current_time() >= latest:
                return UnverifiableError(NOT_FINISHED)
            return UnverifiableError(f"not finished within {seconds:.0f} s")
        if isinstance(error, RefusedError | TargetError):
            return UnverifiableError(f"{GONE}: {error}")
        return VerdictError(f"the suite failed: {type(error).__name__}: {error}")
    if not bench.recorder.judged:
        return UnverifiableError("nothing that the target answered could be tested")
    return None


def _evidence(recorder: Recorder, verdict: VerdictError | None) -> Evidence:
    decisive = (verdict.exchange if verdict else None) or recorder.last
    if decisive is not None and memory([decisive.sent, decisive.answer.message]) > _DECISIVE_BYTES:
        decisive = decisive.in_brief()
    requests: list[Exchange] = []
    if isinstance(verdict, ViolationError) and verdict.exchange is not None:
        for exchange in verdict.steps or recorder.leading_to(verdict.exchange):
            # A very large answer is cut. The request is complete, so that it can be sent again.
            large = memory(exchange.answer.message) > _DECISIVE_BYTES
            requests.append(replace(exchange.in_brief(), sent=exchange.sent) if large else exchange)
    return Evidence(
        observations=len(recorder.judged),
        exchanges=tuple(sorted({*recorder.judged, *recorder.taken})),
        decisive=decisive if verdict else None,
        case=cut_within(verdict.case, _CASE_CHARACTERS) if verdict and verdict.case is not None else None,
        requests=tuple(requests),
        catalog=verdict.catalog if verdict else None,
    )


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
