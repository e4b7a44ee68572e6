"""Ranking of tools for a query; knows no MCP beyond `Tool`."""

from mcp_ext_tools_search.ranking.interface import (
    FloorKeeper,
    Hit,
    LazyNames,
    Ranker,
    SlowRanker,
    ToolIndex,
    UpdatableIndex,
)
from mcp_ext_tools_search.ranking.plain import PlainRanker

__all__ = [
    "FloorKeeper",
    "Hit",
    "LazyNames",
    "PlainRanker",
    "Ranker",
    "SlowRanker",
    "ToolIndex",
    "UpdatableIndex",
]
