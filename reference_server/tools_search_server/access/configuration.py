"""Access to a gateway: the toolsets and principals in its configuration, which only this program reads.

    "toolsets": {"reading": {"git": ["log", "diff"], "files": {"exclude": ["delete"]}, "time": true}},
    "principals": {"alice": {"token": "sha256:…", "toolset": "reading", "requestsPerMinute": 600, "openRequests": 8}}

A toolset hides every server that it does not name. Tools have the names that their own server gives them. A principal
requires only a `token`: without a toolset it sees everything, and without limits it is unlimited. Members of any other
name are refused, because a misspelled `toolset` would show what it should hide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from tools_search_hosts import ConfigurationError, HostFile
from tools_search_hosts.json_values import is_object
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest, read_rules
from tools_search_hosts.validation import name_problem, validation_problem

from tools_search_server.access.principals import MIN_OPEN_REQUESTS, Principal, is_token_hash


@dataclass
class Access:
    """The current toolset of this process, and the current principals of its HTTP endpoint."""

    toolset: Toolset = EVERYTHING
    """The toolset of callers who are not principals: the host on stdio, or everyone on an open loopback address."""

    principals: dict[str, Principal] = field(default_factory=dict[str, Principal])
    """The principals by name. If there are any, HTTP serves nobody else."""

    on_revoked: list[Callable[[Collection[str]], None]] = field(
        default_factory=list[Callable[[Collection[str]], None]], compare=False
    )
    """Called with the names of principals whose token or toolset has changed, or who were removed."""

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The toolsets in use, each once."""
        used = [principal.toolset for principal in self.principals.values()]
        return tuple({toolset.name: toolset for toolset in (self.toolset, *used)}.values())

    def toolset_of(self, principal: str | None) -> Toolset | None:
        """Return a principal's current toolset, or `None` if it was removed; the process's toolset without a name."""
        if principal is None:
            return self.toolset
        known = self.principals.get(principal)
        return None if known is None else known.toolset

    def replace(self, stated: Access) -> None:
        """Replace the principals and the process's toolset with those of `stated`, and notify of revoked principals."""

        def rights(principal: Principal | None) -> object:
            return principal and (principal.token, principal.toolset)

        revoked = [name for name, old in self.principals.items() if rights(old) != rights(stated.principals.get(name))]
        self.toolset = stated.toolset
        # The same dictionary, which the guard and the endpoints hold.
        self.principals.clear()
        self.principals.update(stated.principals)
        for notify in self.on_revoked:
            notify(revoked)


def _token_hash(text: str) -> str:
    if not is_token_hash(text):  # the error does not repeat it, since it may be a token
        raise ValueError("this is not a token hash: make one with `tools-search-server token NAME`")
    return text


class _PrincipalEntry(BaseModel):
    """A principal in the configuration. Optional members can be omitted, but not null."""

    model_config = ConfigDict(strict=True, extra="forbid")

    token: Annotated[str, AfterValidator(_token_hash)]
    toolset: str = ""
    # 0 if omitted: defaults are not validated, so only a stated number has to be positive.
    requests_per_minute: Annotated[int, Field(alias="requestsPerMinute", ge=1)] = 0
    open_requests: Annotated[int, Field(alias="openRequests", ge=MIN_OPEN_REQUESTS)] = 0


_MEMBERS = [own.alias or name for name, own in _PrincipalEntry.model_fields.items()]


def read_access(file: HostFile, source: str, chosen: str | None) -> Access:
    """Read `toolsets` and `principals`. `chosen` is the toolset of this process, or `None` for everything.

    Raises:
        ConfigurationError: They are invalid, or there is no such toolset. The message lists every problem.
    """
    problems: list[str] = []
    toolsets = read_toolsets(file.members.get("toolsets", {}), file.names, problems)
    principals: dict[str, Principal] = {}
    if "principals" in file.members:
        principals = _read_principals(file.members["principals"], toolsets, problems)
    if chosen is not None and chosen not in toolsets:
        problems.append(f"`toolsets` has no {chosen!r}, which --toolset names; {closest(chosen, toolsets)}")
    if problems:
        raise ConfigurationError(source, problems)
    return Access(EVERYTHING if chosen is None else toolsets[chosen], principals)


def read_toolsets(stated: Any, servers: Collection[str], problems: list[str]) -> dict[str, Toolset]:
    """Return the toolsets by name, and add a line to `problems` for each problem, with its place."""
    toolsets: dict[str, Toolset] = {}
    for name, chosen in _by_name("toolsets", stated, problems).items():
        place = f"toolsets.{name}"
        if not is_object(chosen) or not chosen:
            problems.append(f"`{place}` must be an object that names at least one server")
        else:
            toolsets[name] = Toolset(name, read_rules(place, chosen, servers, problems))
    return toolsets


def _read_principals(stated: Any, toolsets: Mapping[str, Toolset], problems: list[str]) -> dict[str, Principal]:
    principals: dict[str, Principal] = {}
    owners: dict[str, str] = {}
    entries = _by_name("principals", stated, problems)
    if not entries:
        problems.append("`principals` must name at least one principal")
    for name, members in entries.items():
        place = f"principals.{name}"
        try:
            entry = _PrincipalEntry.model_validate(members)
        except ValidationError as error:
            problems += [
                validation_problem(mistake, place, known=_MEMBERS) for mistake in error.errors(include_url=False)
            ]
            continue
        toolset = toolsets.get(entry.toolset) if "toolset" in entry.model_fields_set else EVERYTHING
        if toolset is None:
            problems.append(f"`{place}.toolset`: there is no such toolset; {closest(entry.toolset, toolsets)}")
            continue
        if (owner := owners.setdefault(entry.token, name)) != name:
            problems.append(f"`{place}.token` is also the token of {owner!r}: each principal needs its own")
        limits = entry.requests_per_minute or None, entry.open_requests or None
        principals[name] = Principal(name, entry.token, toolset, *limits)
    return principals


def _by_name(member: str, stated: Any, problems: list[str]) -> dict[str, Any]:
    """Return a member of the configuration that must be an object with names as its keys."""
    if not is_object(stated):
        problems.append(f"`{member}` must be an object from names to {member}")
        return {}
    problems += [f"`{member}` has an entry with {problem}" for name in stated if (problem := name_problem(name))]
    return stated
