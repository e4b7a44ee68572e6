"""The folder and the servers of the demo, on machines where something is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools_search_client.__main__ import main
from tools_search_client.demo import stage
from tools_search_client.demo.installation import Installation
from tools_search_client.demo.stage import Workspace, demo_servers, make_workspace, missing_packages, missing_servers


def test_the_servers_are_those_that_this_machine_can_run(tmp_path: Path):
    everything = Installation(tmp_path / "sqlite", tmp_path / "bin", (), 1.0)
    assert list(demo_servers(Workspace(tmp_path), everything)) == [
        *("git", "time", "excel", "fetch", "packages", "sqlite"),
        *("everything", "files", "memory"),
    ]
    nothing = Installation(None, None, ("without Node",), 0.0)
    gitless = Workspace(tmp_path, no_git="git is not installed")
    assert list(demo_servers(gitless, nothing)) == ["time", "excel", "fetch", "packages"]
    assert missing_servers(gitless, nothing) == ("no git server: git is not installed", "without Node")


def test_a_machine_without_git_has_no_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", "/nowhere")
    made = make_workspace(tmp_path)
    assert (made.repository.exists(), made.database.exists()) == (False, True)
    assert made.no_git == "git is not installed"


def test_a_git_that_refuses_to_work_costs_its_server_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\necho 'fatal: no' >&2\nexit 128\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "work").mkdir()
    assert make_workspace(tmp_path / "work").no_git == "git failed: fatal: no"


def test_packages_that_are_missing_are_named_with_the_command_that_brings_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert missing_packages() == []
    monkeypatch.setattr(stage, "find_spec", lambda module: None if module == "excel_mcp" else module)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"needs excel-mcp-server. Install the extra [demo]: {sys.executable} -m pip install" in told
    assert "'mcp-ext-tools-search[demo]' (from a checkout: pip install '.[demo]')" in told
