"""The caller's own `tools/list`, or list of other items: the set that a search may return (draft: Response).

Everything that a search returns comes from here. So results are a subset of the caller's list with equal definitions,
after everything on this server that filters, authorizes or rewrites listings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import ListToolsResult, Tool, methods
from pydantic import ValidationError

from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.types import TOOLS, Primitive, cache_hints

MAX_PAGES: Final = 10_000
"""Maximum number of pages of one listing."""

ListPage: TypeAlias = Callable[[str | None], Awaitable[dict[str, Any]]]
"""Requests the page at a cursor, or the first page, on behalf of the caller."""

list_page_of_search: ContextVar[tuple[ServerSession, ListPage] | None] = ContextVar(
    "tools_search_list_page", default=None
)
"""Lists for the running search. The session identifies the caller, since contexts are copied into other tasks."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All tools, or other items, that one caller sees, as sent over the wire to that caller."""

    items: dict[str, dict[str, Any]]  # by key, in list order: of two with the same key, the first
    ttl_ms: int  # the shortest time for which a page may be cached
    cache_scope: Literal["public", "private"]  # `private` if any page is


async def read_listing(list_page: ListPage, primitive: Primitive[Any] = TOOLS) -> Listing:
    """Read all pages, ignoring entries without a key.

    Raises:
        ServerSetupError: The listing repeats a cursor or does not end within `MAX_PAGES`.
    """
    pages: list[dict[str, Any]] = []

    async def read_page(cursor: str | None) -> str | None:
        pages.append(await list_page(cursor))
        return pages[-1].get("nextCursor")

    if problem := await follow_cursors(read_page, MAX_PAGES):
        raise ServerSetupError(f"the {primitive.list_method} handler {problem}")
    items: dict[str, dict[str, Any]] = {}
    for page in pages:
        for entry in cast("list[Any]", page.get(primitive.member) or []):
            item = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
            if isinstance(key := item.get(primitive.key), str):
                items.setdefault(key, item)
    ttls, scopes = zip(*map(cache_hints, pages), strict=True)
    return Listing(items, min(ttls), "private" if "private" in scopes else "public")


def caller_listing(ctx: ServerRequestContext[Any, Any]) -> ListPage:
    """Return the function that lists for the caller of `ctx`. Raises `ServerSetupError` without the middleware."""
    current = list_page_of_search.get()
    if current is None or current[0] is not ctx.session:
        raise ServerSetupError("the method is bound but not installed: call ToolsSearch.install(server)")
    return current[1]


def sieve_tools(tools: Iterable[Tool], protocol_version: str) -> list[Tool]:
    """Return the tools whose definition `protocol_version` allows, in order.

    The SDK validates a whole page of `tools/list`, so one definition that the caller's revision does not allow makes
    the listing fail. In a low-level server's own handler, call `sieve_tools(tools, ctx.protocol_version)`.
    """
    return [tool for tool in tools if wire_form(tool, protocol_version) is not None]


def wire_form(tool: Tool, protocol_version: str) -> dict[str, Any] | None:
    """Return a definition as sent in a listing of `protocol_version`, or `None` if that revision does not allow it."""
    page = ListToolsResult(tools=[tool]).model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        return methods.serialize_server_result("tools/list", protocol_version, page)["tools"][0]
    except ValidationError:
        return None
