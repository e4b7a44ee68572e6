"""A host that opens, keeps and closes its own connections, and searches all of them at once.

Run: `python examples/host_with_connections.py "what I need" "python -m mcp_server_time" "mcp-server-git"`.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import AsyncExitStack
from functools import partial

import anyio
import tools_search_client as client
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import ElicitRequestParams, ElicitResult


async def decline(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Answer a server's question to the user. A real host shows it with the name of the server."""
    return ElicitResult(action="decline")


async def main(query: str, *commands: str) -> None:
    """Print the answer to a model's search, and the names of the tools that it could then call."""
    connections: dict[str, Client] = {}  # of the moment: a host may close one and put another into its place
    async with AsyncExitStack() as stack:
        for number, command in enumerate(commands, 1):
            program, *arguments = shlex.split(command)
            server = StdioServerParameters(command=program, args=arguments)
            connections[f"server{number}"] = await stack.enter_async_context(
                Client(server, extensions=[TOOLS_SEARCH], elicitation_callback=decline)
            )
        servers = tuple(client.ConnectedServer(name, connection=partial(connections.get, name)) for name in connections)
        configuration = client.Configuration(servers, client.ToolDiscovery(enabled=True, defer_all=True))
        async with client.open_federation(configuration) as federation:
            conversation = client.Conversation(federation)
            await conversation.begin_turn(query)
            step = await conversation.take(client.ToolCall("search_tools", {"query": query}))
            if isinstance(step, client.Reply):
                print(step.text, *step.loaded, sep="\n")  # noqa: T201 - what the example is for


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    anyio.run(main, sys.argv[1], *sys.argv[2:])
