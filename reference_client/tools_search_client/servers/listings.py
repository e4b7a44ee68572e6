"""What a server has besides tools: prompts, resources, and templates of resources, all pages of them, bounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from mcp_ext_tools_search.cursor import follow_cursors
from mcp_types import Prompt, Resource, ResourceTemplate

from tools_search_client.errors import InvalidServerResultError
from tools_search_client.servers.discovery import ServerTools

_MAX_PAGES: Final = 1_000
_MAX_ITEMS: Final = 10_000

Item = TypeVar("Item")

Page: TypeAlias = tuple[Sequence[Item], str | None]


async def list_prompts(tools: ServerTools) -> list[Prompt]:
    """Return every prompt of a server; nothing is sent where it says that it has none.

    Raises:
        ServerError: The server failed, or its listing has no end.
    """

    async def fetch(cursor: str | None) -> Page[Prompt]:
        page = await tools.client.list_prompts(cursor=cursor)
        return page.prompts, page.next_cursor

    async with tools.patience():
        return await _all(fetch) if tools.client.server_capabilities.prompts else []


async def list_resources(tools: ServerTools) -> list[Resource]:
    """Return every resource of a server, as `list_prompts` does."""

    async def fetch(cursor: str | None) -> Page[Resource]:
        page = await tools.client.list_resources(cursor=cursor)
        return page.resources, page.next_cursor

    async with tools.patience():
        return await _all(fetch) if tools.client.server_capabilities.resources else []


async def list_resource_templates(tools: ServerTools) -> list[ResourceTemplate]:
    """Return every template of resources of a server, as `list_prompts` does."""

    async def fetch(cursor: str | None) -> Page[ResourceTemplate]:
        page = await tools.client.list_resource_templates(cursor=cursor)
        return page.resource_templates, page.next_cursor

    async with tools.patience():
        return await _all(fetch) if tools.client.server_capabilities.resources else []


async def _all(fetch: Callable[[str | None], Awaitable[Page[Item]]]) -> list[Item]:
    items: list[Item] = []

    async def read_page(cursor: str | None) -> str | None:
        page, following = await fetch(cursor)
        items.extend(page)
        if len(items) > _MAX_ITEMS:
            raise InvalidServerResultError(f"the listing has more than {_MAX_ITEMS:,} items")
        return following

    if problem := await follow_cursors(read_page, _MAX_PAGES):
        raise InvalidServerResultError(f"the listing {problem}")
    return items
