"""TypeScript's compiler takes `schema.ts`, and the client and the server on its SDK are judged as they are.

It installs them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tools_search_spec

ROOT = Path(__file__).parents[3]
SCHEMA = Path(tools_search_spec.__file__).with_name("schema.ts")
SECONDS = 300

LEFT_TO_HOSTS = {"http-invalid-tool-left-out", "http-param-headers"}
"""What the SDK does for listed tools only, so that a host has to do it for tools that were found."""

FAULTS_OF_THE_SDK = {("unknown-version-refused", "stdio-2026-07-28")}
"""On stdio, the SDK looks at the protocol version of the first message only."""


def run(argv: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def install(folder: Path, *packages: str) -> None:
    installed = run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", *packages], folder)
    assert installed.returncode == 0, installed.stderr


def judged(folder: Path, *arguments: str, returns: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report of the conformance suite, and its results."""
    judge = [sys.executable, "-m", "tools_search_conformance", arguments[0], "--json", "--seed", "1"]
    done = run([*judge, "--out", str(folder / "report"), *arguments[1:]], folder)
    assert done.returncode == returns, done.stdout[-4000:] + done.stderr
    report = json.loads(done.stdout)
    return report, report["results"]


@pytest.fixture
def installed(tmp_path: Path) -> Any:
    """Install a program on the SDK from a folder of the repository; return where it is."""

    def copy(source: str) -> Path:
        folder = tmp_path / "program"
        shutil.copytree(ROOT / source, folder, ignore=shutil.ignore_patterns("node_modules"))
        install(folder)
        return folder

    return copy


def test_schema_ts_compiles_strictly_without_any_other_file(tmp_path: Path) -> None:
    install(tmp_path, "typescript@5.9.3")
    shutil.copy(SCHEMA, tmp_path)
    compiled = run([str(tmp_path / "node_modules/.bin/tsc"), "--strict", "--noEmit", SCHEMA.name], tmp_path)
    assert (compiled.returncode, compiled.stdout) == (0, "")


@pytest.mark.thorough
def test_the_typescript_sdk_keeps_every_rule_but_those_that_it_leaves_to_its_hosts(
    tmp_path: Path, installed: Any
) -> None:
    driver = installed("conformance/drivers/typescript") / "driver.mjs"
    _, results = judged(tmp_path, "client", "--", "node", str(driver), returns=1)
    failed = {result["check"] for result in results if result["status"] == "fail"}
    assert {check.removeprefix("tools-search-client-") for check in failed} == LEFT_TO_HOSTS
    assert [result for result in results if result["status"] in {"warn", "advice", "unverified", "error"}] == []
    assert len({json.dumps(result["cell"]) for result in results}) == 4


@pytest.mark.parametrize(
    ("effort", "word"),
    [
        ("quick", "PASSED, BUT --effort quick LEAVES CHECKS OUT"),
        pytest.param("default", "CONFORMANT", marks=pytest.mark.thorough),
    ],
)
def test_the_example_conforms_and_fails_only_what_the_typescript_sdk_gets_wrong(
    effort: str, word: str, tmp_path: Path, installed: Any
) -> None:
    program = str(installed("examples/typescript_server") / "server.mjs")
    over_http = ["--http-command", f"node '{program}' --http 127.0.0.1:0"]
    options = ["--strict", "--effort", effort, "--fixture-features", "replicas", *over_http]
    report, results = judged(tmp_path, "server", *options, "--", "node", program, returns=0)
    assert report["verdict"]["word"] == word
    assert len({json.dumps(result["cell"]) for result in results if result["status"] == "pass"}) == 4
    amiss = [result for result in results if result["status"] not in {"pass", "skip"}]
    assert {
        (result["check"].removeprefix("tools-search-server-"), result["cell"]) for result in amiss
    } == FAULTS_OF_THE_SDK
    assert {(result["status"], result["base"]) for result in amiss} == {("fail", True)}
