"""Reads a whole list of one server: tools, resources, resource templates or prompts.

A server could list forever, so pages, items and bytes are limited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from mcp import Client, MCPError
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES
from mcp_ext_tools_search.client import raw_request
from mcp_ext_tools_search.client.listing import ListedPage, list_page
from mcp_ext_tools_search.client.search import without_wrong_members
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.types import TOOLS, Primitive
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import PydanticSerializationError, to_json
from tools_search_hosts.messages import MAX_MESSAGE_BYTES, mebibytes

from tools_search_client.errors import InvalidServerResultError
from tools_search_client.servers.cache import CacheScope

Item = TypeVar("Item")

_MAX_PAGES: Final = 1_000

_MAX_OFFERS: Final = 10_000
"""Maximum prompts, resources or templates on one server; a longer list counts as endless."""

MAX_LIST_BYTES: Final = 8 * MAX_MESSAGE_BYTES
"""Maximum size of all pages of a list: without it, a thousand pages could fill the host's memory."""


FetchPage: TypeAlias = Callable[[str | None], Awaitable[ListedPage]]
"""Requests the page at a cursor; `None` requests the first."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """A server's complete list of one kind of item, in its own order, each key once."""

    items: tuple[Item, ...]

    ttl_seconds: float | None
    """How long the server allows caching it: the shortest time of its pages; `None` if the server does not say."""

    scope: CacheScope
    """`private` if any page is."""

    left_out: int = 0
    """Number of definitions left out because they are invalid under the protocol, or repeat a key of their page."""


async def list_everything(
    fetch: FetchPage,
    *,
    max_items: int = 100_000,
    primitive: Primitive[Any] = TOOLS,
    items: dict[str, Any] | None = None,
) -> Listing[Any]:
    """Return all pages of a list (`tools/list` by default) as one listing.

    An empty page does not end the list. If a key is repeated, the first definition is kept. Invalid definitions are
    left out and counted, and so are repetitions within a page; between pages, they are due to a change of the list. A
    list that exceeds the limits counts as endless.

    Args:
        fetch: Requests a page.
        max_items: The limit on items.
        primitive: The kind of item.
        items: Gets the items by key, page by page, so that the caller has them if a later page fails; none of a list
            that has no end.

    Raises:
        InvalidServerResultError: A cursor was repeated, or the list exceeds its limits.
    """
    pages: list[ListedPage] = []
    items = {} if items is None else items
    repeated = size = 0

    async def read_page(cursor: str | None) -> str | None:
        nonlocal repeated, size
        pages.append(await fetch(cursor))
        result = pages[-1].result
        own = primitive.by_key(result)
        repeated += len(getattr(result, to_snake(primitive.member))) - len(own)
        for key, item in own.items():
            items.setdefault(key, item)
        if result.next_cursor is not None and (count := len(items)) > max_items:
            items.clear()
            raise InvalidServerResultError(f"{primitive.list_method} has no end after {count} {primitive.member}")
        if result.next_cursor is not None and (size := size + size_of(result)) > MAX_LIST_BYTES:
            items.clear()
            raise InvalidServerResultError(f"{primitive.list_method} has more than {mebibytes(MAX_LIST_BYTES)}")
        return result.next_cursor

    if problem := await follow_cursors(read_page, _MAX_PAGES):
        items.clear()
        raise InvalidServerResultError(f"{primitive.list_method} {problem}")
    results = [page.result for page in pages]
    return Listing(
        tuple(items.values()),
        min((result.ttl_ms / 1000 for result in results if "ttl_ms" in result.model_fields_set), default=None),
        "private" if any(result.cache_scope == "private" for result in results) else "public",
        sum(page.left_out for page in pages) + repeated,
    )


def size_of(page: BaseModel) -> int:
    """Return the bytes of a page as JSON."""
    try:
        return len(to_json(page))
    except PydanticSerializationError:  # an unpaired surrogate, which a server in this process can return
        return len(repr(page))


async def _list_items(client: Client, primitive: Primitive[Any], cursor: str | None) -> ListedPage:
    """Request a page of a list, whose `result` is that of the primitive, and leave out invalid items.

    Raises:
        InvalidServerResultError: The result is not a page.
        MCPError: The server refused or is gone.
    """
    page = await raw_request(client, primitive.list_method, {} if cursor is None else {"cursor": cursor}, seconds=None)
    listed, following = page.get(primitive.member), page.get("nextCursor")
    if not isinstance(listed, list) or not isinstance(following, str | None):
        member = "nextCursor" if isinstance(listed, list) else primitive.member
        raise InvalidServerResultError(f"{primitive.list_method} has a wrong {member!r}")
    entries, valid = cast("list[Any]", listed), list[Any]()
    for entry in entries:
        try:
            valid.append(primitive.item.model_validate(entry, by_name=False))
        except ValidationError:
            continue
    usable: dict[str, Any] = {primitive.member: valid} | ({} if following is None else {"nextCursor": following})
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        usable |= {name: page[name] for name in ("ttlMs", "cacheScope") if name in page}
    return ListedPage(without_wrong_members(primitive.result, usable), len(entries) - len(valid))


async def complete_listing(client: Client, primitive: Primitive[Any], items: dict[str, Any]) -> Listing[Any]:
    """Return a server's list of one kind of item; empty if it has none of that kind.

    Args:
        client: A connected client.
        primitive: The kind of item.
        items: As for `list_everything`.

    Raises:
        InvalidServerResultError: A page is not a page, or the list has no end.
        MCPError: The server refused or is gone.
    """
    capabilities = client.server_capabilities
    is_optional = primitive is RESOURCE_TEMPLATES  # which have no capability of their own
    try:
        if primitive is TOOLS:
            is_optional = capabilities.tools is None  # a server without tools may not know `tools/list`
            return await list_everything(partial(list_page, client), items=items)
        if (capabilities.prompts if primitive is PROMPTS else capabilities.resources) is not None:
            fetch = partial(_list_items, client, primitive)
            return await list_everything(fetch, max_items=_MAX_OFFERS, primitive=primitive, items=items)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND or not is_optional:
            raise
    return Listing((), None, "public")
