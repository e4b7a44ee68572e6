"""The driver of the reference client, as an implementer would write it (see ../DRIVER.md).

    tools-search-conformance client -- python conformance/drivers/reference_client.py

One server is `ServerTools`, which searches or lists, caches answers and follows list changes; several are a federation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

import anyio
from _loop import Driver, Json, Operation, call, dump, tools_of
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_search_primitives.index import PrimitiveIndex
from mcp_types import Tool
from tools_search_client import (
    Configuration,
    ConnectionOptions,
    DiscoveryOptions,
    FederationOptions,
    ToolsSearchClientError,
    open_federation,
    open_server,
)
from tools_search_client.version import VERSION
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget, Target
from tools_search_ranking import default_ranker

ALL: Final = 1000
"""The `limit` of a search for all tools, since the client requires one."""

SECONDS: Final = 3
"""How long one of several servers is waited for."""

NEGOTIATION: Final[dict[str, Literal["auto", "legacy"]]] = {"2025-11-25": "legacy", "2026-07-28": "auto"}


def target_of(given: Json) -> Target:
    if given["transport"] == "http":
        return HttpTarget(given["url"])
    return StdioTarget(given["command"], tuple(given["args"]), given["env"])


OTHERS: Final = {primitive.member: primitive for primitive in (RESOURCES, RESOURCE_TEMPLATES, PROMPTS)}
"""What can be found besides tools, as a request names it."""


@asynccontextmanager
async def connect(request: Json) -> AsyncGenerator[Mapping[str, Operation]]:
    user = ""
    discovery = DiscoveryOptions(authorization=lambda: user, request_timeout=5)
    options = ConnectionOptions(era=NEGOTIATION[request["era"]], discovery=discovery)
    async with open_server(target_of(request["target"]), options) as tools:

        async def search(query: str, limit: int) -> list[Tool]:
            return [each.tool for each in (await tools.search(query, limit=limit)).tools]

        async def find(wanted: Json, limit: int) -> Json:
            if "of" not in wanted:
                return await tools_of(search(wanted["query"], limit))
            primitive = OTHERS[wanted["of"]]
            answer = await tools.discovery(primitive).search_or_list(wanted["query"], limit)
            found = [dump(item) for item in answer.items]
            if answer.mode == "list":
                items = {item[primitive.key]: item for item in found}
                hits = PrimitiveIndex(primitive, items, default_ranker()).search(wanted["query"])
                found = [items[hit.name] for hit in hits[:limit]]
            return {primitive.member: found}

        async def authorize(wanted: Json) -> Json:
            nonlocal user
            user = wanted["as"]
            return {}

        yield {
            "search": lambda wanted: find(wanted, wanted.get("limit", 10)),
            "search_all": lambda wanted: find(wanted, ALL),
            "list_tools": lambda _: tools_of(tools.list()),
            "call": lambda wanted: call(tools.call, wanted),
            "authorize": authorize,
        }


@asynccontextmanager
async def federate(request: Json) -> AsyncGenerator[Mapping[str, Operation]]:
    entries = tuple(ServerEntry(name, target_of(given)) for name, given in request["targets"].items())
    options = FederationOptions(connection=ConnectionOptions(era=NEGOTIATION[request["era"]]))
    async with open_federation(Configuration(entries), options) as federation:

        async def search(request: Json) -> Json:
            found = await federation.search(request["query"], limit=request.get("limit", 10), deadline=SECONDS)
            return {
                "tools": [{"name": each.name, "server": each.server, "tool": each.tool.name} for each in found.tools],
                "failed": [report.server for report in found.servers if report.failure is not None],
            }

        yield {"search": search, "call": lambda wanted: call(federation.call, wanted)}


FEATURES: Final = ["stdio", "http", "authorization", "federation", "concurrent", "cancel", "primitives"]
DRIVER = Driver(
    hello={"sdk": "tools-search-client", "version": VERSION, "features": FEATURES},
    connecting={"connect": connect, "federate": federate},
    errors=(ToolsSearchClientError, ValueError),
)

if __name__ == "__main__":
    anyio.run(DRIVER.run)
