"""Searches a server that speaks tools/search with the Python SDK v1, calls the best hit, and prints one JSON object.

Usage: python search.py '{"url": "…"} or {"command": "…", "args": […]}' legacy QUERY
"""

import json
import sys
from contextlib import AsyncExitStack
from typing import Any, Literal

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

EXTENSION_ID = "io.github.tools-search/tools-search"


class SearchParams(types.RequestParams):
    query: str
    limit: int | None = None
    cursor: str | None = None


class SearchRequest(types.Request[SearchParams, Literal["tools/search"]]):
    method: Literal["tools/search"] = "tools/search"
    params: SearchParams


class SearchResult(types.Result):
    tools: list[types.Tool]
    nextCursor: str | None = None


async def handshake(session: ClientSession) -> dict[str, Any]:
    """Initialize by hand: `ClientSession.initialize` of v1 cannot declare an extension."""
    capabilities = types.ClientCapabilities.model_validate({"extensions": {EXTENSION_ID: {}}})
    params = types.InitializeRequestParams(
        protocolVersion=types.LATEST_PROTOCOL_VERSION,
        capabilities=capabilities,
        clientInfo=types.Implementation(name="interop-python-v1", version="1.0.0"),
    )
    request = types.ClientRequest(types.InitializeRequest(params=params))
    result = await session.send_request(request, types.InitializeResult)
    await session.send_notification(types.ClientNotification(types.InitializedNotification()))
    return result.capabilities.model_dump(mode="json")


async def search(session: ClientSession, **params: Any) -> SearchResult:
    return await session.send_request(SearchRequest(params=SearchParams(**params)), SearchResult)


async def main(target: dict[str, Any], query: str) -> None:
    async with AsyncExitStack() as stack:
        if url := target.get("url"):
            read, write, _ = await stack.enter_async_context(streamablehttp_client(url))
        else:
            read, write = await stack.enter_async_context(stdio_client(StdioServerParameters(**target)))
        session = await stack.enter_async_context(ClientSession(read, write))
        capabilities = await handshake(session)
        names: list[str] = []
        page = await search(session, query=query, limit=2)
        names += [tool.name for tool in page.tools]
        while page.nextCursor is not None and len(names) < 20:
            page = await search(session, query=query, limit=2, cursor=page.nextCursor)
            names += [tool.name for tool in page.tools]
        refusal = None
        try:
            await search(session, query=query, limit=0)
        except McpError as error:
            refusal = error.error.code
        call = await session.call_tool(names[0], {})
        report = {
            "era": "legacy",
            "advertised": (capabilities.get("extensions") or {}).get(EXTENSION_ID),
            "advertisedExperimental": (capabilities.get("experimental") or {}).get(EXTENSION_ID),
            "names": names,
            "refusal": refusal,
            "called": len(call.content) > 0,
        }
        print(json.dumps(report))


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[3])
