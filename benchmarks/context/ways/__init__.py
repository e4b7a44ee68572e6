"""The ways of offering tools that are compared: everything listed, this project's modes, and peers with their own code.

Peers are loaded when they are asked for, as none of them is needed for anything else (`pip install '.[benchmark]'`).
"""

from collections.abc import Mapping
from typing import Final

from benchmarks.context.ways.casual import casual_mcp
from benchmarks.context.ways.conversation import automatic, delegated, model_driven
from benchmarks.context.ways.fastmcp import fastmcp_bm25, fastmcp_regex
from benchmarks.context.ways.interface import Replay, Way
from benchmarks.context.ways.listed import everything_listed
from benchmarks.context.ways.pydantic_ai import pydantic_ai

__all__ = ["LISTED", "OURS", "PACKAGES", "WAYS", "Replay", "Way"]

LISTED: Final = "everything listed"
OURS: Final = "ours, model-driven"

WAYS: Final[Mapping[str, Way]] = {
    LISTED: everything_listed,
    OURS: model_driven,
    "ours, delegated": delegated,
    "ours, automatic": automatic,
    "Pydantic AI": pydantic_ai,
    "casual-mcp": casual_mcp,
    "FastMCP, BM25": fastmcp_bm25,
    "FastMCP, regex": fastmcp_regex,
}

PACKAGES: Final[Mapping[str, str]] = {
    "Pydantic AI": "pydantic_ai",
    "casual-mcp": "casual_mcp",
    "FastMCP, BM25": "fastmcp",
    "FastMCP, regex": "fastmcp",
}
"""What has to be importable for some of them."""
