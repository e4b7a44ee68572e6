"""Which servers: the hosts' file, an address, a command; and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp_ext_tools_search.hosts import HttpTarget, ServerEntry, StdioTarget
from tools_search_client.configuration import (
    Configuration,
    ToolDiscovery,
    command_server,
    load_configuration,
    url_server,
)
from tools_search_client.errors import ConfigurationError, LocalMistake


def load(tmp_path: Path, document: object, **environment: str) -> Configuration:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(document))
    return load_configuration(path, environment=environment)


def test_a_hosts_file_is_read_as_it_is(tmp_path: Path):
    configuration = load(
        tmp_path,
        {
            "mcpServers": {
                "files": {"command": "files", "args": ["${HOME_OF_FILES}"], "env": {"A": "1"}, "defer_loading": True},
                "off": {"command": "off", "disabled": True},
                "far": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}},
                "old": {"url": "https://example.com/sse", "transport": "sse"},
            }
        },
        HOME_OF_FILES="/data",
    )
    assert configuration.servers == (
        ServerEntry("files", StdioTarget("files", ("/data",), {"A": "1"}), defer_loading=True),
        ServerEntry("far", HttpTarget("https://example.com/mcp", {"Authorization": "Bearer none"})),
        ServerEntry("old", HttpTarget("https://example.com/sse", {}, "sse")),
    )


def test_tool_discovery_is_kept_for_hosts(tmp_path: Path):
    section = {"enabled": True, "defer_all": True, "max_search_results": 7}
    configuration = load(tmp_path, {"servers": {"a": {"command": "a"}}, "tool_discovery": section})
    assert configuration.tool_discovery == ToolDiscovery(enabled=True, defer_all=True, max_search_results=7)


def test_tool_discovery_is_off_where_nothing_is_said(tmp_path: Path):
    assert not load(tmp_path, {"mcpServers": {"a": {"command": "a"}}}).tool_discovery.enabled


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "must be an object"),
        ({}, "neither `mcpServers` nor `servers`"),
        ({"mcpServers": {}}, "no server that is switched on"),
        ({"mcpServers": {"a": {}}}, "needs `command`"),
        ({"mcpServers": {"a": {"url": "ftp://x"}}}, "`url` must be like"),
        ({"mcpServers": {"a": {"command": "x", "args": ["${NOWHERE}"]}}}, "NOWHERE is not set"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": 5}, "`tool_discovery` must be an object"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": {"enabled": 1}}, "true or false"),
        ({"mcpServers": {"a": {"command": "x"}}, "tool_discovery": {"max_search_results": 0}}, "at least 1"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_mend(tmp_path: Path, document: object, told: str):
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path, document)
    assert told in str(error.value)
    assert "mcp.json" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(LocalMistake, match="cannot be read"):
        load_configuration(tmp_path / "nowhere.json")


def test_two_servers_cannot_share_a_name():
    server = ServerEntry("a", StdioTarget("a"))
    with pytest.raises(ValueError, match="share a name"):
        Configuration((server, server))


def test_a_command_is_split_into_words_without_a_shell():
    assert command_server("run 'two words' $HOME").servers[0].target == StdioTarget("run", ("two words", "$HOME"))


@pytest.mark.parametrize("line", ["", "  ", "run 'unclosed"])
def test_a_command_that_cannot_be_split_is_refused(line: str):
    with pytest.raises(ConfigurationError):
        command_server(line)


def test_an_address_has_its_headers():
    target = url_server("http://127.0.0.1:1/mcp", {"X-Key": "1"}).servers[0].target
    assert target == HttpTarget("http://127.0.0.1:1/mcp", {"X-Key": "1"})


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match="https://host/mcp"):
        url_server("localhost")
