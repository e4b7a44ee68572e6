"""The server side: make an `MCPServer` or a low-level `Server` searchable."""

from mcp_ext_tools_search.server.extension import ToolsSearch, install
from mcp_ext_tools_search.server.listing import sieve_tools
from mcp_ext_tools_search.server.search import Answer, Search

__all__ = ["Answer", "Search", "ToolsSearch", "install", "sieve_tools"]
