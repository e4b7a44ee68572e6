"""A server of hostile resources, over stdio or HTTP: `hostile_server.py FOLDER COUNT [http]`.

It lists COUNT resources. The first is a document, the second a file of two gigabytes in FOLDER, and the third never
ends. The process may grow to one gigabyte, which includes what it starts with. Over HTTP it prints its URL.
"""

from __future__ import annotations

import resource
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_ext_search_primitives.server import Contents, ResourcesSearch
from mcp_ext_tools_search.server import ToolsSearch
from mcp_types import PaginatedRequestParams

PAGE = 5_000
MAX_BYTES = 1024**3


def make_server(folder: Path, count: int) -> Server[Any]:
    """Return the server, which searches what it lists."""
    large = folder / "large.txt"
    with large.open("wb") as file:
        file.truncate(2 * 1024**3)
    first = ["docs://terms", large.as_uri(), "docs://endless"]

    async def list_resources(_ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        start = int(params.cursor or 0)
        places = range(start, min(start + PAGE, count))
        uris = [first[place] if place < len(first) else f"docs://{place}" for place in places]
        page = {"resources": [{"uri": uri, "name": uri} for uri in uris], "resultType": "complete"}
        page |= {"ttlMs": 0, "cacheScope": "public"}
        return page | ({"nextCursor": str(start + PAGE)} if start + PAGE < count else {})

    async def list_tools(_ctx: ServerRequestContext[Any, Any], _params: PaginatedRequestParams) -> dict[str, Any]:
        return {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}

    async def read(uri: str) -> str | None:
        if uri == "docs://terms":
            return "We pay for a parcel that is lost."
        if uri == "docs://endless":
            await anyio.sleep_forever()
        parts = urlsplit(uri)
        return await anyio.Path(url2pathname(parts.path)).read_text() if parts.scheme == "file" else None

    server = Server[Any]("hostile")
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    contents = Contents(read=read, seconds=1, max_resources=10)
    ToolsSearch(resources=ResourcesSearch(contents=contents)).install(server)
    return server


async def main(folder: str, count: str, transport: str = "stdio") -> None:
    """Serve until the client leaves, or the process is ended."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    server = make_server(Path(folder), int(count))
    if transport == "stdio":
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        app = server.streamable_http_app()
        await uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="on")).serve([listener])


if __name__ == "__main__":
    anyio.run(partial(main, *sys.argv[1:]))
