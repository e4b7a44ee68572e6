"""The `tools/search` extension for the Python MCP SDK: experimental and unofficial.

This package has what both sides share. Servers use `mcp_ext_tools_search.server`, clients use
`mcp_ext_tools_search.client`, and rankers use `mcp_ext_tools_search.ranking`. None loads what only the others need.
"""

from mcp_ext_tools_search.types import (
    EXTENSION_ID,
    METHOD,
    BusyData,
    ClientSettings,
    HitMetadata,
    SearchToolsRequest,
    SearchToolsRequestParams,
    SearchToolsResult,
    ServerSettings,
)

__all__ = [
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
