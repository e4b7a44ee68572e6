"""How targets are started, and that nothing of them is left."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.target import StdioTarget, UrlTarget
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

TELLS_WHO_IT_IS = "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); sys.stdin.read()"


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(("catalog", "started"), [("core", 3), ("single", 2), (None, 2)])
async def test_each_connection_has_a_process_of_its_own_and_fixtures_one_ahead(
    catalog: str | None, started: int, tmp_path: Path
):
    file = tmp_path / "pids"
    pids: list[int] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            argv = (sys.executable, "-c", TELLS_WHO_IT_IS, str(file))
            target = StdioTarget(argv, tasks=tasks, folder=tmp_path, env={}, cwd=None, start_seconds=5)
            transports = [await target.connect(lambda _: None, catalog) for _ in range(2)]
            while len(pids := pids_in(file)) < started:
                await anyio.lowlevel.checkpoint()
            assert len({*pids}) == started
            assert all(map(is_alive, pids))
            for transport in transports:
                await transport.aclose()
            await target.aclose()
            tasks.cancel_scope.cancel()
    assert pids_in(file) == pids
    assert not any(map(is_alive, pids))


async def test_a_server_that_is_running_already_is_given_no_catalogue():
    with pytest.raises(TargetError, match="let the suite start it"):
        UrlTarget("http://127.0.0.1:1/mcp", headers={}, start_seconds=1).place("core", {"tools": []})


def test_a_catalogue_that_changes_has_a_later_time_in_whole_seconds_and_another_one_the_same(tmp_path: Path):
    times: list[int] = []
    for names in (["one"], ["two"], ["two"], ["one"]):
        catalogs.place("changing", {"tools": [{"name": name} for name in names]}, tmp_path)
        times.append(int((tmp_path / "changing.json").stat().st_mtime))
    assert times[0] < times[1] == times[2] < times[3]
