"""`search_tools`: one page of the tools that fit a need."""

from __future__ import annotations

import logging
from typing import Any, Final, cast

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from mcp_ext_tools_search.client._absorb import absorb
from mcp_ext_tools_search.client.advertisement import Target, advertised, session_of
from mcp_ext_tools_search.client.errors import InvalidSearchRequest, InvalidSearchResult, ToolsSearchNotAdvertised
from mcp_ext_tools_search.client.raw import MODERN_ONLY
from mcp_ext_tools_search.types import (
    EXTENSION_ID,
    HitMetadata,
    SearchToolsRequest,
    SearchToolsRequestParams,
    SearchToolsResult,
)

__all__ = ["hit_metadata", "search_tools"]

logger = logging.getLogger(__name__)

_NEEDED: Final = frozenset({"tools", "nextCursor", "resultType"})
"""Members without which, or with a wrong type of which, a page cannot be used; any other that is wrong is left out."""


class _AnyResult(BaseModel):
    """A result as it came, so that what it is checked against can depend on the protocol era."""

    model_config = ConfigDict(extra="allow")


async def search_tools(
    target: Target,
    query: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the SDK's own timeout, which also cancels the request at the server
    progress: ProgressFnT | None = None,
) -> SearchToolsResult:
    """Ask a server for the tools that fit `query`, best first.

    The tools can be called at once, by name, without being listed.

    Args:
        target: A connected `Client` or `ClientSession` that declares `TOOLS_SEARCH`.
        query: A short description of what is needed; the same for every page.
        limit: Largest number of tools of this page; the server decides where there is none.
        cursor: `next_cursor` of the page before.
        timeout: Seconds to wait for the answer; the session's own where there is none.
        progress: Called with progress notifications.

    Raises:
        ToolsSearchNotAdvertised: Nothing was sent, the server does not offer the extension.
        InvalidSearchRequest: Nothing was sent, a parameter is wrong.
        InvalidSearchResult: The server's answer cannot be used. A definition that is no tool costs only that tool, and
            what is wrong with the cache hints only these.
        MCPError: An error response, a timeout (-32001) or a closed connection (-32000). `retry_after` returns when
            to search again if the server is too busy.
    """
    session = session_of(target)
    if advertised(session) is None:
        raise ToolsSearchNotAdvertised
    answer = await session.send_request(
        _request(query, limit, cursor), _AnyResult, request_read_timeout_seconds=timeout, progress_callback=progress
    )
    result = _read(answer.model_extra or {}, is_modern=session.protocol_version in MODERN_PROTOCOL_VERSIONS)
    once = {tool.name: tool for tool in reversed(result.tools)}  # the first of a name counts
    # A caller that asks for three tools may have room for three.
    result.tools = absorb(session, list(reversed(once.values()))[:limit])
    return result


def hit_metadata(tool: Tool) -> HitMetadata | None:
    """Return why `tool` was found, or `None` where its server does not say so, or not in a valid form."""
    try:
        return HitMetadata.model_validate((tool.meta or {}).get(EXTENSION_ID), by_name=False)
    except ValidationError:
        return None


def _request(query: str, limit: int | None, cursor: str | None) -> SearchToolsRequest:
    optional = {"limit": limit, "cursor": cursor}
    given = {"query": query} | {name: value for name, value in optional.items() if value is not None}
    try:
        return SearchToolsRequest(params=SearchToolsRequestParams.model_validate(given))
    except ValidationError as error:
        raise InvalidSearchRequest(_reason(error)) from error


def _read(raw: dict[str, Any], *, is_modern: bool) -> SearchToolsResult:
    """Return what can be used of a result; members of the modern protocol count for nothing on a legacy connection."""
    ignored = () if is_modern else MODERN_ONLY
    if raw.get("nextCursor") is None:
        ignored = (*ignored, "nextCursor")  # null is no cursor (draft: Falling Back to Listing)
    raw = {name: value for name, value in raw.items() if name not in ignored}
    try:
        return SearchToolsResult.model_validate(raw, by_name=False)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_input=False, include_url=False)}
        listed = raw.get("tools")
        if not isinstance(listed, list) or wrong & _NEEDED - {"tools"}:
            raise InvalidSearchResult(_reason(error)) from error
    tools = [entry for entry in cast("list[Any]", listed) if _is_tool(entry)]
    kept = {name: value for name, value in raw.items() if name not in wrong}
    return SearchToolsResult.model_validate({**kept, "tools": tools}, by_name=False)


def _is_tool(entry: object) -> bool:
    try:
        Tool.model_validate(entry, by_name=False)
    except ValidationError as error:
        logger.info("a tool is left out: its definition is invalid: %s", _reason(error))
        return False
    return True


def _reason(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
