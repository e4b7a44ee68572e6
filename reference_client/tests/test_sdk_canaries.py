"""A private part of the SDK that the client uses, pinned: a release that changes it fails here first."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.types import EXTENSION_ID


@pytest.mark.anyio
async def test_a_session_still_knows_which_extensions_its_client_declares(era: str) -> None:
    server, mode = MCPServer[Any]("canary"), "legacy" if era == "legacy" else "auto"
    async with Client(server, mode=mode, extensions=[TOOLS_SEARCH]) as declaring, Client(server, mode=mode) as plain:
        assert EXTENSION_ID in (declaring.session._extensions or {})  # pyright: ignore[reportPrivateUsage]
        assert not plain.session._extensions  # pyright: ignore[reportPrivateUsage]
