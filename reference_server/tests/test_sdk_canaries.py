"""Pinned: what `upstream_session` uses of the SDK's private parts. A release that changes it fails here first."""

from __future__ import annotations

import inspect

from mcp.client.session import ClientSession
from mcp.client.streamable_http import StreamableHTTPTransport


def test_the_transport_still_names_a_session_that_is_gone() -> None:
    source = inspect.getsource(StreamableHTTPTransport)
    assert 'ErrorData(code=INVALID_REQUEST, message="Session terminated")' in source


def test_the_session_still_absorbs_listings() -> None:
    parameters = inspect.signature(ClientSession._absorb_tool_listing).parameters  # pyright: ignore[reportPrivateUsage] - the canary
    assert list(parameters) == ["self", "result", "complete"]
