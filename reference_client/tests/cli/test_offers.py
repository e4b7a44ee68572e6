"""The commands `prompts` and `resources`."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from .conftest import Run, Write

NOTES = str(Path(__file__).parents[1] / "fixtures" / "servers" / "notes.py")


@pytest.fixture
def notes(write_configuration: Write) -> Path:
    """Two servers with notes, and one that cannot be started."""
    servers: dict[str, object] = {name: {"command": sys.executable, "args": [NOTES, name]} for name in ("ann", "bob")}
    return write_configuration(servers | {"gone": {"command": "/nowhere/program"}})


def test_prompts_are_listed_with_their_arguments_and_one_is_filled_in(run: Run, notes: Path):
    listed = run("prompts", "--config", notes)
    assert listed.code == 0
    assert listed.output.splitlines()[1] == "ann__summary\tann\tlength\tSum up the notes."
    assert "gone failed" in listed.errors
    (ann, bob) = run("prompts", "--config", notes, "--json").json["prompts"]
    assert (ann["name"], bob["server"], bob["prompt"]["arguments"][0]["required"]) == ("ann__summary", "bob", True)
    for name in ("bob__summary", "bob:summary"):
        assert run("prompts", name, "length=10", "--config", notes).output == "Sum up what bob wrote in 10 words.\n"
    whole = run("prompts", "summary", "length=10", "--config", notes, "--server", "ann", "--json").json
    assert whole["messages"][0]["content"]["text"] == "Sum up what ann wrote in 10 words."


def test_resources_and_templates_are_listed_and_one_is_read(run: Run, notes: Path):
    rows = [line.split("\t")[:3] for line in run("resources", "--config", notes).output.splitlines()]
    assert ["notes://of/bob", "bob", "text/plain"] in rows
    assert ["notes://{day}/all", "ann", "text/plain"] in rows
    whole = run("resources", "--config", notes, "--json").json
    assert [len(whole[kind]) for kind in ("resources", "templates", "servers")] == [4, 2, 3]
    assert run("resources", "notes://of/bob", "--config", notes).output == "bob writes.\n"
    made = run("resources", "notes://monday/all", "--config", notes, "--server", "bob", "--json").json
    assert base64.b64decode(made["contents"][0]["blob"]) == b"bob slept on monday."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("prompts", "summary"), "several servers have 'summary': say which with --server ann or --server bob"),
        (("prompts", "sumary"), "no server lists 'sumary'; the closest is summary"),
        (("resources", "notes://today"), "say which with --server ann or --server bob"),
        (("resources", "x://y"), "no server lists 'x://y' (not asked, because they failed: gone: "),
    ],
)
def test_a_name_that_none_or_several_have_is_refused(run: Run, notes: Path, arguments: tuple[str, ...], told: str):
    outcome = run(*arguments, "--config", notes)
    assert (outcome.code, told in outcome.errors) == (2, True), outcome.errors
