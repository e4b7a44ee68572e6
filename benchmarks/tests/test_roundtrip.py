from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from benchmarks.roundtrip.__main__ import main


def test_searches_are_measured_next_to_a_request_that_does_nothing_in_both_eras(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    result = CliRunner().invoke(main, ["--tools", "40", "--requests", "3", "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text())
    assert list(figures) == [
        "legacy, ping",
        "legacy, ten tools",
        "legacy, one tool",
        "modern, server/discover",
        "modern, ten tools",
        "modern, one tool",
    ]
    for era in ("legacy, ", "modern, "):
        nothing, ten, one = (own for row, own in figures.items() if row.startswith(era))
        assert ten["size"] > one["size"] > nothing["size"]
        assert nothing["times"] == 1
        assert min(nothing["ms"], ten["ms"], one["ms"]) > 0
