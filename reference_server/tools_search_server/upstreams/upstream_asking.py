"""One request on a connection to a server, and what its failure says of the connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import Client, MCPError
from mcp_ext_tools_search.client.endings import Ending, connection_ended
from mcp_ext_tools_search.client.raw import raw_request

from tools_search_server.upstreams.upstream_session import is_session_gone
from tools_search_server.upstreams.upstream_state import Forgotten, Unavailable

__all__ = ["ask"]


async def ask(
    client: Client, ended: Ending, server: str, method: str, params: Mapping[str, Any], *, is_http: bool, **options: Any
) -> dict[str, Any]:
    """Ask a server and return its result as it came.

    Args:
        client: The connection.
        ended: Knows why it ended.
        server: The server's name.
        method: What to ask.
        params: The parameters.
        is_http: Whether it is reached over HTTP.
        options: Those of `raw_request`.

    Raises:
        MCPError: It answered with an error, or took too long.
        Unavailable: The connection was lost before it answered, and is of no more use.
    """
    try:
        return await raw_request(client, method, params, **options)
    except MCPError as error:
        # A program has no session to forget: when it is started again, the connection ends as well.
        if is_http and is_session_gone(client, error):
            raise Forgotten(f"The MCP server {server!r} has restarted and is not back yet.") from error
        if not connection_ended(error):
            raise
        why = f": {ended.reason}" if ended.reason else ""
        text = f"The MCP server {server!r} went away during this request{why}. It may or may not have taken effect."
        raise Unavailable(text) from error
