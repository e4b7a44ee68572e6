"""A host whose user signs in, with a browser, to a server that requires OAuth. The tokens outlive the program.

Run: `python examples/host_with_oauth.py https://host/mcp "what I need"`.
"""

from __future__ import annotations

import sys

import anyio
import tools_search_client as client
from mcp_types import Implementation


async def main(url: str, query: str) -> None:
    """Print the tools that fit, after a sign-in if needed."""
    oauth = client.OAuth(client_name="example host")
    connection = client.ConnectionOptions(client_info=Implementation(name="example-host", version="1"), auth=oauth)
    options = client.FederationOptions(connection=connection)
    async with client.open_federation(client.url_server(url), options) as servers:
        answer = await servers.search(query)
        if any(failure.kind == "unauthorized" for failure in answer.failed.values()):
            async with client.loopback_redirect() as redirect:  # opens the browser; a web host has its own `Redirect`
                await oauth.sign_in(url, redirect)
            answer = await servers.search(query)
    for tool in answer.tools:
        print(tool.name)  # noqa: T201 - what the example is for
    for failure in answer.failed.values():
        print(failure, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    anyio.run(main, sys.argv[1], sys.argv[2])
