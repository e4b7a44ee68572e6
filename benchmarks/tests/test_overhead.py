from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.overhead.__main__ import main


@pytest.mark.thorough
def test_every_way_is_measured_next_to_the_others(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    few = ["--calls", "2", "--searches", "2", "--starts", "1", "--tools", "40", "--servers", "1"]
    result = CliRunner().invoke(main, [*few, "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["rows"]
    assert [list(row) for row in rows.values()] == [
        ["direct", "gateway", "fastmcp"],
        ["direct", "gateway", "fastmcp"],
        ["bare index", "gateway"],
        ["trip", "one server", "gateway"],
        ["direct", "gateway", "fastmcp"],
    ]
    assert all(cell["ms"] > 0 for row in rows.values() for cell in row.values())
