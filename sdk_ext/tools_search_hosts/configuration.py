"""The configuration file of hosts, which names the MCP servers.

Read are `mcpServers` (most hosts), `servers` (VS Code and others), and what `formats` brings into that form: each
server with `command`, `args`, `env`, `envFile`, `cwd` or with `url`, `headers`, and `type` or `transport`.
`startup_timeout_sec`, `tool_timeout_sec` and `timeout` bound its start and its calls; `disabled` and `enabled` switch
it off. Members that only other hosts know are ignored, unless one is nearly spelled like a known one.

A mistake in the entry of one server costs that server alone, which is then known with the reason; one in the shape of
the file, or a file without any server that can be used, refuses the whole.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
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
from pydantic_core import ErrorDetails

from tools_search_hosts.formats import in_common_form, projects_with_servers, read_document
from tools_search_hosts.targets import HttpTarget, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.toolsets import closest
from tools_search_hosts.variables import AskForInput, Variables, read_inputs

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

_EDITOR_FOLDERS: Final = frozenset({".vscode", ".cursor", ".zed", ".codex"})
"""Folders of a project that hold configuration; the project itself is the folder around them."""

_ADD_ONE: Final = "add one under `mcpServers`"

_TIMES: Final = ("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "timeout")
"""Hosts have others of nearly these names, so one that is unknown is no mistake."""

_LEAST_MILLISECONDS: Final = 1000
"""A `timeout` below this is in seconds: hosts differ in its unit, and none lets a call run for so short."""

_NEAR: Final = 0.8
"""Likeness of two names from which on one is taken for a misspelling of the other."""


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
    def names(self) -> Collection[str]:
        """The names of all servers in the file, including those that are switched off."""
        stated = self.members.get("mcpServers") or self.members.get("servers")
        return cast("dict[str, Any]", stated) if isinstance(stated, dict) else ()

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
    workspace: Path | None = None,
) -> HostFile:
    """Read the file at `path`.

    Args:
        path: TOML (`.toml`), YAML (`.yaml`, `.yml`), or else JSON, in which comments and trailing commas are allowed,
            as in editors; in UTF-8.
        environment: Where `${NAME}` is looked up; that of the process unless given.
        ask: Asks the user for the value of an `${input:key}` that no variable holds.
        problems: Takes the problems in the shape of the file, for a caller who has more to say and raises then.
        workspace: The folder of the project, `${workspaceFolder}`; the one that the file lies in unless given.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            raise ConfigurationError(str(path), ['it is empty: write {"mcpServers": {…}} with your servers into it'])
        document = read_document(path, text)
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"it is not UTF-8 text: {error}"]) from error
    except ValueError as error:
        raise ConfigurationError(str(path), [str(error)]) from error
    options: Any = {"environment": environment, "ask": ask, "problems": problems, "workspace": workspace}
    return parse_host_file(document, source=str(path), folder=path.resolve().parent, **options)


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
    workspace: Path | None = None,
) -> HostFile:
    """Turn the JSON value of a file into a configuration, as `load_host_file` does.

    `source` names the file in errors. `${workspaceFolder}` is derived from its `folder`, unless it is given.
    """
    faults: list[str] = []
    members: dict[str, Any] = {}
    servers: list[ServerEntry] = []
    if isinstance(document, dict):
        environment = os.environ if environment is None else environment
        workspace = workspace or (folder.parent if folder.name in _EDITOR_FOLDERS else folder)
        members = understood(cast("dict[str, Any]", document), _OUR_MEMBERS, faults)
        members = in_common_form(members, kept=_OUR_MEMBERS, environment=environment, workspace=workspace)
        faults += misspelled([name for name in members if name not in _SERVER_MEMBERS], _OUR_MEMBERS)
        variables = Variables(environment, workspace, read_inputs(members.get("inputs")), ask)
        servers = _servers(members, variables, faults)
    else:
        faults.append("it must be an object with `mcpServers` (or `servers`)")
    file = HostFile(tuple(servers), members)
    if not faults and not servers:
        elsewhere = ", ".join(projects_with_servers(cast("dict[str, Any]", document)))
        remedy = f"those of its projects count in their own folders: {elsewhere}" if elsewhere else _ADD_ONE
        faults.append(f"it names no server that is switched on: {remedy}")
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


def problem_in(error: ErrorDetails, *place: str, known: Collection[str] = ()) -> str:
    """Return in one line what pydantic has found wrong; never the value, which may be a misplaced key.

    Args:
        error: The mistake.
        place: Where the value stands that was validated.
        known: Names of members, for a suggestion in place of one that is not among them.
    """
    path, context = ".".join(map(str, (*place, *error["loc"]))), error.get("ctx", {})
    where = f"`{path}`" if path else "it"
    match error["type"]:
        case "value_error":
            return f"{where}: {context['error']}"
        case "extra_forbidden":
            return f"{where} means nothing here; {closest(str(error['loc'][-1]), known)}"
        case "literal_error":
            expected = str(context["expected"]).replace("'", '"')
        case "greater_than" | "greater_than_equal" as kind:
            expected = f"a number above {context['gt']}" if kind == "greater_than" else f"at least {context['ge']}"
        case kind if kind in _EXPECTED:
            expected = _EXPECTED[kind]
        case _:
            return f"{where}: {error['msg']}"
    return f"{where} must be {expected}"


_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "given",
    "bool_type": "true or false",
    "string_type": "a text, in quotes",
    "string_pattern_mismatch": "a text that is not empty",
    "int_type": "a whole number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
"""What has to stand at a place, by the type of the mistake."""


def _expand(text: str, info: ValidationInfo) -> str:
    return cast("Variables", info.context).expand(text)


def _number_as_text(value: object) -> object:
    """Return an integer as text, as editors allow."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Text: TypeAlias = Annotated[str, AfterValidator(_expand)]
_TextMap: TypeAlias = dict[str, Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_expand)]]
_Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Entry(BaseModel):
    """The object of one server, without what says how it is reached."""

    model_config = ConfigDict(strict=True)

    disabled: bool = False
    enabled: bool = True
    defer_loading: bool = False
    lazy: bool | None = None
    delegate: Literal["turn"] | None = None
    startup_timeout_sec: _Seconds | None = None
    startup_timeout_ms: _Seconds | None = None
    tool_timeout_sec: _Seconds | None = None
    timeout: _Seconds | None = None
    trust: bool = False
    # The list of tools that need no consent, in the spellings of hosts.
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
        if self.env_file:  # from the workspace where its path is relative
            try:
                text = Path(variables.workspace, self.env_file).read_text(encoding="utf-8-sig")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                problem = f"`envFile` cannot be read ({reason}): name a file of lines like NAME=value"
                raise ValueError(problem) from error
            read = dotenv_values(stream=io.StringIO(text), interpolate=False)
            env = {name: value for name, value in read.items() if value is not None} | env
        return StdioTarget(self.command, tuple(self.args), env, self.cwd or None, variables.expanded)


class _RemoteEntry(_Entry):
    url: _Text = Field(validation_alias=AliasChoices(*_ADDRESSES))
    headers: _TextMap = {}


_FIELDS: Final = _StartedEntry.model_fields | _RemoteEntry.model_fields
_KNOWN: Final = frozenset((*(own.alias or name for name, own in _FIELDS.items()), "type", "transport", *_ADDRESSES))


def _servers(members: Mapping[str, Any], variables: Variables, problems: list[str]) -> list[ServerEntry]:
    named = [member for member in _SERVER_MEMBERS if member in members]
    if len(named) != 1:
        near = [] if named else misspelled(members, _SERVER_MEMBERS)
        fault = "it has neither `mcpServers` nor `servers`" if not named else "it has both `mcpServers` and `servers`"
        problems.append("; ".join([f"{fault}: exactly one of them must name the servers", *near]))
        return []
    stated = members[named[0]]
    if not isinstance(stated, dict):
        problems.append(f"`{named[0]}` must be an object from names to servers")
        return []
    servers: list[ServerEntry] = []
    for name, entry in cast("dict[str, Any]", stated).items():
        if not name.strip():
            problems.append("a server has an empty name")
        elif not isinstance(entry, dict):
            servers.append(ServerEntry(name, UnusableTarget(("must be an object",))))
        else:
            faults: list[str] = []
            own = understood(cast("dict[str, Any]", entry), _KNOWN, faults)
            if own.get("disabled") is True or own.get("enabled") is False:
                continue
            server = _server(name, own, replace(variables, expanded={}), faults)
            faults += misspelled(own, _KNOWN.difference(_TIMES))
            unusable = ServerEntry(name, UnusableTarget(tuple(faults)))
            servers.append(unusable if faults or server is None else server)
    return servers


def _server(name: str, members: Mapping[str, Any], variables: Variables, problems: list[str]) -> ServerEntry | None:
    """Return the server that `members` describe, or nothing where one of the problems makes that impossible."""
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
        problems += map(problem_in, error.errors(include_url=False))
        return None
    except ValueError as error:
        problems.append(str(error))
        return None
    timeout = entry.timeout
    if timeout and timeout >= _LEAST_MILLISECONDS:
        timeout /= 1000
    return ServerEntry(
        name,
        target,
        entry.defer_loading,
        entry.lazy,
        start_seconds=entry.startup_timeout_sec or (entry.startup_timeout_ms and entry.startup_timeout_ms / 1000),
        call_seconds=entry.tool_timeout_sec or timeout,
        delegate=entry.delegate,
        always_allow=frozenset((*(("*",) if entry.trust else ()), *entry.always_allow, *entry.auto_approve)),
    )


def _transport(members: Mapping[str, Any], address: str | None) -> Literal["streamable-http", "sse"] | None:
    """Return how the server at `address` is reached, if that is stated; one without address is started.

    Raises:
        ValueError: The entry contradicts itself.
    """
    named = members.get("transport", members.get("type"))
    if named is not None and (not isinstance(named, str) or named not in _TRANSPORTS):
        raise ValueError(f"has the unknown transport {named!r}: use stdio, http, streamable-http or sse")
    transport = None if named is None else _TRANSPORTS[named]
    match address, "command" in members, transport:
        case str(), True, _:
            raise ValueError(f"has both `command` and `{address}`: keep the one that is meant")
        case None, False, _:
            raise ValueError("needs `command` (to start it) or `url` (to reach it)")
        case None, _, "streamable-http" | "sse":
            raise ValueError(f"is of type {transport!r}, which needs `url` rather than `command`")
        case str(), _, "stdio":
            raise ValueError("is of type 'stdio', which needs `command` rather than `url`")
        case _:
            return None if transport == "stdio" else transport
