"""The JUnit file is valid by the schemas that CI systems check it by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import click.testing
import pytest
from tools_search_conformance.cli.cli import cli

Command = Callable[..., tuple[str, ...]]

ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors", "disabled"},
    "testsuite": {
        "name", "tests", "failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package",
        "file", "log", "group", "version",
    },
    "properties": set[str](),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time", "assertions", "status", "file", "line", "group"},
    "skipped": {"message", "type"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}  # fmt: skip
"""The attributes of each element by junit-10.xsd of Jenkins."""

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"skipped", "failure", "error"},
}
REQUIRED = {"testsuite": {"name", "tests"}, "testcase": {"name"}, "property": {"name", "value"}}


@pytest.mark.parametrize(
    "server",
    [("miniature", "--fault", "limit-zero-served"), ("dodgers", "silent", "2025-11-25"), ("nulls", "refuse_search")],
    ids=" ".join,
)
def test_it_has_only_what_the_schemas_allow(server: tuple[str, ...], target: Command, tmp_path: Path):
    given = ["--effort=quick", "--timeout=1", "--start-timeout=10", "--only=limit-*", "--only=*-refused"]
    click.testing.CliRunner().invoke(cli, ["server", *given, "--out", str(tmp_path), "--", *target(*server)])
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own
    assert root.tag == "testsuites"
    for element in root.iter():
        assert element.attrib.keys() <= ATTRIBUTES[element.tag]
        assert REQUIRED.get(element.tag, set()) <= element.attrib.keys()
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert [child.tag for child in suite].count("properties") <= 1


def test_a_failure_says_what_is_broken_by_which_answer_and_how_to_see_it_again(target: Command, tmp_path: Path):
    server = target("miniature", "--fault", "limit-zero-served")
    given = ["--effort=quick", "--era=2026-07-28", "--only=limit-invalid", "--out", str(tmp_path)]
    click.testing.CliRunner().invoke(cli, ["server", *given, "--", *server])
    failure = ElementTree.parse(tmp_path / "junit.xml").getroot().find(".//failure")  # noqa: S314 - our own
    assert failure is not None
    sentence, place, sent, answer, wire_log, replay = (failure.text or "").splitlines()
    assert sentence.startswith('"A server MUST return error `-32602` if `query` is absent')
    assert place == "spec/draft/tools-search.md#request (R-REF-01)"
    assert sent.startswith('sent     {"jsonrpc": "2.0"')
    assert '"limit": 0' in sent
    assert answer.startswith('answer   {"jsonrpc": "2.0"')
    assert wire_log.startswith("wire log stdio-2026-07-28.jsonl, exchange ")
    assert replay.startswith("replay   tools-search-conformance replay ")
