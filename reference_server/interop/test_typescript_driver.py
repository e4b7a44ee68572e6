"""The conformance driver of the TypeScript SDK follows its contract, and the client on that SDK is judged as it is.

Not part of the default test run: it installs the SDK. `pytest reference_server/interop` runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).parents[2] / "conformance" / "drivers" / "typescript"
INSTALL_SECONDS = 300
RUN_SECONDS = 300
LEFT_TO_HOSTS = {"http-invalid-tool-left-out", "http-param-headers"}
"""What the SDK does for listed tools only, so that a host has to do it for tools that were found."""


def test_the_typescript_sdk_keeps_every_rule_but_those_that_it_leaves_to_its_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "driver"
    shutil.copytree(DRIVER, folder, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    judge = [sys.executable, "-m", "tools_search_conformance", "client", "--json", "--seed", "1"]
    done = subprocess.run(
        [*judge, "--out", str(tmp_path / "report"), "--", "node", str(folder / "driver.mjs")],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    results: list[dict[str, Any]] = report["results"]
    assert {
        result["check"].removeprefix("tools-search-client-") for result in results if result["status"] == "fail"
    } == (LEFT_TO_HOSTS)
    assert [result for result in results if result["status"] in {"warn", "advice", "unverified", "error"}] == []
    assert len({json.dumps(result["cell"]) for result in results}) == 4
