"""Toolsets: named choices among the tools of all servers, as the configuration's `toolsets` member states them.

    "toolsets": {"reading": {"git": ["log", "diff"], "files": {"exclude": ["delete"]}, "time": true}}

A server that a toolset does not name is hidden as a whole. Tools have the names that their own server gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, cast

__all__ = ["EVERYTHING", "Rule", "Toolset", "closest", "read_toolsets"]

_FORMS: Final = 'must be true, a list of names of tools, or {"exclude": [names of tools]}'


@dataclass(frozen=True, slots=True)
class Rule:
    """Which tools of one server are shown."""

    names: frozenset[str] = frozenset()
    """The tools that the rule names."""

    excludes: bool = True
    """Whether those are left out, or are the only ones that are shown."""

    def shows(self, tool: str) -> bool:
        """Tell whether the tool with this name at its server is shown."""
        return (tool in self.names) is not self.excludes

    @property
    def shows_all(self) -> bool:
        """Whether nothing of the server is hidden, whatever it comes to offer."""
        return self.excludes and not self.names

    @property
    def shows_more(self) -> bool:
        """Whether the server's prompts and resources are shown: a rule that lists tools shows those tools alone."""
        return self.excludes


@dataclass(frozen=True, slots=True)
class Toolset:
    """What some callers may see."""

    name: str

    rules: Mapping[str, Rule] | None
    """By server; one that is not named is hidden. `None` shows everything."""

    def rule(self, server: str) -> Rule | None:
        """Return what is shown of a server, or `None` where it is hidden as a whole."""
        return Rule() if self.rules is None else self.rules.get(server)


EVERYTHING: Final = Toolset("", None)
"""What callers see for whom no toolset is chosen."""


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
            rules = _rules(place, cast("dict[str, Any]", chosen), servers, problems)
            toolsets[name] = Toolset(name, rules)
    return toolsets


def closest(name: str, known: Collection[str]) -> str:
    """Return what to say of the known name that is nearest to an unknown one."""
    near = get_close_matches(name, known, n=1)
    return f"the closest is {near[0]!r}" if near else f"there are {', '.join(map(repr, known)) or 'none'}"


def _rules(place: str, chosen: dict[str, Any], servers: Collection[str], problems: list[str]) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for server, stated in chosen.items():
        if server not in servers:
            problems.append(f"`{place}.{server}`: there is no server of that name; {closest(server, servers)}")
            continue
        try:
            rules[server] = _rule(stated)
        except ValueError as error:
            problems.append(f"`{place}.{server}` {error}")
    return rules


def _rule(stated: Any) -> Rule:
    match stated:
        case True:
            return Rule()
        case list():
            if not stated:
                raise ValueError("names no tool: leave the server out to hide it")
            return Rule(_names(cast("list[Any]", stated)), excludes=False)
        case {"exclude": list(), **others} if not others:
            return Rule(_names(cast("list[Any]", stated["exclude"])))
        case _:
            raise ValueError(_FORMS)


def _names(stated: Sequence[Any]) -> frozenset[str]:
    if not all(isinstance(name, str) for name in stated):
        raise ValueError(_FORMS)
    return frozenset(cast("Sequence[str]", stated))
