from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.hostile.__main__ import main
from benchmarks.hostile.server import STDIO_MODES

_SERVER = Path(__file__).parents[1] / "hostile" / "server.py"


def test_every_answer_of_a_healthy_server_is_right_beside_hostile_ones(tmp_path: Path):
    report = tmp_path / "report.json"
    modes = [part for mode in ("exits", "hangs-at-call", "http-page") for part in ("--mode", mode)]
    outcome = CliRunner().invoke(main, ["--seconds", "5", "--callers", "2", *modes, "--json", str(report)])
    figures = json.loads(report.read_text())
    for phase in ("quiet", "hostile"):
        assert figures[phase]["answers"] > 0
        assert figures[phase]["wrong"] == 0, outcome.output
    assert set(figures["hostile"]["states"]) == {"exits", "hangs-at-call", "http-page"}
    assert figures["hostile"]["states"]["exits"].startswith("down: ")


@pytest.mark.parametrize("mode", ["hangs-at-list", "tools-no-array", "odd-names", "call-bad-block", "frozen"])
def test_a_hostile_server_behaves_until_it_is_asked_for_what_it_spoils(mode: str):
    assert mode in STDIO_MODES
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    done = subprocess.run(
        [sys.executable, str(_SERVER), mode],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
