"""The fixture for other projects' tests, used by a project of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

TARGET = Path(__file__).parent / "target.py"
# Options for the tests of this repository mean nothing in another project.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}


def run_project(folder: Path, call: str, fixture: str = "judge_tools_search") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tools_search_conformance.pytest_plugin"]\n')
    (folder / "test_it.py").write_text(f"def test_it({fixture}):\n    {call}\n")
    # A folder of its own: in pytest's shared one, a run that ends deletes what earlier runs left there.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={folder / 'base'}",
        str(folder),
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)


def test_a_server_that_conforms_passes(tmp_path: Path):
    chosen = "only=['limit-*', 'change-seen'], fixture_features=['reload'], effort='quick', brief=False"
    call = f"run = judge_tools_search({sys.executable!r}, {str(TARGET)!r}, 'miniature', {chosen})"
    done = run_project(
        tmp_path,
        f"{call}\n    assert [cell.transport for cell in run.cells] == ['stdio', 'stdio']; assert not run.of('skip')",
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("baseline", "outcome"), [("", "1 failed"), ("- {check: limit-invalid, reason: being mended}", "1 passed")]
)
def test_a_server_that_does_not_conform_fails_unless_that_is_known(baseline: str, outcome: str, tmp_path: Path):
    (tmp_path / "known.yaml").write_text(baseline or "[]")
    broken = "'miniature', '--fault', 'limit-zero-served', only=['limit-invalid']"
    known = "from pathlib import Path; judge_tools_search("
    call = f"{known}{sys.executable!r}, {str(TARGET)!r}, {broken}, baseline=Path('known.yaml'))"
    done = run_project(tmp_path, call)
    assert outcome in done.stdout
    if not baseline:
        assert "NOT CONFORMANT" in done.stdout
        assert "limit 0 got a result instead of error -32602" in done.stdout
        assert "Traceback" not in done.stdout
        (replay,) = {line for line in done.stdout.splitlines() if line.endswith("stdio-2026-07-28.json")}
        assert Path(replay.split()[-1]).exists()


def test_a_program_that_is_missing_is_one_sentence(tmp_path: Path):
    done = run_project(tmp_path, "judge_tools_search('no-such-program')")
    assert "1 failed" in done.stdout
    assert "cannot start `no-such-program`" in done.stdout
    assert "Traceback" not in done.stdout
    assert len(done.stdout.splitlines()) < 10


def test_advice_that_is_not_taken_fails_no_test(tmp_path: Path):
    chosen = "'miniature', '--fault', 'cursor-empty', only=['cursor-nonempty'], strict=True"
    call = f"run = judge_tools_search({sys.executable!r}, {str(TARGET)!r}, {chosen})"
    done = run_project(tmp_path, f"{call}\n    assert {{result.status for result in run.results}} == {{'advice'}}")
    assert done.returncode == 0, done.stdout


@pytest.mark.rotating
@pytest.mark.parametrize(("fault", "outcome"), [("none", "1 passed"), ("probes", "1 failed")])
def test_a_client_passes_if_it_conforms_and_fails_if_not(fault: str, outcome: str, tmp_path: Path):
    driver = f"{sys.executable!r}, {str(TARGET)!r}, 'miniature_client', '--fault', {fault!r}"
    call = f"judge_tools_search_client({driver}, only=['never-probes'], era='2026-07-28', transport='stdio')"
    done = run_project(tmp_path, call, "judge_tools_search_client")
    assert outcome in done.stdout
    assert ("NOT CONFORMANT" in done.stdout) is (fault == "probes")


@pytest.mark.anyio
async def test_ctrl_c_ends_all_tests_and_not_just_the_one_that_judges(tmp_path: Path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tools_search_conformance.pytest_plugin"]\n')
    judging = f"judge_tools_search({sys.executable!r}, {str(TARGET)!r}, 'nulls', 'mute_search', timeout=60)"
    (tmp_path / "test_it.py").write_text(f"def test_it(judge_tools_search):\n    {judging}\n\ndef test_next(): ...\n")
    base = tmp_path / "base"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={base}", str(tmp_path)]
    with anyio.fail_after(60):
        async with await anyio.open_process(command, cwd=tmp_path, env=ENVIRONMENT) as process:
            while not any(b"tools/list" in log for log in logs_below(base)):  # noqa: ASYNC110 - another process sets no events
                await anyio.sleep(0.02)
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            shown = b"".join([chunk async for chunk in process.stdout]).decode()
            assert await process.wait() == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in shown
    assert "passed" not in shown


def logs_below(folder: Path) -> list[bytes]:
    return [log.read_bytes() for log in folder.glob("*/*/wire/*.jsonl")]
