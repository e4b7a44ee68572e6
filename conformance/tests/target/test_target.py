"""How targets are started, and that nothing of them is left."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.catalogs import document, made_tool
from tools_search_conformance.model import Cell
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.judge import targets_of
from tools_search_conformance.target.server import Opening, Server
from tools_search_conformance.target.target import HttpCommandTarget, StdioTarget, UrlTarget
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

pytestmark = pytest.mark.anyio

TELLS_WHO_IT_IS = "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); sys.stdin.read()"

LISTENS_LATE = """
import json, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
print(json.dumps({"url": f"http://127.0.0.1:{server.getsockname()[1]}/mcp"}), flush=True)
time.sleep(0.3)
server.listen()
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("catalog", "needed", "started"), [("core", math.inf, 3), ("core", 2, 2), ("single", math.inf, 2), (None, 9, 2)]
)
async def test_each_connection_has_a_process_of_its_own_and_fixtures_one_ahead_while_more_are_needed(
    catalog: str | None, needed: float, started: int, options: Callable[..., Options], tmp_path: Path
):
    file = tmp_path / "pids"
    pids: list[int] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            argv = (sys.executable, "-c", TELLS_WHO_IT_IS, str(file))
            target = StdioTarget(argv, options(), tasks, tmp_path, needed=needed)
            transports = [await target.connect(lambda _: None, catalog) for _ in range(2)]
            while len(pids := pids_in(file)) < started:  # noqa: ASYNC110 - another process sets no events
                await anyio.sleep(0.02)
            assert len({*pids}) == started
            assert all(map(is_alive, pids))
            for transport in transports:
                await transport.aclose()
            await target.aclose()
            tasks.cancel_scope.cancel()
    assert pids_in(file) == pids
    assert not any(map(is_alive, pids))


async def test_a_server_may_say_where_it_is_before_it_listens(options: Callable[..., Options], tmp_path: Path):
    argv = (sys.executable, "-c", LISTENS_LATE)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            late = HttpCommandTarget(argv, options(), tasks, tmp_path)
            url = (await late.connect(lambda _: None, None)).url
            await (await anyio.connect_tcp("127.0.0.1", urlsplit(url).port or 0)).aclose()
            await late.aclose()
            tasks.cancel_scope.cancel()


async def test_what_one_target_of_a_run_is_given_to_serve_is_not_changed_for_the_other(
    target: Callable[..., tuple[str, ...]], options: Callable[..., Options], tmp_path: Path
):
    listed: list[tuple[str, list[str]]] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            chosen = options(argv=target("miniature"), http_argv=target("miniature", "--http"))
            both = targets_of(chosen, tasks, tmp_path)
            for each in both:
                each.place("changing", document([made_tool(each.transport)]))
            for each in both:
                cell = Cell(transport=each.transport, era=MODERN)
                bench = Bench(Server(chosen, cell, each, Recorder(cell.name), Opening(catalog="changing")))
                listed.append((each.transport, [*(await bench.server.listing()).by_key]))
                await bench.aclose()
                await each.aclose()
            tasks.cancel_scope.cancel()
    assert listed == [("stdio", ["meadow_stdio"]), ("http", ["meadow_http"])]


async def test_a_server_that_is_running_already_is_given_no_catalog(options: Callable[..., Options]):
    with pytest.raises(TargetError, match="have the suite start the server"):
        UrlTarget("http://127.0.0.1:1/mcp", options()).place("core", {"tools": []})


def test_a_catalog_that_changes_has_a_later_time_in_whole_seconds_and_another_one_the_same(tmp_path: Path):
    times: list[int] = []
    for names in (["one"], ["two"], ["two"], ["one"]):
        catalogs.place("changing", {"tools": [{"name": name} for name in names]}, tmp_path)
        times.append(int((tmp_path / "changing.json").stat().st_mtime))
    assert times[0] < times[1] == times[2] < times[3]
