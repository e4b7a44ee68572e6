"""Toolsets: named selections of the tools of all servers.

A toolset hides every server that it does not name. Tools have the names that their own server gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

_FORMS: Final = 'must be true, a list of names of tools, or {"exclude": [names of tools]}'


@dataclass(frozen=True, slots=True)
class Rule:
    """Which tools of one server are shown; `Rule(excludes=True)`, which hides none, shows all."""

    names: frozenset[str] = frozenset()
    """The tools that the rule names, by their server's own names."""

    excludes: bool = field(kw_only=True)
    """Whether these are hidden; otherwise only these are shown. It has no default, because the opposite of what was
    meant would show tools that must be hidden.
    """

    def __post_init__(self) -> None:
        if isinstance(self.names, str):  # in which every part of it would be found
            raise ValueError(f"`names` must be a set of names, such as {{{self.names!r}}}")

    def shows(self, tool: str) -> bool:
        """Return whether the tool with this name at its server is shown."""
        # Named by a rule that lists tools, or not named by one that excludes them.
        return (tool in self.names) is not self.excludes

    @property
    def shows_all(self) -> bool:
        """Whether the rule never hides anything of the server."""
        return self.excludes and not self.names

    @property
    def shows_more(self) -> bool:
        """Whether the server's prompts and resources are shown. A rule that lists tools shows only those tools."""
        return self.excludes


@dataclass(frozen=True, slots=True)
class Toolset:
    """A selection of the tools of all servers."""

    name: str

    rules: Mapping[str, Rule] | None
    """The rules by server; all other servers are hidden. `None` shows everything."""

    description: str = ""

    def __post_init__(self) -> None:
        rules: list[object] = list((self.rules or {}).values())
        if not all(isinstance(rule, Rule) for rule in rules):
            raise ValueError(
                "`rules` must map each server to a `Rule`, such as `Rule(excludes=True)` for all its tools"
            )

    def rule(self, server: str) -> Rule | None:
        """Return the rule for a server, or `None` if the server is hidden."""
        return Rule(excludes=True) if self.rules is None else self.rules.get(server)


EVERYTHING: Final = Toolset("", None)
"""The selection without a toolset."""


def read_rules(place: str, chosen: Mapping[str, Any], servers: Collection[str], problems: list[str]) -> dict[str, Rule]:
    """Return the rules of a toolset by server.

    `chosen` maps some of the configured `servers`, including disabled ones, to true, a list of tools or
    `{"exclude": [tools]}`. `problems` gets a line for each problem, with the toolset's place in the file.
    """
    rules: dict[str, Rule] = {}
    for server, stated in chosen.items():
        if server not in servers:
            problems.append(f"`{place}.{server}`: there is no such server; {closest(server, servers)}")
            continue
        try:
            rules[server] = _rule(stated)
        except ValueError as error:
            problems.append(f"`{place}.{server}` {error}")
    return rules


def closest(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown name: the closest known name, or else all known names."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"the closest is {near[0]!r}"
    return f"there {'is only' if len(known) == 1 else 'are'} {', '.join(map(repr, known)) or 'none'}"


def _rule(stated: Any) -> Rule:
    match stated:
        case True:
            return Rule(excludes=True)
        case []:
            raise ValueError("names no tool: leave the server out to hide it")
        case [*names]:
            return Rule(_names(names), excludes=False)
        case {"exclude": [*names], **others} if not others:
            return Rule(_names(names), excludes=True)
        case _:
            raise ValueError(_FORMS)


def _names(stated: Sequence[Any]) -> frozenset[str]:
    if not all(isinstance(name, str) for name in stated):
        raise ValueError(_FORMS)
    return frozenset(stated)
