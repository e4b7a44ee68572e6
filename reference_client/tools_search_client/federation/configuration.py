"""A client's configuration: a host's configuration file, or a single address or command.

Besides servers, the file can configure how tools are loaded on demand:

    "tool_discovery": {"enabled": true, "defer_all": false, "max_search_results": 5},
    "tool_sets": {"research": {"description": "Look things up", "servers": {"weather": true, "words": ["define"]}}}

`ToolDiscovery` documents all members.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_type_hints
from urllib.parse import urlsplit

import tools_search_hosts as hosts
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from tools_search_hosts import AskForInput, HttpTarget, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.configuration import spelling_hints, with_canonical_names
from tools_search_hosts.json_values import as_object
from tools_search_hosts.toolsets import Toolset, read_rules
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

from tools_search_client.errors import ConfigurationError, LocalError, require_kind, require_kinds
from tools_search_client.found import FoundTool
from tools_search_client.servers.discovery_options import PAUSE, SECONDS, ServerTimes

RankerName: TypeAlias = Literal["fielded", "plain", "semantic", "multilingual"]

KNOWN_TOOL_LIMITS: Final[Mapping[str, int]] = {"openai": 128, "vscode": 128, "cursor": 40}
"""The maximum number of definitions some providers and hosts accept: values for `ToolDiscovery.max_tools`."""


_Switch: TypeAlias = Annotated[bool, Field(description="true or false")]
_Count: TypeAlias = Annotated[int, Field(ge=1, description="a whole number of at least 1")]
_Pause: TypeAlias = Annotated[float, PAUSE]
_Confidence: TypeAlias = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1, such as 0.04")]


@dataclasses.dataclass(frozen=True, slots=True)
class ToolDiscovery(ServerTimes):
    """How tools are found and loaded on demand (`tool_discovery` in the file).

    Raises:
        LocalError: A member has the wrong type or is out of range.
    """

    enabled: _Switch = False
    """Whether tools are loaded on demand; if not, a conversation has every tool from the start."""

    defer_all: _Switch = False
    """Whether every server is deferred, regardless of its own `defer_loading`."""

    max_search_results: _Count = 5
    """The most tools that one of the model's searches loads."""

    max_search_tokens: Annotated[int | None, Field(ge=1, description="a whole number of at least 1")] = None
    """The most tokens that one search adds: the definitions it loads, and its answer's text about them.

    `None` sets a limit at which the first five searches by query cost no more than listing everything, if possible.
    """

    auto: _Switch = False
    """Whether to load everything as long as the definitions stay within `context_share` of `context_window`."""

    context_share: Annotated[float, Field(gt=0, le=1, description="a number above 0 and at most 1, such as 0.05")] = (
        0.05
    )
    """See `auto`."""

    context_window: _Count = 128_000
    """The model's context window in tokens."""

    max_tools: Annotated[int | None, Field(ge=1, description="a whole number of at least 1")] = None
    """The most definitions to send at once, if fewer than the model's provider accepts.

    `None` leaves it to the provider (`Conversation.limit`); `KNOWN_TOOL_LIMITS` has values for some hosts.
    """

    least_confidence: _Confidence = DEFAULT_LEAST_CONFIDENCE
    """Local ranking finds nothing if the probability that any tool fits a query is below this."""

    search_tool: _Switch = True
    """Whether the model gets `search_tools`; if not, tools are only found before the model is called."""

    ranker: Annotated[RankerName, Field(description='"fielded", "plain", "semantic" or "multilingual"')] = "fielded"
    """The local ranker: `fielded` is the engine; `plain` is the simple, readable ranker; `semantic` and `multilingual`
    also rank by meaning, in English or in sixteen languages.
    """

    deadline: Annotated[float | None, SECONDS] = None
    """How many seconds a request to all servers waits for the slowest; defaults to 10, and to 30 in the command."""

    # The following are documented at `FederationOptions` and `ConnectionOptions`, those of `ServerTimes` at
    # `DiscoveryOptions`. In a server's entry, `startup_timeout_sec`, `tool_timeout_sec` or `timeout`, and `era` take
    # precedence.
    grace: _Pause = 3.0
    rest: _Pause = 5.0
    longest_rest: _Pause = 60.0
    connect_timeout: Annotated[float, SECONDS] = 60.0
    era: Annotated[hosts.EraChoice, Field(description='"auto" or "legacy"')] = "auto"
    follow_changes: _Switch = True

    def __post_init__(self) -> None:
        own = {name: getattr(self, name) for name in _KINDS}
        if wrong := [f"`{name}` is {own[name]!r}, but must be {kind}" for name, kind in _wrong_kinds(own).items()]:
            raise LocalError("; ".join(wrong))


_READERS: Final[Mapping[str, TypeAdapter[Any]]] = {
    name: TypeAdapter(kind, config=ConfigDict(strict=True))
    for name, kind in get_type_hints(ToolDiscovery, include_extras=True).items()
}

_KINDS: Final[Mapping[str, str]] = {name: reader.json_schema()["description"] for name, reader in _READERS.items()}
"""The description of each kind of value, for error messages."""


def _wrong_kinds(members: Mapping[str, Any]) -> dict[str, str]:
    """Return those of these members of `tool_discovery` that are of another kind than they must be, with that kind."""
    wrong: dict[str, str] = {}
    for name in filter(members.__contains__, _KINDS):
        try:
            _READERS[name].validate_python(members[name])
        except ValidationError:
            wrong[name] = _KINDS[name]
    return wrong


def _read_tool_discovery(stated: Any, problems: list[str]) -> ToolDiscovery:
    """Read the member `tool_discovery`, and append a line to `problems` for each error.

    Unknown members are ignored, because they can belong to other hosts, unless the name is close to a known one.
    """
    if not isinstance(stated, dict):
        problems.append("`tool_discovery` must be an object")
        return ToolDiscovery()
    members, mistakes = with_canonical_names(cast("dict[str, Any]", stated), _KINDS)
    mistakes += spelling_hints(members, _KINDS)
    wrong = _wrong_kinds(members)
    mistakes += [f"`{name}` must be {kind}" for name, kind in wrong.items()]
    problems += [f"`tool_discovery`: {mistake}" for mistake in mistakes]
    return ToolDiscovery(**{name: members[name] for name in _KINDS if name in members and name not in wrong})


def _read_tool_sets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets in the member `tool_sets` by name; `servers` includes disabled servers."""
    if not isinstance(stated, dict):
        problems.append("`tool_sets` must be an object that maps names to toolsets")
        return {}
    toolsets: dict[str, Toolset] = {}
    for name, chosen in cast("dict[str, Any]", stated).items():
        place = f"tool_sets.{name}"
        match chosen:
            case {"servers": dict(), **others} if isinstance(others.get("description", ""), str):
                named = cast("dict[str, Any]", chosen["servers"])
                shown = {server: rule for server, rule in named.items() if rule is not False}
                rules = read_rules(f"{place}.servers", shown, servers, problems)
                toolsets[name] = Toolset(name, rules, others.get("description", ""))
            case _:
                problems.append(f'`{place}` must be like {{"description": "…", "servers": {{"its name": true}}}}')
    return toolsets


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """The enabled servers, in the order of the file."""

    servers: tuple[ServerEntry, ...]
    tool_discovery: ToolDiscovery = dataclasses.field(default_factory=ToolDiscovery)

    tool_sets: Mapping[str, Toolset] = dataclasses.field(default_factory=dict[str, Toolset])
    """Named subsets of the tools; a host uses one of them, or none, for each turn."""

    def __post_init__(self) -> None:
        require_kind("servers", self.servers, tuple, list, instead="a tuple of `ServerEntry` objects")
        require_kinds("servers", self.servers, ServerEntry, instead="a `ServerEntry`")
        for server in self.servers:
            instead = "a `StdioTarget` or `HttpTarget` (see `url_server` and `command_server`)"
            require_kind("target", server.target, StdioTarget, HttpTarget, UnusableTarget, instead=instead)
        require_kind("tool_discovery", self.tool_discovery, ToolDiscovery, instead="a `ToolDiscovery`")
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise LocalError("two servers in a configuration cannot have the same name")

    def allows(self, tool: FoundTool) -> bool:
        """Return whether the operator (never a server) allows calling `tool` without asking the user."""
        return any(server.name == tool.server and server.allows(tool.tool.name) for server in self.servers)


def load_configuration(
    path: str | PathLike[str],
    *,
    environment: Mapping[str, str] | None = None,
    ask: AskForInput | None = None,
    workspace: str | PathLike[str] | None = None,
) -> Configuration:
    """Read a host's configuration file: its servers, tool discovery settings, and toolsets.

    A server whose entry has an error is still included, as long as another server is usable. It fails, with the reason,
    when it is needed. A file whose `mcpServers` is empty, as after a user has removed the last server, has no servers.

    Args:
        path: A file in any host's format known to `tools_search_hosts.formats`: JSON, TOML or YAML.
        environment: Where to look up `${NAME}`; defaults to the process's environment.
        ask: Asks the user for an `${input:key}` that no environment variable sets; by default, nobody is asked.
        workspace: The project's folder, for `${workspaceFolder}` and for hosts with servers for each project; defaults
            to the file's project.

    Raises:
        ConfigurationError: The file cannot be read or used; the message lists every problem.
    """
    require_kind("path", path, str, PathLike, instead="a file's path; for servers without a file, use `Configuration`")
    try:
        file, problems = hosts.inspect_host_file(path, environment=environment, ask=ask, workspace=workspace)
    except hosts.ConfigurationError as error:
        raise ConfigurationError(error.source, error.problems) from error
    discovery = _read_tool_discovery(file.members.get("tool_discovery", {}), problems)
    named = as_object(file.members.get("mcpServers") or file.members.get("servers"))
    tool_sets = _read_tool_sets(file.members.get("tool_sets", {}), named, problems)
    if problems or (file.servers and all(isinstance(server.target, UnusableTarget) for server in file.servers)):
        raise ConfigurationError(str(path), [*file.problems, *problems])
    return Configuration(file.servers, discovery, tool_sets)


def url_server(url: str, headers: Mapping[str, str] | None = None, *, name: str | None = None) -> Configuration:
    """Return a configuration with a single server at `url`.

    Args:
        url: The server's address.
        headers: Headers to send with each request.
        name: The server's name; defaults to its host and port. If empty, tools keep their own names.

    Raises:
        ConfigurationError: `url` is not an HTTP address.
    """
    require_kind("url", url, str, instead="an address")
    require_kind("headers", headers, Mapping, NoneType, instead="a mapping of names to values")
    try:
        target = HttpTarget(url, headers or {})
        place = urlsplit(url).netloc.rpartition("@")[2]  # without a user name or password
        return Configuration((ServerEntry(_as_name(place) if name is None else name, target),))
    except ValueError as error:
        raise ConfigurationError("the address", [str(error)]) from error


def command_server(command_line: str | Sequence[str], *, name: str | None = None) -> Configuration:
    """Return a configuration with a single server, started by `command_line` without a shell.

    Args:
        command_line: The program and its arguments, as one line with shell-style quotes or as a list.
        name: As for `url_server`; defaults to the program's name.

    Raises:
        ConfigurationError: The line is empty or has an unclosed quote.
    """
    require_kind("command_line", command_line, str, Sequence, instead="a program and its arguments")
    try:
        words = shlex.split(command_line) if isinstance(command_line, str) else list(command_line)
    except ValueError as error:
        raise ConfigurationError("the command", [f"{error}: check the quotes"]) from error
    if not words:
        raise ConfigurationError("the command", ["it is empty: give a program and its arguments"])
    name = _as_name(Path(words[0]).stem) if name is None else name
    return Configuration((ServerEntry(name, StdioTarget(words[0], tuple(words[1:]))),))


def _as_name(text: str) -> str:
    """Return `text` as a valid prefix of tool names, so that the names do not need a digest."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    return name if name[:1].isalpha() else f"at-{name}"
