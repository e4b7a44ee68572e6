"""Which servers a client works with: the file that hosts have, or a single address or command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import tools_search_hosts as hosts
from tools_search_hosts import AskForInput, HttpTarget, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.toolsets import Toolset

from tools_search_client.errors import ConfigurationError
from tools_search_client.federation.reports import FederatedTool
from tools_search_client.federation.tool_discovery import ToolDiscovery, read_tool_discovery, read_tool_sets

__all__ = ["Configuration", "ToolDiscovery", "command_server", "load_configuration", "url_server"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers to work with, in the order of the file; those that are switched off are left out."""

    servers: tuple[ServerEntry, ...]
    tool_discovery: ToolDiscovery = field(default_factory=ToolDiscovery)

    tool_sets: Mapping[str, Toolset] = field(default_factory=dict[str, Toolset])
    """Named choices among the tools, of which a host uses one, or none, for each turn."""

    def __post_init__(self) -> None:
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise ValueError("two servers of one configuration cannot share a name")

    def allows(self, tool: FederatedTool) -> bool:
        """Return whether the operator lets `tool` be called without asking the user; what a server says never does."""
        return any(server.name == tool.server and server.allows(tool.tool.name) for server in self.servers)


def load_configuration(
    path: Path, *, environment: Mapping[str, str] | None = None, ask: AskForInput | None = None
) -> Configuration:
    """Read the host's file at `path`: its servers, how tools are loaded on demand, and its toolsets.

    A server with a mistake in its entry is in the result all the same, as long as another can be used: it fails, with
    the reason, when it is needed.

    Args:
        path: JSON in UTF-8; comments and trailing commas are allowed, as editors do.
        environment: Where `${NAME}` is looked up; that of the process unless given.
        ask: Asks the user for an `${input:key}` that no environment variable holds; nobody unless given.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    problems: list[str] = []
    try:
        file = hosts.load_host_file(path, environment=environment, ask=ask, problems=problems)
    except hosts.ConfigurationError as error:
        raise ConfigurationError(error.source, error.problems) from error
    discovery = read_tool_discovery(file.members.get("tool_discovery", {}), problems)
    stated = file.members.get("mcpServers") or file.members.get("servers")
    named = cast("dict[str, Any]", stated) if isinstance(stated, dict) else {}
    tool_sets = read_tool_sets(file.members.get("tool_sets", {}), named, problems)
    if problems or all(isinstance(server.target, UnusableTarget) for server in file.servers):
        raise ConfigurationError(str(path), [*file.problems, *problems])
    return Configuration(file.servers, discovery, tool_sets)


def url_server(url: str, headers: Mapping[str, str] | None = None) -> Configuration:
    """Return the configuration of the one server at `url`, whose tools need no prefix.

    Raises:
        ConfigurationError: It is not an HTTP address.
    """
    try:
        return Configuration((ServerEntry("", HttpTarget(url, headers or {})),))
    except ValueError as error:
        raise ConfigurationError("the address", [str(error)]) from error


def command_server(command_line: str) -> Configuration:
    """Return the configuration of the one server that `command_line` starts; no shell is involved.

    Raises:
        ConfigurationError: The line is empty or a quotation mark is not closed.
    """
    try:
        words = shlex.split(command_line)
    except ValueError as error:
        raise ConfigurationError("the command", [f"{error}: check the quotation marks"]) from error
    if not words:
        raise ConfigurationError("the command", ["it is empty: give a program and its arguments"])
    return Configuration((ServerEntry("", StdioTarget(words[0], tuple(words[1:]))),))
