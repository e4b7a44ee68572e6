"""The client side: negotiate, search, call what was found."""

from mcp_ext_tools_search.client._sdk import MODERN_ONLY, Target, absorb, raw_request
from mcp_ext_tools_search.client.errors import (
    InvalidSearchRequestError,
    InvalidSearchResultError,
    ToolsSearchError,
    ToolsSearchNotAdvertisedError,
    retry_after,
)
from mcp_ext_tools_search.client.listing import ListedPage, list_page
from mcp_ext_tools_search.client.search import (
    TOOLS_SEARCH,
    hit_metadata,
    is_for_model,
    iter_pages,
    read_pages,
    search_tools,
    server_settings,
)

__all__ = [
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
