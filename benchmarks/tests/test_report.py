from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.datasets import SMALL
from benchmarks.report.page import render
from benchmarks.report.quotes import QUOTES, documents, requote
from benchmarks.report.steps import STEPS, Material, StepFailedError, read_records, run

_BENCHMARKS = Path(__file__).parents[1]
_ROOT = _BENCHMARKS.parent
_OF_RECORDS = ("RESULTS.md", "measured-once.md")
_GENERATED_FROM_CODE = ("CHECKS.md",)
_FIGURE = re.compile(r"nDCG@\d+[^.\n]*\.\d|(?<![\w.])\.\d{2,3}\b|\d ms\b|Recall@\d+[^.\n]*\.\d|\d times bm25s")
"""What a measured figure of the ranking looks like in prose: a quality, or milliseconds."""

_BLOCK_OF_FIGURES = re.compile(r"<!-- figures: .*?<!-- end of figures -->", re.DOTALL)
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def test_the_page_of_results_is_that_of_the_records():
    assert (_BENCHMARKS / "RESULTS.md").read_text(encoding="utf-8") == render(_BENCHMARKS)


def test_documents_quote_the_figures_of_the_records():
    kept = read_records(_BENCHMARKS / "results")
    texts = {file: file.read_text(encoding="utf-8") for file in documents(_ROOT)}
    for file, text in texts.items():
        assert requote(text, kept) == text, f"{file}: run `python -m benchmarks --tables-only`"
    asked = {name for text in texts.values() for name in re.findall(r"<!-- figures: (\S+) -->", text)}
    assert asked == set(QUOTES)


def test_documents_and_docstrings_state_no_measured_figure_of_their_own():
    not_read = (*_OF_RECORDS, *_GENERATED_FROM_CODE)
    stated = [
        (str(file), match.group())
        for file in documents(_ROOT)
        if file.name not in not_read
        for match in _FIGURE.finditer(_CODE.sub("", _BLOCK_OF_FIGURES.sub("", file.read_text(encoding="utf-8"))))
    ]
    stated += [
        (str(file), match.group())
        for package in ("sdk_ext", "reference_server", "reference_client")
        for file in sorted((_ROOT / package).glob("*/**/*.py"))
        if "tests" not in file.parts
        for docstring in _docstrings(file)
        for match in re.finditer(r"nDCG@\d+[^.]*\.\d|(?<![\w.])\.\d{3}\b", docstring)
    ]
    assert stated == []


def _docstrings(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]


def test_a_block_of_figures_keeps_its_indentation_and_fits_the_page():
    text = "- One.\n  <!-- figures: engines -->\n  old\n  <!-- end of figures -->\n- Two.\n"
    filled = requote(text, read_records(_BENCHMARKS / "results"))
    assert "old" not in filled
    assert all(len(line) <= 120 for line in filled.splitlines())
    assert all(line.startswith("  ") for line in filled.splitlines()[1:-1])
    assert requote(filled, read_records(_BENCHMARKS / "results")) == filled


@pytest.mark.rotating
def test_a_run_of_some_measurements_writes_the_page_with_their_tables_and_what_they_were_taken_with(tmp_path: Path):
    chosen = ["--quick", "--only", "listing", "--only", "nothing", "--out", str(tmp_path)]
    outcome = CliRunner().invoke(main, chosen, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    page = (tmp_path / "RESULTS.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Nothing: does a request that no tool serves get no answer?",
        "## Listing: what does a list of tools weigh?",
        "## Versions",
    ]
    assert "| tools | bytes | tokens |" in page
    assert "`python -m benchmarks.retrieval --data small --split test --ranker fielded --foreign 5 " in page
    record = json.loads((tmp_path / "results" / "listing.json").read_text())
    assert {"revision", "date", "python", "machine", "load_after", "versions"} <= set(record)
    assert str(SMALL) not in page + record["command"]


def test_the_page_of_the_same_records_is_the_same(tmp_path: Path):
    for _ in range(2):
        outcome = CliRunner().invoke(main, ["--tables-only", "--out", str(tmp_path)], catch_exceptions=False)
        assert outcome.exit_code == 0, outcome.output
        assert (tmp_path / "RESULTS.md").read_text() == render(tmp_path)


def test_every_measurement_is_offered_the_options_that_it_has():
    material = Material(data=[SMALL], servers=[SMALL], documents=[SMALL], sizes="10", is_quick=True)
    options = {name: step.options(material) for name, step in STEPS.items()}
    assert all(options.values())
    for is_quick in (True, False):
        for name, step in STEPS.items():
            program = import_module(f"benchmarks.{step.program}.__main__").main
            own = [*(step.options(replace(material, is_quick=is_quick)) or ()), "--json", "figures.json"]
            assert program.make_context(name, own).params["json_file"] == Path("figures.json")
    assert str(SMALL) in (options["servers"] or ()), "its requests go to several servers"
    assert str(SMALL) not in (options["steps"] or ()), "it has no steps"
    without = Material(data=[], servers=[], documents=[], sizes="10", is_quick=False)
    left_out = [name for name, step in STEPS.items() if step.options(without) is None]
    assert left_out == ["federation", "documents", "context", "method"]


def test_a_measurement_without_figures_fails_with_what_it_printed():
    with pytest.raises(StepFailedError, match=r"(?i)no such option"):
        run("speed", ["--unknown"])
