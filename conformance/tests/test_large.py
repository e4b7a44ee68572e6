"""Catalogs of many tools, and of large ones, are judged in full, in little memory."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
MEGABYTES: Final = 300


@pytest.mark.parametrize(
    ("catalog", "cell"),
    [
        ("--tools 5000 --page 7", "stdio-2025-11-25"),
        pytest.param("--tools 60 --bytes 130000 --page 7 --http", "http-2026-07-28", marks=pytest.mark.thorough),
    ],
)
def test_a_large_catalog_is_judged_in_full_and_in_little_memory(catalog: str, cell: str, tmp_path: Path):
    argv = [sys.executable, str(HERE / "target.py"), "large", *catalog.split()]
    started = ["--http-command", shlex.join(argv)] if "--http" in argv else ["--", *argv]
    options = ["server", "--profile", "live", "--effort", "quick", "--cell", cell, "--out", str(tmp_path), *started]
    judged = subprocess.run(
        [sys.executable, str(HERE / "judged.py")],
        input=json.dumps(options) + "\n",
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    outcome = json.loads(judged.stdout)
    assert outcome["status"] == 0, outcome["said"]
    assert outcome["megabytes"] < MEGABYTES
    results = json.loads((tmp_path / "report.json").read_text())["results"]
    assert [result for result in results if result["status"] not in {"pass", "skip"}] == []
    assert len([result for result in results if result["status"] == "pass"]) > 40
