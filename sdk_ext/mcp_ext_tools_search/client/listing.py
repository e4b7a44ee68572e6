"""Pages of `tools/list` of which an invalid definition costs one tool.

The SDK refuses such a page as a whole, and with it every tool of a server that has one careless definition.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import Client
from mcp_types import ListToolsResult, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_ext_tools_search.client._sdk import MODERN_ONLY, absorb, raw_request

logger = logging.getLogger(__name__)

_METHOD: Final = "tools/list"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """The usable part of one page."""

    result: ListToolsResult
    """With the tools that may be called."""

    left_out: int = 0
    """How many definitions of the page are not in it, because the protocol revision of the connection forbids them."""


async def list_page(client: Client, cursor: str | None) -> ListedPage:
    """Ask for the page at `cursor`, `None` for the first. Its tools can be called without being listed again.

    Raises:
        ValidationError: The page itself, and not only some of its definitions, breaks the protocol.
        MCPError: The server refused or is gone.
    """
    version = client.protocol_version
    raw = await raw_request(client, _METHOD, {} if cursor is None else {"cursor": cursor}, seconds=None)
    page = _of_this_era(raw, is_modern=version in MODERN_PROTOCOL_VERSIONS)
    listed: object = page.get("tools")
    count = len(cast("list[Any]", listed)) if isinstance(listed, list) else 0
    result = _read(page, version)
    result.tools = absorb(client.session, result.tools)
    return ListedPage(result, count - len(result.tools))


def _of_this_era(raw: dict[str, Any], *, is_modern: bool) -> dict[str, Any]:
    """Return the page with the members that count on this connection; a negative lifetime is none, as for the SDK."""
    if not is_modern:
        return {name: value for name, value in raw.items() if name not in MODERN_ONLY}
    ttl = raw.get("ttlMs")
    if isinstance(ttl, int | float) and ttl < 0:
        return raw | {"ttlMs": 0}
    return raw


def _read(page: dict[str, Any], version: str) -> ListToolsResult:
    """Return the page, if need be without the definitions that `version` forbids."""
    try:
        return _valid(page, version)
    except ValidationError:
        if not isinstance(page.get("tools"), list):
            raise
    result = _valid(page | {"tools": []}, version)
    for entry in cast("list[Any]", page["tools"]):
        try:
            result.tools += _valid(page | {"tools": [entry]}, version).tools
        except ValidationError as error:
            place = ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"][2:]))
            logger.info("a tool is left out: its definition is invalid at %r", place)
    return result


def _valid(page: dict[str, Any], version: str) -> ListToolsResult:
    methods.validate_server_result(_METHOD, version, page)
    return ListToolsResult.model_validate(page, by_name=False)
