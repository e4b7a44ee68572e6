"""All private parts of the SDK that this package uses (`spec/decisions/0005`).

* The resources of an `MCPServer` by URI (`MCPServer._resource_manager._resources`), to check a file's size before
  reading it: the SDK reads whole files and lists them without a size.
* The bus on which an `MCPServer` publishes `ctx.notify_resource_updated` (`MCPServer._subscriptions`).

A canary test for each fails when the SDK changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp.server import MCPServer, Server
from mcp.server.mcpserver.resources import FileResource
from mcp.server.subscriptions import SubscriptionBus


def file_of(server: MCPServer[Any] | None, uri: str) -> Path | None:
    """Return the file that a resource of `server` is read from, or `None` if it is not a file or this is unknown."""
    resources: dict[str, Any] = getattr(getattr(server, "_resource_manager", None), "_resources", {})
    found = resources.get(uri)
    return found.path if isinstance(found, FileResource) else None


def bus_of(server: MCPServer[Any] | Server[Any]) -> SubscriptionBus | None:
    """Return the bus on which `server` publishes changes, or `None` if it is not an `MCPServer`."""
    return getattr(server, "_subscriptions", None) if isinstance(server, MCPServer) else None
