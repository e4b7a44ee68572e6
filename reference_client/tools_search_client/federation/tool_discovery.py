"""How a host loads tools on demand: the members `tool_discovery` and `tool_sets` of its configuration.

    "tool_discovery": {"enabled": true, "defer_all": false, "max_search_results": 5},
    "tool_sets": {"research": {"description": "Look things up", "servers": {"weather": true, "words": ["define"]}}}

The first three members and the toolsets are those of the origin documents; the others are described at `ToolDiscovery`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from tools_search_hosts.configuration import misspelled, understood
from tools_search_hosts.toolsets import Toolset, read_rules
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE

__all__ = ["KNOWN_TOOL_LIMITS", "ToolDiscovery", "read_tool_discovery", "read_tool_sets"]

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
    """Whether every server is deferred, whatever its own `defer_loading` says."""

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

    Members that only other hosts know are passed over, but for one that is nearly spelt like a known one.

    Args:
        stated: The member as it stands in the file.
        problems: Takes a line for everything that is wrong, with its place and its mend.
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
        problems: Takes a line for everything that is wrong, with its place and its mend.
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
