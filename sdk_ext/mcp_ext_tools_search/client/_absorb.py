"""The one place that tells a session of tools that it has not listed.

A session that meets a tool for the first time in `call_tool` sends a `tools/list` of its own to learn the output schema
and the `Mcp-Param-*` headers, which costs what the search has saved. The SDK has no public way to tell it. The canary
is `sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mcp import ClientSession
from mcp_types import ListToolsResult, Tool

__all__ = ["absorb"]

logger = logging.getLogger(__name__)


def absorb(session: ClientSession, tools: Sequence[Tool]) -> list[Tool]:
    """Make `tools` callable without being listed, and return those that may be called.

    On modern connections a tool with an invalid `x-mcp-header` is left out, as it is from `tools/list`. Where the SDK
    has no such method any more, searching goes on without it.
    """
    absorb_listing: Callable[..., ListToolsResult] | None = getattr(session, "_absorb_tool_listing", None)
    if absorb_listing is None:
        logger.warning("this SDK cannot be told of tools that were not listed: calls will list them first")
        return list(tools)
    return absorb_listing(ListToolsResult(tools=list(tools)), complete=False).tools
