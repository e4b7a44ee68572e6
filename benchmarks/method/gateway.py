"""A gateway over the servers of a data set, and a host's connection to it that counts what goes over the wire."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from mcp_types import Tool
from tools_search_hosts import qualified_name

from benchmarks.context.catalog import Catalog, ToolKey
from benchmarks.endtoend.raw import RawHTTP
from benchmarks.overhead.ways import accepting, free_port, running

__all__ = ["Gateway", "Traffic", "Wire", "serving"]

_START_SECONDS: Final = 100


@dataclass
class Traffic:
    """What one task took on the wire."""

    requests: int = 0
    bytes: int = 0
    """Of JSON, in both directions."""

    seconds: float = 0.0


class Wire:
    """A connection to one endpoint, with the traffic since `traffic` was last set."""

    def __init__(self, raw: RawHTTP) -> None:
        self._raw = raw
        self.traffic = Traffic()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            RuntimeError: The gateway refused.
        """
        sent, began = self._raw.sent_bytes, perf_counter()
        result, received = self._raw.ask(method, params)
        self.traffic.seconds += perf_counter() - began
        self.traffic.bytes += self._raw.sent_bytes - sent + received
        self.traffic.requests += 1
        return result

    def listed(self) -> list[dict[str, Any]]:
        """Return the tools of all pages of the list."""
        page = self.ask("tools/list", {})
        tools: list[dict[str, Any]] = page["tools"]
        while (cursor := page.get("nextCursor")) is not None:
            page = self.ask("tools/list", {"cursor": cursor})
            tools += page["tools"]
        return tools


@dataclass(frozen=True)
class Gateway:
    """Its two endpoints."""

    plain: Wire
    meta_tools: Wire
    keys: Mapping[str, ToolKey]
    """Tools by the names that it gives them."""


@asynccontextmanager
async def serving(catalog: Catalog) -> AsyncGenerator[Gateway]:
    """Start a gateway over the servers of a catalog, which are in another process.

    Raises:
        RuntimeError: It does not list every tool.
    """
    with TemporaryDirectory() as folder, ExitStack() as stack:
        behind, port = free_port(), free_port()
        tools, config = Path(folder) / "tools.json", Path(folder) / "mcp.json"
        tools.write_text(json.dumps({name: [*map(_as_json, own)] for name, own in catalog.servers.items()}), "utf-8")
        entries = {name: {"type": "http", "url": f"http://127.0.0.1:{behind}/{name}"} for name in catalog.servers}
        config.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        argv = [sys.executable, "-m", "benchmarks.method.servers", str(tools), str(behind)]
        stack.enter_context(running(argv, behind))
        await accepting(behind)
        options = ["--http", f"127.0.0.1:{port}", "--compat", "meta-tools", "--start-deadline", str(_START_SECONDS)]
        argv = [sys.executable, "-m", "tools_search_server", "--config", str(config), *options]
        stack.enter_context(running(argv, port))
        await accepting(port)
        plain, meta_tools = (
            Wire(stack.enter_context(closing(RawHTTP(port, path)))) for path in ("/mcp", "/mcp/meta-tools")
        )
        keys = {qualified_name(server, name): (server, name) for server, name in catalog.tools}
        if {tool["name"] for tool in plain.listed()} != set(keys):  # the first request waits for the servers
            raise RuntimeError("the gateway does not list the tools of the data set")
        yield Gateway(plain, meta_tools, keys)


def _as_json(tool: Tool) -> dict[str, Any]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)
