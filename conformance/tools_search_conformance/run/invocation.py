"""One invocation: targets built from options, the run, and the files it leaves behind."""

from __future__ import annotations

import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.model import FIXTURE_FEATURES, Cell, Check, Effort, FixtureFeature, Profile, Result, Run
from tools_search_conformance.report.files import write_reports
from tools_search_conformance.run.baseline import Baseline, settle
from tools_search_conformance.run.registry import registered
from tools_search_conformance.run.runner import Findings, Plan, run_checks, want_all
from tools_search_conformance.target.target import HttpCommandTarget, StdioTarget, Target, UrlTarget
from tools_search_conformance.wire.eras import ERAS, Era
from tools_search_conformance.wire.process import TargetError

__all__ = ["Options", "features_named", "judge_servers", "targets_of", "watch"]

_RUN_SECONDS: Final[dict[Effort, float]] = {"quick": 1800, "default": 1800, "deep": 7200}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    checks: tuple[Check, ...]
    out: Path
    wants: Callable[[Check, Cell], bool] = want_all
    """In which cells to run which of the checks."""
    partial: bool = False
    """Whether `wants` leaves any out."""
    strict: bool = False
    """Whether what the draft only recommends counts as well."""
    sep: int | None = None
    """Number of the proposal that `checks.json` names checks after."""
    argv: tuple[str, ...] = ()
    url: str | None = None
    http_argv: tuple[str, ...] = ()
    era: Era | Literal["auto"] = "auto"
    profile: Profile | None = None
    effort: Effort = "default"
    fixture_features: frozenset[FixtureFeature] = frozenset()
    """What a fixture can do beyond serving a catalog."""
    seed: int = 0
    timeout: float = 10
    start_timeout: float = 20
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    allow_remote: bool = False
    baseline: Baseline = field(default_factory=Baseline)

    brief: bool | None = None
    """Whether a cell has one start of its target, and some cases stand for many; `None` for where effort is quick."""

    @property
    def eras(self) -> Sequence[Era]:
        """The protocol revisions to speak."""
        return ERAS if self.era == "auto" else (self.era,)

    @property
    def effective_brief(self) -> bool:
        """Whether the run is a brief one."""
        return self.effort == "quick" if self.brief is None else self.brief

    @property
    def effective_profile(self) -> Profile:
        """The profile asked for, or the one that fits the target."""
        return self.profile or ("live" if self.url else "fixture")


def features_named(names: Iterable[str]) -> frozenset[FixtureFeature]:
    """Return the fixture features with these names.

    Raises:
        ValueError: there is none with one of them; the message says which there are.
    """
    named = set(names)
    if unknown := sorted(named.difference(FIXTURE_FEATURES)):
        raise ValueError(f"{', '.join(map(repr, unknown))} unknown; there are {', '.join(FIXTURE_FEATURES)}")
    return frozenset(feature for feature in FIXTURE_FEATURES if feature in named)


async def judge_servers(options: Options, progress: Callable[[Result], None]) -> Run:
    """Run the checks and write the reports, those of an interrupted run as well.

    Raises:
        TargetError: there is nothing to judge.
    """
    wire = options.out / "wire"
    wire.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        checks=options.checks,
        wants=options.wants,
        eras=options.eras,
        profile=options.effective_profile,
        effort=options.effort,
        seed=options.seed,
        features=options.fixture_features,
        brief=options.effective_brief,
        request_seconds=options.timeout,
        run_seconds=_RUN_SECONDS[options.effort],
        wire=wire,
        secret_headers=frozenset(name.lower() for name in options.headers),
        progress=progress,
    )
    run = settle(await _run(options, plan), options.baseline, datetime.now(UTC).date())
    write_reports(run, options.out, sep=options.sep)
    return run


async def _run(options: Options, plan: Plan) -> Run:
    began, started = time.monotonic(), datetime.now(UTC)
    parts: list[Findings] = []
    failure: TargetError | None = None
    received: list[int] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory(prefix="tools-search-") as folder:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as checking:
                tasks.start_soon(watch, checking, received)
                try:
                    targets += targets_of(options, tasks, Path(folder))
                    parts += [Findings() for _ in targets]
                    await run_checks(targets, plan, parts)
                except TargetError as error:
                    failure = error  # raised outside the group, which would wrap it
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as ending:
                    for target in targets:
                        ending.start_soon(target.aclose)
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    found = Findings.of(parts)
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
        partial=options.partial or len(plan.checks) < len(registered()),
        strict=options.strict,
        interrupted=received[0] if received else None,
    )


async def watch(scope: anyio.CancelScope, received: list[int]) -> None:
    """Cancel `scope` at the first signal that asks for an end; the second one finds no handler and ends all."""
    # What `nohup` has switched off stays off.
    closed = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *closed) as signals:
        async for number in signals:
            received.append(number)
            scope.cancel()
            return


def targets_of(options: Options, tasks: TaskGroup, folder: Path) -> list[Target]:
    """Return what can be connected to, one for each transport; what is started reads catalogs from below `folder`.

    Each has files of its own there: while both are judged side by side, one check's change is no other's.

    Raises:
        TargetError: the address is none, or another machine's and that was not asked for.
    """
    if options.url:
        address = UrlTarget(
            options.url,
            headers=options.headers,
            start_seconds=options.start_timeout,
            allow_remote=options.allow_remote,
        )
        return [address]
    started: dict[str, Any] = {
        "tasks": tasks,
        "env": options.env,
        "cwd": options.cwd,
        "start_seconds": options.start_timeout,
    }
    targets: list[Target] = []
    if options.argv:
        files = _made(folder / "stdio")
        targets.append(StdioTarget(options.argv, needed=_starts(options), folder=files, **started))
    if options.http_argv:
        files = _made(folder / "http")
        targets.append(HttpCommandTarget(options.http_argv, headers=options.headers, folder=files, **started))
    return targets


def _starts(options: Options) -> float:
    """Return how many usual fixtures are started over stdio: one a cell in a brief run, or else nobody knows."""
    if not options.effective_brief:
        return math.inf
    cells = [Cell(transport="stdio", era=era) for era in options.eras]
    return sum(any(options.wants(check, cell) for check in options.checks) for cell in cells)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
