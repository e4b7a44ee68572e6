"""Calls over a real process in both eras, and the ranking of listed tools."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp_types import Tool
from tools_search_client.errors import (
    InvalidServerResultError,
    ServerTimeoutError,
    ServerUnavailableError,
)
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.server_tools import LocalIndex
from tools_search_hosts import StdioTarget
from tools_search_ranking import FieldedRanker, default_ranker


@pytest.mark.anyio
async def test_a_server_that_dies_during_a_call_is_unavailable(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("call-dies", era=era).target) as tools:
            await tools.search("alpha")
            with pytest.raises(ServerUnavailableError):
                await tools.call("make_alpha")


@pytest.mark.anyio
async def test_a_call_that_hangs_is_given_up(liar: Any, era: str, impatient: ConnectionOptions):
    with anyio.fail_after(10):
        async with open_server(liar("call-hangs", era=era).target, impatient) as tools:
            await tools.search("alpha")
            with pytest.raises(ServerTimeoutError):
                await tools.call("make_alpha")


@pytest.mark.anyio
async def test_structured_content_that_breaks_the_tools_own_schema_is_an_invalid_result(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("unstructured", era=era).target) as tools:
            await tools.search("alpha")
            with pytest.raises(InvalidServerResultError):
                await tools.call("make_alpha")


@pytest.mark.anyio
async def test_listing_and_ranking_here_orders_as_the_reference_server_does(reference_program: StdioTarget):
    with anyio.fail_after(20):
        async with open_server(reference_program) as tools:
            searched = await tools.search("delete a customer", limit=4)
            listed = await tools.list()
            assert len(listed) == 12
    ranked = LocalIndex(listed, default_ranker()).search("delete a customer", 4)
    assert [hit.tool.name for hit in ranked] == [hit.tool.name for hit in searched.tools]


def named(*names: str) -> list[Tool]:
    return [Tool(name=name, description="d", input_schema={"type": "object"}) for name in names]


def test_a_tool_that_is_named_exactly_is_found_first():
    tools = named("send", "send_mail", "mail_send_send")
    assert LocalIndex(tools, FieldedRanker()).search("send", 2)[0].tool.name == "send"


def test_nothing_is_found_where_nothing_fits():
    tools = named("send")
    assert LocalIndex(tools, FieldedRanker()).search("xylophone", 5) == ()
