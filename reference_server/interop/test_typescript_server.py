"""The example server on the TypeScript SDK conforms, and what the SDK itself gets wrong is reported separately.

Not part of the default test run: it installs the SDK. `pytest reference_server/interop` runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "typescript_server"
INSTALL_SECONDS = 300
RUN_SECONDS = 300
FAULTS_OF_THE_SDK = {("unknown-version-refused", "stdio-2026-07-28")}
"""On stdio, the SDK looks at the protocol version of the first message only."""


def test_the_example_conforms_and_fails_only_what_the_typescript_sdk_gets_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    program = str(folder / "server.mjs")
    judge = [sys.executable, "-m", "tools_search_conformance", "server", "--json", "--strict", "--seed", "1"]
    options = ["--fixture-features", "replicas", "--out", str(tmp_path / "report")]
    done = subprocess.run(
        [*judge, *options, "--http-command", f"node '{program}' --http 127.0.0.1:0", "--", "node", program],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["verdict"]["word"] == "CONFORMANT"
    results: list[dict[str, Any]] = report["results"]
    assert len({json.dumps(result["cell"]) for result in results if result["status"] == "pass"}) == 4
    amiss = [result for result in results if result["status"] not in {"pass", "skip"}]
    assert {
        (result["check"].removeprefix("tools-search-server-"), result["cell"]) for result in amiss
    } == FAULTS_OF_THE_SDK
    assert {(result["status"], result["base"]) for result in amiss} == {("fail", True)}
