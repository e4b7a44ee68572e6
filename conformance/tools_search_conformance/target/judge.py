"""Judges a server: its targets, a smoke test of each cell, and then the checks, cell by cell.

The smoke test checks that the target starts, supports this era, lists its tools and offers the extension. If not, one
sentence says what forty failures would obscure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import EXTENSION_ID

from tools_search_conformance import catalogs
from tools_search_conformance.model import CELLS, Cell, Check, Run, UnavailableCell, UnverifiableError, rule_of
from tools_search_conformance.run.causes import TIME_OVER
from tools_search_conformance.run.judging import RUN_SECONDS, not_run, run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.runner import Findings, Progress, conduct, no_progress
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.pages import Listing, advertised_settings
from tools_search_conformance.target.server import Server
from tools_search_conformance.target.target import HttpCommandTarget, Program, StdioTarget, Target, UrlTarget
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.codec import DEFAULT_LIMITS, as_array
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import LEGACY, Era
from tools_search_conformance.wire.http import check_address
from tools_search_conformance.wire.process import TargetError, last_error
from tools_search_conformance.wire.record import Recorder

_LATER_START_SECONDS: Final = 20.0
"""Timeout in seconds for starting a target that was silent in its first era."""
_LONGEST_MESSAGE: Final = 200
"""How many characters to show of a target's error, in its answer and in its log."""
_SERVED: Final = "served-where-advertised"
_BUSY: Final = "busy-refusal"
_WITHOUT_A_SEARCH: Final = frozenset({"advertised", "advertised-legacy-both", "settings-shape"})


class UnjudgeableError(Exception):
    """The target responds and offers the extension, but cannot be judged in this cell; the message says why."""


class UnadvertisedError(Exception):
    """The target neither advertises the extension in this era nor serves it."""


async def judge_server(options: Options, progress: Progress = no_progress) -> Run:
    """Run the checks and write the reports; raises `TargetError` if there is nothing to judge.

    Fixtures are judged concurrently, because most of the time is spent waiting for them to start and answer. Servers
    with their own tools are not, because they might interfere with each other.
    """
    deadline = time.monotonic() + RUN_SECONDS[options.effort]

    async def judge(tasks: TaskGroup, found: Findings) -> None:
        targets = targets_of(options, tasks, Path(folder))
        features = {"fixtureFeatures": sorted(options.fixture_features)} if options.fixture_features else {}
        found.target = {"servers": [{**target.description, **features} for target in targets]}
        judges = [_TargetJudge(options, target, progress, deadline, target is targets[0]) for target in targets]
        turns = anyio.CapacityLimiter(len(targets) if options.effective_profile == "fixture" else 1)
        try:
            async with anyio.create_task_group() as judging:
                for each in judges:
                    judging.start_soon(each.run, turns)
        finally:
            found.target = {"servers": [{**target.description, **features} for target in targets]}
            for each in judges:  # report them one after the other
                found.cells += each.found.cells
                found.unavailable += each.found.unavailable
                found.results += each.found.results
                found.methods |= each.found.methods
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as closing:
                    for target in targets:
                        closing.start_soon(target.aclose)

    with TemporaryDirectory(prefix="tools-search-") as folder:
        return await conduct(options, judge)


def targets_of(options: Options, tasks: TaskGroup, folder: Path) -> Sequence[Target]:
    """Return the targets, one for each transport; raises `TargetError` if an address is not allowed.

    Each fixture reads catalogs from its own folder in `folder`, so that a change for one does not affect the other.
    """
    if options.url:
        check_address(options.url, allow_remote=options.allow_remote)
        return [UrlTarget(options.url, options)]
    targets: list[Target] = []
    if options.argv:
        # A brief run starts one usual fixture per cell; otherwise the number is unknown.
        needed = 1 if options.effective_brief else math.inf
        targets.append(StdioTarget(options.argv, options, tasks, folder / "stdio", needed=needed))
    if options.http_argv:
        targets.append(HttpCommandTarget(options.http_argv, options, tasks, folder / "http"))
    return targets


@dataclass
class _TargetJudge:
    """Judges a target, cell by cell."""

    options: Options
    target: Target
    progress: Progress
    deadline: float
    first: bool
    """Whether it is the run's first target."""
    found: Findings = field(default_factory=Findings)
    silent: list[Cell] = field(default_factory=list[Cell])
    """The cells in which it does not advertise the extension."""
    promised: bool = False
    """Whether `server/discover` promised the legacy era."""
    gone: bool = False
    under_way: int = 0
    """Number of cells being judged."""

    async def run(self, turns: anyio.CapacityLimiter) -> None:
        """Judge the cells in order; a fixture can be judged in both at once."""
        async with turns:
            async with anyio.create_task_group() as judging:
                for cell in (Cell(transport=self.target.transport, era=era) for era in self.options.eras):
                    if self.options.selection.wanted(cell) and not self.gone:
                        go_on = anyio.Event()
                        judging.start_soon(self._judge_cell, cell, go_on)
                        await go_on.wait()
            # If it supports the extension in one era, its silence in the other is judged.
            for cell in self.silent if self.found.cells else ():
                with suppress(RefusedError, TargetError):  # it stays excluded
                    await self._run_cell(cell, self.target, unadvertised=True)
        self.found.results.sort(key=lambda result: CELLS.index(result.cell))

    async def _judge_cell(self, cell: Cell, go_on: anyio.Event) -> None:
        """Judge a cell, with a separate target while another cell is judged; sets `go_on` when the next can begin."""
        if self.found.cells and time.monotonic() > self.deadline:
            self.found.unavailable.append(UnavailableCell(cell=cell, reason=TIME_OVER, expected=True))
            go_on.set()
            return
        target = self.target.another() if self.under_way and isinstance(self.target, Program) else self.target
        self.under_way += 1
        try:
            await self._run_cell(cell, target, go_on)
        except UnadvertisedError as error:
            self.silent.append(cell)
            self.found.unavailable.append(UnavailableCell(cell=cell, reason=str(error)))
        except UnjudgeableError as error:
            self.found.unavailable.append(UnavailableCell(cell=cell, reason=str(error), expected=True))
        except RefusedError as error:
            if not error.exchange.replied:  # do not wait that long again for the other era
                seconds = min(self.target.options.start_timeout, _LATER_START_SECONDS)
                self.target.options = replace(self.target.options, start_timeout=seconds)
            reason, expected = str(error), not error.is_refusal
            if cell.era == LEGACY and self.promised:
                reason, expected = f"server/discover promises {LEGACY}, but {reason}", True
            self.found.unavailable.append(UnavailableCell(cell=cell, reason=reason, expected=expected))
        except TargetError as error:
            self.found.unavailable.append(UnavailableCell(cell=cell, reason=str(error), expected=True))
            self.gone = True
        finally:
            self.under_way -= 1
            go_on.set()
            if target is not self.target:
                with anyio.CancelScope(shield=True):
                    await target.aclose()

    async def _run_cell(
        self, cell: Cell, target: Target, go_on: anyio.Event | None = None, *, unadvertised: bool = False
    ) -> None:
        options, found, known = self.options, self.found, bool(self.found.cells)
        secret = frozenset(name.lower() for name in options.headers)
        recorder = Recorder(cell.name, options.out / "wire" / f"{cell.name}.jsonl", secret=secret)
        server = Server(options, cell, target, recorder)
        bench = Bench(server, first_cell=self.first and not known, first_of_target=not known)
        try:
            if unadvertised:
                await bench.server.connection()
            else:
                connection = await smoke(bench)
                bench.early_death = next(iter(recorder.deaths), None)
                found.cells.append(cell)
                found.methods |= {other.method for other in bench.offered if other.has_served}
                self.promised = LEGACY in (as_array(connection.server.get("supportedVersions")) or [])
                # A brief run starts one process for both eras over HTTP, so that it can listen on a fixed port.
                shares = isinstance(target, HttpCommandTarget) and options.effective_brief
                at_once = isinstance(target, Program) and (not shares or bench.server.concurrency.slow)
                if go_on is not None and bench.profile == "fixture" and at_once:
                    go_on.set()
            cause = ""  # the rule of the check that shows that no search is served
            checks = sorted(options.selection.wanted(cell), key=lambda check: check.rule != _SERVED)
            for check in checks:
                if check is checks[-1] and isinstance(target, StdioTarget):
                    target.needed = min(target.needed, 1)  # do not start one ahead that is not needed
                if unadvertised and not check.rule.startswith("advertised"):
                    continue
                await bench.close_unused()
                if not cause or check.rule == cause or check.rule in _WITHOUT_A_SEARCH:
                    result = await run_check(check, bench, deadline=self.deadline)
                else:
                    result = not_run(check, bench, f"no search is served; see {cause}", consequence_of=cause)
                if check.rule == _SERVED:
                    failed = result.status == "fail" and not bench.has_served
                    cause = _SERVED if failed else rule_of(result.consequence_of or "")
                found.results.append(result)
                self.progress(result)
            await self._judge_load_again(bench, checks)
        finally:
            with anyio.CancelScope(shield=True):
                await bench.aclose()
                recorder.close()

    async def _judge_load_again(self, bench: Bench, checks: Sequence[Check]) -> None:
        """Judge how the server says that it is too busy once more if later checks met an error that passed."""
        met = any(each.faults_of_load for each in (bench, *bench.offered))
        for check in (check for check in checks if met and check.rule == _BUSY):
            for place, result in enumerate(self.found.results):
                if (result.cell, result.check, result.status) == (bench.cell, check.id, "pass"):
                    self.found.results[place] = await run_check(check, bench, deadline=self.deadline)


async def smoke(bench: Bench) -> Connection:
    """Return the cell's connection after checking that there is something to judge.

    Raises:
        TargetError: The target cannot be started or reached.
        RefusedError: It does not open a connection in this era.
        UnadvertisedError: It does not offer the extension in this era.
        UnjudgeableError: It lists nothing to find, or is not a fixture although it should be.
    """
    server = bench.server
    connection = await server.connection()
    try:
        listing = await server.listing()
    except UnverifiableError as error:
        bounds = (DEFAULT_LIMITS.message_bytes, DEFAULT_LIMITS.values)
        large = any(f"more than {bound} " in error.message for bound in bounds)
        hint = "; have tools/list return smaller pages" if large else ""
        refusal = error.exchange and error.exchange.error
        said = f" ({refusal.message[:_LONGEST_MESSAGE]})" if refusal and refusal.message else ""
        logged = " ".join(" ".join(last_error(server.transport.logged or "")).split())[:_LONGEST_MESSAGE]
        words = f"{error.message}{said}{hint}{logged and f'; it logged: {logged}'}"
        raise UnjudgeableError(f"it could not list its tools: {words}") from error
    if advertised_settings(connection) is None:
        try:
            probe = await server.search({"query": await bench.key_query()})
        except UnverifiableError as error:
            raise UnjudgeableError(f"it does not advertise {EXTENSION_ID}, and {error.message}") from error
        if probe.result is None:
            raise UnadvertisedError(f"it does not advertise {EXTENSION_ID}, and refuses tools/search")
    if bench.profile == "fixture" and not _is_fixture(listing, bench.cell.era):
        raise UnjudgeableError(
            "it does not serve the catalog that the environment variable TOOLS_SEARCH_CATALOG names."
            " To test a server with its own tools, use --profile live. To pass on a variable it needs, use --env NAME"
        )
    await bench.list_twice()
    await bench.find_others()
    listings = [listing, *(other.server.last_listing for other in bench.offered)]
    if not any(each.items for each in listings if each is not None):
        raise UnjudgeableError("its list of tools is empty, so there is nothing to search")
    with suppress(UnverifiableError):  # the checks find searches that fail
        # Use the last tool, to detect a server that moves found tools to the front.
        found = await server.search({"query": Vocabulary(listing.items[::-1]).key_query})
        for each in (bench, *bench.offered):
            await each.note_first_search()
        await server.find_concurrency(found)
        for each in bench.offered:
            if each.has_served and each.first_answer is not None:
                await each.server.find_concurrency(await each.server.search(each.first_answer.params))
    return connection


def _is_fixture(listing: Listing, era: Era) -> bool:
    tools = catalogs.tools("core")
    names = {tool["name"] for tool in tools}
    # This is not a valid definition of a legacy tool, so a server can leave it out.
    modern = {tool["name"] for tool in tools if tool.get("outputSchema", {"type": "object"}).get("type") != "object"}
    return set(listing.by_key) in ((names, names - modern) if era == LEGACY else (names,))
