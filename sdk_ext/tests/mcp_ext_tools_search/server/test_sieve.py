"""Definitions that one protocol era allows and another does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp_ext_tools_search.client import iter_pages
from mcp_ext_tools_search.server import install, sieve_tools
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]

PLAIN = Tool(name="send_invoice", input_schema={"type": "object"})
LISTS = Tool(name="list_invoices", input_schema={"type": "object"}, output_schema={"type": "array"})
BROKEN = Tool(name="broken_invoice", input_schema={"type": "string"})


def test_a_tool_that_an_era_does_not_allow_is_left_out_for_that_era_alone() -> None:
    tools = [LISTS, PLAIN, BROKEN]
    assert sieve_tools(tools, "2026-07-28") == [LISTS, PLAIN]
    assert sieve_tools(tools, "2025-11-25") == [PLAIN]


async def test_a_sieved_listing_is_searched_in_both_eras(connect: Connect, era: str) -> None:
    async def list_tools(ctx: ServerRequestContext[Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=sieve_tools([LISTS, PLAIN, BROKEN], ctx.protocol_version))

    server = Server("catalog", on_list_tools=list_tools)
    install(server)
    async with connect(server) as client:
        found = {tool.name async for page in iter_pages(client, "invoice") for tool in page.tools}
    assert found == ({"send_invoice"} if era == "legacy" else {"send_invoice", "list_invoices"})
