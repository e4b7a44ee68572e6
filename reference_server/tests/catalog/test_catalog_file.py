"""Catalog files: read exactly, or refused with the place and the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools_search_hosts import ConfigurationError
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog

TOOL: dict[str, Any] = {"name": "a", "inputSchema": {"type": "object"}}


def test_the_tools_keep_their_order_and_every_member_that_mcp_knows(tmp_path: Path) -> None:
    rich: dict[str, Any] = TOOL | {
        "name": "b",
        "title": "B",
        "description": "Does b",
        "inputSchema": {"type": "object", "$defs": {"x": {"default": None}}, "x-other": [1, None]},
        "outputSchema": {"type": "array"},
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"com.example/x": {"y": None}},
    }
    file = tmp_path / "catalog.json"
    file.write_text(json.dumps({"tools": [rich, TOOL]}))
    tools = read_catalog(file).tools
    assert [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools] == [rich, TOOL]


def test_a_file_may_state_answers(tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    file.write_text(json.dumps({"tools": [TOOL], "answers": {"a": {"content": [], "isError": True}}}))
    assert read_catalog(file).answers["a"].is_error


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "line 1 column 2"),
        ("[]", "it must be an object"),
        ('{"tools": {}}', "`tools` must be a list"),
        ('{"tools": [7]}', "`tools.0`"),
        ('{"tools": [{"name": "a"}]}', "`tools.0.inputSchema`"),
        ('{"tools": [{"name": "a", "inputSchema": {}}]}', "tools.0.inputSchema.type"),
        (json.dumps({"tools": [TOOL, TOOL]}), "tools.1 repeats the name"),
        (json.dumps({"tools": [TOOL], "answers": []}), "answers"),
        (json.dumps({"tools": [TOOL], "answers": {"a": {"content": 1}}}), "answers.a.content"),
        (json.dumps({"tools": [TOOL], "hidden": {"token": "a"}}), "hidden.token"),
        ("[" * 100_000, "nested too deeply"),
        (json.dumps({"tools": [TOOL]})[:-2] + ', {"x": ' + "[" * 200 + "]" * 200 + "}]}", "nested too deeply"),
        ('{"tools": [], "x": ' + "9" * 5_000 + "}", "a number that is too long"),
        ('{"tools": [], "x": [-Infinity]}', "an infinity"),
        ('{"tools": [], "x": 1e400}', "an infinity"),
        ('{"tools": [], "x": {"\\udc00": 1}}', "half a surrogate pair"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "catalog.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_catalog(file)
    assert str(refused.value).startswith(str(file))
    assert place in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        read_catalog(file)


def test_the_bundled_catalog_can_be_served() -> None:
    assert len(bundled_catalog().tools) >= 200
