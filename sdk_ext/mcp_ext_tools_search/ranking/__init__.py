"""Ranking of tools for a query; knows no MCP beyond `Tool`."""

from mcp_ext_tools_search.ranking.fielded import (
    DEFAULT_LEAST_CONFIDENCE,
    FieldedRanker,
    default_ranker,
    never_silent,
)
from mcp_ext_tools_search.ranking.floor import Floor, floored, with_floor
from mcp_ext_tools_search.ranking.interface import FloorKeeper, Hit, Ranker, SlowRanker, ToolIndex, UpdatableIndex
from mcp_ext_tools_search.ranking.plain import PlainRanker

__all__ = [
    "DEFAULT_LEAST_CONFIDENCE",
    "FieldedRanker",
    "Floor",
    "FloorKeeper",
    "Hit",
    "PlainRanker",
    "Ranker",
    "SlowRanker",
    "ToolIndex",
    "UpdatableIndex",
    "default_ranker",
    "floored",
    "never_silent",
    "with_floor",
]
