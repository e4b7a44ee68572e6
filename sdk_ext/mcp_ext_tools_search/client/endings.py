"""Telling the SDK's own errors from answers of a server that carry the same code.

-32000 and -32001 are how the SDK says that a connection ended and that time ran out. Servers answer with both codes for
errors of their own, and are none the worse for it: nothing but the text tells the two apart. The canary is
`sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

import re
from typing import Final

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT

__all__ = ["connection_ended", "malformed", "timed_out"]

_ENDED: Final = re.compile(r"Connection closed\Z|SSE stream (?:failed|ended)\b")
_MALFORMED: Final = re.compile(r"its answer is malformed: ")
_TIMED_OUT: Final = re.compile(r"Request '[^']*' timed out\Z|Timed out after ")


def connection_ended(error: MCPError) -> bool:
    """Tell whether the connection ended before the server answered."""
    return error.code == CONNECTION_CLOSED and _ENDED.match(error.message) is not None


def timed_out(error: MCPError) -> bool:
    """Tell whether this side gave up waiting for the server."""
    return error.code == REQUEST_TIMEOUT and _TIMED_OUT.match(error.message) is not None


def malformed(error: MCPError) -> bool:
    """Tell whether the server answered with what cannot be read; the message says what is wrong with it."""
    return error.code == INTERNAL_ERROR and _MALFORMED.match(error.message) is not None
