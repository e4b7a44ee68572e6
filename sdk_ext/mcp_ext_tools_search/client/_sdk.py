"""All private parts of the SDK that the client side uses (`spec/decisions/0005`).

* The method that takes in a tool listing (`ClientSession._absorb_tool_listing`). If `call_tool` gets a tool that the
  session does not know, the session sends `tools/list` to learn the output schema and the `Mcp-Param-*` headers, which
  costs what the search saved.
* The stamp and the dispatcher of a session (`_stamp`, `_dispatcher`), for raw results: the public `send_request`
  validates every result as a whole, so that one bad definition hides a whole page, and it declares the same client
  capabilities for every caller.

A canary test for each fails when the SDK changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mcp import Client, ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp_types import CLIENT_CAPABILITIES_META_KEY, ListToolsResult, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_ext_tools_search.types import require_kind

logger = logging.getLogger(__name__)

MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
"""Members of results that have no meaning on a legacy connection."""

_ANSWERABLE: Final = frozenset({"elicitation", "roots", "sampling"})  # capabilities of a client that may be asked back


Target: TypeAlias = Client | ClientSession
"""A connected client, or its session."""


def session_of(target: Target) -> ClientSession:
    """Return the session of a connected client."""
    session = target.session if isinstance(target, Client) else target
    require_kind("the client", session, ClientSession, instead="a connected `Client` or its session")
    return session


def absorb(target: Target, tools: Sequence[Tool], *, complete: bool = False) -> list[Tool]:
    """Make `tools` callable without a listing, and return those that may be called.

    If they are the server's `complete` list, the session forgets all others. On modern connections, a tool with an
    invalid `x-mcp-header` is left out, as it is from `tools/list`. If the SDK no longer has this method, search still
    works without it.
    """
    absorb_listing: Callable[..., ListToolsResult] | None = getattr(session_of(target), "_absorb_tool_listing", None)
    if absorb_listing is None:
        logger.warning("this SDK takes no tools that were not listed: calls will list them first")
        return list(tools)
    return absorb_listing(ListToolsResult(tools=list(tools)), complete=complete).tools


async def raw_request(
    client: Target,
    method: str,
    params: Mapping[str, Any],
    *,
    seconds: float | None,
    on_progress: ProgressFnT | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Send a request in this connection's format and return the raw result.

    On a modern connection, the envelope is added to `params`, and `capabilities` replace what the client declares that
    the server may ask for (`elicitation`, `roots`, `sampling`). After `seconds`, the request times out and is
    cancelled; `None` is the session's own read timeout, as in the SDK.

    Raises:
        MCPError: The server returned an error, took too long, or is gone.
    """
    session = session_of(client)
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    timeout = session._session_read_timeout_seconds if seconds is None else seconds  # pyright: ignore[reportPrivateUsage]
    options: CallOptions = {} if timeout is None else {"timeout": timeout}
    if on_progress is not None:
        options["on_progress"] = on_progress
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage] - there is no public raw request
    if capabilities is not None and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        declared = data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY]
        others = {name: value for name, value in declared.items() if name not in _ANSWERABLE}
        data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = {**others, **capabilities}
    dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage] - there is no public raw request
    return await dispatcher.send_raw_request(method, data["params"], options)
