"""What is taken from the pages of a caller's listing."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_ext_tools_search.server.listing import Listing

PUBLIC: dict[str, Any] = {"tools": [], "ttlMs": 5_000, "cacheScope": "public"}
NO_TOOLS: list[dict[str, Any]] = [{}, {"tools": None}, {"tools": [None, 7, [], {}, {"name": None}]}]


@pytest.mark.parametrize("unclear", [{}, {"cacheScope": None}, {"cacheScope": "shared"}, {"cacheScope": "private"}])
def test_a_page_that_does_not_say_public_makes_the_answer_private(unclear: dict[str, Any]) -> None:
    listing = Listing()
    listing.add(PUBLIC)
    assert listing.cache_scope == "public"
    listing.add({"tools": [], "ttlMs": 5_000, **unclear})
    listing.add(PUBLIC)
    assert listing.cache_scope == "private"


@pytest.mark.parametrize("unusable", [{}, {"ttlMs": None}, {"ttlMs": True}, {"ttlMs": -1}, {"ttlMs": "60"}])
def test_a_page_that_gives_no_usable_time_may_not_be_cached(unusable: dict[str, Any]) -> None:
    listing = Listing()
    listing.add(PUBLIC)
    assert listing.ttl_ms == 5_000
    listing.add({"tools": [], "cacheScope": "public", **unusable})
    assert listing.ttl_ms == 0


@pytest.mark.parametrize("page", NO_TOOLS)
def test_what_is_no_tool_is_passed_over(page: dict[str, Any]) -> None:
    listing = Listing()
    listing.add(page)
    assert listing.items == {}
