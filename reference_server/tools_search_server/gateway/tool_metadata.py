"""Metadata of tools from the configuration's `metadata` member, in addition to what their servers publish.

    "metadata": {
      "categories": {"history": "What has happened in a repository"},
      "servers": {"git": {"group": "version control", "tags": ["vcs"], "tools": {"log": {"group": "history"}}}}
    }

Each member replaces the one that the server publishes, and a member of a tool replaces that of its server; only the
`tags` of a server are added to those of its tools. Tools have the names that their server gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata
from mcp_types import Tool
from tools_search_hosts import ConfigurationError, HostFile
from tools_search_hosts.names import labels_among_servers
from tools_search_hosts.toolsets import closest

from tools_search_server.base.labels import tags_of

_TEXTS: Final = ("tags", "aliases", "related")
_OF_TOOLS: Final = ("group", *_TEXTS, "examples")
_OF_SERVERS: Final = ("group", "tags", "tools")

Labels = Mapping[str, Any]


@dataclass(frozen=True)
class ToolMetadata:
    """Metadata of tools and categories."""

    categories: Mapping[str, str] = field(default_factory=dict[str, str])
    """Descriptions by category."""

    servers: Mapping[str, Labels] = field(default_factory=dict[str, Labels])
    """By server: `group`, `tags`, and `tools` with the metadata of each."""

    def meta(self, server: str, tool: Tool) -> dict[str, Any]:
        """Return the published `_meta` of a tool: the group is its server, and its own group becomes the category."""
        published = published_metadata(tool.meta)
        of_server = self.servers.get(server, {})
        of_tool = of_server.get("tools", {}).get(tool.name, {})
        labels: dict[str, Any] = {**published, **of_tool}
        if more := of_server.get("tags"):
            labels["tags"] = list(dict.fromkeys([*(of_tool.get("tags") or tags_of(tool)), *more]))
        category = of_tool.get("group") or of_server.get("group") or published.get("group")
        labels = labels_among_servers(server, labels, category)
        if (description := self.categories.get(labels.get("category", server))) is not None:
            labels["categoryDescription"] = description
        return {**(tool.meta or {}), EXTENSION_ID: labels}


def read_host_metadata(file: HostFile, source: str) -> ToolMetadata:
    """Return the metadata in a configuration, which errors call `source`.

    Raises:
        ConfigurationError: It cannot be used; the message lists every problem.
    """
    problems: list[str] = []
    servers = cast("dict[str, Any]", file.members.get("mcpServers") or file.members.get("servers") or {})
    metadata = read_metadata(file.members.get("metadata", {}), servers, problems)
    if problems:
        raise ConfigurationError(source, problems)
    return metadata


def read_metadata(stated: Any, servers: Collection[str], problems: list[str]) -> ToolMetadata:
    """Return the metadata in the member `metadata` of a configuration with these servers.

    Each problem becomes a line of `problems`, with its place.
    """
    members = _object("metadata", stated, ("categories", "servers"), problems)
    categories = _object("metadata.categories", members.get("categories", {}), None, problems)
    for name, description in categories.items():
        _require_text(f"metadata.categories.{name}", description, problems)
    of_servers = _object("metadata.servers", members.get("servers", {}), None, problems)
    for server, labels in of_servers.items():
        place = f"metadata.servers.{server}"
        if server not in servers:
            problems.append(f"`{place}`: there is no server of that name; {closest(server, servers)}")
        read = _labels(place, labels, _OF_SERVERS, problems)
        for tool, of_tool in _object(f"{place}.tools", read.get("tools", {}), None, problems).items():
            _labels(f"{place}.tools.{tool}", of_tool, _OF_TOOLS, problems)
    return ToolMetadata() if problems else ToolMetadata(categories, of_servers)


def _labels(place: str, stated: Any, known: tuple[str, ...], problems: list[str]) -> dict[str, Any]:
    labels = _object(place, stated, known, problems)
    if "group" in labels:
        _require_text(f"{place}.group", labels["group"], problems)
    for member in _TEXTS:
        texts = labels.get(member, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast("list[Any]", texts)):
            problems.append(f"`{place}.{member}` must be a list of texts, each in quotes")
    if not isinstance(labels.get("examples", []), list):
        problems.append(f"`{place}.examples` must be a list")
    return labels


def _object(place: str, stated: Any, known: tuple[str, ...] | None, problems: list[str]) -> dict[str, Any]:
    """Return an object, in which all members but the `known` ones are mistakes."""
    if not isinstance(stated, dict):
        problems.append(f"`{place}` must be an object")
        return {}
    members = cast("dict[str, Any]", stated)
    unknown = [] if known is None else [name for name in members if name not in known]
    problems.extend(f"`{place}.{name}` means nothing here; {closest(name, known or ())}" for name in unknown)
    return members


def _require_text(place: str, stated: Any, problems: list[str]) -> None:
    if not isinstance(stated, str) or not stated.strip():
        problems.append(f"`{place}` must be a text")
