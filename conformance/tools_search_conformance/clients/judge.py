"""Runs the `client` command: the driver, the cells it supports, the run, and the files it writes."""

from __future__ import annotations

import time
from typing import Any

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ClientBench
from tools_search_conformance.clients.driver import DriverError, NoDriverFeatureError
from tools_search_conformance.clients.endpoints import Endpoints, open_endpoints
from tools_search_conformance.clients.peer import declared_in
from tools_search_conformance.model import CELLS, Cell, Run, UnavailableCell, UnverifiableError
from tools_search_conformance.run.judging import RUN_SECONDS, run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.runner import Findings, Progress, conduct, no_progress
from tools_search_conformance.target.primitives import OTHERS
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Recorder


async def judge_client(options: Options, progress: Progress = no_progress) -> Run:
    """Run the checks and write the reports; raises `TargetError` if there is nothing to judge, or no usable driver."""
    deadline = time.monotonic() + RUN_SECONDS[options.effort]
    client: dict[str, Any] = {"argv": list(options.argv)} | ({"oneShot": True} if options.one_shot else {})
    client |= {} if options.cwd is None else {"cwd": options.cwd}

    async def judge(tasks: TaskGroup, found: Findings) -> None:
        found.target = {"clients": [client]}
        async with open_endpoints(tasks) as endpoints:
            for cell in CELLS:
                chosen = cell.era in options.eras and options.transport in ("auto", cell.transport)
                if chosen and options.selection.wanted(cell):
                    await judge_cell(cell, tasks, endpoints, found)

    async def judge_cell(cell: Cell, tasks: TaskGroup, endpoints: Endpoints, found: Findings) -> None:
        recorder = Recorder(cell.name, options.out / "wire" / f"{cell.name}.jsonl")
        bench = ClientBench(options, cell, tasks, endpoints, recorder)
        try:
            hello = (await bench.driver()).hello
            client.update({name: str(hello[name])[:200] for name in ("sdk", "version") if name in hello})
            if (unavailable := await _unavailable(bench)) is not None:
                found.unavailable.append(unavailable)
                return
            found.cells.append(cell)
            if "primitives" in (await bench.driver()).features:
                found.methods |= {primitive.method for primitive in OTHERS}
            for check in options.selection.wanted(cell):
                found.results.append(await run_check(check, bench, deadline=deadline))
                progress(found.results[-1])
        finally:
            with anyio.CancelScope(shield=True):
                await bench.aclose()
                recorder.close()

    return await conduct(options, judge)


async def _unavailable(bench: ClientBench) -> UnavailableCell | None:
    """Return why there is nothing to judge; `None` if the client connects and declares or uses the extension."""
    try:
        await bench.require_features(bench.cell.transport)
        async with bench.connected() as session:
            outcome = await session.search("dispatch a courier")
            if declared_in(session.opening) is not None or session.peer.searches:
                return None
            capabilities = "server/discover" if bench.cell.era == MODERN else "initialize"
            reason = (
                f"it neither declares {EXTENSION_ID} in {capabilities} nor sends tools/search where that is offered"
                f" (its search returned {outcome.describe()})"
            )
            return UnavailableCell(cell=bench.cell, reason=reason)
    except (DriverError, UnverifiableError) as error:
        return UnavailableCell(cell=bench.cell, reason=str(error), expected=True)
    except NoDriverFeatureError as error:
        return UnavailableCell(cell=bench.cell, reason=str(error))
