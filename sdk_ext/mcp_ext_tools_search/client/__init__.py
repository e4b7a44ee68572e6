"""The client side: negotiate, search, call what was found."""

from mcp_ext_tools_search.client.advertisement import TOOLS_SEARCH, Target, server_settings
from mcp_ext_tools_search.client.errors import (
    InvalidSearchRequest,
    InvalidSearchResult,
    ToolsSearchError,
    ToolsSearchNotAdvertised,
    retry_after,
)
from mcp_ext_tools_search.client.listing import ListedPage, list_page
from mcp_ext_tools_search.client.pages import iter_pages, iter_tools, read_pages
from mcp_ext_tools_search.client.search import hit_metadata, search_tools
from mcp_ext_tools_search.for_models import is_for_model, is_pinned

__all__ = [
    "TOOLS_SEARCH",
    "InvalidSearchRequest",
    "InvalidSearchResult",
    "ListedPage",
    "Target",
    "ToolsSearchError",
    "ToolsSearchNotAdvertised",
    "hit_metadata",
    "is_for_model",
    "is_pinned",
    "iter_pages",
    "iter_tools",
    "list_page",
    "read_pages",
    "retry_after",
    "search_tools",
    "server_settings",
]
