"""Private parts of the SDK that the gateway and its programs use, pinned.

A release that changes it fails here first.
"""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import ListToolsResult, PaginatedRequestParams
from tools_search_server.gateway.caller_questions import connection_of


@pytest.mark.anyio
async def test_all_requests_of_a_legacy_session_have_one_connection_that_knows_its_end() -> None:
    connections: list[Connection] = []
    ended: list[bool] = []

    async def note_the_end() -> None:
        ended.append(True)

    async def list_tools(ctx: ServerRequestContext[Any, Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        connections.append(connection_of(ctx))
        connections[-1].exit_stack.push_async_callback(note_the_end)
        return ListToolsResult(tools=[])

    async with Client(Server[Any]("canary", on_list_tools=list_tools), mode="legacy") as client:
        await client.session.list_tools()
        await client.session.list_tools()
        assert not ended
    assert connections[0] is connections[1]
    assert ended == [True, True]


@pytest.mark.anyio
async def test_the_manager_of_sessions_still_knows_them_and_their_owners() -> None:
    manager = StreamableHTTPSessionManager(Server[Any]("canary"))
    owner = AuthorizationContext(client_id="alice", issuer=None, subject=None)
    transport = manager._admit_session(owner)  # pyright: ignore[reportPrivateUsage] - the canary
    assert [*manager._server_instances.values()] == [transport]  # pyright: ignore[reportPrivateUsage]
    assert [*manager._session_owners.values()] == [owner]  # pyright: ignore[reportPrivateUsage]
