"""The vectors for clients in other languages are what this client does, and another language agrees."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "vectors"
PLAY: Any = runpy.run_path(str(FOLDER / "play.py"))["play"]
CASES = [
    (kind, case)
    for kind in ("manifest", "search_tools", "conversation")
    for case in json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))["cases"]
]


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case['name']}" for kind, case in CASES])
async def test_this_client_does_what_the_vectors_say(kind: str, case: dict[str, Any]):
    assert await PLAY(kind, case) == case["expected"]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")
def test_a_manifest_in_javascript_agrees():
    done = subprocess.run(
        ["node", str(FOLDER / "manifest.mjs")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout
