"""The file that names the servers: the one that hosts already have.

Read are `mcpServers` (most hosts) and `servers` (VS Code and others), each server with `command`, `args`, `env`, `cwd`
or with `url`, `headers`, and `type` or `transport`. `disabled` and `enabled` switch a server off. `defer_loading` and
`tool_discovery` are kept for hosts that load tools on demand. Members that only other hosts know are ignored.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from tools_search_client.errors import ConfigurationError
from tools_search_client.expansion import expand
from tools_search_client.lenient_json import load_lenient_json
from tools_search_client.server_entry import EntryReader
from tools_search_client.targets import HttpTarget, ServerEntry, StdioTarget

__all__ = [
    "Configuration",
    "ToolDiscovery",
    "command_server",
    "load_configuration",
    "parse_configuration",
    "url_server",
]

_SERVER_MEMBERS: Final = ("mcpServers", "servers")


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
    """Read the file at `path`.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"it is not UTF-8 text: {error}"]) from error
    try:
        document = load_lenient_json(text)
    except ValueError as error:
        raise ConfigurationError(str(path), [f"it is not JSON: {error}"]) from error
    return parse_configuration(document, source=str(path), folder=path.resolve().parent, environment=environment)


def parse_configuration(
    document: Any, *, source: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Configuration:
    """Turn a parsed file into a configuration.

    Args:
        document: The JSON value.
        source: What to call it in errors.
        folder: That of the file; `${workspaceFolder}` is derived from it.
        environment: Where `${NAME}` is looked up; that of the process unless given.

    Raises:
        ConfigurationError: It cannot be used; the message lists every problem.
    """
    problems: list[str] = []
    variables = os.environ if environment is None else environment
    entries = _server_objects(document, problems)
    servers = _servers(entries, partial(expand, environment=variables, folder=folder), problems)
    discovery = _tool_discovery(document, problems)
    if not problems and not servers:
        problems.append("it names no server that is switched on: add one under `mcpServers`")
    if problems:
        raise ConfigurationError(source, problems)
    return Configuration(tuple(servers), discovery)


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


def _server_objects(document: Any, problems: list[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        problems.append("it must be an object with `mcpServers` (or `servers`)")
        return {}
    members = cast("dict[str, Any]", document)
    named = [member for member in _SERVER_MEMBERS if member in members]
    if len(named) != 1:
        fault = "it has neither `mcpServers` nor `servers`" if not named else "it has both `mcpServers` and `servers`"
        problems.append(f"{fault}: exactly one of them must name the servers")
        return {}
    servers = members[named[0]]
    if not isinstance(servers, dict):
        problems.append(f"`{named[0]}` must be an object from names to servers")
        return {}
    return cast("dict[str, Any]", servers)


def _servers(entries: Mapping[str, Any], expand_text: Any, problems: list[str]) -> list[ServerEntry]:
    servers: list[ServerEntry] = []
    for name, members in entries.items():
        if not name.strip():
            problems.append("a server has an empty name")
        elif not isinstance(members, dict):
            problems.append(f"server {name!r}: must be an object")
        else:
            reader = EntryReader(name, cast("dict[str, Any]", members), expand_text, problems=[])
            entry = reader.read()
            problems.extend(reader.problems)
            servers.extend([entry] if entry else [])
    return servers


def _tool_discovery(document: Any, problems: list[str]) -> ToolDiscovery:
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    section: object = known.get("tool_discovery", {})
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
