"""Ranking of tools for a query; knows no MCP beyond `Tool`."""

from mcp_ext_tools_search.ranking.interface import Hit, Ranker, ToolIndex

__all__ = ["Hit", "Ranker", "ToolIndex"]
