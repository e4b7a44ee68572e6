"""Each server example, run as its first lines say, searched and called over real stdio in both eras."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_tools_search import ServerSettings
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, search_tools, server_settings
from mcp_types import TextContent

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[1]
eras = pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])
programs = pytest.mark.parametrize("program", ["mcpserver_search.py", "lowlevel_search.py", "fastmcp_search.py"])


@asynccontextmanager
async def _running(program: str, era: str) -> AsyncGenerator[Client]:
    target = StdioServerParameters(command=sys.executable, args=[str(EXAMPLES / program)])
    with anyio.fail_after(60):
        async with Client(target, mode=era, extensions=[TOOLS_SEARCH]) as client:
            yield client


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> str:
    (content,) = (await client.call_tool(name, arguments)).content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.rotating
@eras
@programs
async def test_an_example_is_searched_called_and_refuses_what_is_wrong(program: str, era: str) -> None:
    """And finds what the caller's era allows, and nothing that is disabled."""
    async with _running(program, era) as client:
        settings = server_settings(client)
        assert settings is not None
        assert settings.max_limit == 50
        found = await search_tools(client, "bill a customer by sending an invoice", limit=1)
        assert [tool.name for tool in found.tools] == ["send_invoice"]
        assert "Ada" in await _call(client, "send_invoice", {"customer": "Ada", "amount": 3})
        with pytest.raises(MCPError) as refusal:
            await search_tools(client, "invoice", cursor="forged")
        assert refusal.value.code == -32602
        assert refusal.value.data["field"] == "cursor"
        names = {tool.name async for page in iter_pages(client, "wipe any invoice", limit=1) for tool in page.tools}
    allowed: set[str] = {"list_invoices"} if (program, era) == ("lowlevel_search.py", "auto") else set()
    assert names == {"send_invoice", "cancel_invoice"} | allowed
    if program == "lowlevel_search.py":
        assert settings == ServerSettings(topics=["invoices"], catalog_size=3, max_limit=50)
