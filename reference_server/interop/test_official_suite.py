"""The official conformance suite finds nothing in the reference server that a server of tools alone should do better.

Not part of the default test run: it installs the pinned suite and the Node release that it needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OFFICIAL = Path(__file__).parent / "official"


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Install the suite; return the command that runs it."""
    folder = tmp_path_factory.mktemp("official")
    shutil.copy(OFFICIAL / "package.json", folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    modules = folder / "node_modules"
    return [str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    catalog = ["--catalog", str(OFFICIAL / "catalog.json")]
    argv = [sys.executable, "-m", "tools_search_server", *catalog, "--http", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
        server.terminate()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_official_suite_finds_no_fault_that_is_not_explained(
    suite: list[str], url: str, revision: str, tmp_path: Path
) -> None:
    explained = OFFICIAL / f"expected-failures-{revision}.yaml"
    arguments = ["server", "--url", url, "--requirements", revision, "--expected-failures", str(explained)]
    done = subprocess.run(
        [*suite, *arguments, "-o", str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout[-4000:]
    assert "passed" in done.stdout
