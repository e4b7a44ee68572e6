"""The client side: search resources, resource templates and prompts, or list and rank them in the client.

Raises the errors of `mcp_ext_tools_search.client`. To read several pages, use its `read_pages(...,
primitive=RESOURCES)`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import MCPError
from mcp_ext_tools_search.client import (
    InvalidSearchRequestError,
    InvalidSearchResultError,
    Target,
    ToolsSearchNotAdvertisedError,
    raw_request,
    read_pages,
    search_tools,
)
from mcp_ext_tools_search.client.search import advertised, without_wrong_members
from mcp_ext_tools_search.cursor import follow_cursors
from mcp_ext_tools_search.ranking import Ranker, SimpleRanker, floored
from mcp_ext_tools_search.types import Primitive, ResultT, first_problem
from mcp_types import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import ValidationError

from mcp_ext_search_primitives.index import Definition, PrimitiveIndex
from mcp_ext_search_primitives.types import (
    PROMPTS,
    RESOURCE_TEMPLATES,
    RESOURCES,
    PrimitiveSettings,
    PrimitivesServerSettings,
    ResourcesSettings,
    SearchPromptsResult,
    SearchResourcesResult,
    SearchResourceTemplatesResult,
)

logger = logging.getLogger(__name__)

MAX_ITEMS: Final = 200_000
"""Maximum number of definitions to read from one list."""

_MAX_BYTES: Final = 128 * 1024 * 1024  # of a whole list as JSON, since items of any size can fill the memory
_MAX_PAGES: Final = 10_000
_NO_SEARCH: Final = (METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY)


def primitives_settings(target: Target) -> PrimitivesServerSettings | None:
    """Return the settings that the server advertises without invalid members, or `None` if it does not support search.

    `resources` and `prompts` are set if the server supports searching for them.
    """
    stated = advertised(target)
    if stated is None:
        return None
    usable = dict(stated)
    for name, model in (("resources", ResourcesSettings), ("prompts", PrimitiveSettings)):
        own = stated.get(name)
        if isinstance(own, dict):
            usable[name] = without_wrong_members(model, cast("dict[str, Any]", own)).to_wire()
    return without_wrong_members(PrimitivesServerSettings, usable)


async def search_resources(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the SDK's own timeout, which also cancels the request at the server
) -> SearchResourcesResult:
    """Request one page of the resources that match `query`. Arguments and errors are those of `search_tools`."""
    return await search_tools(target, query, limit=limit, cursor=cursor, timeout=timeout, primitive=RESOURCES)


async def search_resource_templates(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - as above
) -> SearchResourceTemplatesResult:
    """Like `search_resources`, for resource templates."""
    return await search_tools(target, query, limit=limit, cursor=cursor, timeout=timeout, primitive=RESOURCE_TEMPLATES)


async def search_prompts(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - as above
) -> SearchPromptsResult:
    """Like `search_resources`, for prompts."""
    return await search_tools(target, query, limit=limit, cursor=cursor, timeout=timeout, primitive=PROMPTS)


@dataclass(frozen=True, slots=True)
class FoundItems:
    """The result of `find`."""

    items: list[Any]
    """Distinct `Resource`, `ResourceTemplate` or `Prompt` items, best first."""

    is_listed: bool
    """Whether the client ranked the list, because the server does not support search."""

    is_incomplete: bool = False
    """Whether items may be missing, because the list does not contain everything or could not be read to its end."""


async def find(
    primitive: Primitive[ResultT],
    client: Target,
    query: str,
    *,
    limit: int = 10,
    ranker: Ranker | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - of each request
) -> FoundItems:
    """Return the `limit` best items for `query`: by search, or by ranking the list if the server does not support it.

    Args:
        primitive: The kind of items: `RESOURCES`, `RESOURCE_TEMPLATES` or `PROMPTS`.
        client: A connected client, or its session, that declares `TOOLS_SEARCH`.
        query: A short description of the need.
        limit: Maximum number of items.
        ranker: Ranks the list; a `SimpleRanker` by default.
        timeout: Seconds to wait for each answer.

    Raises:
        InvalidSearchRequestError: A parameter is invalid. Nothing was sent.
        MCPError: The server supports search, but failed or was too busy; or its list failed (draft: Falling Back to
            Listing).
    """
    if limit is None:  # pyright: ignore[reportUnnecessaryComparison] - for untyped callers; a search may have no limit
        raise InvalidSearchRequestError("limit: must be an integer")
    ranker = SimpleRanker() if ranker is None else ranker
    floored(ranker)  # which raises for anything but a ranker, before anything is sent
    try:
        pages = await read_pages(
            client,
            query,
            limit=limit,
            enough=lambda read: len(primitive.by_key(*read)) >= limit,
            timeout=timeout,
            primitive=primitive,
        )
    except (ToolsSearchNotAdvertisedError, InvalidSearchResultError):
        pass
    except MCPError as error:
        if error.code not in _NO_SEARCH:
            raise
    else:
        found = primitive.by_key(*pages)
        is_cut = len(found) < limit and pages[-1].next_cursor is not None
        return FoundItems([*found.values()][:limit], is_listed=False, is_incomplete=is_cut)
    definitions, is_whole = await list_definitions(primitive, client, timeout=timeout)
    hits = PrimitiveIndex(primitive, definitions, ranker).search(query)[:limit]
    items = [primitive.item.model_validate(definitions[hit.name], by_name=False) for hit in hits]
    settings = primitives_settings(client)
    is_unlisted = primitive is RESOURCES and bool(settings and settings.resources and settings.resources.unlisted)
    return FoundItems(items, is_listed=True, is_incomplete=is_unlisted or not is_whole)


async def list_definitions(
    primitive: Primitive[Any],
    client: Target,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - of each page
) -> tuple[dict[str, Definition], bool]:
    """Return a list's valid definitions by key, in list order, and whether the list was read to its end.

    If the server does not have this list, it counts as empty.

    Raises:
        MCPError: The first page failed.
    """
    definitions: dict[str, Definition] = {}
    pages = count = size = 0

    async def read_page(cursor: str | None) -> str | None:
        nonlocal pages, count, size
        params = {} if cursor is None else {"cursor": cursor}
        page = await raw_request(client, primitive.list_method, params, seconds=timeout)
        pages += 1
        size += len(json.dumps(page))
        listed = page.get(primitive.member)
        for entry in cast("list[Any]", listed) if isinstance(listed, list) else []:
            count += 1
            if _is_valid(primitive, entry):
                definitions.setdefault(entry[primitive.key], entry)
        following = page.get("nextCursor")
        is_full = count >= MAX_ITEMS or size >= _MAX_BYTES
        return following if isinstance(following, str) and not is_full else None

    try:
        problem = await follow_cursors(read_page, _MAX_PAGES)
    except MCPError as error:
        if not pages and error.code != METHOD_NOT_FOUND:
            raise
        problem = str(error) if pages else ""
    if problem:
        logger.warning("%s is incomplete: %s", primitive.list_method, problem)
    return definitions, not problem and count < MAX_ITEMS and size < _MAX_BYTES


def _is_valid(primitive: Primitive[Any], entry: object) -> bool:
    try:
        primitive.item.model_validate(entry, by_name=False)
    except ValidationError as error:
        logger.info("%s: skipped an invalid item: %s", primitive.list_method, first_problem(error))
        return False
    return True
