"""Access to a gateway: the toolsets and principals of its configuration, which only this program reads.

    "toolsets": {"reading": {"git": ["log", "diff"], "files": {"exclude": ["delete"]}, "time": true}}

A server that a toolset does not name is hidden as a whole. Tools have the names that their own server gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tools_search_hosts import ConfigurationError, HostFile
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest, read_rules

from tools_search_server.access.principals import Principal, read_principals


@dataclass(frozen=True)
class Access:
    """The toolset of this process, and the principals of its HTTP endpoint."""

    toolset: Toolset = EVERYTHING
    """What callers see who are no principals: the host on stdio, or everyone on an open loopback address."""

    principals: dict[str, Principal] = field(default_factory=dict[str, Principal])
    """By name; if there are any, nobody else is served over HTTP."""

    on_revoked: list[Callable[[Collection[str]], None]] = field(default_factory=list[Callable[[Collection[str]], None]])
    """Called with the names of principals whose token or toolset has changed, or who are gone."""

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The toolsets in use, each once."""
        used = [principal.toolset for principal in self.principals.values()]
        return tuple({toolset.name: toolset for toolset in (self.toolset, *used)}.values())

    def toolset_of(self, principal: str | None) -> Toolset | None:
        """Return the present toolset of a principal; `None` if there is no such principal any more.

        Args:
            principal: Its name, or `None` for callers who need none.
        """
        if principal is None:
            return self.toolset
        known = self.principals.get(principal)
        return None if known is None else known.toolset

    def replace_principals(self, principals: Mapping[str, Principal]) -> None:
        """Let these use the gateway from now on, and nobody else."""

        def rights(principal: Principal | None) -> object:
            return principal and (principal.token, principal.toolset)

        revoked = [name for name, old in self.principals.items() if rights(old) != rights(principals.get(name))]
        self.principals.clear()
        self.principals.update(principals)
        for notify in self.on_revoked:
            notify(revoked)


def read_access(file: HostFile, source: str, chosen: str | None) -> Access:
    """Read `toolsets` and `principals`.

    Args:
        file: The configuration.
        source: Its name in errors.
        chosen: Name of the toolset of this process; `None` for everything.

    Raises:
        ConfigurationError: They cannot be used, or there is no such toolset; the message lists every problem.
    """
    problems: list[str] = []
    servers = cast("dict[str, Any]", file.members.get("mcpServers") or file.members.get("servers") or {})
    toolsets = read_toolsets(file.members.get("toolsets", {}), servers, problems)
    principals: tuple[Principal, ...] = ()
    if "principals" in file.members:
        principals = read_principals(file.members["principals"], toolsets, problems)
    if chosen is not None and chosen not in toolsets:
        problems.append(f"`toolsets` has no {chosen!r}, which --toolset names; {closest(chosen, toolsets)}")
    if problems:
        raise ConfigurationError(source, problems)
    toolset = EVERYTHING if chosen is None else toolsets[chosen]
    return Access(toolset, {principal.name: principal for principal in principals})


def read_toolsets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets by name.

    Args:
        stated: The member `toolsets` of the configuration.
        servers: Names of its servers, including those that are switched off.
        problems: Takes a line for every problem, with its place.
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
