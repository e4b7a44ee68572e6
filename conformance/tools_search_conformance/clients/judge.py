"""One invocation of `client`: the driver, the cells that it can do, the run, and the files it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ClientBench
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.clients.driver import DriverCommand, DriverError, NoDriverFeatureError
from tools_search_conformance.clients.endpoints import Endpoints, open_endpoints
from tools_search_conformance.clients.peer import declared_in
from tools_search_conformance.model import Cell, Check, Effort, Result, Run, UnavailableCell
from tools_search_conformance.report.files import write_reports
from tools_search_conformance.run.baseline import Baseline, settle
from tools_search_conformance.run.invocation import watch
from tools_search_conformance.run.judging import run_check
from tools_search_conformance.run.runner import Findings, want_all, why_nothing
from tools_search_conformance.run.setting import Setting
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.eras import ERAS, MODERN, Era
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder
from tools_search_conformance.wire.transport import TransportName

__all__ = ["ClientOptions", "judge_client"]

_TRANSPORTS: tuple[TransportName, ...] = ("stdio", "http")


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What was asked for on the command line."""

    checks: tuple[Check, ...]
    out: Path
    argv: tuple[str, ...]
    wants: Callable[[Check, Cell], bool] = want_all
    """In which cells to run which of the checks."""
    partial: bool = False
    """Whether `wants` leaves any out."""
    strict: bool = False
    """Whether what the draft only recommends counts as well."""
    sep: int | None = None
    """Number of the proposal that `checks.json` names checks after."""
    one_shot: bool = False
    """Whether `argv` is no driver, but a client after the contract of the official suite."""
    era: Era | Literal["auto"] = "auto"
    transport: TransportName | Literal["auto"] = "auto"
    effort: Effort = "default"
    seed: int = 0
    timeout: float = 10
    start_timeout: float = 20
    run_seconds: float = 900
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    baseline: Baseline = field(default_factory=Baseline)


class _NotOfferedError(Exception):
    """The client has nothing to judge in this cell, or cannot do it; the message says why."""

    def __init__(self, reason: str, *, expected: bool) -> None:
        super().__init__(reason)
        self.expected = expected


async def judge_client(options: ClientOptions, progress: Callable[[Result], None]) -> Run:
    """Run the checks and write the reports, those of an interrupted run as well.

    Raises:
        TargetError: there is nothing to judge, or the driver is not to be trusted.
    """
    wire = options.out / "wire"
    wire.mkdir(parents=True, exist_ok=True)
    run = settle(await _Judge(options, wire, progress).run(), options.baseline, datetime.now(UTC).date())
    write_reports(run, options.out, sep=options.sep)
    return run


class _Judge:
    def __init__(self, options: ClientOptions, wire: Path, progress: Callable[[Result], None]) -> None:
        self._options = options
        self._wire = wire
        self._progress = progress
        self._found = Findings()
        self._hello: Mapping[str, Any] = {}

    async def run(self) -> Run:
        began, started = time.monotonic(), datetime.now(UTC)
        failure: TargetError | None = None
        received: list[int] = []
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as checking:
                tasks.start_soon(watch, checking, received)
                try:
                    async with open_endpoints(tasks) as endpoints:
                        await self._cells(tasks, endpoints, began + self._options.run_seconds)
                except TargetError as error:
                    failure = error  # raised outside the group, which would wrap it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        named = {name: str(self._hello[name])[:200] for name in ("sdk", "version") if name in self._hello}
        one_shot = {"oneShot": True} if self._options.one_shot else {}
        return Run(
            target={"clients": [{"argv": list(self._options.argv), **one_shot, **named}]},
            profile="fixture",
            effort=self._options.effort,
            seed=self._options.seed,
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 2),
            cells=tuple(self._found.cells),
            unavailable=tuple(self._found.unavailable),
            results=tuple(self._found.results),
            partial=self._options.partial or len(self._options.checks) < len(client_checks()),
            strict=self._options.strict,
            interrupted=received[0] if received else None,
        )

    async def _cells(self, tasks: TaskGroup, endpoints: Endpoints, deadline: float) -> None:
        options = self._options
        command = DriverCommand(
            argv=options.argv,
            one_shot=options.one_shot,
            env=options.env,
            cwd=options.cwd,
            seconds=options.timeout,
            start_seconds=options.start_timeout,
        )
        for transport in _TRANSPORTS if self._options.transport == "auto" else (self._options.transport,):
            for era in ERAS if self._options.era == "auto" else (self._options.era,):
                cell = Cell(transport=transport, era=era)
                if not self._wanted(cell):
                    continue
                recorder = Recorder(cell.name, self._wire / f"{cell.name}.jsonl")
                setting = Setting(
                    cell=cell,
                    profile="fixture",
                    effort=self._options.effort,
                    seed=self._options.seed,
                    seconds=self._options.timeout,
                )
                bench = ClientBench(setting, partial(command.start, tasks), endpoints, recorder)
                try:
                    await self._cell(bench, deadline)
                except _NotOfferedError as error:
                    entry = UnavailableCell(cell=cell, reason=str(error), expected=error.expected)
                    self._found.unavailable.append(entry)
                finally:
                    with anyio.CancelScope(shield=True):
                        await bench.aclose()
                        recorder.close()
        if not self._found.cells:
            raise TargetError(why_nothing(self._found.unavailable))

    def _wanted(self, cell: Cell) -> list[Check]:
        return [check for check in self._options.checks if self._options.wants(check, cell)]

    async def _cell(self, bench: ClientBench, deadline: float) -> None:
        self._hello = (await bench.driver()).hello
        try:
            await _smoke(bench)
        except (DriverError, UnverifiableError) as error:
            raise _NotOfferedError(str(error), expected=True) from error
        except NoDriverFeatureError as error:
            raise _NotOfferedError(str(error), expected=False) from error
        self._found.cells.append(bench.cell)
        for check in self._wanted(bench.cell):
            self._found.results.append(await run_check(check, bench, deadline=deadline))
            self._progress(self._found.results[-1])


async def _smoke(bench: ClientBench) -> None:
    """Go on only where the client connects in this cell's era to an ordinary peer, and declares or uses the extension.

    Raises:
        NoDriverFeatureError: the driver says that it cannot.
        UnverifiableError: it could not.
        _NotOfferedError: it knows nothing of the extension.
    """
    driver = await bench.driver()
    if bench.cell.transport not in driver.features:
        raise NoDriverFeatureError(f"the driver does not name `{bench.cell.transport}` among its features")
    async with bench.connected() as session:
        outcome = await session.search("dispatch a courier")
        opening = session.opening
        capabilities = "server/discover" if bench.cell.era == MODERN else "initialize"
        if not session.peer.searches and declared_in(opening) is None:
            raise _NotOfferedError(
                f"it neither declares {EXTENSION_ID} in {capabilities} nor sends tools/search where that is offered"
                f" (its search returned {outcome.describe()})",
                expected=False,
            )
