"""Searching a server: negotiation, one page, every page (draft: Capability Negotiation, Response, Pagination)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

import anyio
from mcp import MCPError
from mcp.client import advertise
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import INVALID_PARAMS, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from mcp_ext_tools_search import types
from mcp_ext_tools_search.client._sdk import MODERN_ONLY, Target, absorb, session_of
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

_A_TOOL: Final = "a Tool, as from Tool.model_validate(definition)"

# If one of these members is invalid, so is the page. Any other invalid member is left out.
_NEEDED: Final = frozenset({"nextCursor", "resultType"})
_MAX_PAGES_WITHOUT_NEW: Final = 50  # pages in a row without a new item after which a search is given up
_MAX_BUSY_ANSWERS: Final = 4  # answers that the server is too busy after which a page is given up


class _AnyResult(BaseModel, extra="allow"):
    """An unvalidated result, because the model to validate it with depends on the protocol era."""


def server_settings(target: Target) -> types.ServerSettings | None:
    """Return the settings that the server advertises, or `None` if it does not offer search.

    A legacy server may advertise in either of two places. Invalid members are left out, since a bad hint is no reason
    not to search.
    """
    stated = advertised(target)
    return None if stated is None else without_wrong_members(types.ServerSettings, stated)


def advertised(target: Target) -> dict[str, Any] | None:
    """Return the settings exactly as the server advertises them, or `None` if it does not offer search."""
    session = session_of(target)
    if (capabilities := session.server_capabilities) is None:
        return None
    places = [capabilities.extensions]
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:  # an SDK server cannot send `extensions` there
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

    You can call the tools by name at once, without a listing.

    Args:
        target: A connected `Client` or `ClientSession` that declares `TOOLS_SEARCH`.
        query: A short description of the need; the same for every page.
        limit: Maximum number of tools on this page. By default, the server decides.
        cursor: `next_cursor` of the previous page.
        timeout: Seconds to wait for the answer. By default, the session's timeout.
        progress: Called with progress notifications.
        primitive: What to search instead of tools.

    Raises:
        ToolsSearchNotAdvertisedError: Nothing was sent: the server does not offer the extension.
        InvalidSearchRequestError: Nothing was sent: a parameter is invalid.
        InvalidSearchResultError: The server's result is unusable. An invalid definition only removes that tool, and an
            invalid cache hint only that hint.
        MCPError: An error response, a timeout (-32001) or a closed connection (-32000). `retry_after` returns when
            to search again if the server is too busy.
    """
    types.require_kind("primitive", primitive, Primitive, instead="RESOURCES, RESOURCE_TEMPLATES, PROMPTS or TOOLS")
    types.require_kind("timeout", timeout, int, float, type(None), instead="a number of seconds")
    optional = {name: value for name, value in (("limit", limit), ("cursor", cursor)) if value is not None}
    try:
        params = types.SearchToolsRequestParams.model_validate({"query": query, **optional})
    except ValidationError as error:
        raise InvalidSearchRequestError(": ".join(types.first_problem(error))) from error
    session, stated = session_of(target), advertised(target)
    if stated is None or (primitive.setting and not isinstance(stated.get(primitive.setting), dict)):
        raise ToolsSearchNotAdvertisedError(primitive)
    request = primitive.request(method=primitive.method, params=params)
    answer = await session.send_request(
        request, _AnyResult, request_read_timeout_seconds=timeout, progress_callback=progress
    )
    result = _read(primitive, answer.model_extra or {}, session.protocol_version or "", params.limit)
    if isinstance(result, SearchToolsResult):
        result.tools = absorb(session, result.tools)
    return result


def hit_metadata(tool: Tool) -> HitMetadata | None:
    """Return why `tool` was found, or `None` if its server does not say so in a valid form."""
    types.require_kind("tool", tool, BaseModel, instead=_A_TOOL)
    try:
        return HitMetadata.model_validate((tool.meta or {}).get(EXTENSION_ID), by_name=False)
    except ValidationError:
        return None


def is_for_model(tool: Tool) -> bool:
    """Return whether a host may offer a tool to a model, or call it for one.

    MCP Apps (`io.modelcontextprotocol/ui`) forbids it if `_meta.ui.visibility` is an array without `"model"`. Any value
    that is not an array, or is in a `ui` that is not an object, hides nothing.
    """
    types.require_kind("tool", tool, Tool, instead=_A_TOOL)
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

    If the server refuses a cursor, the pages are discarded and the search starts over, once (draft: Pagination). If a
    later page fails otherwise, or its cursor is refused again, the earlier pages are returned if they contain anything.
    The search is then incomplete: the last page has a `next_cursor`. The other arguments are those of `iter_pages`.

    Raises what `iter_pages` raises if nothing was found. -32602 then means that the server refuses the query.
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
            if not primitive.by_key(*pages):
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
    """Yield the pages of a search in order, requesting each on demand. `limit` applies to each page.

    An empty page is not the end (draft: Pagination). If the server is too busy, the page is requested again when the
    server says so, up to three times, within `patience` seconds for each page and within the caller's deadline.

    Raises:
        InvalidSearchResultError: The server keeps sending pages without a new item.
        ToolsSearchError: As in `search_tools`.
        MCPError: As in `search_tools`. The server refuses a cursor with -32602, for example after the catalog changed.
            `read_pages` starts over in this case.
    """
    keys: set[str] = set()
    cursor: str | None = None
    without_new = 0
    while True:
        ask = partial(search_tools, target, query, limit=limit, cursor=cursor, timeout=timeout, primitive=primitive)
        page = await _repeated_while_busy(ask, patience)
        yield page
        found = primitive.by_key(page).keys() - keys
        keys |= found
        without_new = 0 if found else without_new + 1
        cursor = page.next_cursor
        if cursor is None:
            return
        if without_new >= _MAX_PAGES_WITHOUT_NEW:
            raise InvalidSearchResultError(f"{without_new} pages in a row without anything new")


async def _repeated_while_busy(ask: Callable[[], Awaitable[ResultT]], patience: float) -> ResultT:
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
    """Return the usable parts of a result: at most `limit` items, since a caller may not have room for more."""
    unread = () if version in MODERN_PROTOCOL_VERSIONS else MODERN_ONLY
    # A null cursor counts as absent (draft: Falling Back to Listing).
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
    """Return `value` as a `model` without invalid members. Raise `ValidationError` if one is `needed`, or missing."""
    try:
        return model.model_validate(value, by_name=False)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_input=False, include_url=False)}
        if not wrong.isdisjoint(needed):
            raise
    return model.model_validate({name: own for name, own in value.items() if name not in wrong}, by_name=False)
