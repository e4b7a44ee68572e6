"""Child processes: bounded while they run, explained when they end, gone afterwards."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_ext_tools_search.hosts import StdioTarget
from mcp_types import JSONRPCNotification
from tools_search_server.child_process import child_streams
from tools_search_server.ending import Ending

pytestmark = pytest.mark.anyio

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
while True:
    time.sleep(1000)
"""


def python(source: str, *arguments: str) -> StdioTarget:
    return StdioTarget(sys.executable, ("-c", source, *arguments))


def message(text: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="n", params={"text": text}))


async def test_messages_of_any_size_pass_both_ways() -> None:
    large = "é" * 5_000_000
    with anyio.fail_after(30):
        async with child_streams(StdioTarget("cat"), Ending()) as (incoming, outgoing):
            for text in ("small", large, "again"):
                await outgoing.send(message(text))
                received = await incoming.receive()
                assert isinstance(received, SessionMessage)
                assert received.message == message(text).message


async def test_a_stubborn_server_and_what_it_started_are_gone_afterwards(
    is_alive: Any, until: Any, tmp_path: Path
) -> None:
    note = tmp_path / "pids"
    with anyio.fail_after(30):
        async with child_streams(python(STUBBORN, str(note)), Ending()):
            await until(lambda: note.exists() and " " in note.read_text())
            pids = [int(pid) for pid in note.read_text().split()]
            assert all(map(is_alive, pids))
        await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (python("raise SystemExit(7)"), "it ended with exit code 7"),
        (python("import os; os.kill(os.getpid(), 9)"), "it was killed by signal 9"),
        (python("import os, time; os.close(1); time.sleep(1000)"), "it closed its standard output"),
        (StdioTarget("yes", ("no message",)), "it sent 100 lines in a row that are no messages"),
        (StdioTarget("cat", ("/dev/zero",)), "it sent a line of more than 16 MiB"),
    ],
)
async def test_the_end_of_a_server_is_noticed_and_explained(target: StdioTarget, reason: str) -> None:
    ended = Ending()
    with anyio.fail_after(30):
        async with child_streams(target, ended) as (incoming, _):
            strays = [item async for item in incoming]
            await ended.wait()
    assert all(isinstance(stray, Exception) for stray in strays)
    assert ended.reason.startswith(reason)


async def test_a_server_that_prints_now_and_then_is_borne_with() -> None:
    chatter = python(
        "import sys\n"
        "for n in range(300):\n"
        "    print('debug', n)\n"
        '    if n % 50 == 0: print(\'{"jsonrpc": "2.0", "method": "n"}\')\n'
        "sys.stdout.flush()"
    )
    with anyio.fail_after(30):
        async with child_streams(chatter, Ending()) as (incoming, _):
            items = [item async for item in incoming]
    assert sum(isinstance(item, SessionMessage) for item in items) == 6


async def test_a_server_that_reads_nothing_can_be_left() -> None:
    deaf = python("import time; time.sleep(1000)")
    with anyio.fail_after(30):
        async with child_streams(deaf, Ending()) as (_, outgoing):
            await outgoing.send(message("x" * 10_000_000))


async def test_sending_to_a_server_that_has_ended_fails_cleanly() -> None:
    ended = Ending()
    with anyio.fail_after(30):
        async with child_streams(python(""), ended) as (_, outgoing):
            await ended.wait()
            await outgoing.send(message("x" * 1_000_000))


async def test_what_a_server_writes_to_its_standard_error_is_logged_with_its_name_to_the_last_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    source = (
        "import sys\n"
        "sys.stderr.write('first\\n\\n  \\x1b[31msecond\\n' + 'x' * 1_000_000 + '\\n')\n"
        "sys.stderr.flush()\n"
        "sys.stdin.read()\n"
        "sys.stderr.write('y' * 200_000 + '\\nlast')\n"
    )
    with anyio.fail_after(30):
        async with child_streams(python(source), Ending(), server="talker"):
            while "talker:    [31msecond" not in caplog.messages:  # noqa: ASYNC110 - a log sets no events
                await anyio.sleep(0.01)
    assert caplog.messages[0] == "talker: first"
    assert caplog.messages[-1] == "talker: last"
    assert max(map(len, caplog.messages)) < 4200


async def test_a_server_that_floods_its_standard_error_is_cut_and_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    longest = 0.0
    with anyio.fail_after(30):
        async with child_streams(StdioTarget("sh", ("-c", "yes >&2")), Ending(), server="flood"):
            while not any("flood writes too much" in message for message in caplog.messages):
                began = anyio.current_time()
                await anyio.sleep(0.01)
                longest = max(longest, anyio.current_time() - began)
    assert longest < 1
    assert len(caplog.messages) < 3000


async def test_a_grandchild_that_outlives_its_server_delays_the_end_no_longer_than_a_moment(
    is_alive: Any, until: Any, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    source = (
        "import subprocess, sys\n"
        "p = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "open(sys.argv[1], 'w').write(str(p.pid))\n"
    )
    with anyio.fail_after(10):
        async with child_streams(python(source, str(note)), Ending()):
            await until(lambda: note.exists() and note.read_text())
    os.kill(int(note.read_text()), signal.SIGKILL)


async def test_a_program_that_does_not_exist_cannot_be_started() -> None:
    with anyio.fail_after(30), pytest.raises(FileNotFoundError):
        async with child_streams(StdioTarget("no-such-program-anywhere"), Ending()):
            raise NotImplementedError
