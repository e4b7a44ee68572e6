"""The whole loop against one server, from negotiation to call, on one page and with nothing but the SDK.

    python -m tools_search_client.one_server "commit what is staged" -- tools-search-server --config mcp.json

A host does no more than this for each server. The rest of the package is what makes it fit for servers that lie, hang
and die, and for many of them at once.
"""

from __future__ import annotations

import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_tools_search.client import TOOLS_SEARCH, InvalidSearchResult, search_tools, server_settings
from mcp_ext_tools_search.ranking import FieldedRanker, floored
from mcp_types import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, Tool

__all__ = ["find_tools", "list_and_rank"]


async def find_tools(client: Client, query: str, *, limit: int = 5) -> list[Tool]:
    """Return the tools that fit `query`, best first; each can be called by its name at once."""
    # Negotiate, never probe: a server that did not advertise the extension is not asked.
    if server_settings(client) is None:
        return await list_and_rank(client, query, limit=limit)
    try:
        return (await search_tools(client, query, limit=limit)).tools
    except InvalidSearchResult:
        return await list_and_rank(client, query, limit=limit)
    except MCPError as error:
        if error.code not in (METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY):
            raise
        return await list_and_rank(client, query, limit=limit)


async def list_and_rank(client: Client, query: str, *, limit: int = 5) -> list[Tool]:
    """Fall back to `tools/list`, all pages, and to the ranking that the reference server uses."""
    tools: dict[str, Tool] = {}
    page = await client.list_tools()
    cursors: set[str] = set()
    while True:
        tools |= {tool.name: tool for tool in page.tools}
        if page.next_cursor is None or page.next_cursor in cursors:
            break
        cursors.add(page.next_cursor)
        page = await client.list_tools(cursor=page.next_cursor)
    index = floored(FieldedRanker())(list(tools.values()))
    return [tools[hit.name] for hit in index.search(query)[:limit]]


async def _main(query: str, command: list[str]) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:])
    # Declaring the extension is what allows the client to use it; the era is negotiated by the SDK.
    async with Client(server, extensions=[TOOLS_SEARCH]) as client:
        mode = "tools/search" if server_settings(client) else "tools/list, ranked here"
        print(f"protocol {client.protocol_version}, by {mode}")  # noqa: T201
        for tool in await find_tools(client, query):
            # What a host does here: register `tool` with its model as it is, and when the model calls it,
            #     await client.call_tool(tool.name, arguments)
            # Nothing has to be listed for that: the definition from the search is enough.
            print(ascii(tool.name), ascii(tool.description or ""))  # noqa: T201


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1], sys.argv[sys.argv.index("--") + 1 :])
