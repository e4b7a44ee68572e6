"""The server side: make an `MCPServer` or a low-level `Server` searchable."""

from mcp_ext_tools_search.server.extension import ToolsSearch, install
from mcp_ext_tools_search.server.listing import sieve_tools
from mcp_ext_tools_search.server.search import Answer, PageSearch, Search

__all__ = ["Answer", "PageSearch", "Search", "ToolsSearch", "install", "sieve_tools"]
