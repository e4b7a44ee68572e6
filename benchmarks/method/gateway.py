"""A gateway over a dataset's servers, and a host's connections to its endpoints."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools_search_hosts import qualified_name

from benchmarks.context.catalog import Catalog, ToolKey
from benchmarks.processes import Wire, free_port, serving

_START_SECONDS: Final = 100


@dataclass(frozen=True)
class Gateway:
    """A running gateway and its two endpoints."""

    plain: Wire
    meta_tools: Wire
    keys: Mapping[str, ToolKey]
    """Tools by their names on the gateway."""


@asynccontextmanager
async def gateway_over(catalog: Catalog) -> AsyncGenerator[Gateway]:
    """Start a gateway over a catalog's servers, which run in another process.

    Raises:
        RuntimeError: The gateway does not list every tool.
    """
    with TemporaryDirectory() as folder:
        behind, port = free_port(), free_port()
        tools, config = Path(folder) / "tools.json", Path(folder) / "mcp.json"
        published = {
            name: [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in own]
            for name, own in catalog.servers.items()
        }
        tools.write_text(json.dumps(published), encoding="utf-8")
        entries = {name: {"type": "http", "url": f"http://127.0.0.1:{behind}/{name}"} for name in catalog.servers}
        config.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        servers = [sys.executable, "-m", "benchmarks.method.servers", str(tools), str(behind)]
        options = ["--http", f"127.0.0.1:{port}", "--compat", "meta-tools", "--start-deadline", str(_START_SECONDS)]
        gateway = [sys.executable, "-m", "tools_search_server", "--config", str(config), *options]
        async with serving(servers, behind), serving(gateway, port):
            with closing(Wire(port, "/mcp")) as plain, closing(Wire(port, "/mcp/meta-tools")) as meta_tools:
                keys = {qualified_name(server, name): (server, name) for server, name in catalog.tools}
                if {tool["name"] for tool in plain.listed()} != set(keys):  # the first request waits for the servers
                    raise RuntimeError("the gateway does not list all of the dataset's tools")
                yield Gateway(plain, meta_tools, keys)
