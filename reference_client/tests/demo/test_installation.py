"""Extra servers: installed once, or left out with a reason."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tools_search_client.demo.installation import install_extra_servers

Ran = subprocess.CompletedProcess[str]


def pretend(monkeypatch: pytest.MonkeyPatch, run: Callable[[Sequence[str]], Ran]) -> list[Sequence[str]]:
    """Replace the programs that install by `run`, and return the list of what was run."""
    commands: list[Sequence[str]] = []

    def record(command: Sequence[str], **_: Any) -> Ran:
        commands.append(command)
        return run(command)

    monkeypatch.setattr(subprocess, "run", record)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return commands


def finished(command: Sequence[str], code: int = 0, output: str = "", errors: str = "") -> Ran:
    return subprocess.CompletedProcess(command, code, output, errors)


def test_extra_servers_are_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def run(command: Sequence[str]) -> Ran:
        return finished(command, output="v22.1.0" if command[-1] == "--version" else "")

    commands = pretend(monkeypatch, run)
    said: list[str] = []
    first = install_extra_servers(tmp_path, said.append)
    again = install_extra_servers(tmp_path, said.append)
    assert (first.notes, len(said)) == ((), 2)
    assert first.legacy_server == again.legacy_server == tmp_path / "python-legacy/bin/mcp-server-sqlite"
    assert first.node_programs == again.node_programs == tmp_path / "node/node_modules/.bin"
    assert sum("install" in command for command in commands) == 2


def test_a_failed_installation_becomes_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def run(command: Sequence[str]) -> Ran:
        if command[-1] == "--version":
            return finished(command, output="v22.1.0")
        if command[0].endswith("npm"):
            raise subprocess.TimeoutExpired(command, 300)
        return finished(command, code=1, errors="trying\nERROR: no network\n")

    pretend(monkeypatch, run)
    installed = install_extra_servers(tmp_path, lambda _: None)
    assert (installed.legacy_server, installed.node_programs) == (None, None)
    assert "ERROR: no network" in installed.notes[0]
    assert "timed out" in installed.notes[1]


@pytest.mark.parametrize("version", ["v16.20.0", "", "garbage"])
def test_an_old_node_is_no_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str):
    pretend(monkeypatch, lambda command: finished(command, code=0 if command[-1] == "--version" else 1, output=version))
    installed = install_extra_servers(tmp_path, lambda _: None)
    assert "Node.js 18" in installed.notes[1]


def test_a_machine_without_node_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pretend(monkeypatch, lambda command: finished(command, code=1))
    monkeypatch.setattr(shutil, "which", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    notes = install_extra_servers(tmp_path, lambda _: None).notes
    assert "Node.js 18" in notes[1]
    assert "exited with code 1" in notes[0]


def test_a_cache_that_cannot_be_written_is_done_without_and_named(tmp_path: Path):
    (tmp_path / "file").touch()
    installed = install_extra_servers(tmp_path / "file" / "demo", lambda _: None)
    assert (installed.legacy_server, installed.node_programs) == (None, None)
    assert installed.notes == (
        f"no extra servers: cannot write to {tmp_path}/file/demo (Not a directory); "
        "set XDG_CACHE_HOME to a writable folder",
    )


def test_the_reason_is_picked_from_the_output_of_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    said = (
        "npm error code ENOTFOUND\nnpm error network request to http://registry/x failed, reason: no such host\n"
        "npm error network This is a problem related to network connectivity.\n"
        "npm error A complete log of this run can be found in: /x/debug-0.log\n"
    )

    def run(command: Sequence[str]) -> Ran:
        return finished(command, output="v22.1.0") if command[-1] == "--version" else finished(command, 1, errors=said)

    pretend(monkeypatch, run)
    notes = install_extra_servers(tmp_path, lambda _: None).notes
    assert notes[1].endswith("network request to http://registry/x failed, reason: no such host")
