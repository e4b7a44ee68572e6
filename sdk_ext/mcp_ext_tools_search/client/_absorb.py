"""The one place that tells a session of tools that it has not listed.

A session that meets a tool for the first time in `call_tool` sends a `tools/list` of its own to learn the output schema
and the `Mcp-Param-*` headers, which costs what the search has saved. The SDK has no public way to tell it (its issue
3483). The canary is `sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp import ClientSession
from mcp_types import ListToolsResult, Tool

__all__ = ["absorb"]


def absorb(session: ClientSession, tools: Sequence[Tool]) -> list[Tool]:
    """Make `tools` callable without being listed, and return those that may be called.

    On modern connections a tool with an invalid `x-mcp-header` is left out, as it is from `tools/list`.
    """
    listing = ListToolsResult(tools=list(tools))
    return session._absorb_tool_listing(listing, complete=False).tools  # pyright: ignore[reportPrivateUsage] - see above
