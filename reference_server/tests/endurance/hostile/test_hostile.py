"""Hostile servers behind a gateway cost nothing but themselves.

A gateway over twenty healthy servers is used first without, then with some sixty that misbehave at once: they exit,
hang, freeze, flood, answer with garbage, list sixty thousand tools, unfold two megabytes into two gigabytes, and leave
processes behind. Every answer of a healthy server is checked and timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest
from hostile.run import SERVER, Outcome, run
from hostile.server import HTTP_MODES, STDIO_MODES

Run = Callable[[Sequence[str], int, float], Outcome]


@pytest.fixture
def use(tmp_path: Path, seed: int, say: Callable[[str], None]) -> Run:
    """Use a gateway over hostile servers of some modes, with so many callers, for so many seconds."""
    return lambda modes, callers, seconds: anyio.run(
        partial(run, modes, callers, seconds=seconds, seed=seed, folder=tmp_path, say=say)
    )


@pytest.mark.rotating
def test_every_answer_of_a_healthy_server_is_right_next_to_hostile_ones(use: Run):
    modes = ["exits", "hangs-at-call", "http-page", "call-error-of-digits"]
    outcome = use(modes, 2, 5)
    for phase in (outcome.quiet, outcome.hostile):
        assert phase.milliseconds
        assert phase.wrong == []
    assert set(outcome.hostile.states) == set(modes)
    assert outcome.hostile.states["exits"].startswith("down: ")


@pytest.mark.endurance
def test_hostile_servers_of_all_kinds_at_once_cost_nothing_but_themselves(
    use: Run, seconds: float, say: Callable[[str], None]
):
    outcome = use([*STDIO_MODES, *HTTP_MODES], 20, seconds)
    say(json.dumps({"p99": [outcome.quiet.p99, outcome.hostile.p99], "states": outcome.hostile.states}, indent=2))
    assert outcome.failures() == []


@pytest.mark.parametrize("mode", ["hangs-at-list", "tools-no-array", "odd-names", "call-bad-block", "frozen"])
def test_a_hostile_server_behaves_until_it_is_asked_for_what_it_spoils(mode: str):
    assert mode in STDIO_MODES
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    done = subprocess.run(
        [sys.executable, str(SERVER), mode],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
