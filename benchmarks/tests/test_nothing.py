from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from mcp_ext_tools_search.ranking.language import stem
from mcp_types import Tool
from numpy.typing import NDArray
from tools_search_ranking.confidence import Signs
from tools_search_ranking.semantic import Embedder, SemanticRanker
from tools_search_ranking.semantic.embedder import SemanticSigns
from tools_search_ranking.semantic.index import SemanticIndex

from benchmarks.nothing import Case, Judge, best_within, cases_of, curve, fitted, generic_stems, main
from benchmarks.retrieval.datasets import SMALL, read_dataset
from benchmarks.retrieval.measure import quality

_RIGHT, _HALF = quality(["a"], ["a"]), quality(["a"], ["a", "b"])


def _case(served: bool, evidence: float) -> Case:
    return Case("set", "set", "words", _RIGHT if served else None, True, Signs(evidence, 0, 0, 0, 0, 0, 0))


def test_a_threshold_is_judged_by_what_it_silences():
    cases = [
        Case("one", "one", "found", _RIGHT, True, None),
        Case("one", "one", "found in part", _HALF, True, None),
        Case("one", "two", "unserved", None, True, None),
        Case("one", "two", "of no known word", None, False, None),
    ]
    confidences = {"found": 0.9, "found in part": 0.3, "unserved": 0.5, "of no known word": 0.0}
    points = curve(cases, lambda case: confidences[case.query])
    at = {point.least_confidence: point for point in points}
    assert (at[0.0].silent, at[0.0].recall_lost) == (0.5, 0.0)
    assert (at[0.6].silent, at[0.6].recall_lost, at[0.6].wrongly_silent) == (1.0, 0.25, 0.5)
    assert best_within(points, 0.1).silent == 0.5


def test_weights_are_fitted_to_what_tells_the_two_apart():
    weights = fitted([_case(served=place % 3 > 0, evidence=float(place % 3)) for place in range(30)])
    served, unserved = _case(served=True, evidence=2.0), _case(served=False, evidence=0.0)
    assert served.confidence(weights) > 0.9
    assert unserved.confidence(weights) < 0.1
    assert Signs._make(weights[1]).said == 0.0


def _letters(texts: Sequence[str], /) -> NDArray[np.float64]:
    return np.array([[1 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


def _by_letters(tools: Sequence[Tool], /) -> SemanticIndex:
    ranker = SemanticRanker(Embedder("letters", _letters))
    index = ranker(tools)
    assert ranker.settle(30)
    return index


def test_a_ranking_is_judged_by_the_signs_that_it_has():
    judge = Judge(_by_letters, (0.0, ()), SemanticSigns._make)
    cases = cases_of([read_dataset(SMALL, "dev")], 0, judge)
    intercept, slopes = fitted(cases)
    assert judge.named(slopes).score > 0
    assert {len(case.signs) for case in cases if case.signs} == {len(SemanticSigns._fields)} == {len(slopes)}
    served = [case.confidence((intercept, slopes)) for case in cases if case.quality]
    unserved = [case.confidence((intercept, slopes)) for case in cases if not case.quality]
    assert np.mean(served) > np.mean(unserved)


def test_words_are_generic_that_many_tools_of_several_sets_have():
    small = read_dataset(SMALL, "dev")
    assert {stem("file"), stem("create")} <= {*generic_stems([small, small])}
    assert stem("bicycle") not in generic_stems([small, small])
    assert generic_stems([small]) == []


def test_the_command_writes_the_curve_of_the_small_set(tmp_path: Path):
    figures = tmp_path / "curve.json"
    outcome = CliRunner().invoke(main, ["--split", "all", "--fit", "--json", str(figures)])
    assert outcome.exit_code == 0, outcome.output
    points = json.loads(figures.read_text())["curves"]["weights as shipped"]
    silent = [point["silent"] for point in points]
    assert silent == sorted(silent)
    assert points[0]["recall_lost"] == 0.0 < points[-1]["recall_lost"] < 1.0
    assert "fitted: (" in outcome.output


def test_a_directory_that_is_missing_is_a_usage_error():
    assert CliRunner().invoke(main, ["--data", "no/such/directory"]).exit_code == 2
