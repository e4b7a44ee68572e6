"""What this package uses of the SDK that is private or provisional: a failure here asks for a look at an adapter."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession, MCPError
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_ext_tools_search import METHOD
from mcp_ext_tools_search.client import absorb
from mcp_ext_tools_search.server._sdk import complete_chain, lowlevel_server
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, ListToolsResult, Tool
from mcp_types.methods import SPEC_CLIENT_METHODS
from tools_search_hosts.endings import connection_ended, timed_out

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
TOOL = Tool(name="send_invoice", input_schema={"type": "object"}, output_schema={"type": "object"})


def test_each_private_use_of_the_sdk_is_on_the_list_of_the_decision() -> None:
    decision = (ROOT / "spec/decisions/0005-private-sdk-surface.md").read_text(encoding="utf-8")
    listed = {row.split("`")[1]: row for row in decision.splitlines() if row.startswith("| `")}
    used = {
        (f"{module.relative_to(ROOT)}".removeprefix(f"{part}/"), name)
        for part in ("sdk_ext", "reference_server", "reference_client")
        for module in (ROOT / part).rglob("*.py")
        if "tests" not in module.relative_to(ROOT).parts
        for line in module.read_text(encoding="utf-8").splitlines()
        if "reportPrivateUsage" in line
        for name in re.findall(r"\.(_[a-z]\w*)", line)
    }
    assert {(module, name) for module, name in used if name not in listed.get(module, "")} == set()
    assert len(used) > 5


def test_an_mcpserver_holds_a_low_level_server_with_the_same_middleware(billing: MCPServer[Any]) -> None:
    lowlevel = lowlevel_server(billing)
    assert isinstance(lowlevel, Server)
    assert lowlevel.middleware is billing.middleware
    assert lowlevel_server(lowlevel) is lowlevel


def test_a_fastmcp_server_holds_a_low_level_server() -> None:
    fastmcp = pytest.importorskip("fastmcp")
    assert isinstance(fastmcp.FastMCP("billing")._mcp_server, Server)


def test_a_session_absorbs_a_listing_given_by_keyword() -> None:
    parameters = inspect.signature(ClientSession._absorb_tool_listing).parameters  # pyright: ignore[reportPrivateUsage] - the canary
    assert list(parameters) == ["self", "result", "complete"]
    assert parameters["result"].annotation in {ListToolsResult, "types.ListToolsResult"}
    assert parameters["complete"].kind is inspect.Parameter.KEYWORD_ONLY


async def test_an_absorbed_tool_is_known_to_the_session(billing: MCPServer[Any], era: str) -> None:
    async with Client(billing, mode=era) as client:
        assert [tool.name for tool in absorb(client.session, [TOOL])] == ["send_invoice"]
        known = client.session._tool_output_schemas  # pyright: ignore[reportPrivateUsage] - the canary
    assert known == {"send_invoice": {"type": "object"}}


def test_a_session_that_cannot_absorb_searches_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    class WithoutAbsorb(ClientSession):
        _absorb_tool_listing: Any = None

    assert absorb(WithoutAbsorb.__new__(WithoutAbsorb), [TOOL]) == [TOOL]
    assert "takes no tools that were not listed" in caplog.text


def test_the_session_still_stamps_requests_and_holds_a_dispatcher() -> None:
    source = inspect.getsource(ClientSession.send_request)
    assert "self._stamp(data, opts)" in source
    assert 'self._dispatcher.send_raw_request(method, data.get("params"), opts)' in source
    assert "else self._session_read_timeout_seconds" in source
    assert {"timeout", "on_progress"} <= CallOptions.__annotations__.keys()
    send: Any = getattr(Dispatcher, "send_raw_request")  # noqa: B009 - untyped on purpose: it is generic
    assert list(inspect.signature(send).parameters) == ["self", "method", "params", "opts"]


async def test_middleware_composes_outermost_first_and_sees_a_rewritten_context(billing: MCPServer[Any]) -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def middleware(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            order.append(f"{name} {ctx.method}")
            return await call_next(ctx)

        return middleware

    own = named("own")
    billing.middleware[:] = [named("first"), named("second"), own, named("third")]
    async with Client(billing, mode="legacy") as client:
        await client.list_tools()
    assert order[-4:] == [f"{name} tools/list" for name in ("first", "second", "own", "third")]

    order.clear()
    ctx = ServerRequestContext[Any, Any](
        session=None,  # pyright: ignore[reportArgumentType] - nothing here looks at it
        lifespan_context={},
        protocol_version="2025-11-25",
        method="tools/list",
    )

    async def answer(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        return {"answered": ctx.method}

    assert await complete_chain(lowlevel_server(billing), own, answer)(ctx) == {"answered": "tools/list"}
    assert order == ["first tools/list", "second tools/list"]


def test_the_sdk_does_not_define_the_method_itself() -> None:
    assert METHOD not in SPEC_CLIENT_METHODS


async def test_the_sdk_still_takes_extensions_out_of_the_legacy_handshake() -> None:
    """The reason for advertising from a middleware: should it stop, `advertisement.py` gets shorter."""
    server = MCPServer[Any]("billing")
    lowlevel_server(server).extensions["com.example/thing"] = {}
    async with Client(server, mode="legacy") as client:
        assert client.server_capabilities.extensions is None


async def test_the_sdk_still_says_in_words_that_a_connection_ended_and_that_time_ran_out(era: str) -> None:
    async def wait_for_ever() -> str:
        await anyio.sleep_forever()
        return ""

    server = MCPServer[Any]("slow")
    server.tool()(wait_for_ever)
    with anyio.fail_after(10):
        async with Client(server, mode=era) as client:
            with pytest.raises(MCPError) as late:
                await client.call_tool("wait_for_ever", read_timeout_seconds=0.01)
    assert timed_out(late.value)
    source = inspect.getsource(JSONRPCDispatcher)
    assert source.count('MCPError(code=CONNECTION_CLOSED, message="Connection closed")') == 2
    assert "timed out" in source
    assert 'f"SSE stream failed: ' in inspect.getsource(StreamableHTTPTransport)
    assert '"SSE stream ended ' in inspect.getsource(StreamableHTTPTransport)


@pytest.mark.parametrize(
    ("code", "message", "ended", "late"),
    [
        (CONNECTION_CLOSED, "Connection closed", True, False),
        (CONNECTION_CLOSED, "SSE stream ended without a response", True, False),
        (CONNECTION_CLOSED, "The connection closed at noon", False, False),
        (REQUEST_TIMEOUT, "Request 'tools/call' timed out", False, True),
        (REQUEST_TIMEOUT, "Session not found", False, False),
        (INTERNAL_ERROR, "Connection closed", False, False),
    ],
)
def test_only_the_words_of_the_sdk_count_as_an_end_or_a_timeout(
    code: int, message: str, ended: bool, late: bool
) -> None:
    error = MCPError(code, message)
    assert (connection_ended(error), timed_out(error)) == (ended, late)
