"""A client reads all pages of servers that keep to the draft, and is not kept busy by those that do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server import Server
from mcp_ext_tools_search.client import InvalidSearchResultError, iter_pages, read_pages
from mcp_ext_tools_search.types import TOOLS

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Lying = Callable[..., Server[Any]]


BUSY = MCPError(-32603, "too busy", {"retryAfterMs": 20})
REFUSED = MCPError(-32602, "expired")


def _tool(name: Any = "send_invoice", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


async def test_every_tool_of_every_page_comes_once(connect: Connect, lying: Lying) -> None:
    pages: dict[str | None, dict[str, Any]] = {
        None: {"tools": [_tool("a"), _tool("b")], "nextCursor": "1"},
        "1": {"tools": [], "nextCursor": ""},
        "": {"tools": [_tool("b"), _tool("c"), _tool("c")]},
    }
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return pages[params.get("cursor")]

    async with connect(lying(answer)) as client:
        found = [page async for page in iter_pages(client, "invoice", limit=3)]
    assert list(TOOLS.by_key(*found)) == ["a", "b", "c"]
    assert [len(page.tools) for page in found] == [2, 0, 2]
    first = {"query": "invoice", "limit": 3}
    assert asked == [first, {**first, "cursor": "1"}, {**first, "cursor": ""}]


async def test_a_page_is_asked_for_when_it_is_wanted(connect: Connect, lying: Lying) -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return {"tools": [_tool(f"tool_{len(asked)}")], "nextCursor": str(len(asked))}

    async with connect(lying(answer)) as client:
        async for page in iter_pages(client, "invoice"):
            if page.tools[0].name == "tool_3":
                break
    assert len(asked) == 3


@pytest.mark.parametrize("circle", [1, 3, 1000])
async def test_pages_that_never_bring_a_new_tool_are_given_up(connect: Connect, lying: Lying, circle: int) -> None:
    turn = 0

    def answer(_params: dict[str, Any]) -> dict[str, Any]:
        nonlocal turn
        turn += 1
        return {"tools": [_tool()], "nextCursor": str(turn % circle)}

    async with connect(lying(answer)) as client:
        with pytest.raises(InvalidSearchResultError, match="50 pages in a row"):
            [page async for page in iter_pages(client, "invoice")]
    assert turn == 51


@pytest.mark.parametrize("failure", [MCPError(-32603, "broken"), MCPError(-32001, "timed out"), None])
async def test_what_was_found_before_a_page_failed_is_kept(
    connect: Connect, lying: Lying, failure: MCPError | None
) -> None:
    asked: list[Any] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params.get("cursor"))
        if "cursor" not in params:
            return {"tools": [_tool()], "nextCursor": "2"}
        if failure is None:
            return {"tools": "unusable"}
        raise failure

    async with connect(lying(answer)) as client:
        (page,) = await read_pages(client, "invoice")
    assert [tool.name for tool in page.tools] == [_tool()["name"]]
    assert page.next_cursor == "2"
    assert asked == [None, "2"]


async def test_a_failure_before_any_tool_was_found_is_an_error(connect: Connect, lying: Lying) -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": "unusable"} if "cursor" in params else {"tools": [], "nextCursor": "2"}

    async with connect(lying(answer)) as client:
        with pytest.raises(InvalidSearchResultError):
            await read_pages(client, "invoice")


@pytest.mark.parametrize("refusals", [0, 1, 2])
async def test_a_refused_cursor_discards_the_pages_and_starts_over_once(
    connect: Connect, lying: Lying, refusals: int
) -> None:
    asked: list[Any] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params.get("cursor"))
        start = asked.count(None)
        if "cursor" not in params:
            return {"tools": [_tool(f"first_{start}")], "nextCursor": "2"}
        if start <= refusals:
            raise REFUSED
        return {"tools": [_tool(f"second_{start}")]}

    async with connect(lying(answer)) as client:
        pages = await read_pages(client, "invoice")
    names = [tool.name for page in pages for tool in page.tools]
    if refusals == 2:  # incomplete
        assert names == ["first_2"]
        assert pages[-1].next_cursor is not None
    else:
        assert names == [f"first_{refusals + 1}", f"second_{refusals + 1}"]
    assert asked == [None, "2"] * min(refusals + 1, 2)


async def test_a_query_that_is_refused_is_not_sent_again(connect: Connect, lying: Lying) -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        raise REFUSED

    async with connect(lying(answer)) as client:
        with pytest.raises(MCPError, match="expired"):
            await read_pages(client, "invoice")
    assert len(asked) == 1


async def test_no_more_pages_are_read_than_are_enough(connect: Connect, lying: Lying) -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [], "nextCursor": f"{params.get('cursor', '')}1"}

    async with connect(lying(answer)) as client:
        assert len(await read_pages(client, "invoice", enough=lambda pages: len(pages) == 3)) == 3


@pytest.mark.parametrize(("times", "asked"), [(3, 5), (99, 4)])
async def test_a_busy_server_is_asked_again_a_few_times_when_it_says_so(
    connect: Connect, lying: Lying, times: int, asked: int
) -> None:
    began: list[float] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        began.append(anyio.current_time())
        if len(began) <= times:
            raise BUSY
        return {"tools": [], **({} if "cursor" in params else {"nextCursor": "2"})}

    async with connect(lying(answer)) as client:
        if times > 3:
            with pytest.raises(MCPError, match="too busy"):
                await read_pages(client, "invoice")
        else:
            assert len(await read_pages(client, "invoice")) == 2
    assert len(began) == asked
    assert all(later - earlier >= 0.019 for earlier, later in pairwise(began[:4]))  # the clock ticks


@pytest.mark.parametrize(("delay_ms", "patience"), [(2_000, 0.1), (60_000, 600)])  # more than it, and than the block
async def test_nobody_waits_longer_than_they_can(
    connect: Connect, lying: Lying, delay_ms: int, patience: float
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        raise MCPError(-32603, "too busy", {"retryAfterMs": delay_ms})

    async with connect(lying(answer)) as client:
        with anyio.fail_after(30), pytest.raises(MCPError, match="too busy"):
            await read_pages(client, "invoice", patience=patience)
    assert len(asked) == 1
