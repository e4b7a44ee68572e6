"""The whole loop against one server, from negotiation to call, with only the SDK and this extension.

    python -m tools_search_client.one_server "commit what is staged" -- tools-search-server --config mcp.json

A host does nothing more than this for each server. The rest of the package handles servers that misbehave, hang or
die, and many servers at once.

To copy it, install `mcp-ext-tools-search`, without an extra. For a server at a URL, pass that to `Client`. If the
server requires authorization, use `async with create_mcp_http_client(auth=…) as http:`, where `auth` is an
`httpx2.Auth`, and pass `streamable_http_client(url, http_client=http)`; both are in `mcp.client.streamable_http`.

Nothing here reconnects. Once a server on stdio has exited, each request fails at once with the `MCPError` "Connection
closed". Over HTTP, a restart between two requests does not matter in the newest protocol; in an older one, each later
request fails with the `MCPError` "Session not found". A request that finds nobody listening is cancelled, and the block
of its `Client` ends with an exception group. Then leave that block and enter the one of a new `Client`, as the rest of
the package does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import which
from typing import Final

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_tools_search.client import (
    TOOLS_SEARCH,
    InvalidSearchResultError,
    is_for_model,
    list_page,
    read_pages,
    server_settings,
)
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.types import SearchToolsResult
from mcp_types import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, Tool
from pydantic import ValidationError
from tools_search_ranking import default_ranker

__all__ = ["find_tools", "list_and_rank", "list_tools"]

_MAX_PAGES: Final = 1_000
"""How many pages to read of a server that always has another one."""

_SECONDS: Final = 30.0
"""How long a request may take. Without a limit, a server that never answers is waited for forever."""


async def find_tools(client: Client, query: str, *, limit: int | None = 5) -> list[Tool]:
    """Return the tools that fit `query`, best first, or all without a limit. You can call each by name at once.

    A server that stays too busy is not listed. Instead, you get an `MCPError` like any other, to report as such
    (`mcp_ext_tools_search.client.retry_after`). Catch it inside `async with Client(…)`, which turns any exception that
    leaves its block into an exception group, and also raises one if it cannot connect.

    Raises:
        MCPError: The server refused, did not answer in time, or is gone (but see above for HTTP).
        ValidationError: It had to be listed, and its list is invalid.
    """
    # Negotiate, never probe: a server that did not advertise the extension is not asked.
    if server_settings(client) is None:
        return await list_and_rank(client, query, limit=limit)

    def is_enough(pages: Sequence[SearchToolsResult]) -> bool:
        return len(pages) >= _MAX_PAGES or (limit is not None and len(for_model(pages)) >= limit)

    try:
        # Waits for a server that is busy, and starts over once when a cursor is refused.
        return for_model(await read_pages(client, query, limit=limit, enough=is_enough))[:limit]
    except InvalidSearchResultError:
        return await list_and_rank(client, query, limit=limit)
    except MCPError as error:
        if error.code not in (METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY):
            raise
        return await list_and_rank(client, query, limit=limit)


def for_model(pages: Sequence[SearchToolsResult]) -> list[Tool]:
    """Return each tool of the pages once, except those that MCP Apps reserves for a user interface."""
    tools = {tool.name: tool for page in pages for tool in page.tools}
    return [tool for tool in tools.values() if is_for_model(tool)]


async def list_and_rank(client: Client, query: str, *, limit: int | None = 5) -> list[Tool]:
    """Fall back to `tools/list`, with the ranking that the reference server uses."""
    tools = {tool.name: tool for tool in await list_tools(client) if is_for_model(tool)}
    index = default_ranker()(list(tools.values()))
    return [tools[hit.name] for hit in index.search(query)[:limit]]


async def list_tools(client: Client) -> list[Tool]:
    """Return the tools of all pages, without those whose definition the protocol forbids."""
    tools: dict[str, Tool] = {}

    async def read_page(cursor: str | None) -> str | None:
        page = (await list_page(client, cursor)).result
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        return page.next_cursor

    await follow_cursors(read_page, _MAX_PAGES)  # a server that repeats itself has no more to say
    return list(tools.values())


_USAGE = """\
usage: python -m tools_search_client.one_server QUERY -- COMMAND [ARGUMENT…]

QUERY is what is needed, in plain language; COMMAND starts an MCP server on stdio. For example:
  python -m tools_search_client.one_server "pay an invoice" -- tools-search-server
"""


async def _main(query: str, command: list[str]) -> str | None:
    """Print the tools that fit, and return the server's refusal, if any."""
    server = StdioServerParameters(command=command[0], args=command[1:])
    # Declaring the extension is what allows the client to use it; the era is negotiated by the SDK.
    async with Client(server, extensions=[TOOLS_SEARCH], read_timeout_seconds=_SECONDS) as client:
        mode = "tools/search" if server_settings(client) else "tools/list, ranked here"
        print(f"protocol {client.protocol_version}, by {mode}")  # noqa: T201
        try:
            tools = await find_tools(client, query)
        except MCPError as error:  # in here: outside, it would be in an exception group
            return f"the server failed: {error.message!a} ({error.code})"
        except ValidationError:
            return "the server failed: its list of tools is invalid"
        for tool in tools:
            # What a host does here: register `tool` with its model as it is, and when the model calls it,
            #     await client.call_tool(tool.name, arguments)
            # Nothing has to be listed for that: the definition from the search is enough.
            print(ascii(tool.name), ascii(tool.description or ""))  # noqa: T201
    return None


if __name__ == "__main__":
    match sys.argv[1:]:
        case [query, "--", program, *arguments] if which(program):
            sys.exit(anyio.run(_main, query, [program, *arguments]))
        case [_, "--", program, *_]:
            sys.stderr.write(f"there is no program {program!r} on this machine\n")
            sys.exit(2)
        case _:
            sys.stderr.write(_USAGE)
            sys.exit(2)
