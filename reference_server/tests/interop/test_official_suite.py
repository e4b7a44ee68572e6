"""The official conformance suite finds nothing in the reference server that a server of tools alone should do better,
and reads what the suite for `tools/search` writes.

It installs the pinned suite and the Node release that it needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools_search_spec import requirements

OFFICIAL = Path(__file__).parent / "official"
DRIVER = Path(__file__).parents[3] / "conformance" / "drivers" / "reference_client.py"
SEP = "9999"


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Install the suite; return the command that runs it."""
    folder = tmp_path_factory.mktemp("official")
    shutil.copy(OFFICIAL / "package.json", folder)
    run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)
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
    assert "passed" in run([*suite, *arguments, "-o", str(tmp_path)], tmp_path)


@pytest.fixture(scope="session")
def traced(suite: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Judge the reference programs, have the official suite trace that, and return what it said and wrote."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "src" / "seps").mkdir(parents=True)  # where the official suite looks for the files of proposals
    judge = [sys.executable, "-m", "tools_search_conformance"]
    rows = run([*judge, "trace", "--sep", SEP], folder)
    (folder / "src" / "seps" / f"sep-{SEP}.yaml").write_text(rows, encoding="utf-8")
    # Checks that do not apply there, and those that a quick run leaves out, are reported as skipped.
    asked = ["--sep", SEP, "--cell", "stdio-2026-07-28", "--effort", "quick"]
    server = [sys.executable, "-m", "tools_search_server"]
    run([*judge, "server", *asked, "--out", "results/server", "--", *server], folder)
    run([*judge, "client", *asked, "--out", "results/client", "--", sys.executable, str(DRIVER)], folder)
    said = run([*suite, "traceability", "--results", "results", "--strict"], folder)
    return said, json.loads((folder / "src" / "seps" / "traceability.json").read_text(encoding="utf-8"))["seps"]


def run(argv: list[str], folder: Path) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{argv}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.thorough
def test_the_official_suite_finds_every_check_that_our_rows_declare_and_knows_every_check_that_we_run(
    traced: tuple[str, dict[str, Any]],
) -> None:
    said, proposals = traced
    assert "1 SEP(s)" in said
    assert proposals.keys() == {SEP}
    assert proposals[SEP]["untracked"] == []
    assert {row["status"] for row in proposals[SEP]["requirements"]} == {"tested"}
    sentences = [row for row in requirements() if row.checks]
    assert {row["text"] for row in proposals[SEP]["requirements"]} == {row.text for row in sentences}
    assert proposals[SEP]["summary"] == {
        "tested": sum(len(row.checks) for row in sentences),
        "untested": 0,
        "excluded": len(requirements()) - len(sentences),
        "untracked": 0,
        "unkeyed": 0,
    }
