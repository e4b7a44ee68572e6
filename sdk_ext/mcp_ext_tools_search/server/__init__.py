"""The server side: make an `MCPServer` or a low-level `Server` searchable."""

from mcp_ext_tools_search.server.extension import ToolsSearch, install
from mcp_ext_tools_search.server.search import Answer, Search
from mcp_ext_tools_search.server.sieve import sieve_tools

__all__ = ["Answer", "Search", "ToolsSearch", "install", "sieve_tools"]
