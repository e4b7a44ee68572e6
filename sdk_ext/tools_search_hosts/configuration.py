"""Reads hosts' configuration files, which name the MCP servers.

It reads `mcpServers` (most hosts), `servers` (VS Code and others), and the formats that `formats` converts to these.
Each server has `command`, `args`, `env`, `envFile`, `cwd`, or `url`, `headers`, and `type` or `transport`.
`startup_timeout_sec`, `tool_timeout_sec` and `timeout` limit its startup and its calls. `era` is the protocol era of
its connection. `disabled` and `enabled` turn it off. Members that only other hosts know are ignored, unless one looks
like a misspelling of a known one.

A mistake in one server's entry makes only that server unusable, with the reason. A mistake in the file's structure
rejects the file, and so does the lack of any usable server.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from tools_search_hosts.formats import in_common_form, projects_with_servers, read_document
from tools_search_hosts.json_values import as_object, is_object
from tools_search_hosts.locations import real_path
from tools_search_hosts.targets import EraChoice, HttpTarget, HttpTransport, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.validation import name_problem, validation_problem
from tools_search_hosts.variables import AskForInput, Variables, read_inputs

_SERVER_MEMBERS: Final = ("mcpServers", "servers")

_OUR_MEMBERS: Final = ("tool_discovery", "tool_sets", "toolsets", "principals", "always_available")
"""Members for this project's programs. A misspelled one would silently show or hide tools."""

_TRANSPORTS: Final[Mapping[str, Literal["stdio"] | HttpTransport]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}

_ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""The member for a server's address, as hosts spell it."""

_EDITOR_FOLDERS: Final = frozenset({".vscode", ".cursor", ".zed", ".codex"})
"""Configuration folders in a project. The project is their parent folder."""

NO_SERVERS: Final = "it names no server that is switched on: add one under `mcpServers`"

_TIMES: Final = ("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "timeout")
"""Hosts have other members with similar names, so an unknown one is a mistake only if it differs by about a letter."""

_MIN_MILLISECONDS: Final = 1000
"""A `timeout` below this is in seconds. Hosts use different units, but none has timeouts of less than a second."""

_NEAR: Final = 0.8
"""Minimum similarity from which two names count as spellings of the same one."""

_NEAR_TIMES: Final = 0.95
"""The same for a name that is similar to one of `_TIMES`."""


class ConfigurationError(Exception):
    """A configuration cannot be used. The message lists every problem with its place and the correction."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{source} cannot be used:\n{lines}")


@dataclass(frozen=True, slots=True)
class HostFile:
    """The contents of a host's configuration file."""

    servers: tuple[ServerEntry, ...]
    """The servers in file order, without disabled ones.

    A server with a mistake in its entry has an `UnusableTarget` that describes it.
    """

    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All members of the file, for programs with their own members; camelCase names are converted."""

    @property
    def names(self) -> Collection[str]:
        """The names of all servers in the file, including disabled ones."""
        return as_object(self.members.get("mcpServers") or self.members.get("servers"))

    @property
    def states_servers(self) -> bool:
        """Whether the file has a member for servers that is not empty, whether or not it can be used."""
        return any(self.members.get(member) for member in _SERVER_MEMBERS)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems in servers' entries, each on a line with the server's name."""
        return tuple(
            f"server {entry.name!r}: {problem}"
            for entry in self.servers
            if isinstance(entry.target, UnusableTarget)
            for problem in entry.target.problems
        )


def load_host_file(path: str | PathLike[str], *, environment: Mapping[str, str] | None = None) -> HostFile:
    """Return the configuration in the file at `path`, like `inspect_host_file`.

    Raises:
        ConfigurationError: The file cannot be read or used. The message lists every problem.
    """
    file, problems = inspect_host_file(path, environment=environment)
    if not file.servers and not problems:
        problems = [NO_SERVERS]
    if problems or all(isinstance(server.target, UnusableTarget) for server in file.servers):
        raise ConfigurationError(str(path), [*file.problems, *problems])
    return file


def inspect_host_file(
    path: str | PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    ask: AskForInput | None = None,
    workspace: str | PathLike[str] | None = None,
) -> tuple[HostFile, list[str]]:
    """Return the configuration in the file at `path`, and the problems in its structure.

    Args:
        path: A UTF-8 file: TOML (`.toml`), YAML (`.yaml`, `.yml`), or else JSON, in which comments and trailing commas
            are allowed, as in editors.
        environment: Values for `${NAME}`; by default the process's environment.
        ask: Prompts the user for the value of an `${input:key}` that has no variable.
        workspace: The project's folder, for `${workspaceFolder}`; by default the file's folder.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        if not text.strip():
            raise ConfigurationError(str(path), ['it is empty: write {"mcpServers": {…}} with your servers into it'])
        document = read_document(path, text)
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"it is not UTF-8 text: {error}"]) from error
    except ValueError as error:
        raise ConfigurationError(str(path), [str(error)]) from error
    return _parsed(document, real_path(path).parent, environment, ask, workspace)


def writers_warning(path: str | PathLike[str]) -> str | None:
    """Return a one-line warning if other users can change a file that names programs to start, or else `None`."""
    status = Path(path).stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IWOTH:
        who = "all users of this machine"
    # A user's files usually belong to the user's own group, which has no other members.
    elif mode & stat.S_IWGRP and status.st_gid != os.getegid():
        who = "its group"
    else:
        return None
    return (
        f"{path} can be changed by {who} (mode {mode:04o}), so they can start programs as you: run `chmod go-w {path}`"
    )


def _parsed(
    document: Any,
    folder: Path,
    environment: Mapping[str, str] | None,
    ask: AskForInput | None,
    workspace: str | PathLike[str] | None,
) -> tuple[HostFile, list[str]]:
    """Return the configuration in `document`, and the problems in its structure."""
    if not is_object(document):
        return HostFile(()), ["it must be an object with `mcpServers` (or `servers`)"]
    environment = os.environ if environment is None else environment
    workspace = Path(workspace or (folder.parent if folder.name in _EDITOR_FOLDERS else folder))
    members, problems = with_canonical_names(document, _OUR_MEMBERS)
    members = in_common_form(members, kept=_OUR_MEMBERS, environment=environment, workspace=workspace)
    problems += spelling_hints([name for name in members if name not in _SERVER_MEMBERS], _OUR_MEMBERS)
    variables = Variables(environment, workspace, read_inputs(members.get("inputs")), ask)
    servers = _servers(members, variables, problems)
    if not problems and not servers and (elsewhere := ", ".join(projects_with_servers(document))):
        problems.append(
            f"it names no server that is switched on: those of its projects count in their own folders: {elsewhere}"
        )
    return HostFile(tuple(servers), members), problems


def with_canonical_names(members: Mapping[str, Any], known: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the members under their known names, and a line for each one that occurs in both spellings.

    Known names with underscores may also be written in camelCase.
    """
    spelled = {re.sub("_+(.)", lambda match: match[1].upper(), name): name for name in known}
    own_names = {name: spelled.get(name, name) for name in members}
    problems = [
        f"`{name}` and `{own}` are the same: keep one of them"
        for name, own in own_names.items()
        if own != name and own in members
    ]
    return {own_names[name]: value for name, value in members.items()}, problems


def spelling_hints(members: Collection[str], known: Collection[str], least_similarity: float = _NEAR) -> list[str]:
    """Return a line for each unknown member with a name similar to a known one."""
    spelled = {name.lower(): name for name in known}
    lines: list[str] = []
    for name in members:
        near = [] if name in known else get_close_matches(name.lower(), spelled, n=1, cutoff=least_similarity)
        lines += [f"`{name}` is unknown: did you mean `{spelled[match]}`?" for match in near]
    return lines


def _expand(text: str, info: ValidationInfo) -> str:
    return cast("Variables", info.context).expand(text)


def _number_as_text(value: object) -> object:
    """Return an integer as text, as editors allow."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Text: TypeAlias = Annotated[str, AfterValidator(_expand)]
_TextMap: TypeAlias = dict[str, Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_expand)]]
_Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Entry(BaseModel):
    """The entry of one server, without the members for its target."""

    model_config = ConfigDict(strict=True)

    disabled: bool = False
    enabled: bool = True
    defer_loading: bool = False
    lazy: bool | None = None
    delegate: Literal["turn"] | None = None
    era: EraChoice | None = None
    startup_timeout_sec: _Seconds | None = None
    startup_timeout_ms: _Seconds | None = None
    tool_timeout_sec: _Seconds | None = None
    timeout: _Seconds | None = None
    trust: bool = False
    # The tools that need no consent, as hosts spell this member.
    always_allow: list[_Text] = Field(default=[], alias="alwaysAllow")
    auto_approve: list[_Text] = Field(default=[], alias="autoApprove")


class _StartedEntry(_Entry):
    command: _Text
    args: list[_Text] = []
    env_file: _Text = Field(default="", alias="envFile")
    env: _TextMap = {}
    cwd: _Text = ""

    def target(self, variables: Variables) -> StdioTarget:
        env = self.env
        if self.env_file:  # as in editors: a relative path starts at the workspace, and `env` takes precedence
            try:
                text = Path(variables.workspace, self.env_file).read_text(encoding="utf-8-sig")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                problem = f"`envFile` cannot be read ({reason}): name a file of lines like NAME=value"
                raise ValueError(problem) from error
            # Literally: `$` in a value is not a reference, as it may be part of a key.
            read = dotenv_values(stream=io.StringIO(text), interpolate=False)
            env = {name: value for name, value in read.items() if value is not None} | env
        return StdioTarget(self.command, tuple(self.args), env, self.cwd or None, variables.expanded)


class _RemoteEntry(_Entry):
    url: _Text = Field(validation_alias=AliasChoices(*_ADDRESSES))
    headers: _TextMap = {}


_FIELDS: Final = _StartedEntry.model_fields | _RemoteEntry.model_fields
_TRANSPORT_MEMBERS: Final = ("transport", "type", "transportType")
_KNOWN: Final = frozenset((*(own.alias or name for name, own in _FIELDS.items()), *_TRANSPORT_MEMBERS, *_ADDRESSES))


def _servers(members: Mapping[str, Any], variables: Variables, problems: list[str]) -> list[ServerEntry]:
    """Return the enabled servers. `problems` gets those that do not belong to a single server."""
    named = [member for member in _SERVER_MEMBERS if member in members]
    if len(named) != 1:
        hints = [] if named else spelling_hints(members, _SERVER_MEMBERS)
        found = "it has neither `mcpServers` nor `servers`" if not named else "it has both `mcpServers` and `servers`"
        problems.append("; ".join([f"{found}: exactly one of them must name the servers", *hints]))
        return []
    stated = members[named[0]]
    if not is_object(stated):
        problems.append(f"`{named[0]}` must be an object from names to servers")
        return []
    servers: list[ServerEntry] = []
    for name, entry in stated.items():
        if problem := name_problem(name):
            problems.append(f"a server has {problem}")
        elif not is_object(entry):
            servers.append(ServerEntry(name, UnusableTarget(("must be an object",))))
        else:
            own, mistakes = with_canonical_names(entry, _KNOWN)
            if own.get("disabled") is True or own.get("enabled") is False:
                continue
            # Each server has its own `expanded`: these values are redacted in its texts, and only there.
            server = _server(name, own, replace(variables, expanded={}))
            if isinstance(server.target, UnusableTarget):
                mistakes += server.target.problems
            mistakes += spelling_hints(own, _KNOWN.difference(_TIMES)) + spelling_hints(own, _TIMES, _NEAR_TIMES)
            servers.append(ServerEntry(name, UnusableTarget(tuple(mistakes))) if mistakes else server)
    return servers


def _server(name: str, members: Mapping[str, Any], variables: Variables) -> ServerEntry:
    """Return the server that `members` describe."""
    address = next((member for member in _ADDRESSES if member in members), None)
    try:
        transport = _transport(members, address)
        if address is None:
            entry = _StartedEntry.model_validate(members, context=variables)
            target = entry.target(variables)
        else:
            entry = _RemoteEntry.model_validate(members, context=variables)
            target = HttpTarget(entry.url, entry.headers, transport or "streamable-http", variables.expanded)
    except ValidationError as error:
        return ServerEntry(name, UnusableTarget(tuple(map(validation_problem, error.errors(include_url=False)))))
    except ValueError as error:
        return ServerEntry(name, UnusableTarget((str(error),)))
    # Members that name their unit take precedence over `timeout`, whose unit differs between hosts.
    timeout = entry.timeout
    if timeout and timeout >= _MIN_MILLISECONDS:
        timeout /= 1000
    return ServerEntry(
        name,
        target,
        entry.defer_loading,
        entry.lazy,
        start_seconds=entry.startup_timeout_sec or (entry.startup_timeout_ms and entry.startup_timeout_ms / 1000),
        call_seconds=entry.tool_timeout_sec or timeout,
        era=entry.era,
        delegate=entry.delegate,
        always_allow=frozenset((*(("*",) if entry.trust else ()), *entry.always_allow, *entry.auto_approve)),
    )


def _transport(members: Mapping[str, Any], address: str | None) -> HttpTransport | None:
    """Return the stated HTTP transport of the server at `address`; `None` if none is stated, or without an address.

    Raises:
        ValueError: The entry contradicts itself.
    """
    named = next((members[member] for member in _TRANSPORT_MEMBERS if member in members), None)
    if named is not None and (not isinstance(named, str) or named not in _TRANSPORTS):
        raise ValueError(f"has the unknown transport {named!r}: use stdio, http, streamable-http or sse")
    transport = None if named is None else _TRANSPORTS[named]
    match address, "command" in members, transport:
        case str(), True, _:
            raise ValueError(f"has both `command` and `{address}`: keep only one")
        case None, False, _:
            raise ValueError("needs `command` (to start it) or `url` (to reach it)")
        case None, _, "streamable-http" | "sse":
            raise ValueError(f"is of type {transport!r}, which needs `url` rather than `command`")
        case str(), _, "stdio":
            raise ValueError("is of type 'stdio', which needs `command` rather than `url`")
        case _:
            return None if transport == "stdio" else transport
