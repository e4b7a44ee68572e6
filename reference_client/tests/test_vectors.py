"""The vectors for clients in other languages are what this client does, and another language agrees."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[1] / "vectors"
MODULE = runpy.run_path(str(FOLDER / "play.py"))
PLAY: Any = MODULE["play"]
KINDS: tuple[str, ...] = MODULE["KINDS"]
CASES = [
    (kind, case)
    for kind in KINDS
    for case in json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))["cases"]
]


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case['name']}" for kind, case in CASES])
async def test_this_client_does_what_the_vectors_say(kind: str, case: dict[str, Any]):
    assert await PLAY(kind, case) == case["expected"]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")
@pytest.mark.parametrize("kind", ["manifest", "search_tools"])
def test_javascript_agrees(kind: str):
    done = subprocess.run(
        ["node", str(FOLDER / f"{kind}.mjs")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_have_the_shape_that_their_schema_states(kind: str):
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    validator: Any = Draft202012Validator(schema | {"oneOf": [{"$ref": f"#/$defs/{kind}"}]})
    document = json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
    assert validator.is_valid(document), next(validator.iter_errors(document)).message
    case = document["cases"][0]
    for broken in (case | {"more": 1}, {name: value for name, value in case.items() if name != "expected"}):
        assert not validator.is_valid(document | {"cases": [broken]})
