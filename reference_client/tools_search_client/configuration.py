"""Which servers a client works with: the file that hosts have, or a single address or command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mcp_ext_tools_search import hosts
from mcp_ext_tools_search.hosts import HttpTarget, ServerEntry, StdioTarget

from tools_search_client.errors import ConfigurationError

__all__ = ["Configuration", "ToolDiscovery", "command_server", "load_configuration", "url_server"]


@dataclass(frozen=True, slots=True)
class ToolDiscovery:
    """How a host loads tools on demand (`tool_discovery` in the file)."""

    enabled: bool = False
    defer_all: bool = False
    max_search_results: int = 5


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers to work with, in the order of the file; those that are switched off are left out."""

    servers: tuple[ServerEntry, ...]
    tool_discovery: ToolDiscovery = field(default_factory=ToolDiscovery)

    def __post_init__(self) -> None:
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise ValueError("two servers of one configuration cannot share a name")


def load_configuration(path: Path, *, environment: Mapping[str, str] | None = None) -> Configuration:
    """Read the host's file at `path`: its servers, and how tools are loaded on demand.

    Args:
        path: JSON in UTF-8; comments and trailing commas are allowed, as editors do.
        environment: Where `${NAME}` is looked up; that of the process unless given.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        file = hosts.load_host_file(path, environment=environment)
    except hosts.ConfigurationError as error:
        raise ConfigurationError(error.source, error.problems) from error
    problems: list[str] = []
    discovery = _tool_discovery(file.members.get("tool_discovery", {}), problems)
    if problems:
        raise ConfigurationError(str(path), problems)
    return Configuration(file.servers, discovery)


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


def _tool_discovery(section: object, problems: list[str]) -> ToolDiscovery:
    if not isinstance(section, dict):
        problems.append("`tool_discovery` must be an object")
        return ToolDiscovery()
    members = cast("dict[str, Any]", section)
    enabled, defer_all = members.get("enabled", False), members.get("defer_all", False)
    most = members.get("max_search_results", 5)
    if not isinstance(enabled, bool) or not isinstance(defer_all, bool):
        problems.append("`tool_discovery`: `enabled` and `defer_all` must be true or false")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        problems.append("`tool_discovery`: `max_search_results` must be a whole number of at least 1")
    return ToolDiscovery() if problems else ToolDiscovery(enabled, defer_all, most)
