"""Principals: who may use a gateway over HTTP, what each sees and how much it may ask.

    "principals": {"alice": {"token": "sha256:…", "toolset": "reading", "requestsPerMinute": 600, "openRequests": 8}}

Only `token` has to be there. Without a toolset a principal sees everything, without limits it has none. Members of
any other name are refused: a toolset that is overlooked would show what it hides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tools_search_server.access.tokens import TokenHash
from tools_search_server.access.toolsets import EVERYTHING, Toolset, closest

__all__ = ["Principal", "principal_of", "read_principals"]

_MEMBERS: Final = ("token", "toolset", "requestsPerMinute", "openRequests")
_LEAST_OPEN: Final = 2
"""A client may hold one request open for notifications while it makes another."""


@dataclass(frozen=True, slots=True)
class Principal:
    """One who may use the gateway."""

    name: str
    token: TokenHash
    toolset: Toolset = EVERYTHING

    requests_per_minute: int | None = None
    """How many HTTP requests it may make; all of a minute's may come at once."""

    open_requests: int | None = None
    """How many HTTP requests it may have open at the same time, streams of notifications included."""


def principal_of(token: str, principals: Collection[Principal]) -> Principal | None:
    """Return whose token it is. Every principal is compared, so that the time taken does not tell which one."""
    fitting = [principal for principal in principals if principal.token.fits(token)]
    return fitting[0] if fitting else None


def read_principals(stated: Any, toolsets: Mapping[str, Toolset], problems: list[str]) -> tuple[Principal, ...]:
    """Return the principals in the order of the file.

    Args:
        stated: The member `principals` of the configuration.
        toolsets: Those that they may be given, by name.
        problems: Takes a line for everything that is wrong, with its place.
    """
    if not isinstance(stated, dict) or not stated:
        problems.append("`principals` must be an object that names at least one principal")
        return ()
    principals: list[Principal] = []
    for name, members in cast("dict[str, Any]", stated).items():
        place = f"principals.{name}"
        if not name.strip():
            problems.append("`principals` has one with an empty name")
        elif not isinstance(members, dict):
            problems.append(f"`{place}` must be an object with `token`")
        elif principal := _principal(name, place, cast("dict[str, Any]", members), toolsets, problems):
            principals.append(principal)
    _refuse_shared_tokens(principals, problems)
    return tuple(principals)


def _principal(
    name: str, place: str, members: dict[str, Any], toolsets: Mapping[str, Toolset], problems: list[str]
) -> Principal | None:
    problems.extend(
        f"`{place}.{member}` is no member of a principal; {closest(member, _MEMBERS)}"
        for member in members
        if member not in _MEMBERS
    )
    toolset = _toolset(place, members, toolsets, problems)
    rate = _count(place, "requestsPerMinute", members, 1, problems)
    most = _count(place, "openRequests", members, _LEAST_OPEN, problems)
    try:
        token = TokenHash.read(str(members.get("token", "")))
    except ValueError as error:
        problems.append(f"`{place}.token` {error}: `tools-search-server token {name}` makes one")
        return None
    return Principal(name, token, toolset, rate, most)


def _toolset(place: str, members: Mapping[str, Any], toolsets: Mapping[str, Toolset], problems: list[str]) -> Toolset:
    if "toolset" not in members:
        return EVERYTHING
    named = members["toolset"]
    if isinstance(named, str) and named in toolsets:
        return toolsets[named]
    which = closest(named, toolsets) if isinstance(named, str) else "give the name of one"
    problems.append(f"`{place}.toolset`: there is no toolset of that name; {which}")
    return EVERYTHING  # never used: a configuration with a problem is refused as a whole


def _count(place: str, member: str, members: Mapping[str, Any], least: int, problems: list[str]) -> int | None:
    value = members.get(member)
    if member not in members or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    problems.append(f"`{place}.{member}` must be a whole number of at least {least}")
    return None


def _refuse_shared_tokens(principals: Collection[Principal], problems: list[str]) -> None:
    owners: dict[TokenHash, str] = {}
    for principal in principals:
        owner = owners.setdefault(principal.token, principal.name)
        if owner != principal.name:
            problems.append(f"`principals.{principal.name}.token` is that of {owner!r}: each needs one of its own")
