from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools_search_ranking import FieldedRanker

from benchmarks.retrieval.datasets import SMALL, read_dataset
from benchmarks.stuffing import ATTACKS, MOST_BYTES, Knowledge, Outcome, main, summary


@pytest.fixture(scope="module")
def known() -> Knowledge:
    dataset = read_dataset(SMALL, "dev")
    tools = {tool.name: tool for tool in dataset.tools}
    return Knowledge(tools, FieldedRanker()(dataset.tools), [query.query for query in dataset.queries])


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_another_description_of_no_more_than_ten_kilobytes(known: Knowledge, name: str):
    for tool in (known.tools["send_invoice"], known.tools["find_goods"]):
        stuffed = ATTACKS[name](tool, known)
        assert stuffed != tool.description
        assert 200 < len(stuffed.encode()) <= MOST_BYTES


def test_what_is_gained_is_counted_in_ranks():
    gained = summary([Outcome("x", True, honest, stuffed) for honest, stuffed in ((1, 1), (9, 2), (4, 3))])
    assert (gained["median_gain"], gained["median_gain_below_first"]) == (1, 4)
    assert gained["first_five_honest"] == pytest.approx(2 / 3)
    assert (gained["first_five_stuffed"], gained["first_stuffed"]) == (1.0, pytest.approx(1 / 3))


def test_no_stuffed_description_gains_more_than_three_ranks(tmp_path: Path):
    figures = tmp_path / "figures.json"
    outcome = CliRunner().invoke(main, ["--tools", "12", "--json", str(figures)])
    assert outcome.exit_code == 0, outcome.output
    assert all(gain <= 3 for gain in json.loads(figures.read_text())["by_set"].values())
