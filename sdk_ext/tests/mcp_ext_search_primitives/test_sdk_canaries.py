"""What this package uses of the SDK that is private: a failure here asks for a look at `_sdk.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver.resources import FileResource, TextResource
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_ext_search_primitives._sdk import bus_of, file_of

pytestmark = pytest.mark.anyio


def test_the_file_of_a_resource_is_known_before_it_is_read(tmp_path: Path) -> None:
    mcp = MCPServer[Any]("files")
    mcp.add_resource(FileResource(uri="docs://a", name="a", path=tmp_path / "a"))
    mcp.add_resource(TextResource(uri="docs://b", name="b", text="b"))
    assert file_of(mcp, "docs://a") == tmp_path / "a"
    assert file_of(mcp, "docs://b") is None
    assert file_of(mcp, "docs://c") is None


def test_the_bus_of_a_server_is_known() -> None:
    bus = InMemorySubscriptionBus()
    assert bus_of(MCPServer[Any]("with its own", subscriptions=bus)) is bus
    assert bus_of(MCPServer[Any]("with the default")) is not None
    assert bus_of(Server[Any]("low-level")) is None
