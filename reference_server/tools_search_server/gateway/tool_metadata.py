"""Tool metadata: published by the servers, and extended by the configuration's member `metadata`.

    "metadata": {
      "categories": {"history": "What has happened in a repository"},
      "servers": {"git": {"group": "version control", "tags": ["vcs"], "tools": {"log": {"group": "history"}}}}
    }

Each member overrides the published one, and a tool's member overrides its server's. The exception is a server's `tags`,
which are added to those of its tools. Tools have the names that their server gives them.

Published metadata is untrusted: values of unexpected types are ignored, and the number of values is limited.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata
from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tools_search_hosts import ConfigurationError, HostFile
from tools_search_hosts.json_values import as_list, as_object
from tools_search_hosts.names import labels_among_servers
from tools_search_hosts.toolsets import closest
from tools_search_hosts.validation import validation_problem

_MAX_VALUES: Final = 50
_MAX_CHARS: Final = 80
_FASTMCP: Final = ("fastmcp", "_fastmcp")

_Text: TypeAlias = Annotated[str, Field(pattern=r"\S")]


class _Labels(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    group: _Text = ""
    tags: list[str] = []


class _ToolLabels(_Labels):
    aliases: list[str] = []
    related: list[str] = []
    examples: list[Any] = []


class _ServerLabels(_Labels):
    tools: dict[str, _ToolLabels] = {}


class ToolMetadata(BaseModel):
    """The member `metadata` of a configuration."""

    model_config = ConfigDict(strict=True, extra="forbid")

    categories: dict[str, _Text] = {}
    """Category descriptions by name."""

    servers: dict[str, _ServerLabels] = {}

    def meta(self, server: str, tool: Tool) -> dict[str, Any]:
        """Return a tool's `_meta` for publication: its group is the server, and its own group becomes the category."""
        published = published_metadata(tool.meta)
        of_server = self.servers.get(server, _NO_SERVER_LABELS)
        of_tool = of_server.tools.get(tool.name, _NO_TOOL_LABELS)
        labels: dict[str, Any] = {**published, **of_tool.model_dump(exclude_unset=True)}
        if of_server.tags:
            labels["tags"] = list(dict.fromkeys([*(of_tool.tags or tags_of(tool)), *of_server.tags]))
        labels = labels_among_servers(server, labels, of_tool.group or of_server.group or published.get("group"))
        if (description := self.categories.get(labels.get("category", server))) is not None:
            labels["categoryDescription"] = description
        return {**(tool.meta or {}), EXTENSION_ID: labels}


_NO_SERVER_LABELS: Final = _ServerLabels()
_NO_TOOL_LABELS: Final = _ToolLabels()
_MEMBERS: Final = [name for model in (ToolMetadata, _ServerLabels, _ToolLabels) for name in model.model_fields]


def read_metadata(file: HostFile, source: str) -> ToolMetadata:
    """Return the metadata in a configuration. Errors refer to the configuration as `source`.

    Raises:
        ConfigurationError: The metadata is invalid. The message lists every problem.
    """
    try:
        metadata = ToolMetadata.model_validate(file.members.get("metadata", {}))
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        problems = [validation_problem(mistake, "metadata", known=_MEMBERS) for mistake in mistakes]
        raise ConfigurationError(source, problems) from None
    if unknown := [server for server in metadata.servers if server not in file.names]:
        text = "`metadata.servers.{}`: there is no such server; {}"
        raise ConfigurationError(source, [text.format(server, closest(server, file.names)) for server in unknown])
    return metadata


def category_of(tool: Tool) -> str:
    """Return the category of a tool that the gateway exposes, or its server if it has none."""
    labels = published_metadata(tool.meta)
    return labels.get("category", labels.get("group", ""))[:_MAX_CHARS]


def tags_of(tool: Tool) -> list[str]:
    """Return a tool's distinct tags, including those that FastMCP publishes."""
    published = [as_object((tool.meta or {}).get(key)) for key in (EXTENSION_ID, *_FASTMCP)]
    found = [tag for labels in published for tag in _texts(labels.get("tags"))]
    return [tag for tag in dict.fromkeys(found) if len(tag) <= _MAX_CHARS][:_MAX_VALUES]


def related_of(tool: Tool) -> list[str]:
    """Return the names of a tool's related tools, as published."""
    return _texts(published_metadata(tool.meta).get("related"))[:_MAX_VALUES]


def examples_of(tool: Tool) -> list[Any]:
    """Return the published examples of a tool's use."""
    return as_list(published_metadata(tool.meta).get("examples"))[:_MAX_VALUES]


def _texts(value: object) -> list[str]:
    return [item for item in as_list(value) if isinstance(item, str) and item]
