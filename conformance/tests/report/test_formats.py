"""Every format of a report shows the same verdict: its word, what it covers, and how much of that was shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click.testing
import pytest
from tools_search_conformance.cli.cli import cli

Command = Callable[..., tuple[str, ...]]
CHECKS = ("limit-invalid", "limit-honored", "error-data", "unknown-version-refused", "max-limit-honored", "change-seen")


@pytest.fixture(
    scope="module",
    params=[
        ("miniature", "--fault", "none"),
        ("miniature", "--fault", "limit-zero-served"),
        ("miniature", "--fault", "any-version-served"),
        ("dodgers", "silent", "2025-11-25"),
        ("dodgers", "refusing", "2025-11-25"),
    ],
    ids=" ".join,
)
def judged(request: pytest.FixtureRequest, target: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a run, with what it printed."""
    out = tmp_path_factory.mktemp("judged")
    only = [f"--only={rule}" for rule in CHECKS]
    given = [
        "server",
        "--effort=quick",
        "--timeout=1",
        "--start-timeout=10",
        "--out",
        str(out),
        *only,
        "--",
        *target(*request.param),
    ]
    (out / "printed.txt").write_text(click.testing.CliRunner().invoke(cli, given).stdout)
    return out


def test_every_format_has_the_sentence(judged: Path):
    def text(name: str) -> str:
        return (judged / name).read_text(encoding="utf-8")

    verdict: dict[str, Any] = json.loads(text("report.json"))["verdict"]
    sentence = verdict["sentence"]
    assert sentence.startswith(f"{verdict['word']} (") or f"{verdict['word']} for " in sentence
    assert sentence in text("printed.txt").splitlines()
    assert re.findall(r"<h1[^>]*>(.*?)</h1>", html.unescape(text("report.html"))) == [sentence]
    assert text("summary.md").splitlines()[0].replace("\\", "") == f"## tools/search: {sentence}"
    assert f"<title>{sentence}</title>" in html.unescape(text("badge.svg"))
    for suite in ElementTree.fromstring(text("junit.xml")).iter("properties"):  # noqa: S314 - our own
        assert {each.get("name"): each.get("value") for each in suite}["verdict"] == sentence


def test_every_format_has_the_same_numbers_and_says_what_they_cover(judged: Path):
    document = json.loads((judged / "report.json").read_bytes())
    verdict, binding = document["verdict"], document["verdict"]["binding"]
    counted = [result for result in document["results"] if result["level"] == "MUST" and not result["base"]]
    binds = {result["check"] for result in counted if result.get("skip") not in {"era", "transport", "not-offered"}}
    assert binding["total"] == len(binds)
    assert binding["total"] == sum(binding[name] for name in ("shown", "failed", "expected", "notShown"))
    covered = "both eras" if len(verdict["eras"]) == 2 else f"{verdict['eras'][0]} only"
    badge = f"{binding['shown']}/{binding['total']} MUST, fixture, stdio, {covered}"
    assert json.loads((judged / "badge.json").read_bytes())["message"] == badge
    assert f"tools/search: {badge}" in (judged / "badge.svg").read_text(encoding="utf-8")
    printed = click.testing.CliRunner().invoke(cli, ["report", "outputs", str(judged / "report.json")]).output
    told = dict(line.split("=", 1) for line in printed.splitlines())
    for suite in ElementTree.parse(judged / "junit.xml").iter("properties"):  # noqa: S314 - our own
        properties = {each.get("name"): each.get("value") for each in suite}
        assert properties.items() <= told.items()
    assert told["exit-status"] == str(verdict["exitStatus"])
    for name, value in {"shown": "shown", "failed": "failed", "not-shown": "notShown"}.items():
        assert told[f"must-{name}"] == str(binding[value])
    assert told["profile"] == verdict["profile"] == "fixture"
    assert told["eras"].split() == verdict["eras"]
    assert all(entry["cell"] in told["left-out"] for entry in verdict["leftOut"])
    for step in verdict["next"]:
        for name in ("printed.txt", "report.html", "summary.md"):
            assert step in html.unescape((judged / name).read_text(encoding="utf-8")).replace("\\", "")


def test_what_json_prints_is_the_report(target: Command, tmp_path: Path):
    given = ["server", "--json", "--only=limit-invalid", "--out", str(tmp_path), "--", *target("miniature")]
    printed = json.loads(click.testing.CliRunner().invoke(cli, given).stdout)
    assert printed == json.loads((tmp_path / "report.json").read_bytes())
    assert printed["verdict"]["eras"] == ["2026-07-28", "2025-11-25"]
    assert printed["verdict"]["word"] == "PASSED, BUT NOT EVERY CHECK WAS CHOSEN"
