"""The set over real servers: that it is whole, how it is split, and that its tools can be collected again."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict

import anyio
import pytest

from benchmarks.context.catalog import read_catalog
from benchmarks.datasets import REAL, Query, read_dataset
from benchmarks.real.__main__ import Server, lines, read_servers

_LANGUAGES = ("de", "fr", "es", "ru", "zh")


def _by_slice() -> dict[str, list[Query]]:
    slices: dict[str, list[Query]] = defaultdict(list)
    for query in read_dataset(REAL, "all").queries:
        slices[str(query.slice)].append(query)
    return slices


def test_its_tools_are_those_of_its_servers_all_of_which_have_a_permissive_license():
    rows = [json.loads(line) for line in (REAL / "tools.jsonl").read_text(encoding="utf-8").splitlines()]
    named = {(row["server"], row["package"], row["version"], row["license"]) for row in rows}
    assert named == {(name, server.package, server.version, server.license) for name, server in read_servers().items()}
    assert {license_ for *_, license_ in named} <= {"MIT", "Apache-2.0", "BSD-3-Clause", "ISC"}
    readme = (REAL / "README.md").read_text(encoding="utf-8")
    assert all(
        f"| {name} | {package} | {version} | {license_} |" in readme for name, package, version, license_ in named
    )


def test_its_requests_name_its_tools_and_none_is_there_twice():
    dataset = read_dataset(REAL, "all")
    known = set(dataset.ids.values())
    assert all(known.issuperset(query.relevant) for query in dataset.queries)
    assert len({query.query for query in dataset.queries}) == len({query.id for query in dataset.queries})
    assert all(query.relevant for query in dataset.queries if query.slice != "nothing")
    assert {query.alternatives for query in dataset.queries if len(query.relevant) == 1} == {False}
    counts = {name: len(queries) for name, queries in _by_slice().items()}
    assert counts["people"] >= 300
    assert (counts["model"], counts["nothing"], counts["tasks"]) == (60, 40, 40)
    assert [counts[language] for language in _LANGUAGES] == [25] * 5


def test_the_half_of_a_request_depends_on_its_text_and_of_what_was_made_of_it_on_the_text_of_that():
    slices = _by_slice()
    for query in (query for name in ("people", "model", "nothing", "tasks") for query in slices[name]):
        half = "dev" if hashlib.sha256(query.query.encode()).digest()[0] < 128 else "test"
        assert query.split == half, query.query
    split = {query.id: query.split for own in slices.values() for query in own}
    for query in (query for language in _LANGUAGES for query in slices[language]):
        assert query.split == split[f"people-{query.id.partition('-')[2]}"]
    for query in slices["steps"]:
        assert query.split == split[f"{query.id.partition('-')[0]}-whole"]


def test_every_task_takes_two_to_five_tools_one_for_each_step_in_order():
    _, tasks = read_catalog(REAL, "all", by_steps=True)
    assert len(tasks) == 40
    assert {len(task.steps) for task in tasks} <= {2, 3, 4, 5}
    assert all(len(step.needed) == 1 for task in tasks for step in task.steps)
    assert all(
        task.needed == frozenset[tuple[str, str]]().union(*(step.needed for step in task.steps)) for task in tasks
    )


def test_a_request_that_any_of_several_tools_serves_is_no_task_and_slices_are_chosen():
    slices = _by_slice()
    _, tasks = read_catalog(REAL, "all", slices=["people", "nothing"])
    assert Counter(task.text for task in tasks) == Counter(
        query.query for query in slices["people"] if not query.alternatives
    )


def test_a_server_is_started_in_a_folder_with_its_files_and_its_tools_are_written_with_its_license(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    catalog = '{"tools": [{"name": "ring", "description": "Ring the bell.", "inputSchema": {"type": "object"}}]}'
    command = [sys.executable, "-m", "tools_search_server", "--catalog", "bells.json"]
    server = Server(package="bells", version="1.2", license="MIT", command=command, files={"bells.json": catalog})
    [line] = anyio.run(lines, "tower", server)
    assert json.loads(line) == {
        "id": "tower::ring",
        "server": "tower",
        "package": "bells",
        "version": "1.2",
        "license": "MIT",
        "name": "ring",
        "description": "Ring the bell.",
        "inputSchema": {"type": "object"},
    }
