"""Reading a whole list: all of its pages, and no more than a list can have."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_ext_tools_search.client.listing import ListedPage
from mcp_types import ListToolsResult, Tool
from tools_search_client.errors import InvalidServerResultError
from tools_search_client.servers import listing as servers_listing
from tools_search_client.servers.listing import FetchPage, list_everything

pytestmark = pytest.mark.anyio


def page(*names: str, after: str | None = None, description: str = "d", **members: object) -> ListedPage:
    tools = [Tool(name=name, description=description, input_schema={"type": "object"}) for name in names]
    return ListedPage(ListToolsResult.model_validate({"tools": tools, "nextCursor": after} | members))


def pages(**by_cursor: ListedPage) -> FetchPage:
    async def fetch(cursor: str | None) -> ListedPage:
        return by_cursor["first" if cursor is None else cursor]

    return fetch


async def test_all_pages_are_read_and_an_empty_one_is_no_end():
    listing = await list_everything(pages(first=page("a", after="p2"), p2=page(after="p3"), p3=page("b")))
    assert [tool.name for tool in listing.items] == ["a", "b"]


async def test_an_empty_cursor_is_a_cursor():
    fetched: list[str | None] = []

    async def fetch(cursor: str | None) -> ListedPage:
        fetched.append(cursor)
        return page("a", after="") if cursor is None else page("b")

    listing = await list_everything(fetch)
    assert (fetched, len(listing.items)) == ([None, ""], 2)


async def test_the_first_definition_of_a_name_counts():
    listing = await list_everything(
        pages(first=page("a", description="first", after="p2"), p2=page("a", description="second"))
    )
    assert [tool.description for tool in listing.items] == ["first"]


async def test_a_cursor_that_comes_back_is_a_lie():
    with pytest.raises(InvalidServerResultError, match="circle"):
        await list_everything(pages(first=page("a", after="p2"), p2=page("b", after="p2")))


@pytest.mark.parametrize("per_page", [0, 6])
async def test_a_listing_without_end_is_cut_off(per_page: int):
    count = 0

    async def fetch(cursor: str | None) -> ListedPage:
        nonlocal count
        count += 1
        return page(*(f"t{count}-{n}" for n in range(per_page)), after=f"p{count}")

    with pytest.raises(InvalidServerResultError, match="no end"):
        await list_everything(fetch, max_items=50)
    assert count == (1000 if per_page == 0 else 9)


async def test_a_listing_whose_pages_are_too_large_together_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers_listing, "MAX_LIST_BYTES", 4 * 2**20)
    count = 0

    async def fetch(cursor: str | None) -> ListedPage:
        nonlocal count
        count += 1
        return page(f"t{count}", description="x" * 2**20, after=f"p{count}")

    items = dict[str, Any]()
    with pytest.raises(InvalidServerResultError, match="tools/list has more than 4 MiB"):
        await list_everything(fetch, items=items)
    assert (count, items) == (4, {})


async def test_the_shortest_lifetime_and_the_strictest_scope_count():
    first = page("a", after="p2", ttlMs=5000, cacheScope="public")
    listing = await list_everything(pages(first=first, p2=page("b", ttlMs=2000, cacheScope="private")))
    assert (listing.ttl_seconds, listing.scope) == (2.0, "private")


async def test_a_listing_that_says_nothing_of_its_lifetime_is_told_apart_from_one_that_says_none():
    silent = await list_everything(pages(first=page("a")))
    stale = await list_everything(pages(first=page("a", ttlMs=0)))
    assert (silent.ttl_seconds, stale.ttl_seconds) == (None, 0.0)


async def test_what_is_left_out_of_any_page_is_counted():
    first, second = page("a", after="p2").result, page("b").result
    listing = await list_everything(pages(first=ListedPage(first, 2), p2=ListedPage(second, 1)))
    assert (len(listing.items), listing.left_out) == (2, 3)
