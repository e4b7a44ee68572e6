"""Listing everything: complete, bounded, and kept as long as the shortest page allows."""

from __future__ import annotations

import pytest
from mcp_ext_tools_search.client.listing import ListedPage
from mcp_types import ListToolsResult, Tool
from tools_search_client.errors import InvalidServerResultError
from tools_search_client.servers.discovery import FetchPage, ListingBounds, LocalIndex, list_everything
from tools_search_ranking import FieldedRanker

pytestmark = pytest.mark.anyio

BOUNDS = ListingBounds(max_pages=10, max_tools=50)


def page(*names: str, after: str | None = None, description: str = "d", **members: object) -> ListedPage:
    tools = [Tool(name=name, description=description, input_schema={"type": "object"}) for name in names]
    return ListedPage(ListToolsResult.model_validate({"tools": tools, "nextCursor": after} | members))


def pages(**by_cursor: ListedPage) -> FetchPage:
    async def fetch(cursor: str | None) -> ListedPage:
        return by_cursor["first" if cursor is None else cursor]

    return fetch


async def test_all_pages_are_read_and_an_empty_one_is_no_end():
    listing = await list_everything(pages(first=page("a", after="p2"), p2=page(after="p3"), p3=page("b")), BOUNDS)
    assert [tool.name for tool in listing.tools] == ["a", "b"]


async def test_an_empty_cursor_is_a_cursor():
    fetched: list[str | None] = []

    async def fetch(cursor: str | None) -> ListedPage:
        fetched.append(cursor)
        return page("a", after="") if cursor is None else page("b")

    listing = await list_everything(fetch, BOUNDS)
    assert (fetched, len(listing.tools)) == ([None, ""], 2)


async def test_the_first_definition_of_a_name_counts():
    listing = await list_everything(
        pages(first=page("a", description="first", after="p2"), p2=page("a", description="second")), BOUNDS
    )
    assert [tool.description for tool in listing.tools] == ["first"]


async def test_a_cursor_that_comes_back_is_a_lie():
    with pytest.raises(InvalidServerResultError, match="circle"):
        await list_everything(pages(first=page("a", after="p2"), p2=page("b", after="p2")), BOUNDS)


@pytest.mark.parametrize("per_page", [0, 6])
async def test_a_listing_without_end_is_cut_off(per_page: int):
    count = 0

    async def fetch(cursor: str | None) -> ListedPage:
        nonlocal count
        count += 1
        return page(*(f"t{count}-{n}" for n in range(per_page)), after=f"p{count}")

    with pytest.raises(InvalidServerResultError, match="no end"):
        await list_everything(fetch, BOUNDS)
    assert count <= BOUNDS.max_pages


async def test_the_shortest_lifetime_and_the_strictest_scope_count():
    first = page("a", after="p2", ttlMs=5000, cacheScope="public")
    listing = await list_everything(pages(first=first, p2=page("b", ttlMs=2000, cacheScope="private")), BOUNDS)
    assert (listing.ttl_seconds, listing.scope) == (2.0, "private")


async def test_a_listing_that_says_nothing_of_its_lifetime_is_told_apart_from_one_that_says_none():
    silent = await list_everything(pages(first=page("a")), BOUNDS)
    stale = await list_everything(pages(first=page("a", ttlMs=0)), BOUNDS)
    assert (silent.ttl_seconds, stale.ttl_seconds) == (None, 0.0)


async def test_a_tool_that_is_named_exactly_is_found_first():
    tools = (await list_everything(pages(first=page("send", "send_mail", "mail_send_send")), BOUNDS)).tools
    assert LocalIndex(tools, FieldedRanker()).search("send", 2)[0].tool.name == "send"


async def test_nothing_is_found_where_nothing_fits():
    tools = (await list_everything(pages(first=page("send")), BOUNDS)).tools
    assert LocalIndex(tools, FieldedRanker()).search("xylophone", 5) == ()


async def test_what_is_left_out_of_any_page_is_counted():
    first, second = page("a", after="p2").result, page("b").result
    listing = await list_everything(pages(first=ListedPage(first, 2), p2=ListedPage(second, 1)), BOUNDS)
    assert (len(listing.tools), listing.left_out) == (2, 3)
