"""One invocation of `client`: the driver, the cells that it can do, the run, and the files it leaves behind."""

from __future__ import annotations

import time
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ClientBench
from tools_search_conformance.clients.driver import DriverError, NoDriverFeatureError
from tools_search_conformance.clients.endpoints import Endpoints, open_endpoints
from tools_search_conformance.clients.peer import declared_in
from tools_search_conformance.model import Cell, Run, UnavailableCell, UnverifiableError
from tools_search_conformance.run.judging import run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.runner import Findings, Progress, conduct, no_progress
from tools_search_conformance.wire.eras import MODERN, TransportName
from tools_search_conformance.wire.record import Recorder

_TRANSPORTS: Final[tuple[TransportName, ...]] = ("stdio", "http")
_RUN_SECONDS: Final = 900


class _NotOfferedError(Exception):
    """The client has nothing to judge in this cell, or cannot do it; the message says why."""

    def __init__(self, reason: str, *, expected: bool) -> None:
        super().__init__(reason)
        self.expected = expected


async def judge_client(options: Options, progress: Progress = no_progress) -> Run:
    """Run the checks and write the reports, of an interrupted run as well.

    Raises:
        TargetError: There is nothing to judge, or the driver is not to be trusted.
    """
    deadline = time.monotonic() + _RUN_SECONDS
    client: dict[str, Any] = {"argv": list(options.argv)} | ({"oneShot": True} if options.one_shot else {})

    async def judge(tasks: TaskGroup, found: Findings) -> None:
        found.target = {"clients": [client]}
        async with open_endpoints(tasks) as endpoints:
            for transport in _TRANSPORTS if options.transport == "auto" else (options.transport,):
                for era in options.eras:
                    await judge_cell(Cell(transport=transport, era=era), tasks, endpoints, found)
        found.require_cells()

    async def judge_cell(cell: Cell, tasks: TaskGroup, endpoints: Endpoints, found: Findings) -> None:
        if not options.selection.wanted(cell):
            return
        recorder = Recorder(cell.name, options.out / "wire" / f"{cell.name}.jsonl")
        bench = ClientBench(options, cell, tasks, endpoints, recorder)
        try:
            hello = (await bench.driver()).hello
            client.update({name: str(hello[name])[:200] for name in ("sdk", "version") if name in hello})
            await _smoke(bench)
            found.cells.append(cell)
            for check in options.selection.wanted(cell):
                found.results.append(await run_check(check, bench, deadline=deadline))
                progress(found.results[-1])
        except _NotOfferedError as error:
            found.unavailable.append(UnavailableCell(cell=cell, reason=str(error), expected=error.expected))
        finally:
            with anyio.CancelScope(shield=True):
                await bench.aclose()
                recorder.close()

    return await conduct(options, judge)


async def _smoke(bench: ClientBench) -> None:
    """Go on only where the client connects in this cell's era to an ordinary peer, and declares or uses the extension.

    Raises:
        _NotOfferedError: It could not, or knows nothing of the extension.
    """
    try:
        await _require_extension(bench)
    except (DriverError, UnverifiableError) as error:
        raise _NotOfferedError(str(error), expected=True) from error
    except NoDriverFeatureError as error:
        raise _NotOfferedError(str(error), expected=False) from error


async def _require_extension(bench: ClientBench) -> None:
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
