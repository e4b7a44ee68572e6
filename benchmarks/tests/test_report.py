from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.plots import can_draw
from benchmarks.report.page import render
from benchmarks.report.records import StepFailed, read_record, run
from benchmarks.report.sections import section
from benchmarks.report.steps import STEPS, Material
from benchmarks.retrieval.datasets import SMALL
from benchmarks.speed.__main__ import main as speed


def test_a_run_of_some_measurements_writes_the_page_with_their_tables_and_what_they_were_taken_with(tmp_path: Path):
    chosen = ["--quick", "--only", "speed", "--only", "stuffing", "--sizes", "10", "--out", str(tmp_path)]
    outcome = CliRunner().invoke(main, chosen, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    page = (tmp_path / "RESULTS.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Stuffing: what does a description gain that is written to be found?",
        "## Speed: how long does an answer take?",
        "## Versions",
    ]
    assert "| fielded |" in page
    assert "`python -m benchmarks.stuffing --data small --tools 2`" in page
    record = json.loads((tmp_path / "results" / "speed.json").read_text())
    assert {"revision", "date", "python", "machine", "load_after", "versions"} <= set(record)
    is_drawn = can_draw()
    assert (tmp_path / "results" / "speed.svg").exists() == is_drawn
    assert ("![Speed: how long does an answer take?](results/speed.svg)" in page) == is_drawn
    assert str(SMALL) not in page + json.dumps(record["options"])


def test_the_page_of_the_same_records_is_the_same(tmp_path: Path):
    for _ in range(2):
        outcome = CliRunner().invoke(main, ["--tables-only", "--out", str(tmp_path)], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
        assert (tmp_path / "RESULTS.md").read_text() == render(tmp_path)


def test_the_committed_page_is_that_of_the_committed_records():
    folder = Path(__file__).parents[1]
    assert (folder / "RESULTS.md").read_text() == render(folder)


def test_figures_of_another_ranking_stand_below_those_of_the_first():
    record = read_record("nothing", Path(__file__).parents[1] / "results")
    assert record is not None
    first = record.model_copy(update={"figures": {**record.figures, "beside": {}}})
    both = record.model_copy(update={"figures": {**record.figures, "beside": {"semantic": record.figures}}})
    _, alone = section(first).split("\n\n", 1)
    assert section(both) == f"{section(first)}\n\nThe same with `semantic`:\n\n{alone}"


def test_every_measurement_is_offered_the_options_that_it_has():
    material = Material(data=[SMALL], servers=[SMALL], sizes="10", is_quick=True)
    assert all(step.options(material) for step in STEPS.values())
    without = Material(data=[], servers=[], sizes="10", is_quick=False)
    assert [name for name, step in STEPS.items() if step.options(without) is None] == ["context", "federation"]


def test_a_measurement_that_ends_without_figures_is_told_of():
    with pytest.raises(StepFailed, match=r"(?i)no such option"):
        run("stuffing", ["--unknown"], None)


@pytest.mark.skipif(can_draw(), reason="matplotlib is installed")
def test_what_cannot_be_drawn_is_said_before_it_is_measured(tmp_path: Path):
    outcome = CliRunner().invoke(speed, ["--data", str(SMALL), "--plot", str(tmp_path / "speed.svg")])
    assert outcome.exit_code == 2
    assert "pip install '.[benchmark]'" in outcome.output
