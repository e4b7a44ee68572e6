"""The server side: make an `MCPServer` or a low-level `Server` searchable."""

from tools_search_ranking.catalog import CatalogSnapshot

from mcp_ext_tools_search.server.answer import Answer
from mcp_ext_tools_search.server.extension import ToolsSearch, install
from mcp_ext_tools_search.server.listing import Listing
from mcp_ext_tools_search.server.sieve import sieve_tools

__all__ = ["Answer", "CatalogSnapshot", "Listing", "ToolsSearch", "install", "sieve_tools"]
