"""The caller's own `tools/list`, or list of other items: the set that a search may return (draft: Response).

Everything a search returns comes from here, so that it is a subset of the caller's list and equal to it member by
member, with everything that filters, authorizes or rewrites listings on this server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import ListToolsResult, Tool, methods
from pydantic import ValidationError

from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.types import TOOLS, Primitive

MAX_PAGES: Final = 10_000
"""Pages of one listing after which its end is no longer believed in."""

ListPage: TypeAlias = Callable[[str | None], Awaitable[dict[str, Any]]]
"""Asks the list for the page at a cursor, or for the first one, on behalf of the caller."""

list_page_of_search: ContextVar[tuple[ServerSession, ListPage] | None] = ContextVar(
    "tools_search_list_page", default=None
)
"""Lists for the search under way. The session says whose search: contexts are copied into tasks of others."""


@dataclass(slots=True)
class Listing:
    """All tools, or other items, that one caller sees, as they go over the wire to that caller.

    They stand under their keys, in the order of the list; of two with one key the first counts.
    """

    primitive: Primitive[Any] = TOOLS
    items: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    ttl_ms: int | None = None  # the shortest time for which a page may be cached; `None` before the first page
    cache_scope: Literal["public", "private"] = "public"  # `private` where any page is

    def add(self, page: dict[str, Any]) -> None:
        """Take in one page; entries without a key are passed over."""
        for entry in cast("list[Any]", page.get(self.primitive.member) or []):
            item = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
            if isinstance(key := item.get(self.primitive.key), str):
                self.items.setdefault(key, item)
        stated = page.get("ttlMs")
        # A page that says nothing usable may not be cached.
        ttl_ms = stated if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0 else 0
        self.ttl_ms = ttl_ms if self.ttl_ms is None else min(self.ttl_ms, ttl_ms)
        if page.get("cacheScope") != "public":
            self.cache_scope = "private"


async def read_listing(list_page: ListPage, primitive: Primitive[Any] = TOOLS) -> Listing:
    """Read every page.

    Raises:
        ServerSetupError: The listing repeats a cursor or does not end within `MAX_PAGES`.
    """
    listing = Listing(primitive)

    async def read_page(cursor: str | None) -> str | None:
        page = await list_page(cursor)
        listing.add(page)
        return page.get("nextCursor")

    if problem := await follow_cursors(read_page, MAX_PAGES):
        raise ServerSetupError(f"the {primitive.list_method} handler {problem}")
    return listing


def caller_listing(ctx: ServerRequestContext[Any, Any]) -> ListPage:
    """Return what lists for the caller of `ctx`: the middleware has left it, or there is a `ServerSetupError`."""
    current = list_page_of_search.get()
    if current is None or current[0] is not ctx.session:
        raise ServerSetupError("the method is bound but not installed: call ToolsSearch.install(server)")
    return current[1]


def sieve_tools(tools: Iterable[Tool], protocol_version: str) -> list[Tool]:
    """Return the tools whose definition `protocol_version` allows, in their order.

    The SDK checks a page of `tools/list` as a whole: one definition that the caller's revision does not allow makes the
    listing fail. For a low-level server's own handler: `sieve_tools(tools, ctx.protocol_version)`.
    """
    return [tool for tool in tools if wire_form(tool, protocol_version) is not None]


def wire_form(tool: Tool, protocol_version: str) -> dict[str, Any] | None:
    """Return a definition as a listing of `protocol_version` carries it, or `None` where that does not allow it."""
    page = ListToolsResult(tools=[tool]).model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        return methods.serialize_server_result("tools/list", protocol_version, page)["tools"][0]
    except ValidationError:
        return None
