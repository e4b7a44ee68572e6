"""`search_tools`: one page of the tools that fit a need."""

from __future__ import annotations

from typing import Any

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
        InvalidSearchResult: The server answered what the draft forbids.
        MCPError: An error response, a timeout (-32001) or a closed connection (-32000).
    """
    session = session_of(target)
    if advertised(session) is None:
        raise ToolsSearchNotAdvertised
    answer = await session.send_request(
        _request(query, limit, cursor), _AnyResult, request_read_timeout_seconds=timeout, progress_callback=progress
    )
    result = _read(answer.model_extra or {}, is_modern=session.protocol_version in MODERN_PROTOCOL_VERSIONS)
    # Whoever asks for three tools may have room for three: a server that cannot count is not to be paged through.
    if limit is not None and len(result.tools) > limit:
        raise InvalidSearchResult(f"{len(result.tools)} tools where at most {limit} were asked for")
    result.tools = absorb(session, result.tools)
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
    """Return the result; members of the modern protocol count for nothing on a legacy connection."""
    if not is_modern:
        raw = {name: value for name, value in raw.items() if name not in MODERN_ONLY}
    try:
        return SearchToolsResult.model_validate(raw, by_name=False)
    except ValidationError as error:
        raise InvalidSearchResult(_reason(error)) from error


def _reason(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
