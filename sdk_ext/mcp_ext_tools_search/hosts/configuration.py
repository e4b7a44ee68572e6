"""The file that names the servers: the one that hosts already have.

Read are `mcpServers` (most hosts) and `servers` (VS Code and others), each server with `command`, `args`, `env`,
`envFile`, `cwd` or with `url`, `headers`, and `type` or `transport`. `startup_timeout_sec`, `tool_timeout_sec` and
`timeout` bound its start and its calls; `disabled` and `enabled` switch it off. Members that only other hosts know are
ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from mcp_ext_tools_search.hosts.errors import ConfigurationError
from mcp_ext_tools_search.hosts.expansion import expand
from mcp_ext_tools_search.hosts.lenient_json import load_lenient_json
from mcp_ext_tools_search.hosts.server_entry import EntryReader
from mcp_ext_tools_search.hosts.targets import ServerEntry

__all__ = ["HostFile", "load_host_file", "parse_host_file"]

_SERVER_MEMBERS: Final = ("mcpServers", "servers")


@dataclass(frozen=True, slots=True)
class HostFile:
    """What a host's configuration says."""

    servers: tuple[ServerEntry, ...]
    """The servers in the order of the file; those that are switched off are left out."""

    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The whole file, for members that only one program knows."""


def load_host_file(path: Path, *, environment: Mapping[str, str] | None = None) -> HostFile:
    """Read the file at `path`.

    Args:
        path: JSON in UTF-8; comments and trailing commas are allowed, as editors do.
        environment: Where `${NAME}` is looked up; that of the process unless given.

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
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(str(path), [f"it is not JSON: {error}"]) from error
    return parse_host_file(document, source=str(path), folder=path.resolve().parent, environment=environment)


def parse_host_file(
    document: Any, *, source: str, folder: Path, environment: Mapping[str, str] | None = None
) -> HostFile:
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
    if not problems and not servers:
        problems.append("it names no server that is switched on: add one under `mcpServers`")
    if problems:
        raise ConfigurationError(source, problems)
    return HostFile(tuple(servers), cast("dict[str, Any]", document))


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
