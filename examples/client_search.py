"""A client that finds the tool it needs and calls it. Run: `python examples/client_search.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools

SERVER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("mcpserver_search.py"))])


async def main() -> None:
    """Search, call the best hit, and print its result."""
    async with Client(SERVER, extensions=[TOOLS_SEARCH]) as client:
        found = await search_tools(client, "bill a customer", limit=3)
        best = found.tools[0]
        result = await client.call_tool(best.name, {"customer": "Ada", "amount": 3})
    print(best.name, result.structured_content)  # noqa: T201 - what the example is for


if __name__ == "__main__":
    anyio.run(main)
