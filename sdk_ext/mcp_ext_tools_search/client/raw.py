"""The one place that takes a result as it came: the SDK has no public way to that.

The public `send_request` checks every result as a whole, so that one bad definition hides a whole page and an unusual
result never reaches the caller; it also declares the same client capabilities for every caller. The canary is
`sdk_ext/tests/test_sdk_canaries.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp import Client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["MODERN_ONLY", "raw_request"]

MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
"""Members of results that count for nothing on a legacy connection."""

_ANSWERABLE: Final = frozenset({"elicitation", "roots", "sampling"})
"""Client capabilities that say what a server may ask back."""


async def raw_request(
    client: Client,
    method: str,
    params: Mapping[str, Any],
    *,
    seconds: float | None,
    on_progress: ProgressFnT | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Send a request as this connection frames it and return the result as it came.

    Args:
        client: A connected client.
        method: What to ask.
        params: The parameters; the modern envelope is added.
        seconds: When to give up and cancel; `None` for never.
        on_progress: Told of each progress notification.
        capabilities: What can be asked back about this request on a modern connection (`elicitation`, `roots`,
            `sampling`), in place of what the client itself declares of that.

    Raises:
        MCPError: The server answered with an error, took too long, or is gone.
    """
    session = client.session
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {}
    if seconds is not None:
        options["timeout"] = seconds
    if on_progress is not None:
        options["on_progress"] = on_progress
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage] - no public raw request, see the module
    if capabilities is not None and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        declared = data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY]
        others = {name: value for name, value in declared.items() if name not in _ANSWERABLE}
        data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = {**others, **capabilities}
    dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage] - no public raw request, see the module
    return await dispatcher.send_raw_request(method, data["params"], options)
