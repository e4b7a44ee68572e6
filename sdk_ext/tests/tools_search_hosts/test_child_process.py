"""Child processes: bounded while they run, explained when they end, gone afterwards."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification
from tools_search_hosts import StdioTarget
from tools_search_hosts.child_process import child_streams, inherited_environment
from tools_search_hosts.endings import Ending

pytestmark = pytest.mark.anyio

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
while True:
    time.sleep(1000)
"""


FAMILY = """
import os, signal, subprocess, sys, time

folder, role = sys.argv[1:]


def note(what):
    path = os.path.join(folder, what)
    with open(path + ".draft", "w") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".draft", path)


def start(role, **options):
    subprocess.Popen([sys.executable, __file__, folder, role], start_new_session=True, **options)


def tidy_up(*_):
    note("tidied")
    sys.exit()


if role == "server":
    start("bare", env={})
    start("tidy")
    start("restless")
elif role == "tidy":
    signal.signal(signal.SIGTERM, tidy_up)
elif role == "restless":
    signal.signal(signal.SIGTERM, lambda *_: start("late"))
note(role)
while True:
    time.sleep(1000)
"""
"""A server whose processes have sessions of their own: one without the environment, one that tidies up when it is to
end, and one that starts another one then.
"""


def python(source: str, *arguments: str) -> StdioTarget:
    return StdioTarget(sys.executable, ("-c", source, *arguments))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(happened: Callable[[], object]) -> None:
    while not happened():  # noqa: ASYNC110 - other processes set no events
        await anyio.sleep(0.02)


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


async def test_a_stubborn_server_and_what_it_started_are_gone_afterwards(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with anyio.fail_after(30):
        async with child_streams(python(STUBBORN, str(note)), Ending()):
            await until(lambda: note.exists() and " " in note.read_text())
            pids = [int(pid) for pid in note.read_text().split()]
            assert all(map(is_alive, pids))
        await until(lambda: not any(map(is_alive, pids)))


async def test_processes_that_leave_their_session_may_tidy_up_and_are_gone_afterwards(tmp_path: Path) -> None:
    program = tmp_path / "family.py"
    program.write_text(FAMILY)
    family = [tmp_path / role for role in ("server", "bare", "tidy", "restless", "late")]
    with anyio.fail_after(30):
        async with child_streams(StdioTarget(sys.executable, (str(program), str(tmp_path), "server")), Ending()):
            await until(lambda: all(note.exists() for note in family[:-1]))
        pids = [int(note.read_text()) for note in family if note.exists()]
        await until(lambda: not any(map(is_alive, pids)))
    assert (tmp_path / "tidied").exists()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (python("raise SystemExit(7)"), "it ended with exit code 7"),
        (
            python("print('version 3')"),
            "it ended with exit code 0 and sent no message of MCP; check that `command` and `args` start an MCP server",
        ),
        (python("import os; os.kill(os.getpid(), 9)"), "it was killed by signal 9"),
        (python("import os, time; os.close(1); time.sleep(1000)"), "it closed its standard output"),
        (StdioTarget("yes", ("no message",)), "it sent 100 lines in a row that are not protocol messages"),
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
    assert ended.reason == reason


async def test_a_server_that_prints_now_and_then_is_borne_with() -> None:
    chatter = python(
        "import sys\n"
        "for n in range(300):\n"
        "    print('debug', n) if n else print()\n"
        '    if n % 50 == 0: print(\'{"jsonrpc": "2.0", "method": "n"}\')\n'
        "sys.stdout.flush()"
    )
    ended = Ending()
    with anyio.fail_after(30):
        async with child_streams(chatter, ended) as (incoming, _):
            items = [item async for item in incoming]
    assert sum(isinstance(item, SessionMessage) for item in items) == 6
    assert ended.reason == "it ended with exit code 0"


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


async def test_a_grandchild_that_outlives_its_server_delays_the_end_no_longer_than_a_moment(tmp_path: Path) -> None:
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


async def test_a_proxy_is_inherited_and_a_key_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("SOME_API_KEY", "s3cret")
    assert inherited_environment()["HTTPS_PROXY"] == "http://proxy:1"
    assert "s3cret" not in inherited_environment().values()
