"""The GitHub Action: its script is run as a runner would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

CONFORMANCE: Final = Path(__file__).parent.parent
ACTION: Final[dict[str, Any]] = yaml.safe_load((CONFORMANCE / "action.yml").read_text(encoding="utf-8"))
(STEP,) = ACTION["runs"]["steps"]


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    given = {name: str(entry["default"]) for name, entry in ACTION["inputs"].items()} | inputs
    variables = {variable: given[source[len("${{ inputs.") : -len(" }}")]] for variable, source in STEP["env"].items()}
    environment = os.environ | variables
    environment |= {"RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(CONFORMANCE)}
    environment |= {"GITHUB_STEP_SUMMARY": str(folder / "summary")}
    script = ["bash", "-c", STEP["run"]]
    return subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Give a folder where a Python makes environments that hold what is installed already."""
    program = tmp_path / "python"
    script = f"""#!/bin/bash
mkdir -p "$3/bin"
printf '#!/bin/bash\\n' >"$3/bin/pip"
printf '#!/bin/bash\\nexec {sys.executable} -m tools_search_conformance "$@"\\n' >"$3/bin/tools-search-conformance"
chmod +x "$3"/bin/*
"""
    program.write_text(script)
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("fault", "status", "verdict"), [("none", 0, "CONFORMANT"), ("limit-zero-served", 1, "NOT CONFORMANT")]
)
def test_the_verdict_becomes_the_status_and_the_summary(installed: Path, fault: str, status: int, verdict: str):
    command = f"{sys.executable} {CONFORMANCE / 'tests' / 'target.py'} miniature"
    command += f" --fault {fault}" if fault != "none" else ""
    done = run_action(installed, command=command, **{"fixture-features": "reload"}, python=str(installed / "python"))
    assert done.returncode == status, done.stderr
    results = json.loads((installed / "conformance-report" / "report.json").read_text())["results"]
    assert {result["status"] for result in results if result["check"].endswith("-change-seen")} == {"pass"}
    assert (installed / "summary").read_text().startswith(f"## tools/search: {verdict}")


def test_no_input_is_an_expression_in_the_script():
    assert "${{" not in STEP["run"]
    assert len(STEP["env"]) == len(ACTION["inputs"])
