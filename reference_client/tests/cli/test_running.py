"""Signals while a command runs: an exit code, no traceback, no process left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from .conftest import Until

PROGRAM = [sys.executable, "-m", "tools_search_client"]
STUBBORN = Path(__file__).parents[3] / "reference_server/tests/servers/raw.py"
VERDICT_ALONE = """
from tools_search_client.__main__ import main
from tools_search_client.demo import steps
steps.STEPS = {"judge": steps.STEPS["judge"]}
main()
"""
"""Runs the program, whose demo has one step."""


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.rotating
@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_it_with_its_own_exit_code_and_leaves_no_process(
    liar: Any, write_configuration: Any, until: Until, number: signal.Signals
) -> None:
    server = liar("hangs")
    program = [*PROGRAM, "search", "x", "--json", "--config", str(write_configuration({"s": server.as_configured()}))]
    with anyio.fail_after(30):
        async with await anyio.open_process(program) as process:
            await until(lambda: bool(server.asked("tools/search")))
            process.send_signal(number)
            assert process.stdout is not None
            assert process.stderr is not None
            output = b"".join([chunk async for chunk in process.stdout])
            errors = b"".join([chunk async for chunk in process.stderr])
            code = await process.wait()
        await until(lambda: not is_alive(server.pid))
    assert (code, errors.decode()) == (128 + number, f"Error: interrupted by {number.name}\n")
    assert json.loads(output)["error"]["type"] == "Interrupted"


@pytest.mark.anyio
@pytest.mark.parametrize("number", [None, signal.SIGTERM])
async def test_servers_that_do_not_stop_are_ended_with_all_that_they_have_started(
    tmp_path: Path, until: Until, number: signal.Signals | None
) -> None:
    server = shlex.join([sys.executable, str(STUBBORN), "stubborn", str(tmp_path)])
    asked = ["search", "plain"] if number is None else ["call", "plain", "{}", "--yes"]
    notes = [tmp_path / "pid", tmp_path / "family"]
    with anyio.fail_after(60):
        async with await anyio.open_process([*PROGRAM, *asked, "--command", server], stdout=None) as process:
            await until(lambda: len([pid for note in notes if note.exists() for pid in note.read_text().split()]) == 3)
            pids = [int(pid) for note in notes for pid in note.read_text().split()]
            if number is not None:
                process.send_signal(number)
            await process.wait()
        await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.rotating
@pytest.mark.anyio
async def test_the_demo_is_interrupted_at_once_even_while_it_waits_for_another_program(
    tmp_path: Path, until: Until
) -> None:
    program = [sys.executable, "-c", VERDICT_ALONE, "demo"]
    shown = tmp_path / "shown"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with anyio.fail_after(100), shown.open("wb") as output:
        async with await anyio.open_process(program, stdout=output, stderr=output, env=environment) as process:
            await until(lambda: "suite's verdict" in shown.read_text() and any(tmp_path.glob("tools-search-verdict-*")))
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(10):
                assert await process.wait() == 128 + signal.SIGTERM
    assert "Traceback" not in shown.read_text()
    assert names_in(tmp_path) == ["shown"]
