"""The configuration of a client: the file that hosts have, or a single address or command.

Besides its servers the file may say how tools are loaded on demand:

    "tool_discovery": {"enabled": true, "defer_all": false, "max_search_results": 5},
    "tool_sets": {"research": {"description": "Look things up", "servers": {"weather": true, "words": ["define"]}}}

All members are described at `ToolDiscovery`.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import tools_search_hosts as hosts
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from tools_search_hosts import AskForInput, HttpTarget, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.configuration import spelling_hints, with_canonical_names
from tools_search_hosts.toolsets import Toolset, read_rules
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

from tools_search_client.errors import ConfigurationError
from tools_search_client.found import FoundTool
from tools_search_client.json_values import as_object

RankerName: TypeAlias = Literal["fielded", "plain", "semantic", "multilingual"]

KNOWN_TOOL_LIMITS: Final[Mapping[str, int]] = {"openai": 128, "vscode": 128, "cursor": 40}
"""How many definitions some providers and hosts accept at most: values for `ToolDiscovery.max_tools`."""


_SECONDS: Final = Field(gt=0, allow_inf_nan=False, description="a number of seconds above 0")
_Switch: TypeAlias = Annotated[bool, Field(description="true or false")]
_Count: TypeAlias = Annotated[int, Field(ge=1, description="a whole number of at least 1")]
_Seconds: TypeAlias = Annotated[float, _SECONDS]
_Confidence: TypeAlias = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1, such as 0.04")]


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class ToolDiscovery:
    """How tools are found, and loaded on demand (`tool_discovery` in the file).

    Raises:
        ValueError: A member is of a wrong type or out of its range.
    """

    enabled: _Switch = False
    """Whether tools are loaded on demand; without it a conversation has every tool from the start."""

    defer_all: _Switch = False
    """Whether every server is deferred, regardless of its own `defer_loading`."""

    max_search_results: _Count = 5
    """The most tools that one search of a model loads."""

    max_search_tokens: Annotated[int | None, Field(ge=1, description="a whole number of at least 1")] = None
    """The most tokens that one search adds: definitions that it loads, and what its answer says of them.

    `None` is so many that the first five searches by a query cost no more than listing everything, where that can be.
    """

    auto: _Switch = False
    """Whether everything is loaded as long as its definitions stay under `context_share` of `context_window`."""

    context_share: Annotated[float, Field(gt=0, le=1, description="a number above 0 and at most 1, such as 0.05")] = (
        0.05
    )
    """See `auto`."""

    context_window: _Count = 128_000
    """Tokens that the model can read at once."""

    max_tools: Annotated[int | None, Field(ge=1, description="a whole number of at least 1")] = None
    """The most definitions that are ever sent at once, if fewer than the model's provider takes.

    `None` leaves it to the provider (`Conversation.limit`); `KNOWN_TOOL_LIMITS` has values for some hosts.
    """

    least_confidence: _Confidence = DEFAULT_LEAST_CONFIDENCE
    """Where it is less likely that any tool serves a query, ranking on this side finds nothing."""

    search_tool: _Switch = True
    """Whether the model is given `search_tools`; without it, tools are found only before the model is called."""

    ranker: Annotated[RankerName, Field(description='"fielded", "plain", "semantic" or "multilingual"')] = "fielded"
    """What ranks on this side: `fielded`, the engine; `plain`, the readable ranker; `semantic` and
    `multilingual`, by meaning too, in English or in sixteen languages."""

    deadline: Annotated[float | None, _SECONDS] = None
    """Seconds that a question to all servers waits for the slowest; if not stated 10, and 30 in the command."""

    # The following are those of `FederationOptions`, `ConnectionOptions` and `DiscoveryOptions`. In the entry of a
    # server, `startup_timeout_sec`, `tool_timeout_sec` or `timeout`, and `era` take precedence.
    grace: _Seconds = 3.0
    rest: _Seconds = 5.0
    longest_rest: _Seconds = 60.0
    connect_timeout: _Seconds = 60.0
    request_timeout: _Seconds = 30.0
    call_timeout: _Seconds = 120.0
    listing_ttl: Annotated[float, Field(ge=0, allow_inf_nan=False, description="a number of seconds from 0 on")] = 30.0
    retry_after: _Seconds = 1.0
    busy_patience: _Seconds = 2.0
    search_again_after: _Seconds = 300.0
    era: Annotated[hosts.EraChoice, Field(description='"auto" or "legacy"')] = "auto"
    follow_changes: _Switch = True


_KINDS: Final[Mapping[str, str]] = {
    name: member["description"] for name, member in TypeAdapter(ToolDiscovery).json_schema()["properties"].items()
}
"""What each member must be."""


def _read_tool_discovery(stated: Any, problems: list[str]) -> ToolDiscovery:
    """Return what the member `tool_discovery` says; `problems` takes a line for everything that is wrong with it.

    Members that only other hosts know are passed over, but for one that is nearly spelled like a known one.
    """
    if not isinstance(stated, dict):
        problems.append("`tool_discovery` must be an object")
        return ToolDiscovery()
    members, mistakes = with_canonical_names(cast("dict[str, Any]", stated), _KINDS)
    mistakes += spelling_hints(members, _KINDS)
    discovery = ToolDiscovery()
    try:
        discovery = ToolDiscovery(**{name: members[name] for name in _KINDS if name in members})
    except ValidationError as error:
        wrong = dict.fromkeys(str(detail["loc"][0]) for detail in error.errors(include_url=False))
        mistakes += [f"`{name}` must be {_KINDS[name]}" for name in wrong]
    problems += [f"`tool_discovery`: {mistake}" for mistake in mistakes]
    return discovery


def _read_tool_sets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets of the member `tool_sets` by name; `servers` has those that are switched off as well."""
    if not isinstance(stated, dict):
        problems.append("`tool_sets` must be an object from names to toolsets")
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
    """The servers to work with, in the order of the file; those that are switched off are left out."""

    servers: tuple[ServerEntry, ...]
    tool_discovery: ToolDiscovery = dataclasses.field(default_factory=ToolDiscovery)

    tool_sets: Mapping[str, Toolset] = dataclasses.field(default_factory=dict[str, Toolset])
    """Named choices among the tools, of which a host uses one, or none, for each turn."""

    def __post_init__(self) -> None:
        names = [server.name for server in self.servers]
        if len(set(names)) != len(names):
            raise ValueError("two servers of one configuration cannot share a name")

    def allows(self, tool: FoundTool) -> bool:
        """Return whether the operator lets `tool` be called without asking the user; what a server says never does."""
        return any(server.name == tool.server and server.allows(tool.tool.name) for server in self.servers)


def load_configuration(
    path: Path,
    *,
    environment: Mapping[str, str] | None = None,
    ask: AskForInput | None = None,
    workspace: Path | None = None,
) -> Configuration:
    """Read the host's file at `path`: its servers, how tools are loaded on demand, and its toolsets.

    A server with a mistake in its entry is in the result all the same, as long as another can be used: it fails, with
    the reason, when it is needed.

    Args:
        path: The file of any host that `tools_search_hosts.formats` knows: JSON, TOML or YAML.
        environment: Where `${NAME}` is looked up; that of the process unless given.
        ask: Asks the user for an `${input:key}` that no environment variable holds; nobody unless given.
        workspace: The folder of the project, for `${workspaceFolder}` and for hosts that have servers for each project;
            the one that the file lies in unless given.

    Raises:
        ConfigurationError: It cannot be read or used; the message lists every problem.
    """
    try:
        file, problems = hosts.inspect_host_file(path, environment=environment, ask=ask, workspace=workspace)
    except hosts.ConfigurationError as error:
        raise ConfigurationError(error.source, error.problems) from error
    discovery = _read_tool_discovery(file.members.get("tool_discovery", {}), problems)
    named = as_object(file.members.get("mcpServers") or file.members.get("servers"))
    tool_sets = _read_tool_sets(file.members.get("tool_sets", {}), named, problems)
    if problems or all(isinstance(server.target, UnusableTarget) for server in file.servers):
        raise ConfigurationError(str(path), [*file.problems, *problems])
    return Configuration(file.servers, discovery, tool_sets)


def url_server(url: str, headers: Mapping[str, str] | None = None, *, name: str | None = None) -> Configuration:
    """Return the configuration of the one server at `url`.

    Args:
        url: Its address.
        headers: Of each request.
        name: Of the server; its host and port unless given. Where it is empty, its tools keep their own names.

    Raises:
        ConfigurationError: It is not an HTTP address.
    """
    try:
        target = HttpTarget(url, headers or {})
        place = urlsplit(url).netloc.rpartition("@")[2]  # without a user's name or password
        return Configuration((ServerEntry(_as_name(place) if name is None else name, target),))
    except ValueError as error:
        raise ConfigurationError("the address", [str(error)]) from error


def command_server(command_line: str | Sequence[str], *, name: str | None = None) -> Configuration:
    """Return the configuration of the one server that `command_line` starts; no shell is involved.

    Args:
        command_line: The program and its arguments: one line with quotation marks as a shell reads them, or the words.
        name: As for `url_server`; that of the program unless given.

    Raises:
        ConfigurationError: The line is empty or a quotation mark is not closed.
    """
    try:
        words = shlex.split(command_line) if isinstance(command_line, str) else list(command_line)
    except ValueError as error:
        raise ConfigurationError("the command", [f"{error}: check the quotation marks"]) from error
    if not words:
        raise ConfigurationError("the command", ["it is empty: give a program and its arguments"])
    name = _as_name(Path(words[0]).stem) if name is None else name
    return Configuration((ServerEntry(name, StdioTarget(words[0], tuple(words[1:]))),))


def _as_name(text: str) -> str:
    """Return `text` as names of tools may begin, so that none of them needs a digest."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    return name if name[:1].isalpha() else f"at-{name}"
