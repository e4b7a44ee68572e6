from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from benchmarks.replicas.__main__ import main


def test_every_number_of_replicas_answers_all_callers(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    few = ["--replicas", "1,2", "--tools", "40", "--callers", "2", "--seconds", "0.1"]
    result = CliRunner().invoke(main, [*few, "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())["rows"]
    assert [row["replicas"] for row in rows] == [1, 2]
    assert all(row["searches_per_second"] > 0 and row["processor_ms"] > 0 for row in rows)
