"""One run over a server: its targets, a smoke test of each cell before any check, and then the checks, cell by cell.

The smoke test asks whether the target starts, speaks this era, lists its tools and offers the extension. One sentence
then says what forty failures would hide.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import EXTENSION_ID

from tools_search_conformance import catalogs
from tools_search_conformance.model import Cell, Effort, Run, UnavailableCell, UnverifiableError
from tools_search_conformance.run.judging import run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.runner import Findings, Progress, conduct, no_progress
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.pages import Listing, advertised_settings
from tools_search_conformance.target.target import HttpCommandTarget, StdioTarget, Target, UrlTarget
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.codec import JsonObject, as_array
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

_RUN_SECONDS: Final[dict[Effort, float]] = {"quick": 1800, "default": 1800, "deep": 7200}


class NotOfferedError(Exception):
    """The target speaks, but has nothing to judge in this cell; the message says what is missing."""


class UnadvertisedError(NotOfferedError):
    """The target neither advertises the extension in this era nor serves it."""


async def judge_server(options: Options, progress: Progress = no_progress) -> Run:
    """Run the checks and write the reports, of an interrupted run as well.

    Fixtures are judged side by side, since most of the time goes into waiting for them to start and to answer. Servers
    with tools of their own might disturb each other.

    Raises:
        TargetError: There is nothing to judge.
    """
    deadline = time.monotonic() + _RUN_SECONDS[options.effort]

    async def judge(tasks: TaskGroup, found: Findings) -> None:
        targets = targets_of(options, tasks, Path(folder))
        found.target = {"servers": [dict(target.description) for target in targets]}
        judges = [_TargetJudge(options, target, progress, deadline, target is targets[0]) for target in targets]
        turns = anyio.CapacityLimiter(len(targets) if options.effective_profile == "fixture" else 1)
        try:
            async with anyio.create_task_group() as judging:
                for each in judges:
                    judging.start_soon(each.run, turns)
        finally:
            found.merge(each.found for each in judges)
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as closing:
                    for target in targets:
                        closing.start_soon(target.aclose)
        found.require_cells()

    with TemporaryDirectory(prefix="tools-search-") as folder:
        return await conduct(options, judge)


def targets_of(options: Options, tasks: TaskGroup, folder: Path) -> Sequence[Target]:
    """Return the targets to connect to, one for each transport; fixtures read catalogs from below `folder`.

    Each has its own files there, so that a change for one is not seen by the other while both are judged.

    Raises:
        TargetError: The address is no URL, or another machine's and that was not asked for.
    """
    if options.url:
        return [
            UrlTarget(
                options.url,
                headers=options.headers,
                start_seconds=options.start_timeout,
                allow_remote=options.allow_remote,
            )
        ]
    started: dict[str, Any] = {
        "tasks": tasks, "env": options.env, "cwd": options.cwd, "start_seconds": options.start_timeout,
    }  # fmt: skip
    targets: list[Target] = []
    if options.argv:
        (own := folder / "stdio").mkdir(exist_ok=True)
        # A brief run starts one usual fixture a cell; of any other the number is unknown.
        cells = [Cell(transport="stdio", era=era) for era in options.eras]
        brief = sum(bool(options.selection.wanted(cell)) for cell in cells)
        needed = brief if options.effective_brief else math.inf
        targets.append(StdioTarget(options.argv, needed=needed, folder=own, **started))
    if options.http_argv:
        (own := folder / "http").mkdir(exist_ok=True)
        targets.append(HttpCommandTarget(options.http_argv, headers=options.headers, folder=own, **started))
    return targets


class _TargetJudge:
    """Judges one target, in one cell after the other."""

    def __init__(self, options: Options, target: Target, progress: Progress, deadline: float, first: bool) -> None:
        self.found = Findings()
        self._options = options
        self._target = target
        self._progress = progress
        self._deadline = deadline
        self._first = first

    async def run(self, turns: anyio.CapacityLimiter) -> None:
        async with turns:
            await self._run()

    async def _run(self) -> None:
        silent: list[Cell] = []
        promised = False
        for era in self._options.eras:
            cell = Cell(transport=self._target.transport, era=era)
            if not self._options.selection.wanted(cell):
                continue
            try:
                promised = await self._run_cell(cell) or promised
            except NotOfferedError as error:
                silent += [cell] if isinstance(error, UnadvertisedError) else []
                self._note_unavailable(cell, str(error))
            except RefusedError as error:
                expected = era == LEGACY and promised
                reason = f"server/discover promises {LEGACY}, but {error}" if expected else str(error)
                self._note_unavailable(cell, reason, expected=expected)
            except TargetError as error:
                self._note_unavailable(cell, str(error), expected=True)
                break
        if self.found.cells:
            # It supports the extension in one era, so its silence in the other one is judged.
            for cell in silent:
                await self._run_cell(cell, unadvertised=True)

    def _note_unavailable(self, cell: Cell, reason: str, *, expected: bool = False) -> None:
        self.found.unavailable.append(UnavailableCell(cell=cell, reason=reason, expected=expected))

    async def _run_cell(self, cell: Cell, *, unadvertised: bool = False) -> bool:
        """Run the checks of one cell and return whether the target promised the legacy era there."""
        secret = frozenset(name.lower() for name in self._options.headers)
        recorder = Recorder(cell.name, self._options.out / "wire" / f"{cell.name}.jsonl", secret=secret)
        known = bool(self.found.cells)
        bench = Bench(self._options, cell, self._target, recorder, first_cell=self._first and not known)
        try:
            if unadvertised:
                connection = await bench.server.connection()
            else:
                connection = await smoke(bench, known=known)
                self.found.cells.append(cell)
            for check in self._options.selection.wanted(cell):
                if not unadvertised or "advertised" in check.id:
                    self.found.results.append(await run_check(check, bench, deadline=self._deadline))
                    self._progress(self.found.results[-1])
            return cell.era == MODERN and LEGACY in (as_array(connection.server.get("supportedVersions")) or [])
        finally:
            with anyio.CancelScope(shield=True):
                await bench.aclose()
                recorder.close()


async def smoke(bench: Bench, *, known: bool = False) -> Connection:
    """Return the cell's connection once the target has shown that there is something to judge.

    A `known` fixture served its catalog before, so that another listing is a fault for list-unchanged to find.

    Raises:
        TargetError: It cannot be started or reached.
        RefusedError: It does not speak this era.
        NotOfferedError: It does not offer the extension in this era, or is no fixture although it should be one.
    """
    server = bench.server
    connection = await server.connection()
    try:
        listing = await server.listing()
    except UnverifiableError as error:
        raise NotOfferedError(f"it cannot list its tools: {error.message}") from error
    if advertised_settings(connection) is None:
        probe = await server.search({"query": await bench.name_query()})
        if probe.result is None:
            raise UnadvertisedError(f"it does not advertise {EXTENSION_ID}, and refuses tools/search")
    if bench.profile == "fixture" and not known and not _is_fixture(listing, bench.cell.era):
        raise NotOfferedError(
            "it does not serve the catalog that the environment variable TOOLS_SEARCH_CATALOG names;"
            " --profile live judges a server with its own tools"
        )
    with suppress(UnverifiableError):  # a listing that fails later on is for the checks to find
        again = await server.listing()
        # The last tool: a server that moves found tools to the front shows it.
        await server.search({"query": Vocabulary(listing.tools[::-1]).name_query})
        after = await server.listing()
        kept = again.compared_to(listing)(again, after) or not again.same_as(listing)
        bench.first_search = (kept, after.exchange.in_brief())
    return connection


def _is_fixture(listing: Listing, era: Era) -> bool:
    tools: list[JsonObject] = json.loads((files(catalogs) / "core.json").read_bytes())["tools"]
    names = {tool["name"] for tool in tools}
    # Such a definition is none of a legacy tool, so a server may leave the tool out.
    modern = {tool["name"] for tool in tools if tool.get("outputSchema", {"type": "object"}).get("type") != "object"}
    return set(listing.by_name) in ((names, names - modern) if era == LEGACY else (names,))
