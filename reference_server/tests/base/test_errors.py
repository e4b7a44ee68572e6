"""What a caller learns when the server itself is at fault: one fixed text for every method and era."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    Request,
    RequestParams,
    Result,
    Tool,
)
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.catalog.catalog_file import bundled_catalog
from tools_search_server.catalog.catalog_server import Catalog, catalog_server

pytestmark = pytest.mark.anyio

SECRET = "postgres://root:hunter2@db"  # noqa: S105 - what must not leak

every_era = pytest.mark.parametrize("mode", ["auto", "legacy"])


def crashing(_: Tool, __: Mapping[str, Any]) -> CallToolResult:
    raise RuntimeError(SECRET)


def misreading(_: Tool, __: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult.model_validate({"content": SECRET})


async def refusal(server: Server[Any], mode: str, method: str, *arguments: Any) -> MCPError:
    with anyio.fail_after(20):
        async with Client(server, mode=mode, extensions=[TOOLS_SEARCH], raise_exceptions=False) as client:
            with pytest.raises(MCPError) as refused:
                await getattr(client, method)(*arguments)
    return refused.value


@every_era
@pytest.mark.parametrize("answer", [crashing, misreading])
async def test_a_call_that_fails_in_the_server_leaks_nothing(
    mode: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="mcp_ext_tools_search")
    catalog = Catalog(bundled_catalog())
    name = next(tool.name for tool in catalog.contents.tools if tool.name not in catalog.contents.answers)
    error = await refusal(catalog_server(catalog, answer), mode, "call_tool", name, {})
    assert (error.code, error.message, error.data) == (-32603, "Internal server error", None)
    assert "tools/call failed with" in caplog.text
    assert SECRET not in caplog.text


@every_era
async def test_a_listing_that_fails_in_the_server_leaks_nothing(mode: str) -> None:
    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> NoReturn:
        raise KeyError(SECRET)

    server = Server[Any]("broken", on_list_tools=list_tools)
    hide_internal_errors(server)
    error = await refusal(server, mode, "list_tools")
    assert (error.code, error.message) == (-32603, "Internal server error")


@every_era
async def test_parameters_that_no_revision_allows_stay_the_callers_mistake(mode: str) -> None:
    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[])

    server = Server[Any]("plain", on_list_tools=list_tools)
    hide_internal_errors(server)
    with anyio.fail_after(20):
        async with Client(server, mode=mode, raise_exceptions=False) as client:
            for method, params in (("tools/list", {"cursor": 3}), ("tools/call", {"name": [SECRET]})):
                error = await _error_of(client, method, params)
                assert (error.code, error.message) == (-32602, "Invalid request parameters")


async def test_a_handshake_that_declares_nonsense_is_the_callers_mistake() -> None:
    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[])

    server = Server[Any]("plain", on_list_tools=list_tools)
    hide_internal_errors(server)
    nonsense = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"extensions": {"com.example/x": True}},
        "clientInfo": {"name": "x", "version": "1"},
    }
    with anyio.fail_after(20):
        async with Client(server, mode="legacy", raise_exceptions=False) as client:
            error = await _error_of(client, "initialize", nonsense)
    assert (error.code, error.message) == (-32602, "Invalid request parameters")


async def _error_of(client: Client, method: str, params: dict[str, Any]) -> MCPError:
    request = Request[Any, str](method=method, params=params)
    with pytest.raises(MCPError) as refused:
        await client.session.send_request(request, Result)
    return refused.value


@every_era
async def test_a_handler_of_another_method_that_misreads_its_data_is_at_fault_itself(mode: str) -> None:
    async def misread(_: Any, __: RequestParams) -> NoReturn:
        Tool.model_validate({"name": SECRET})
        raise AssertionError

    server = Server[Any]("extended")
    server.add_request_handler("com.example/misread", RequestParams, misread)
    hide_internal_errors(server)
    with anyio.fail_after(20):
        async with Client(server, mode=mode, raise_exceptions=False) as client:
            error = await _error_of(client, "com.example/misread", {})
    assert (error.code, error.message) == (-32603, "Internal server error")


def test_the_closest_names_are_named_best_first() -> None:
    error = unknown_tool("Create_isue", ["create_issue", "create_issues", "delete_file", "x"])
    assert error.code == INVALID_PARAMS
    assert error.data["closest"] == ["create_issue", "create_issues"]
    assert "the closest are create_issue, create_issues" in error.message
    assert "the closest is delete_file." in unknown_tool("delete_fil", ["delete_file"]).message


def test_a_name_like_no_other_gets_advice() -> None:
    error = unknown_tool("q" * 10_000, ["create_issue"])
    assert error.data["closest"] == []
    assert "list or search" in error.message
    assert len(error.message) < 300


def test_a_large_catalog_is_no_way_to_keep_a_server_busy() -> None:
    known = [f"server{n % 200}__list_customer_invoice_files_{n}" for n in range(10_000)]
    began = time.process_time()
    error = unknown_tool("server7__list_customer_invoice_file", known)
    assert time.process_time() - began < 1
    assert error.data["closest"]
