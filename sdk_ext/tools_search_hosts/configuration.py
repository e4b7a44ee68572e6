"""The file that names the servers: the one that hosts already have.

Read are `mcpServers` (most hosts) and `servers` (VS Code and others), each server with `command`, `args`, `env`,
`envFile`, `cwd` or with `url`, `headers`, and `type` or `transport`. `startup_timeout_sec`, `tool_timeout_sec` and
`timeout` bound its start and its calls; `disabled` and `enabled` switch it off. Members that only other hosts know are
ignored, unless one is nearly spelled like a known one.

A mistake in the entry of one server costs that server alone, which is then known with the reason; one in the shape of
the file, or a file without any server that can be used, refuses the whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from tools_search_hosts.errors import ConfigurationError
from tools_search_hosts.expansion import expand
from tools_search_hosts.inputs import AskForInput, Inputs
from tools_search_hosts.lenient_json import load_lenient_json
from tools_search_hosts.members import misspelled, understood
from tools_search_hosts.server_entry import EntryReader
from tools_search_hosts.targets import ServerEntry, UnusableTarget

__all__ = ["HostFile", "load_host_file", "parse_host_file", "writers_warning"]

_SERVER_MEMBERS: Final = ("mcpServers", "servers")

_OUR_MEMBERS: Final = ("tool_discovery", "tool_sets", "toolsets", "principals", "always_available")
"""Those of the programs of this project. One that is misspelled would silently show or hide tools."""


@dataclass(frozen=True, slots=True)
class HostFile:
    """What a host's configuration says."""

    servers: tuple[ServerEntry, ...]
    """The servers in the order of the file; those that are switched off are left out.

    One with a mistake in its entry has an `UnusableTarget`, which says what it is.
    """

    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The whole file, for members that only one program knows; those in camelCase under their own names."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with single servers, each line with the name of its server."""
        return tuple(
            f"server {entry.name!r}: {problem}"
            for entry in self.servers
            if isinstance(entry.target, UnusableTarget)
            for problem in entry.target.problems
        )


def load_host_file(
    path: Path,
    *,
    environment: Mapping[str, str] | None = None,
    ask: AskForInput | None = None,
    problems: list[str] | None = None,
) -> HostFile:
    """Read the file at `path`.

    Args:
        path: JSON in UTF-8; comments and trailing commas are allowed, as editors do.
        environment: Where `${NAME}` is looked up; that of the process unless given.
        ask: Asks the user for the value of an `${input:key}` that no variable holds.
        problems: Takes what is wrong with the shape of the file, for a caller who has more to say and raises then.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"it is not UTF-8 text: {error}"]) from error
    if not text.strip():
        raise ConfigurationError(str(path), ['it is empty: write {"mcpServers": {…}} with your servers into it'])
    try:
        document = load_lenient_json(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(str(path), [f"it is not JSON: {error}"]) from error
    folder = path.resolve().parent
    return parse_host_file(
        document, source=str(path), folder=folder, environment=environment, ask=ask, problems=problems
    )


def writers_warning(path: Path) -> str | None:
    """Return a warning, in one line, if other users can change a file that names programs to start, else `None`."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    # The group of a user's files is usually the user's own, with nobody else in it.
    who = "all users" if mode & stat.S_IWOTH else "its group" if mode & stat.S_IWGRP else ""
    if not who or (who == "its group" and status.st_gid == os.getegid()):
        return None
    where = "of this machine " if who == "all users" else ""
    return (
        f"{path} can be changed by {who} {where}(mode {mode:04o}), who can so start programs as you: "
        f"run `chmod go-w {path}`"
    )


def parse_host_file(
    document: Any,
    *,
    source: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    ask: AskForInput | None = None,
    problems: list[str] | None = None,
) -> HostFile:
    """Turn a parsed file into a configuration.

    Args:
        document: The JSON value.
        source: What to call it in errors.
        folder: That of the file; `${workspaceFolder}` is derived from it.
        environment: Where `${NAME}` is looked up; that of the process unless given.
        ask: As for `load_host_file`.
        problems: As for `load_host_file`.

    Raises:
        ConfigurationError: It cannot be used; the message lists every problem.
    """
    faults: list[str] = []
    variables = os.environ if environment is None else environment
    members = _members(document, faults)
    inputs = Inputs(members.get("inputs"), variables, ask)
    entries = _server_objects(members, faults) if isinstance(document, dict) else {}
    servers = _servers(entries, partial(expand, environment=variables, folder=folder, inputs=inputs), faults)
    file = HostFile(tuple(servers), members)
    if not faults and not servers:
        faults.append("it names no server that is switched on: add one under `mcpServers`")
    if problems is not None:
        problems += faults
    elif faults or all(isinstance(server.target, UnusableTarget) for server in servers):
        raise ConfigurationError(source, [*file.problems, *faults])
    return file


def _members(document: Any, problems: list[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        problems.append("it must be an object with `mcpServers` (or `servers`)")
        return {}
    members = understood(cast("dict[str, Any]", document), _OUR_MEMBERS, problems)
    problems += misspelled([name for name in members if name not in _SERVER_MEMBERS], _OUR_MEMBERS)
    return members


def _server_objects(members: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    named = [member for member in _SERVER_MEMBERS if member in members]
    if len(named) != 1:
        near = [] if named else misspelled(members, _SERVER_MEMBERS)
        fault = "it has neither `mcpServers` nor `servers`" if not named else "it has both `mcpServers` and `servers`"
        problems.append("; ".join([f"{fault}: exactly one of them must name the servers", *near]))
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
            servers.append(ServerEntry(name, UnusableTarget(("must be an object",))))
        else:
            entry = EntryReader(name, cast("dict[str, Any]", members), expand_text).read()
            servers.extend([entry] if entry else [])
    return servers
