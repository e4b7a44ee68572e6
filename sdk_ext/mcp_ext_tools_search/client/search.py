"""Searching a server: negotiation, one page, every page (draft: Capability Negotiation, Response, Pagination)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

import anyio
from mcp import Client, ClientSession, MCPError
from mcp.client import advertise
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import INVALID_PARAMS, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from mcp_ext_tools_search import types
from mcp_ext_tools_search.client._sdk import MODERN_ONLY, absorb
from mcp_ext_tools_search.client.errors import (
    InvalidSearchRequestError,
    InvalidSearchResultError,
    ToolsSearchNotAdvertisedError,
    retry_after,
)
from mcp_ext_tools_search.types import EXTENSION_ID, TOOLS, HitMetadata, Primitive, ResultT, SearchToolsResult

logger = logging.getLogger(__name__)

TOOLS_SEARCH: Final = advertise(EXTENSION_ID, types.ClientSettings().to_wire())
"""Declares that the client uses the extension: `Client(target, extensions=[TOOLS_SEARCH])`."""

ModelT = TypeVar("ModelT", bound=BaseModel)

Target: TypeAlias = Client | ClientSession
"""What can be searched: a connected client, or the session of one."""

# Members with a wrong type of which a page cannot be used; any other that is wrong is left out.
_NEEDED: Final = frozenset({"nextCursor", "resultType"})
_MAX_BARREN_PAGES: Final = 50  # pages in a row without a new item after which a search is given up
_MAX_BUSY_ANSWERS: Final = 4  # answers that the server is too busy after which a page is given up


class _AnyResult(BaseModel):
    """A result as it came, so that what it is checked against can depend on the protocol era."""

    model_config = ConfigDict(extra="allow")


def server_settings(target: Target) -> types.ServerSettings | None:
    """Return the settings that the server advertises, or `None` if it offers no search.

    A legacy server may advertise at either of two places. Invalid members are left out, since a bad hint is no reason
    not to search.
    """
    stated = advertised(target)
    return None if stated is None else without_wrong_members(types.ServerSettings, stated)


def advertised(target: Target) -> dict[str, Any] | None:
    """Return the settings as the server advertises them, or `None` if it offers no search."""
    session = target.session if isinstance(target, Client) else target
    capabilities = session.server_capabilities
    if capabilities is None:
        return None
    places = [capabilities.extensions]
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        places.append(capabilities.experimental)
    return next((own for place in places if isinstance(own := (place or {}).get(EXTENSION_ID), dict)), None)


async def search_tools(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the SDK's own timeout, which also cancels the request at the server
    progress: ProgressFnT | None = None,
    primitive: Primitive[ResultT] = TOOLS,  # pyright: ignore[reportArgumentType] - which is the type without it
) -> ResultT:
    """Ask a server for the tools that fit `query`, best first.

    The tools can be called at once, by name, without being listed.

    Args:
        target: A connected `Client` or `ClientSession` that declares `TOOLS_SEARCH`.
        query: A short description of what is needed; the same for every page.
        limit: Largest number of tools of this page; the server decides where there is none.
        cursor: `next_cursor` of the page before.
        timeout: Seconds to wait for the answer; the session's own where there is none.
        progress: Called with progress notifications.
        primitive: What is asked for instead of tools.

    Raises:
        ToolsSearchNotAdvertisedError: Nothing was sent, the server does not offer the extension.
        InvalidSearchRequestError: Nothing was sent, a parameter is wrong.
        InvalidSearchResultError: The server's answer cannot be used. A definition that is no tool costs only that tool,
            and an invalid cache hint only the hint.
        MCPError: An error response, a timeout (-32001) or a closed connection (-32000). `retry_after` returns when
            to search again if the server is too busy.
    """
    session = target.session if isinstance(target, Client) else target
    stated = advertised(session)
    if stated is None or (primitive.setting and not isinstance(stated.get(primitive.setting), dict)):
        raise ToolsSearchNotAdvertisedError(primitive)
    optional = {name: value for name, value in (("limit", limit), ("cursor", cursor)) if value is not None}
    try:
        params = types.SearchToolsRequestParams.model_validate({"query": query, **optional})
    except ValidationError as error:
        raise InvalidSearchRequestError(": ".join(types.first_problem(error))) from error
    request = primitive.request(method=primitive.method, params=params)
    answer = await session.send_request(
        request, _AnyResult, request_read_timeout_seconds=timeout, progress_callback=progress
    )
    result = _read(primitive, answer.model_extra or {}, session.protocol_version or "", params.limit)
    if isinstance(result, SearchToolsResult):
        result.tools = absorb(session, result.tools)
    return result


def hit_metadata(tool: Tool) -> HitMetadata | None:
    """Return why `tool` was found, or `None` where its server does not say so, or not in a valid form."""
    try:
        return HitMetadata.model_validate((tool.meta or {}).get(EXTENSION_ID), by_name=False)
    except ValidationError:
        return None


def is_for_model(tool: Tool) -> bool:
    """Whether a tool may be offered to a model, or called for one.

    MCP Apps (`io.modelcontextprotocol/ui`): it may not where `_meta.ui.visibility` is an array without `"model"`. What
    is no array, or stands in a `ui` that is no object, is no visibility and hides nothing.
    """
    ui = (tool.meta or {}).get("ui")
    visibility = cast("dict[str, Any]", ui).get("visibility") if isinstance(ui, dict) else None
    return not isinstance(visibility, list) or "model" in visibility


async def read_pages(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    enough: Callable[[Sequence[ResultT]], bool] = lambda _: False,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
    patience: float = 5.0,
    primitive: Primitive[ResultT] = TOOLS,  # pyright: ignore[reportArgumentType] - as above
) -> list[ResultT]:
    """Return the pages of a search, in order, until there are `enough` or no more.

    When a cursor is refused, the pages are discarded and the search starts over, once (draft: Pagination). When a later
    page fails otherwise, or its cursor is refused again, the pages before it are returned if they hold anything. The
    search is then incomplete: the last page has a `next_cursor`. The other arguments are those of `iter_pages`.

    Raises what `iter_pages` raises, as long as nothing was found; -32602 means that the query is refused.
    """
    starts_over = False
    while True:
        pages: list[ResultT] = []
        options: dict[str, Any] = {"limit": limit, "timeout": timeout, "patience": patience, "primitive": primitive}
        try:
            async for page in iter_pages(target, query, **options):
                pages.append(page)
                if enough(pages):
                    break
        except (InvalidSearchResultError, MCPError) as error:
            is_refused = isinstance(error, MCPError) and error.code == INVALID_PARAMS
            if is_refused and pages and not starts_over:
                starts_over = True
                continue
            if not any(map(primitive.by_key, pages)):
                raise
            logger.warning("a search is incomplete: page %d failed: %s", len(pages) + 1, error)
        return pages


async def iter_pages(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
    patience: float = 5.0,
    primitive: Primitive[ResultT] = TOOLS,  # pyright: ignore[reportArgumentType] - as above
) -> AsyncIterator[ResultT]:
    """Yield the pages of a search in order, asking for each when it is wanted; `limit` bounds each.

    An empty page is not the end (draft: Pagination). A server that is too busy is asked for the same page again when it
    says, up to three times, within `patience` seconds for each page and within the deadline of the caller.

    Raises:
        InvalidSearchResultError: The server keeps on sending pages without a new item.
        ToolsSearchError: As `search_tools`.
        MCPError: As `search_tools`. A cursor is refused with -32602, for example when the catalog has changed:
            `read_pages` starts over.
    """
    keys: set[str] = set()
    cursor: str | None = None
    barren = 0
    while True:
        ask = partial(search_tools, target, query, limit=limit, cursor=cursor, timeout=timeout, primitive=primitive)
        page = await _patiently(ask, patience)
        yield page
        found = primitive.by_key(page).keys() - keys
        keys |= found
        barren = 0 if found else barren + 1
        cursor = page.next_cursor
        if cursor is None:
            return
        if barren >= _MAX_BARREN_PAGES:
            raise InvalidSearchResultError(f"{barren} pages in a row without anything new")


async def iter_tools(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - per page, and the SDK's own
) -> AsyncIterator[Tool]:
    """Yield every matching tool once, best first; `limit` bounds each page, not their sum.

    Raises what `iter_pages` raises.
    """
    names: set[str] = set()
    async for page in iter_pages(target, query, limit=limit, timeout=timeout):
        for tool in page.tools:
            if tool.name not in names:
                names.add(tool.name)
                yield tool


async def _patiently(ask: Callable[[], Awaitable[ResultT]], patience: float) -> ResultT:
    latest = min(anyio.current_time() + patience, anyio.current_effective_deadline())
    busy = 0
    while True:
        try:
            return await ask()
        except MCPError as error:
            wait, busy = retry_after(error), busy + 1
            if wait is None or busy >= _MAX_BUSY_ANSWERS or anyio.current_time() + wait > latest:
                raise
        await anyio.sleep(wait)


def _read(primitive: Primitive[ResultT], raw: dict[str, Any], version: str, limit: int | None) -> ResultT:
    """Return what can be used of a result: `limit` items at most, as a caller may have room for no more."""
    unread = () if version in MODERN_PROTOCOL_VERSIONS else MODERN_ONLY
    # A cursor that is null is none (draft: Falling Back to Listing).
    raw = {name: own for name, own in raw.items() if name not in unread and (own is not None or name != "nextCursor")}
    items: dict[object, BaseModel] = {}
    listed = raw.get(primitive.member)
    for entry in cast("list[Any]", listed) if isinstance(listed, list) else []:
        try:
            item = primitive.item.model_validate(entry, by_name=False)
            items.setdefault(entry[primitive.key], item)  # the first of a key counts
        except ValidationError as error:
            logger.info("%s: one item is left out, as it is invalid: %s", primitive.method, types.first_problem(error))
    usable = raw | ({primitive.member: [*items.values()][:limit]} if isinstance(listed, list) else {})
    try:
        return without_wrong_members(primitive.result, usable, needed=_NEEDED)
    except ValidationError as error:
        raise InvalidSearchResultError(": ".join(types.first_problem(error))) from error


def without_wrong_members(
    model: type[ModelT], value: Mapping[str, Any], needed: Collection[str] = frozenset()
) -> ModelT:
    """Return `value` as a `model` without what is wrong in it; a `ValidationError` if it is `needed`, or missing."""
    try:
        return model.model_validate(value, by_name=False)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_input=False, include_url=False)}
        if not wrong.isdisjoint(needed):
            raise
    return model.model_validate({name: own for name, own in value.items() if name not in wrong}, by_name=False)
