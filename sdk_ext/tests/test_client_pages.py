"""A client reads all pages of servers that keep to the draft, and is not kept busy by those that do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp_ext_tools_search.client import InvalidSearchResult, iter_pages, iter_tools

pytestmark = pytest.mark.anyio

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Lying = Callable[..., Server[Any]]


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
        assert [tool.name async for tool in iter_tools(client, "invoice", limit=3)] == ["a", "b", "c"]
        assert [len(page.tools) async for page in iter_pages(client, "invoice", limit=3)] == [2, 0, 3]
    first = {"query": "invoice", "limit": 3}
    assert asked[:3] == [first, {**first, "cursor": "1"}, {**first, "cursor": ""}]


async def test_a_page_is_asked_for_when_it_is_wanted(connect: Connect, lying: Lying) -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return {"tools": [_tool(f"tool_{len(asked)}")], "nextCursor": str(len(asked))}

    async with connect(lying(answer)) as client:
        async for tool in iter_tools(client, "invoice"):
            if tool.name == "tool_3":
                break
    assert len(asked) == 3


@pytest.mark.parametrize("cursors", [["1", "1"], ["1", "2", "1"], ["", ""]])
async def test_pages_that_go_in_circles_are_a_lie(connect: Connect, lying: Lying, cursors: list[str]) -> None:
    turns = iter(cursors)

    def answer(_params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [], "nextCursor": next(turns)}

    async with connect(lying(answer)) as client:
        with pytest.raises(InvalidSearchResult, match="repeats"):
            [page async for page in iter_pages(client, "invoice")]


async def test_pages_that_never_bring_a_new_tool_are_given_up(connect: Connect, lying: Lying) -> None:
    turn = 0

    def answer(_params: dict[str, Any]) -> dict[str, Any]:
        nonlocal turn
        turn += 1
        return {"tools": [_tool()], "nextCursor": str(turn)}

    async with connect(lying(answer)) as client:
        with pytest.raises(InvalidSearchResult, match="100 pages in a row"):
            [tool async for tool in iter_tools(client, "invoice")]
    assert turn == 101
