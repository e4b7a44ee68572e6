"""Names of members as people write them: in camelCase too, and with a hint where one is nearly spelled like a known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

__all__ = ["misspelled", "understood"]

_NEAR: Final = 0.8


def understood(members: Mapping[str, Any], known: Collection[str], problems: list[str]) -> dict[str, Any]:
    """Return `members` with those of `known` under their own names, and all others as they are.

    Args:
        members: As they stand in a file.
        known: Names of members; one with underscores may be written in camelCase.
        problems: Takes a line where a member is stated twice, in both spellings.
    """
    spelled = {_camel(name): name for name in known}
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


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
