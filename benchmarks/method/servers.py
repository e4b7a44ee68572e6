"""A dataset's servers in one process over HTTP: `python -m benchmarks.method.servers FILE PORT`.

The file contains their tools, `{"server": [Tool, ...]}`; each server is at `/server`. They only list tools.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp_types import PaginatedRequestParams
from starlette.applications import Starlette


def _server_of(name: str, tools: list[dict[str, Any]]) -> Server[Any]:
    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> dict[str, Any]:
        return {"tools": tools, "ttlMs": 0, "cacheScope": "public", "resultType": "complete"}

    server = Server[Any](name, version="1")
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    return server


async def main(catalog: dict[str, list[dict[str, Any]]], port: int) -> None:
    """Serve until the process is ended."""
    logging.disable()
    app = Starlette()
    async with AsyncExitStack() as running:
        for name, tools in catalog.items():
            server = _server_of(name, tools)
            app.routes.extend(server.streamable_http_app(streamable_http_path=f"/{name}").routes)
            await running.enter_async_context(server.session_manager.run())
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", ws="none")).serve()


if __name__ == "__main__":
    anyio.run(main, json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), int(sys.argv[2]))
