"""A tool among those of other servers: what a gateway publishes, and what a host that asks the servers itself ranks.

Both rank the same definitions in the same order only if they are the same to a word, so both are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool

from tools_search_hosts.names import qualified_name

__all__ = ["labels_among_servers", "own_labels", "tool_among_servers"]

_OF_A_SEARCH: Final = ("score", "matched")


def own_labels(tool: Tool) -> Mapping[str, Any]:
    """Return what is published with `tool` under the identifier of the extension."""
    labels = (tool.meta or {}).get(EXTENSION_ID)
    return cast("Mapping[str, Any]", labels) if isinstance(labels, dict) else {}


def labels_among_servers(server: str, labels: Mapping[str, Any], category: object) -> dict[str, Any]:
    """Return labels with the server as the group of the tool.

    Args:
        server: The configured name.
        labels: What is published of the tool.
        category: The part of its server that the tool belongs to; passed over where it is no text.
    """
    among = {member: label for member, label in labels.items() if label is not None}
    among.pop("category", None)
    among.pop("categoryDescription", None)
    return {**among, "group": server, **({"category": category} if isinstance(category, str) and category else {})}


def tool_among_servers(server: str, tool: Tool) -> Tool:
    """Return `tool` of `server` under its qualified name, and labeled as a gateway labels it.

    An empty `server` stands for the only one there is, whose tools stay as they are.
    """
    name, own = qualified_name(server, tool.name), own_labels(tool)
    if not server:
        return tool.model_copy(update={"name": name})
    lasting = {member: label for member, label in own.items() if member not in _OF_A_SEARCH}
    labels = labels_among_servers(server, lasting, own.get("group"))
    return tool.model_copy(update={"name": name, "meta": {**(tool.meta or {}), EXTENSION_ID: labels}})
