from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.documents.__main__ import main
from benchmarks.documents.trees import Tree, read_tree

_PAGES = {
    "guide/baking-bread.md": "---\ntitle: Bread at home\n---\n\nFlour and water are mixed by hand. Wait an hour.\n",
    "guide/brewing-tea.md": "# Green tea\n\nSteep the leaves for two minutes. See [how to bake](baking-bread.md).\n",
    "reference/knives.rst": (
        "======\nKnives\n======\n\nA sharp knife is a safe knife. See :doc:`making tea </guide/brewing-tea>`,\n"
        ":ref:`what to bake <oven>` and :doc:`tea`.\n"
    ),
    "reference/ovens.rst.txt": ".. _oven:\n\nOvens and heat\n--------------\n\nNever open it.\n",
    "1.0.md": "# First release\n\nIt works.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in _PAGES.items():
        file = tmp_path / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "docs"


def asked(tree: Tree, kind: str) -> set[tuple[str, tuple[str, ...]]]:
    return {(own.query, own.relevant) for own in tree.queries[kind]}


def test_queries_are_texts_of_the_documents_and_know_their_answers(folder: Path):
    tree = read_tree(folder, "all", 100)
    assert asked(tree, "title") == {
        ("Bread at home", ("guide/baking-bread",)),
        ("Green tea", ("guide/brewing-tea",)),
        ("Ovens and heat", ("reference/ovens",)),
        ("First release", ("1.0",)),
    }
    assert asked(tree, "sentence") == {
        ("Flour and water are mixed by hand.", ("guide/baking-bread",)),
        ("Steep the leaves for two minutes.", ("guide/brewing-tea",)),
        ("A sharp knife is a safe knife.", ("reference/knives",)),
    }
    assert asked(tree, "link") == {
        ("how to bake", ("guide/baking-bread",)),
        ("making tea", ("guide/brewing-tea",)),
        ("what to bake", ("reference/ovens",)),
    }
    assert {query for query, _ in asked(tree, "name")} == {"baking bread", "brewing tea", "knives", "ovens"}


def test_what_is_asked_is_taken_out_of_the_text_and_links_stay_where_they_are(folder: Path):
    texts = {path: own.text for path, own in read_tree(folder, "all", 100).documents.items()}
    assert "Bread at home" not in texts["guide/baking-bread"]
    assert "Flour" not in texts["guide/baking-bread"]
    assert "Wait an hour" in texts["guide/baking-bread"]
    assert "Green tea" not in texts["guide/brewing-tea"]
    assert "how to bake" in texts["guide/brewing-tea"]


def test_every_query_is_in_one_half(folder: Path):
    halves = [read_tree(folder, split, 100) for split in ("dev", "test")]
    for kind, queries in read_tree(folder, "all", 100).queries.items():
        parts = [{own.id for own in half.queries[kind]} for half in halves]
        assert parts[0].isdisjoint(parts[1])
        assert parts[0] | parts[1] == {own.id for own in queries}


def test_a_folder_without_documents_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="has no Markdown"):
        read_tree(tmp_path, "all", 1)


def test_quality_and_costs_are_measured(folder: Path, tmp_path: Path):
    file = tmp_path / "figures.json"
    engines = ["--engine", "gateway", "--engine", "extension"]
    options = [str(folder), "--split", "all", "--builds", "1", *engines, "--json", str(file)]
    outcome = CliRunner().invoke(main, options, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    figures = json.loads(file.read_text())
    by_name = [row for row in figures["quality"] if row["condition"] == "names and contents"]
    assert [row["engine"] for row in by_name] == ["gateway", "extension"]
    assert all(row["kinds"]["name"]["ndcg"]["value"] == 1 for row in by_name)
    assert all(row["build_seconds"] > 0 and row["documents"] == len(_PAGES) for row in figures["costs"])
    assert "| docs | gateway |" in outcome.output
