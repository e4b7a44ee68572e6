"""Completion by the shell: what is offered, and that nothing is started for it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, Write


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what the shell is offered for the last word of a line."""

    def offered(*words: object) -> list[str]:
        line = ["tools-search-client", *map(str, words)]
        with monkeypatch.context() as shell:
            shell.setenv("_TOOLS_SEARCH_CLIENT_COMPLETE", "bash_complete")
            shell.setenv("COMP_WORDS", shlex.join(line))
            shell.setenv("COMP_CWORD", str(len(line) - 1))
            outcome = run()
        return [kind_and_value.partition(",")[2] for kind_and_value in outcome.output.split()]

    return offered


def test_servers_and_toolsets_are_those_of_the_configuration(
    complete: Any, write_configuration: Write, liar: Any, monkeypatch: pytest.MonkeyPatch
):
    server = liar()
    file = write_configuration({"one": server.as_configured(), "other": {"command": "x"}})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tool_sets": {"few": {"servers": {"one": True}}}}))
    assert complete("tools", "--config", file, "--server", "o") == ["one", "other"]
    assert complete("tools", "--config", file, "--server", "one") == ["one"]
    assert complete("search", "x", "--config", file, "--toolset", "f") == ["few"]
    monkeypatch.setenv("TOOLS_SEARCH_CONFIG", str(file))
    assert complete("tools", "--server", "on") == ["one"]
    assert server.asked() == []


def test_tools_are_those_that_an_earlier_command_saw(complete: Any, run: Run, write_configuration: Write, liar: Any):
    server = liar(tools=3)
    file = write_configuration({"one": server.as_configured()})
    assert complete("call", "--config", file, "one") == []
    assert run("search", "alpha", "--config", file, "--limit", "1").code == 0
    assert complete("describe", "--config", file, "one") == ["one__make_alpha"]
    run("tools", "--config", file)
    before = server.asked()
    assert sorted(complete("call", "--config", file, "one__make")) == [
        "one__make_alpha",
        "one__make_beta",
        "one__make_gamma",
    ]
    assert complete("call", "--config", file, "make_b") == ["make_beta"]
    assert server.asked() == before


def test_a_configuration_that_cannot_be_read_offers_nothing(complete: Any, tmp_path: Path):
    (tmp_path / "broken.json").write_text("{")
    assert complete("tools", "--config", tmp_path / "broken.json", "--server", "") == []
    assert complete("call", "--config", tmp_path / "nowhere.json", "") == []
