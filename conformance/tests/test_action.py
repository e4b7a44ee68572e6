"""The GitHub Action: its script is run as a runner would run it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools_search_conformance.cli.judging_commands import client, server

CONFORMANCE: Final = Path(__file__).parent.parent
ACTION: Final[dict[str, Any]] = yaml.safe_load((CONFORMANCE / "action.yml").read_text(encoding="utf-8"))
(STEP,) = ACTION["runs"]["steps"]
FLAGS: Final = {"one-shot", "allow-remote", "strict"}
EACH: Final = {"header", "env", "only", "requirement", "section", "level", "cell"}
"""Inputs of which each line is an option."""
HOSTILE: Final = "x'\"; touch pwned; $(touch pwned) `touch pwned` && touch pwned\nverdict=CONFORMANT"


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    given = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    variables = {variable: given[source[len("${{ inputs.") : -len(" }}")]] for variable, source in STEP["env"].items()}
    environment = os.environ | variables
    environment |= {"RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(CONFORMANCE)}
    environment |= {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_OUTPUT": str(folder / "output")}
    script = ["bash", "-c", STEP["run"]]
    return subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def outputs(folder: Path) -> dict[str, str]:
    lines = (folder / "output").read_text().splitlines() if (folder / "output").exists() else []
    return dict(line.split("=", 1) for line in lines)


def install(folder: Path, judge: str) -> Path:
    """Have a Python in the folder make environments that hold what is installed already, and this program as judge."""
    program = folder / "python"
    script = f"""#!/bin/bash
mkdir -p "$3/bin"
printf '#!/bin/bash\\n' >"$3/bin/pip"
printf '#!/bin/bash\\nexec {sys.executable} "$@"\\n' >"$3/bin/python"
printf '#!/bin/bash\\nexec {judge} "$@"\\n' >"$3/bin/tools-search-conformance"
chmod +x "$3"/bin/*
"""
    program.write_text(script)
    program.chmod(0o755)
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Give a folder with a Python whose environments hold the judge."""
    return install(tmp_path, f"{sys.executable} -m tools_search_conformance")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Give a folder with a Python whose environments hold a judge that only writes its arguments to `given`."""
    judge = tmp_path / "judge.py"
    judge.write_text(
        "import json, pathlib, sys\npathlib.Path('given').write_text(json.dumps(sys.argv[1:]))\nsys.exit(3)\n"
    )
    return install(tmp_path, f"{sys.executable} -I -S {judge}")


@pytest.mark.parametrize(
    ("fault", "only", "out", "status", "verdict"),
    [
        ("none", "limit-*", HOSTILE, 0, "PASSED, BUT NOT EVERY CHECK WAS CHOSEN"),
        ("limit-zero-served", "limit-invalid", "report", 1, "NOT CONFORMANT"),
    ],
)
def test_the_verdict_becomes_the_status_the_summary_and_the_outputs(
    installed: Path, fault: str, only: str, out: str, status: int, verdict: str
):
    command = f"{sys.executable} {CONFORMANCE / 'tests' / 'target.py'} miniature --fault {fault}"
    given = {"out": out, "only": only, "effort": "quick", "python": str(installed / "python")}
    done = run_action(installed, command=command, **given)
    assert done.returncode == status, done.stderr
    assert (installed / "summary").read_text().startswith(f"## tools/search: {verdict}")
    told = outputs(installed)
    assert told.keys() == ACTION["outputs"].keys()
    assert told["word"] == verdict
    assert told["verdict"].startswith(f"{verdict} (fixture profile; stdio; 2026-07-28 and 2025-11-25; tools/search, ")
    assert (int(told["must-failed"]), told["exit-status"]) == (status, str(status))
    assert told["report"].startswith(out.partition("\n")[0])
    assert json.loads((installed / out / "report.json").read_text())["verdict"]["sentence"] == told["verdict"]
    assert not (installed / "pwned").exists()


def test_a_driver_is_judged_as_a_client(installed: Path):
    driver = f"{sys.executable} {CONFORMANCE / 'tests' / 'target.py'} null_drivers yes"
    done = run_action(installed, driver=driver, python=str(installed / "python"))
    assert done.returncode == 3
    assert "unsupported" in done.stderr
    assert outputs(installed) == {}


def test_a_server_and_a_client_are_not_judged_at_once(installed: Path):
    done = run_action(installed, driver="a", command="b", python=str(installed / "python"))
    assert done.returncode == 2
    assert "not both" in done.stderr


@pytest.mark.parametrize("name", ACTION["inputs"])
def test_no_input_can_run_anything(recorded: Path, name: str):
    given = {"command": "a" if name != "driver" else "", "python": str(recorded / "python")}
    done = run_action(recorded, **(given | {name.replace("-", "_"): HOSTILE}))
    assert not (recorded / "pwned").exists()
    assert outputs(recorded) == {}
    if name == "python":
        assert done.returncode == 127  # no such program
    elif name in FLAGS:
        assert done.returncode == 2
    else:
        assert done.returncode == 3
        arguments = json.loads((recorded / "given").read_text())
        asked, words = arguments[1 : arguments.index("--")], arguments[arguments.index("--") + 1 :]
        lines = HOSTILE.splitlines()
        if name in ("command", "driver"):  # of several lines: an argument each
            assert words == lines
        elif name == "http-command":
            assert f"--{name}={shlex.join(lines)}" in asked
        elif name in EACH:
            assert {f"--{name}={line}" for line in lines} <= {*asked}
        else:
            assert f"--{name}={HOSTILE}" in asked


def test_a_command_is_a_line_of_words_or_a_line_for_each_argument(recorded: Path):
    words = [sys.executable, "a folder/program.py", "an argument"]
    for name in ("command", "http_command", "driver"):
        for text in ("\n\n  ".join(words) + "\n", shlex.join(words) + "\n"):
            assert run_action(recorded, **{name: text}, python=str(recorded / "python")).returncode == 3
            arguments = json.loads((recorded / "given").read_text())
            if name == "http_command":
                assert f"--http-command={shlex.join(words)}" in arguments
            else:
                assert arguments[arguments.index("--") + 1 :] == words


def test_what_is_chosen_and_given_reaches_the_command(installed: Path):
    command = f"{sys.executable}\n{CONFORMANCE / 'tests' / 'target.py'}\nminiature\n"
    given = {
        "only": "limit-invalid\nchange-seen\n",
        "fixture-features": "reload",
        "cell": "stdio",
        "effort": "deep",
        "seed": "7",
        "strict": "true",
    }
    given |= {"era": "2025-11-25", "env": "A=1\nB=2", "timeout": "5", "profile": "fixture"}
    done = run_action(installed, command=command, python=str(installed / "python"), **given)
    assert done.returncode == 0, done.stderr
    told = outputs(installed)
    assert (told["eras"], told["seed"], told["must-shown"]) == ("2025-11-25", "7", "2")
    assert "(--strict; fixture profile; stdio; 2025-11-25; 2026-07-28 not chosen; tools/search, " in told["verdict"]


def test_every_option_of_the_command_is_an_input():
    options = {name for command in (server, client) for each in command.params for name in each.opts}
    about_printing = {"--json", "--list", "--progress"}
    named = {name.removeprefix("--") for name in options if name.startswith("--") and name not in about_printing}
    assert named == ACTION["inputs"].keys() - {"command", "driver", "python"}


def test_no_input_is_an_expression_in_the_script():
    assert "${{" not in STEP["run"]
    assert len(STEP["env"]) == len(ACTION["inputs"])
    assert {entry["value"] for entry in ACTION["outputs"].values()} == {
        f"${{{{ steps.{STEP['id']}.outputs.{name} }}}}" for name in ACTION["outputs"]
    }
