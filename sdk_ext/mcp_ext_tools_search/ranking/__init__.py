"""Ranking of tools for a query. Uses nothing from MCP except `Tool`."""

from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex, distinct_hits, first_names
from mcp_ext_tools_search.ranking.simple import SimpleRanker

__all__ = ["Hit", "Ranker", "SimpleRanker", "ToolIndex", "distinct_hits", "first_names", "floored"]
