"""A server of all four kinds of items, and connections to it in both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_ext_tools_search.types import TOOLS, Primitive
from mcp_types import PaginatedRequestParams

Definitions: TypeAlias = Sequence[dict[str, Any]]
Offering: TypeAlias = Callable[..., Server[Any]]
Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]

RETURNS: dict[str, Any] = {
    "uri": "docs://handbook/returns.md",
    "name": "returns.md",
    "title": "Returns and losses",
    "description": "What customers may send back.",
    "mimeType": "text/markdown",
}
SHIPPING: dict[str, Any] = {"uri": "docs://handbook/shipping.md", "name": "shipping.md", "mimeType": "text/markdown"}
README: dict[str, Any] = {"uri": "docs://code/README.md", "name": "README.md"}
OTHER_README: dict[str, Any] = {"uri": "docs://tests/README.md", "name": "README.md", "title": "Tests"}
TICKET: dict[str, Any] = {"uriTemplate": "docs://tickets/{number}", "name": "ticket", "description": "The help desk."}
ISSUE: dict[str, Any] = {"uriTemplate": "git://{repository}/issues/{issue}", "name": "issue"}
COMPLAINT: dict[str, Any] = {
    "name": "answer_complaint",
    "description": "Drafts a reply to an unhappy customer.",
    "arguments": [{"name": "letter", "description": "What was written", "required": True}, {"name": "tone"}],
}
SUMMARY: dict[str, Any] = {"name": "summarize", "arguments": [{"name": "meeting"}]}
TOOL: dict[str, Any] = {"name": "send_invoice", "inputSchema": {"type": "object"}}


@pytest.fixture(scope="session")
def offering() -> Offering:
    """A low-level server that lists what it is given, in pages."""

    def made(
        *,
        resources: Definitions | None = (RETURNS, SHIPPING, README, OTHER_README),
        templates: Definitions | None = (TICKET, ISSUE),
        prompts: Definitions | None = (COMPLAINT, SUMMARY),
        page_size: int = 2,
        **caching: Any,
    ) -> Server[Any]:
        server = Server[Any]("offers")
        listed = {RESOURCES: resources, RESOURCE_TEMPLATES: templates, PROMPTS: prompts, TOOLS: [TOOL]}
        for primitive, items in listed.items():
            if items is not None:
                _list(server, primitive, items, page_size, {"ttlMs": 5, "cacheScope": "public"} | caching)
        return server

    return made


def _list(
    server: Server[Any], primitive: Primitive[Any], items: Definitions, size: int, caching: dict[str, Any]
) -> None:
    async def list_page(_ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
        start = int(params.cursor or 0)
        page: dict[str, Any] = {primitive.member: items[start : start + size], "resultType": "complete", **caching}
        return page | ({"nextCursor": str(start + size)} if start + size < len(items) else {})

    server.add_request_handler(primitive.list_method, PaginatedRequestParams, list_page)


@pytest.fixture(params=["auto", "legacy"], ids=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """The SDK's name for how a client connects."""
    return request.param


@pytest.fixture
def connect(era: str) -> Connect:
    """A client of the era under test, that declares the extension."""

    @asynccontextmanager
    async def connected(target: Any, *, declares: bool = True) -> AsyncGenerator[Client]:
        with anyio.fail_after(30):
            async with Client(target, mode=era, extensions=[TOOLS_SEARCH] if declares else []) as client:
                yield client

    return connected
