"""Faults that are not the client's: it learns that there was one and nothing else, and the server goes on."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp_ext_tools_search import ServerSettings
from mcp_ext_tools_search.ranking import Hit, Ranker, ToolIndex
from mcp_ext_tools_search.server import ToolsSearch, install
from mcp_ext_tools_search.server.listing import MAX_PAGES
from mcp_types import ListToolsResult, PaginatedRequestParams, Tool

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[..., Awaitable[dict[str, Any]]]
MakeServer = Callable[..., Server[Any]]

SECRET = "postgres://root:hunter2@db"  # noqa: S105 - what must not leak
HIDDEN = (-32603, "Internal server error")
QUERY = "my salary invoice"


class BrokenIndex:
    """Fails with the query and a secret in its words."""

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        raise RuntimeError(f"{query} broke {SECRET}")


def _broken_ranker(_tools: Sequence[Tool]) -> ToolIndex:
    raise KeyError(SECRET)


def _ranker_of_a_broken_index(_tools: Sequence[Tool]) -> ToolIndex:
    return BrokenIndex()


async def _refused(client: Client, send: Send) -> MCPError:
    with pytest.raises(MCPError) as refusal:
        await send(client, {"query": QUERY})
    return refusal.value


@pytest.mark.parametrize("ranker", [_broken_ranker, _ranker_of_a_broken_index])
async def test_a_broken_ranker_leaks_nothing_to_the_client_and_no_query_to_the_log(
    billing: MCPServer[Any], connect: Connect, send: Send, caplog: pytest.LogCaptureFixture, ranker: Ranker
) -> None:
    caplog.set_level(logging.INFO, logger="mcp_ext_tools_search")
    install(billing, ToolsSearch(ranker=ranker))
    async with connect(billing) as client:
        error = await _refused(client, send)
        assert (error.code, error.message, error.data) == (*HIDDEN, None)
        assert (await client.list_tools()).tools
        assert (await _refused(client, send)).code == -32603
    assert "tools/search failed with" in caplog.text
    assert QUERY not in caplog.text
    assert SECRET not in caplog.text


async def test_the_whole_error_is_in_the_log_at_debug_level(
    billing: MCPServer[Any], connect: Connect, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mcp_ext_tools_search")
    install(billing, ToolsSearch(ranker=_broken_ranker))
    async with connect(billing) as client:
        await _refused(client, send)
    assert SECRET in caplog.text


async def test_a_ranker_that_recovers_is_asked_again(billing: MCPServer[Any], connect: Connect, send: Send) -> None:
    failures = [RuntimeError(SECRET)]

    class OneHit:
        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            return [Hit("send_invoice", 1.0)]

    def recovering(_tools: Sequence[Tool]) -> ToolIndex:
        if failures:
            raise failures.pop()
        return OneHit()

    install(billing, ToolsSearch(ranker=recovering))
    async with connect(billing) as client:
        assert (await _refused(client, send)).code == -32603
        assert (await send(client, {"query": QUERY}))["tools"]


async def test_a_listing_with_invalid_data_is_the_servers_fault(
    billing: MCPServer[Any], connect: Connect, send: Send
) -> None:
    async def breaking(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/list":
            Tool.model_validate({"name": SECRET})
        return await call_next(ctx)

    install(billing)
    billing.middleware.append(breaking)
    async with connect(billing) as client:
        error = await _refused(client, send)
    assert (error.code, error.data) == (-32603, None)
    assert SECRET not in error.message


@pytest.mark.parametrize("cursors", [["same", "same"], ["a", "b", "a"], [""] * 3])
async def test_a_listing_whose_pages_go_in_circles_ends_in_an_error(
    connect: Connect, send: Send, cursors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    turn = 0

    async def list_tools(_ctx: ServerRequestContext[Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        nonlocal turn
        turn += 1
        return ListToolsResult(tools=[], next_cursor=cursors[turn % len(cursors)])

    server = Server("circular", on_list_tools=list_tools)
    install(server)
    async with connect(server) as client:
        assert (await _refused(client, send)).code == -32603
    assert turn <= 5
    assert "repeats a cursor" in caplog.text


async def test_a_listing_that_never_ends_ends_in_an_error(connect: Connect, send: Send) -> None:
    async def list_tools(_ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        page = int(params.cursor) if params and params.cursor else 0
        return ListToolsResult(tools=[], next_cursor=str(page + 1))

    server = Server("endless", on_list_tools=list_tools)
    install(server)
    async with connect(server) as client:
        assert (await _refused(client, send)).code == -32603
    assert MAX_PAGES == 10_000


async def test_settings_that_cannot_be_had_leak_nothing_into_the_legacy_handshake(billing: MCPServer[Any]) -> None:
    answers = [ServerSettings()]
    install(billing, ToolsSearch(settings=lambda: answers.pop()))
    hidden = pytest.RaisesExc(MCPError, check=lambda error: (error.code, error.message) == HIDDEN)
    with anyio.fail_after(10), pytest.RaisesGroup(hidden, flatten_subgroups=True, allow_unwrapped=True):
        async with Client(billing, mode="legacy"):
            pass


@pytest.mark.parametrize("era", ["auto"])
async def test_nor_into_a_modern_discovery(billing: MCPServer[Any], connect: Connect, send: Send) -> None:
    answers = [ServerSettings(), ServerSettings()]
    install(billing, ToolsSearch(settings=lambda: answers.pop()))
    async with connect(billing) as client:
        with pytest.raises(MCPError) as refusal:
            await send(client, None, "server/discover")
    assert (refusal.value.code, refusal.value.message) == HIDDEN


async def test_an_extension_that_was_not_installed_refuses_and_says_what_to_do(
    connect: Connect, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = MCPServer[Any]("billing", extensions=[ToolsSearch()])
    async with connect(mcp) as client:
        assert (await _refused(client, send)).code == -32603
    assert "call ToolsSearch.install(server)" in caplog.text


async def test_a_search_never_lists_another_server_through_an_inherited_context(
    billing: MCPServer[Any], connect: Connect, send: Send
) -> None:
    """A listing that itself asks a server of the same process hands its context down to it."""
    answers: list[int] = []
    inner = MCPServer[Any]("inner", extensions=[ToolsSearch()])

    async def asking(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/list":
            async with connect(inner) as client:
                answers.append((await _refused(client, send)).code)
        return await call_next(ctx)

    install(billing)
    billing.middleware.append(asking)
    async with connect(billing) as client:
        assert (await send(client, {"query": QUERY}))["tools"]
    assert answers == [-32603]


@pytest.mark.parametrize("copies", [0, 2])
async def test_a_middleware_that_was_removed_or_doubled_refuses_to_guess_who_filters(
    billing: MCPServer[Any], connect: Connect, send: Send, copies: int, caplog: pytest.LogCaptureFixture
) -> None:
    install(billing)
    own: ServerMiddleware[Any] = billing.middleware.pop(0)

    async def wrapping(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return await own(ctx, call_next)

    billing.middleware[:0] = [own] * copies or [wrapping]
    async with connect(billing) as client:
        assert (await _refused(client, send)).code == -32603
    assert "call install() once" in caplog.text
