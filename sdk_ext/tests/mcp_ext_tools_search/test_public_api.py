"""What this package promises to keep."""

from __future__ import annotations

import mcp_ext_tools_search
from mcp_ext_tools_search import client, server


def test_the_public_names_are_these() -> None:
    assert mcp_ext_tools_search.__all__ == [
        "EXTENSION_ID",
        "METHOD",
        "BusyData",
        "ClientSettings",
        "HitMetadata",
        "SearchToolsRequest",
        "SearchToolsRequestParams",
        "SearchToolsResult",
        "ServerSettings",
    ]
    assert server.__all__ == ["Answer", "PageSearch", "Search", "ToolsSearch", "install", "sieve_tools"]
    assert client.__all__ == [
        "MODERN_ONLY",
        "TOOLS_SEARCH",
        "InvalidSearchRequestError",
        "InvalidSearchResultError",
        "ListedPage",
        "Target",
        "ToolsSearchError",
        "ToolsSearchNotAdvertisedError",
        "absorb",
        "hit_metadata",
        "is_for_model",
        "iter_pages",
        "list_page",
        "raw_request",
        "read_pages",
        "retry_after",
        "search_tools",
        "server_settings",
    ]


def test_every_public_name_is_there() -> None:
    for package in (mcp_ext_tools_search, client, server):
        for name in package.__all__:
            assert getattr(package, name) is not None
