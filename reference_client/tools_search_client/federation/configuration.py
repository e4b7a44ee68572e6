"""The configuration of a client: the file that hosts have, or a single address or command.

Besides its servers the file may say how tools are loaded on demand:

    "tool_discovery": {"enabled": true, "defer_all": false, "max_search_results": 5},
    "tool_sets": {"research": {"description": "Look things up", "servers": {"weather": true, "words": ["define"]}}}

All members are described at `ToolDiscovery`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

import tools_search_hosts as hosts
from tools_search_hosts import AskForInput, HttpTarget, ServerEntry, StdioTarget, UnusableTarget
from tools_search_hosts.configuration import misspelled, understood
from tools_search_hosts.toolsets import Toolset, read_rules
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

from tools_search_client.errors import ConfigurationError
from tools_search_client.found import FoundTool

KNOWN_TOOL_LIMITS: Final[Mapping[str, int]] = {"openai": 128, "vscode": 128, "cursor": 40}
"""How many definitions some providers and hosts accept at most: values for `ToolDiscovery.max_tools`."""

_SECTION: Final = "tool_discovery"

_SHARES: Final[Mapping[str, str]] = {
    "context_share": "a number above 0 and at most 1, such as 0.05",
    "least_confidence": "a number from 0 to 1, such as 0.04",
}


@dataclass(frozen=True, slots=True)
class ToolDiscovery:
    """How a host loads tools on demand (`tool_discovery` in the file)."""

    enabled: bool = False
    """Without it every tool is loaded, and nothing else here counts."""

    defer_all: bool = False
    """Whether every server is deferred, regardless of its own `defer_loading`."""

    max_search_results: int = 5
    """The most tools that one search by query loads."""

    auto: bool = False
    """Whether everything is loaded as long as its definitions stay under `context_share` of `context_window`."""

    context_share: float = 0.05

    context_window: int = 128_000
    """Tokens that the model can read at once."""

    max_tools: int | None = None
    """The most definitions that are ever sent at once, if fewer than the model's provider takes.

    `None` leaves it to the provider (`Conversation.limit`); `KNOWN_TOOL_LIMITS` has values for some hosts.
    """

    least_confidence: float = DEFAULT_LEAST_CONFIDENCE
    """In [0, 1]: where it is less likely that any tool serves a query, ranking on this side finds nothing."""

    search_tool: bool = True
    """Whether the model is given `search_tools`; without it, tools are found only before the model is called."""

    def __post_init__(self) -> None:
        for member in ("max_search_results", "context_window", "max_tools"):
            value = getattr(self, member)
            if value is not None and value < 1:
                raise ValueError(f"`{member}` must be a whole number of at least 1")
        if not 0 < self.context_share <= 1:
            raise ValueError(f"`context_share` must be {_SHARES['context_share']}")
        if not 0 <= self.least_confidence <= 1:
            raise ValueError(f"`least_confidence` must be {_SHARES['least_confidence']}")


def read_tool_discovery(stated: Any, problems: list[str]) -> ToolDiscovery:
    """Return what the member `tool_discovery` says.

    Members that only other hosts know are passed over, but for one that is nearly spelled like a known one.

    Args:
        stated: The member as it stands in the file.
        problems: Takes a line for everything that is wrong, with its place and its remedy.
    """
    if not isinstance(stated, dict):
        problems.append(f"`{_SECTION}` must be an object")
        return ToolDiscovery()
    known = {field.name: field.default for field in fields(ToolDiscovery)}
    faults: list[str] = []
    members = understood(cast("dict[str, Any]", stated), known, faults)
    faults += [*misspelled(members, known), *_of_wrong_type(members, known)]
    if not faults:
        try:
            return ToolDiscovery(**{name: value for name, value in members.items() if name in known})
        except ValueError as error:
            faults.append(str(error))
    problems.extend(f"`{_SECTION}`: {fault}" for fault in faults)
    return ToolDiscovery()


def read_tool_sets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets of the member `tool_sets` by name.

    Args:
        stated: The member as it stands in the file.
        servers: Names of the configured servers, those that are switched off as well.
        problems: Takes a line for everything that is wrong, with its place and its remedy.
    """
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


def _of_wrong_type(members: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    for name, default in known.items():
        value = members.get(name, default)
        if isinstance(default, bool):
            faults += [] if isinstance(value, bool) else [f"`{name}` must be true or false"]
        elif isinstance(default, float):
            faults += [] if _is_number(value) else [f"`{name}` must be {_SHARES[name]}"]
        elif value is not None or default is not None:
            faults += [] if _is_whole(value) else [f"`{name}` must be a whole number of at least 1"]
    return faults


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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

    def allows(self, tool: FoundTool) -> bool:
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
