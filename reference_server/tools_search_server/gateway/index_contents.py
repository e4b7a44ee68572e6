"""What a shared index contains, and what a gateway wants it to contain.

Toolsets divide a server into parts, each of which is a group in the database. The group's name contains the server's,
which distinguishes tools of servers that are down here from tools that are gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from mcp_ext_tools_search.server.listing import wire_form
from mcp_types import Tool
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from tools_search_hosts.toolsets import Rule
from tools_search_ranking.postgres import ToolEntry

from tools_search_server.gateway.gateway import ExposedTool, Gateway

CHANGES: Final = """
    with catalog as materialized (
        select revision, generation, (
            select coalesce(sum(tools), 0)::int from tools_search.audience where generation = own.generation
        ) as count from tools_search.catalog own where name = %(catalog)s
    )
    select catalog.revision, catalog.generation, catalog.count, tool.id, tool.name, tool.digest, audience.groups
    from catalog left join lateral (
        select * from tools_search.tool where tool.generation = catalog.generation
            and tool.id > case when catalog.generation = %(generation)s then %(last)s::int else 0 end
    ) tool on true
    left join tools_search.audience on audience.generation = tool.generation and audience.id = tool.audience
"""
"""Reads the tools of a catalog that were written after those in `Contents`, whose `values` it takes."""

_MARK_CHARS: Final = 8

Stored: TypeAlias = tuple[bytes, tuple[str, ...]]
"""A tool's digest and its groups."""


@dataclass(frozen=True)
class Contents:
    """What a catalog contains at a revision."""

    catalog: str = ""
    revision: int | None = None
    """`None` if there is no such catalog."""
    generation: int | None = None
    """`None` if nothing has been written to it."""
    last: int = 0
    """The highest id of a tool, which only increases within a generation."""
    tools: Mapping[str, Stored] = field(default_factory=dict[str, Stored])

    @property
    def values(self) -> Mapping[str, Any]:
        """The values for `CHANGES`."""
        return {"catalog": self.catalog, "generation": self.generation, "last": self.last}

    def after(self, rows: Sequence[tuple[Any, ...]]) -> Contents | None:
        """Return the contents after the changes in `rows`. `None` if the rows do not show which tools were removed."""
        if not rows:
            return Contents(self.catalog)
        revision, generation, count = rows[0][:3]
        if self.revision is not None and revision < self.revision:  # as after a restored backup
            return None
        tools, last = (dict(self.tools), self.last) if generation == self.generation else ({}, 0)
        for *_, number, name, digest, groups in rows:
            if number is not None:
                tools[bytes(name).decode("utf-8", "surrogatepass")] = (bytes(digest), tuple(groups))
                last = max(last, number)
        # A replaced tool has a new id. If there are still too many, others were removed.
        return Contents(self.catalog, revision, generation, last, tools) if len(tools) == count else None


class Partition:
    """How toolsets divide a gateway's servers into parts, each of which has the tools that the same toolsets show."""

    def __init__(self, gateway: Gateway) -> None:
        self._rules: dict[str, dict[str, Rule]] = {}
        """The rules that show only part of a server, by server and toolset."""
        for toolset in gateway.access.toolsets:
            for upstream in gateway.upstreams:
                if (rule := toolset.rule(upstream.name)) is not None and not rule.shows_all:
                    self._rules.setdefault(upstream.name, {})[toolset.name] = rule

    def name_of(self, catalog: str) -> str:
        """Return the name under which a catalog has these parts."""
        rules = [
            (toolset, server, rule.excludes, sorted(rule.names))
            for server, own in self._rules.items()
            for toolset, rule in own.items()
        ]
        mark = hashlib.sha256(json.dumps(sorted(rules)).encode()).hexdigest()[:_MARK_CHARS]
        return f"{catalog} {mark}" if rules else catalog

    def part_of(self, exposed: ExposedTool) -> str:
        """Return the part that a tool belongs to."""
        server = exposed.upstream.name
        if (rules := self._rules.get(server)) is None:
            return json.dumps([server])
        return json.dumps([server, sorted(name for name, rule in rules.items() if rule.shows(exposed.original.name))])


def groups_of_caller(parts: Sequence[str], protocol_version: str) -> list[str]:
    """Return the groups of a caller who sees these parts."""
    return [*parts, *(f"{protocol_version} {part}" for part in parts)]


def _groups_of_tool(tool: Tool, part: str) -> tuple[str, ...]:
    """Return the group of a tool in a part: one for each revision that allows it, unless all do."""
    versions = [version for version in SUPPORTED_PROTOCOL_VERSIONS if wire_form(tool, version) is not None]
    is_for_all = len(versions) == len(SUPPORTED_PROTOCOL_VERSIONS)
    return (part,) if is_for_all else tuple(sorted(f"{version} {part}" for version in versions))


def server_of(group: str) -> Any:
    """Return the server whose tools a group contains."""
    return json.loads(group[group.index("[") :])[0]


class IndexedTool(NamedTuple):
    """A tool of the gateway as it belongs into the index."""

    exposed: ExposedTool
    stored: Stored

    @classmethod
    def of(cls, exposed: ExposedTool, partition: Partition) -> IndexedTool:
        """Analyze a tool."""
        groups = _groups_of_tool(exposed.tool, partition.part_of(exposed))
        return cls(exposed, (_entry(exposed.tool, groups).digest, groups))

    @property
    def entry(self) -> ToolEntry:
        """The tool in the form in which the database stores it."""
        return _entry(self.exposed.tool, self.stored[1])


def _entry(tool: Tool, groups: Sequence[str]) -> ToolEntry:
    return ToolEntry(tool.model_dump(by_alias=True, mode="json", exclude_none=True), groups)


@dataclass(frozen=True)
class Wanted:
    """The tools that a gateway wants in the index at a moment."""

    catalog: str
    tools: Mapping[str, ExposedTool]
    partition: Partition
    servers: frozenset[str]
    """All servers in the configuration."""
    down: frozenset[str]
    """Those whose tools stay unchanged in the index, because they are down here."""
    only_missing: bool
    """Whether tools of other replicas stay unchanged, too. If replicas undid each other's changes, they would do so at
    every search."""

    def missing(self, contents: Contents, own: Mapping[str, IndexedTool]) -> tuple[Sequence[str], Sequence[str]]:
        """Return the tools to remove from these contents, and those of the gateway's own to add."""
        stored = contents.tools
        if self.only_missing:
            return [], [name for name in own if name not in stored]
        gone = [
            name
            for name, (_, groups) in stored.items()
            if name not in own and not any(server_of(group) in self.down for group in groups)
        ]
        return gone, [name for name, tool in own.items() if stored.get(name) != tool.stored]
