"""The gateway and the suite as processes that fail."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tools_search_client.demo import programs
from tools_search_client.demo.programs import StepError


@pytest.mark.anyio
async def test_a_gateway_that_does_not_start_is_a_failure_with_its_last_words(tmp_path: Path):
    with anyio.fail_after(60), pytest.raises(StepError) as failed:
        async with programs.running_gateway(tmp_path / "nowhere.json"):
            raise AssertionError("the gateway started")
    assert "nowhere.json" in str(failed.value)


@pytest.mark.anyio
async def test_a_suite_that_gives_no_verdict_is_a_failure():
    with anyio.fail_after(60), pytest.raises(StepError) as failed:
        await programs.conformance_report(["/nowhere/program"], lambda _: None)
    assert "no verdict (exit code 3)" in str(failed.value)
    assert "/nowhere/program" in str(failed.value)


@pytest.mark.anyio
async def test_a_suite_that_shows_no_sign_of_life_is_ended_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ended = tmp_path / "ended"
    silent = f"trap 'touch {ended}; exit 1' TERM; echo ready; while :; do read -t 1 _ <&3; done 3<>{tmp_path}/pipe"
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(programs, "_SUITE", ("bash", "-c", silent))
    monkeypatch.setattr(programs, "_SILENT_SECONDS", 2)
    with anyio.fail_after(60), pytest.raises(StepError, match="finished no check for 2 seconds"):
        await programs.conformance_report(["server"], lambda _: None)
    assert ended.exists()
