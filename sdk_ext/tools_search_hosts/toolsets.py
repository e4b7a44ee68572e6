"""Toolsets: named choices among the tools of all servers.

A server that a toolset does not name is hidden as a whole. Tools have the names that their own server gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, cast

_FORMS: Final = 'must be true, a list of names of tools, or {"exclude": [names of tools]}'


@dataclass(frozen=True, slots=True)
class Rule:
    """Which tools of one server are shown."""

    names: frozenset[str] = frozenset()
    """The tools that the rule names."""

    excludes: bool = True
    """Whether those are left out, or are the only ones that are shown."""

    def shows(self, tool: str) -> bool:
        """Return whether the tool with this name at its server is shown."""
        return (tool in self.names) is not self.excludes

    @property
    def shows_all(self) -> bool:
        """Whether nothing of the server is hidden, now or later."""
        return self.excludes and not self.names

    @property
    def shows_more(self) -> bool:
        """Whether the server's prompts and resources are shown: a rule that lists tools shows those tools alone."""
        return self.excludes


@dataclass(frozen=True, slots=True)
class Toolset:
    """What may be seen of all servers."""

    name: str

    rules: Mapping[str, Rule] | None
    """By server; one that is not named is hidden. `None` shows everything."""

    description: str = ""

    def rule(self, server: str) -> Rule | None:
        """Return what is shown of a server, or `None` where it is hidden as a whole."""
        return Rule() if self.rules is None else self.rules.get(server)


EVERYTHING: Final = Toolset("", None)
"""What is seen where no toolset is chosen."""


def read_rules(place: str, chosen: Mapping[str, Any], servers: Collection[str], problems: list[str]) -> dict[str, Rule]:
    """Return what a toolset states of each server.

    Args:
        place: Where it stands in the file, for the problems.
        chosen: From names of servers to true, a list of tools or `{"exclude": [tools]}`.
        servers: Names of the configured servers, those that are switched off as well.
        problems: Takes a line for everything that is wrong.
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
    """Return what to say of the known name that is nearest to an unknown one."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"the closest is {near[0]!r}"
    return f"there {'is only' if len(known) == 1 else 'are'} {', '.join(map(repr, known)) or 'none'}"


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
