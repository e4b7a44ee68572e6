"""What is taken from the pages of a caller's listing."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_ext_tools_search.server.listing import Listing, read_listing

pytestmark = pytest.mark.anyio

PUBLIC: dict[str, Any] = {"tools": [], "ttlMs": 5_000, "cacheScope": "public"}
NO_TOOLS: list[dict[str, Any]] = [{}, {"tools": None}, {"tools": [None, 7, [], {}, {"name": None}, {"name": ["a"]}]}]


async def _listing(*pages: dict[str, Any]) -> Listing:
    async def list_page(cursor: str | None) -> dict[str, Any]:
        place = int(cursor or 0)
        return pages[place] | ({"nextCursor": str(place + 1)} if place + 1 < len(pages) else {})

    return await read_listing(list_page)


@pytest.mark.parametrize("unclear", [{}, {"cacheScope": None}, {"cacheScope": "shared"}, {"cacheScope": "private"}])
async def test_a_page_that_does_not_say_public_makes_the_answer_private(unclear: dict[str, Any]) -> None:
    assert (await _listing(PUBLIC, PUBLIC)).cache_scope == "public"
    assert (await _listing(PUBLIC, {"tools": [], "ttlMs": 5_000, **unclear}, PUBLIC)).cache_scope == "private"


@pytest.mark.parametrize("unusable", [{}, {"ttlMs": None}, {"ttlMs": True}, {"ttlMs": -1}, {"ttlMs": "60"}])
async def test_a_page_that_gives_no_usable_time_may_not_be_cached(unusable: dict[str, Any]) -> None:
    assert (await _listing(PUBLIC, PUBLIC)).ttl_ms == 5_000
    assert (await _listing(PUBLIC, {"tools": [], "cacheScope": "public", **unusable})).ttl_ms == 0


@pytest.mark.parametrize("page", NO_TOOLS)
async def test_what_is_no_tool_is_passed_over(page: dict[str, Any]) -> None:
    assert (await _listing(page)).items == {}
