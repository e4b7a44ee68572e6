"""The `tools/search` extension for the Python MCP SDK: experimental and unofficial.

What both sides share stands here. A server takes `mcp_ext_tools_search.server`, a client `mcp_ext_tools_search.client`,
and a ranking `mcp_ext_tools_search.ranking`; none of them loads what only the others need.
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
