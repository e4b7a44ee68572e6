"""The configuration file of hosts, which names the MCP servers.

Read are `mcpServers` (most hosts) and `servers` (VS Code and others), each server with `command`, `args`, `env`,
`envFile`, `cwd` or with `url`, `headers`, and `type` or `transport`. `startup_timeout_sec`, `tool_timeout_sec` and
`timeout` bound its start and its calls; `disabled` and `enabled` switch it off. Members that only other hosts know are
ignored, unless one is nearly spelled like a known one.

A mistake in the entry of one server costs that server alone, which is then known with the reason; one in the shape of
the file, or a file without any server that can be used, refuses the whole.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, cast

from dotenv import dotenv_values

from tools_search_hosts.targets import HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget
from tools_search_hosts.variables import AskForInput, UnresolvedVariableError, Variables, read_inputs

_SERVER_MEMBERS: Final = ("mcpServers", "servers")

_OUR_MEMBERS: Final = ("tool_discovery", "tool_sets", "toolsets", "principals", "always_available")
"""Members for the programs of this project. One that is misspelled would silently show or hide tools."""

_TRANSPORTS: Final[Mapping[str, Literal["stdio", "streamable-http", "sse"]]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}

_ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""The address of a server, in the spellings of hosts."""

_ALLOWANCES: Final = ("alwaysAllow", "autoApprove")
"""The list of tools that need no consent, in the spellings of hosts."""

_TIMES: Final = ("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "timeout")
"""Hosts have others of nearly these names, so one that is unknown is no mistake."""

_KNOWN: Final = frozenset(
    (
        *("command", "args", "env", "envFile", "cwd", "headers", "type", "transport", "trust"),
        *("disabled", "enabled", "defer_loading", "lazy", "delegate"),
        *_ADDRESSES,
        *_ALLOWANCES,
        *_TIMES,
    )
)

_LEAST_MILLISECONDS: Final = 1000
"""A `timeout` below this is in seconds: hosts differ in its unit, and none lets a call run for so short."""

_NEAR: Final = 0.8
"""Likeness of two names from which on one is taken for a misspelling of the other."""

_STRING: Final = r'("(?:[^"\\]+|\\.?)*"?)'
# Every character belongs to one match, and no match is looked for twice: hostile texts take no longer than others.
_COMMENT: Final = re.compile(rf"{_STRING}|(//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


class ConfigurationError(Exception):
    """A configuration that cannot be used; the message lists every problem with its place and what to do about it."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{source} cannot be used:\n{lines}")


@dataclass(frozen=True, slots=True)
class HostFile:
    """The content of a host's configuration."""

    servers: tuple[ServerEntry, ...]
    """The servers in the order of the file; those that are switched off are left out.

    One with a mistake in its entry has an `UnusableTarget`, which says what it is.
    """

    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The whole file, for members that only one program knows; those in camelCase under their own names."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of single servers, each line with the name of its server."""
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
        problems: Takes the problems in the shape of the file, for a caller who has more to say and raises then.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            raise ConfigurationError(str(path), ['it is empty: write {"mcpServers": {…}} with your servers into it'])
        document = load_lenient_json(text)
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"it is not UTF-8 text: {error}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(str(path), [f"it is not JSON: {error}"]) from error
    folder = path.resolve().parent
    return parse_host_file(
        document, source=str(path), folder=folder, environment=environment, ask=ask, problems=problems
    )


def load_lenient_json(text: str) -> Any:
    """Parse JSON as people keep it in the settings of editors: with comments, trailing commas and a byte order mark.

    Raises:
        ValueError: It is not JSON even so, or a name occurs twice in one object, where one of two servers would
            silently be lost. Positions in the message are those of the original text.
    """
    # Comments and commas give way to white space of the same shape, so that positions stay true.
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[2]) if match[2] else match[0], text)
    text = _TRAILING_COMMA.sub(lambda match: match[1] or " ", text)
    return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique_names)


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
        source: Names the file in errors.
        folder: Of the file; `${workspaceFolder}` is derived from it.
        environment: As for `load_host_file`.
        ask: As for `load_host_file`.
        problems: As for `load_host_file`.

    Raises:
        ConfigurationError: It cannot be used; the message lists every problem.
    """
    faults: list[str] = []
    members: dict[str, Any] = {}
    servers: list[ServerEntry] = []
    if isinstance(document, dict):
        members = understood(cast("dict[str, Any]", document), _OUR_MEMBERS, faults)
        faults += misspelled([name for name in members if name not in _SERVER_MEMBERS], _OUR_MEMBERS)
        variables = os.environ if environment is None else environment
        values = Variables(variables, folder, read_inputs(members.get("inputs")), ask)
        servers = _servers(_server_objects(members, faults), values, faults)
    else:
        faults.append("it must be an object with `mcpServers` (or `servers`)")
    file = HostFile(tuple(servers), members)
    if not faults and not servers:
        faults.append("it names no server that is switched on: add one under `mcpServers`")
    if problems is not None:
        problems += faults
    elif faults or all(isinstance(server.target, UnusableTarget) for server in servers):
        raise ConfigurationError(source, [*file.problems, *faults])
    return file


def understood(members: Mapping[str, Any], known: Collection[str], problems: list[str]) -> dict[str, Any]:
    """Return `members` with those of `known` under their own names, and all others as they are.

    Args:
        members: As they stand in a file.
        known: Names of members; one with underscores may be written in camelCase.
        problems: Takes a line where a member is stated twice, in both spellings.
    """
    spelled = {re.sub("_+(.)", lambda match: match[1].upper(), name): name for name in known}
    for name in members:
        own = spelled.get(name, name)
        if own != name and own in members:
            problems.append(f"`{name}` and `{own}` are the same: keep one of them")
    return {spelled.get(name, name): value for name, value in members.items()}


def misspelled(members: Collection[str], known: Collection[str]) -> list[str]:
    """Return a line for each member that is not known and nearly spelled like one that is."""
    spelled = {name.lower(): name for name in known}
    lines: list[str] = []
    for name in members:
        near = [] if name in known else get_close_matches(name.lower(), spelled, n=1, cutoff=_NEAR)
        lines += [f"`{name}` is unknown: did you mean `{spelled[match]}`?" for match in near]
    return lines


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name!r} occurs twice in one object")
        members[name] = value
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


def _servers(entries: Mapping[str, Any], variables: Variables, problems: list[str]) -> list[ServerEntry]:
    servers: list[ServerEntry] = []
    for name, members in entries.items():
        if not name.strip():
            problems.append("a server has an empty name")
        elif not isinstance(members, dict):
            servers.append(ServerEntry(name, UnusableTarget(("must be an object",))))
        else:
            entry = _EntryReader(name, cast("dict[str, Any]", members), variables).read()
            servers += [entry] if entry else []
    return servers


class _EntryReader:
    """Reads the object of one server, with every problem collected instead of the first."""

    def __init__(self, name: str, members: Mapping[str, Any], variables: Variables) -> None:
        self._name = name
        self._variables = variables
        self._problems: list[str] = []
        self._expanded: dict[str, str] = {}
        """Values of the variables that were referred to."""
        self._members = understood(members, _KNOWN, self._problems)

    def read(self) -> ServerEntry | None:
        """Return the server, which is an `UnusableTarget` where there are problems; `None` where it is switched off."""
        if self._flag("disabled") or not self._flag("enabled", default=True):
            return None
        entry: ServerEntry | None = None
        try:
            entry = self._entry(self._target())
        except ValueError as error:
            self._problems.append(str(error))
        self._problems += misspelled(self._members, _KNOWN.difference(_TIMES))
        if entry is None or self._problems:
            return ServerEntry(self._name, UnusableTarget(tuple(self._problems)))
        return entry

    def _entry(self, target: Target) -> ServerEntry:
        delegate = self._members.get("delegate")
        if delegate not in (None, "turn"):
            self._problems.append('`delegate` must be "turn" (search with the user\'s own text), or be left out')
        every = ("*",) if self._flag("trust") else ()
        return ServerEntry(
            self._name,
            target,
            self._flag("defer_loading"),
            self._flag("lazy") if "lazy" in self._members else None,
            start_seconds=self._number("startup_timeout_sec") or self._number("startup_timeout_ms", per_second=1000),
            call_seconds=self._number("tool_timeout_sec") or self._timeout(),
            delegate="turn" if delegate == "turn" else None,
            always_allow=frozenset((*every, *(name for member in _ALLOWANCES for name in self._texts(member)))),
        )

    def _target(self) -> Target:
        transport = self._transport()
        address = next((member for member in _ADDRESSES if member in self._members), None)
        if address is not None and "command" in self._members:
            raise ValueError(f"has both `command` and `{address}`: keep the one that is meant")
        if address is None and "command" not in self._members:
            raise ValueError("needs `command` (to start it) or `url` (to reach it)")
        if address is None:
            if transport not in (None, "stdio"):
                raise ValueError(f"is of type {transport!r}, which needs `url` rather than `command`")
            env = {**self._env_file(), **self._text_map("env")}
            return StdioTarget(
                self._text("command"), self._texts("args"), env, self._text("cwd") or None, self._expanded
            )
        if transport == "stdio":
            raise ValueError("is of type 'stdio', which needs `command` rather than `url`")
        headers = self._text_map("headers")
        return HttpTarget(self._text(address), headers, transport or "streamable-http", self._expanded)

    def _transport(self) -> Literal["stdio", "streamable-http", "sse"] | None:
        named = self._members.get("transport", self._members.get("type"))
        if named is None:
            return None
        if not isinstance(named, str) or named not in _TRANSPORTS:
            raise ValueError(f"has the unknown transport {named!r}: use stdio, http, streamable-http or sse")
        return _TRANSPORTS[named]

    def _flag(self, member: str, *, default: bool = False) -> bool:
        value = self._members.get(member, default)
        if not isinstance(value, bool):
            self._problems.append(f"`{member}` must be true or false, not {_kind(value)}")
            return default
        return value

    def _timeout(self) -> float | None:
        stated = self._number("timeout")
        return stated / 1000 if stated and stated >= _LEAST_MILLISECONDS else stated

    def _number(self, member: str, *, per_second: float = 1) -> float | None:
        """Return seconds, or `None` where none are stated."""
        value = self._members.get(member)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._problems.append(f"`{member}` must be a number above 0, without quotes")
            return None
        return value / per_second

    def _env_file(self) -> dict[str, str]:
        """Return the variables of the file that `envFile` names, from the workspace where its path is relative."""
        named = self._text("envFile")
        if not named:
            return {}
        try:
            text = Path(self._variables.workspace, named).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self._problems.append(f"`envFile` cannot be read ({reason}): name a file of lines like NAME=value")
            return {}
        variables = dotenv_values(stream=io.StringIO(text), interpolate=False)
        return {name: value for name, value in variables.items() if value is not None}

    def _text(self, member: str) -> str:
        value = self._members.get(member, "")
        if not isinstance(value, str):
            self._problems.append(f"`{member}` must be a text, not {_kind(value)}")
            return ""
        return self._expand(member, value)

    def _texts(self, member: str) -> tuple[str, ...]:
        value = self._members.get(member, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            self._problems.append(f"`{member}` must be a list of texts, each in quotes")
            return ()
        return tuple(self._expand(f"{member}[{i}]", item) for i, item in enumerate(cast("list[str]", value)))

    def _text_map(self, member: str) -> dict[str, str]:
        value = self._members.get(member, {})
        if not isinstance(value, dict):
            self._problems.append(f"`{member}` must be an object of texts, not {_kind(value)}")
            return {}
        read: dict[str, str] = {}
        for name, text in cast("dict[str, Any]", value).items():
            if isinstance(text, str):
                read[name] = self._expand(f"{member}.{name}", text)
            elif isinstance(text, int) and not isinstance(text, bool):  # as editors allow
                read[name] = str(text)
            else:
                self._problems.append(f"`{member}.{name}` must be a text: write it in quotes")
        return read

    def _expand(self, member: str, text: str) -> str:
        try:
            return self._variables.expand(text, self._expanded)
        except UnresolvedVariableError as error:
            self._problems.append(f"`{member}`: {error}")
            return text


def _kind(value: object) -> str:
    """Return the JSON type of a value, and not the value: it may be a key that stands in the wrong place."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
