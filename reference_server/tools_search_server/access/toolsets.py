"""Toolsets: named choices among the tools of all servers, as the configuration's `toolsets` member states them.

    "toolsets": {"reading": {"git": ["log", "diff"], "files": {"exclude": ["delete"]}, "time": true}}

A server that a toolset does not name is hidden as a whole. Tools have the names that their own server gives them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from tools_search_hosts.toolsets import EVERYTHING, Rule, Toolset, closest, read_rules

__all__ = ["EVERYTHING", "Rule", "Toolset", "closest", "read_toolsets"]


def read_toolsets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets by name.

    Args:
        stated: The member `toolsets` of the configuration.
        servers: Names of its servers, those that are switched off as well.
        problems: Takes a line for everything that is wrong, with its place.
    """
    if not isinstance(stated, dict):
        problems.append("`toolsets` must be an object from names to toolsets")
        return {}
    toolsets: dict[str, Toolset] = {}
    for name, chosen in cast("dict[str, Any]", stated).items():
        place = f"toolsets.{name}"
        if not name.strip():
            problems.append("`toolsets` has one with an empty name")
        elif not isinstance(chosen, dict) or not chosen:
            problems.append(f"`{place}` must be an object that names at least one server")
        else:
            toolsets[name] = Toolset(name, read_rules(place, cast("dict[str, Any]", chosen), servers, problems))
    return toolsets
