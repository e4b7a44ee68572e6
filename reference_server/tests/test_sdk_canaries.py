"""Pinned: what `upstream_session` uses of the SDK's private parts. A release that changes it fails here first."""

from __future__ import annotations

import inspect
from typing import Any

from mcp.client.session import ClientSession
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared.dispatcher import CallOptions, Dispatcher


def test_the_session_still_stamps_requests_and_holds_a_dispatcher() -> None:
    source = inspect.getsource(ClientSession.send_request)
    assert "self._stamp(data, opts)" in source
    assert 'self._dispatcher.send_raw_request(method, data.get("params"), opts)' in source
    assert {"timeout", "on_progress"} <= CallOptions.__annotations__.keys()
    send: Any = getattr(Dispatcher, "send_raw_request")  # noqa: B009 - untyped on purpose: it is generic
    assert list(inspect.signature(send).parameters) == ["self", "method", "params", "opts"]


def test_the_transport_still_names_a_session_that_is_gone() -> None:
    source = inspect.getsource(StreamableHTTPTransport)
    assert 'ErrorData(code=INVALID_REQUEST, message="Session terminated")' in source


def test_the_session_still_absorbs_listings() -> None:
    parameters = inspect.signature(ClientSession._absorb_tool_listing).parameters  # pyright: ignore[reportPrivateUsage] - the canary
    assert list(parameters) == ["self", "result", "complete"]
