"""What an operator says of tools: read with every mistake reported, and merged with what servers publish."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from tools_search_hosts import ConfigurationError, HostFile
from tools_search_server.gateway.tool_metadata import (
    ToolMetadata,
    category_of,
    examples_of,
    read_metadata,
    related_of,
    tags_of,
)


def tool(**labels: Any) -> Tool:
    return Tool(name="log", input_schema={"type": "object"}, _meta={"com.example/x": 1, **labels})


def metadata(stated: Any) -> ToolMetadata:
    return read_metadata(HostFile((), {"mcpServers": {"git": {}, "mail": {}}, "metadata": stated}), "mcp.json")


def as_offered(stated: Any, published: Tool) -> Tool:
    return published.model_copy(update={"meta": metadata(stated).meta("git", published)})


def test_what_a_server_publishes_stays_and_its_group_becomes_the_category() -> None:
    offered = as_offered({}, tool(**{EXTENSION_ID: {"group": "history", "tags": ["a"], "com.example/y": 2}}))
    assert offered.meta == {
        "com.example/x": 1,
        EXTENSION_ID: {"group": "git", "category": "history", "tags": ["a"], "com.example/y": 2},
    }
    assert category_of(offered) == "history"
    assert category_of(as_offered({}, tool())) == "git"


def test_what_the_search_of_a_server_says_of_a_hit_is_no_part_of_its_definition() -> None:
    offered = as_offered({}, tool(**{EXTENSION_ID: {"group": "history", "score": 0.5, "matched": ["name"]}}))
    assert (offered.meta or {})[EXTENSION_ID] == {"group": "git", "category": "history"}


def test_the_configuration_goes_before_the_server_and_a_tool_before_its_server() -> None:
    of_tool: dict[str, Any] = {"aliases": ["commits"], "related": ["diff"], "examples": [{"arguments": {}}]}
    stated: dict[str, Any] = {
        "categories": {"vcs": "Version control", "past": "What has happened"},
        "servers": {"git": {"group": "vcs", "tags": ["code"], "tools": {"log": of_tool}}},
    }
    published = tool(
        **{EXTENSION_ID: {"group": "history", "aliases": ["old"]}, "_fastmcp": {"tags": ["read", "", 1, "long" * 21]}}
    )
    offered = as_offered(stated, published)
    assert (category_of(offered), tags_of(offered)) == ("vcs", ["read", "code"])
    assert (related_of(offered), examples_of(offered)) == (["diff"], [{"arguments": {}}])
    assert (offered.meta or {})[EXTENSION_ID]["aliases"] == ["commits"]
    assert (offered.meta or {})[EXTENSION_ID]["categoryDescription"] == "Version control"
    assert tags_of(as_offered(stated, Tool(name="diff", input_schema={"type": "object"}))) == ["code"]
    stated["servers"]["git"]["tools"]["log"] = {"group": "past", "tags": ["mine"]}
    offered = as_offered(stated, published)
    assert (category_of(offered), tags_of(offered)) == ("past", ["mine", "code", "read"])


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        (7, "`metadata` must be an object"),
        ({"category": {}}, "`metadata.category` means nothing here; the closest is 'categories'"),
        ({"categories": {"a": 1}}, "`metadata.categories.a` must be a text, in quotes"),
        ({"servers": {"gti": {}}}, "`metadata.servers.gti`: there is no such server; the closest is 'git'"),
        ({"servers": {"git": {"tag": []}}}, "`metadata.servers.git.tag` means nothing here; the closest is 'tags'"),
        ({"servers": {"git": {"tags": "a"}}}, "`metadata.servers.git.tags` must be a list"),
        ({"servers": {"git": {"tags": [1]}}}, "`metadata.servers.git.tags.0` must be a text"),
        ({"servers": {"git": {"group": None}}}, "`metadata.servers.git.group` must be a text"),
        ({"servers": {"git": {"tools": {"log": 1}}}}, "`metadata.servers.git.tools.log` must be an object"),
        ({"servers": {"git": {"tools": {"log": {"group": ""}}}}}, "`metadata.servers.git.tools.log.group` must be"),
        ({"servers": {"git": {"tools": {"log": {"examples": {}}}}}}, "`metadata.servers.git.tools.log.examples` must"),
    ],
)
def test_a_mistake_is_told_with_its_place(stated: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        metadata(stated)
    [problem] = refused.value.problems
    assert problem.startswith(says)


def test_nothing_starts_with_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"

    def told(*options: str, **members: Any) -> str:
        file.write_text(json.dumps({"mcpServers": {"git": {"command": "true"}}} | members))
        argv = [sys.executable, "-m", "tools_search_server", "--config", str(file), *options]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30, stdin=subprocess.DEVNULL)
        assert ended.returncode == 2
        return ended.stderr

    assert "`metadata` must be an object" in told(metadata=1)
    assert "`always_available` must be a list" in told("--compat", "meta-tools", always_available="git__log")
