"""A host's configuration file: every mistake with its place, and never what was written there, which may be a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_ext_tools_search.hosts import ConfigurationError, parse_host_file


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"command": "x", "args": "--key s3cret"}, "`args` must be a list of texts"),
        ({"command": "x", "args": [{"key": "s3cret"}]}, "`args` must be a list of texts"),
        ({"command": ["x", "s3cret"]}, "`command` must be a text, not a list"),
        ({"command": "x", "cwd": 7}, "`cwd` must be a text, not a number"),
        ({"command": "x", "env": "A=s3cret"}, "`env` must be an object of texts, not a text"),
        ({"command": "x", "env": None}, "`env` must be an object of texts, not null"),
        ({"command": "x", "env": {"A=s": "s3cret"}}, "`env` has 'A=s', which is no name of a variable"),
        ({"command": "x", "args": ["s3cret\0"]}, "holds the character NUL"),
        ({"command": "x", "disabled": {"key": "s3cret"}}, "`disabled` must be true or false, not an object"),
        ({"url": "htps://host/?key=${KEY}"}, "`url` must be like https://host/mcp"),
        ({"url": "https://me:s3cret@[host/"}, "`url` must be like https://host/mcp"),
        ({"url": "https://host:99999/?key=s3cret"}, "`url` must be like https://host/mcp"),
        ({"url": "https://host", "headers": True}, "`headers` must be an object of texts, not true or false"),
        ({"url": "https://host", "headers": {"X": "s3cret\r\nEvil: 1"}}, "`headers.X` must be visible ASCII"),
        ({"url": "https://host", "headers": {"X Y": "s3cret"}}, "`headers` has 'X Y', which is no name of a header"),
    ],
)
def test_a_mistake_is_named_by_its_place_and_gives_no_secret_away(members: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_host_file({"mcpServers": {"a": members}}, source="mcp.json", folder=Path(), environment={"KEY": "s3cret"})
    assert f"server 'a': {told}" in str(refused.value)
    assert "s3cret" not in str(refused.value)
