"""Resources and templates of all servers: listed under public URIs, read from the server that has them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import INVALID_PARAMS, INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_search_server.gateway.merged_lists import entries_by_server
from tools_search_server.gateway.public_uris import public_uri, split_uri
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.views import SeenUpstream, View
from tools_search_server.upstreams.listing import RESOURCES, TEMPLATES

__all__ = ["owner_of", "read_resource"]

_LEGACY_NOT_FOUND: Final = -32002


async def read_resource(view: View, uri: str, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Read a resource for the caller of `ctx`, who sees `view`.

    Raises:
        MCPError: There is no such resource, or the server answered with an error or not at all.
    """
    seen, own = await owner_of(view, uri, ctx.protocol_version)

    def public(shown: str) -> str:
        return uri if shown == own else public_uri(seen.name, shown)

    try:
        return await relay(seen.upstream, {"uri": own}, ctx, public=public)
    except MCPError as error:
        raise _in_the_callers_words(error, own, uri, ctx.protocol_version) from error


async def owner_of(view: View, uri: str, version: str) -> tuple[SeenUpstream, str]:
    """Return the server that a URI leads to, and the URI by which that server knows it.

    Beside public URIs, a server's own are understood where they can be of one server only: they stand in texts and in
    metadata, which pass unread.

    Raises:
        MCPError: It leads to no server that the caller sees, or to several.
    """
    by_name = {seen.name: seen for seen in view.upstreams}
    if (split := split_uri(uri, by_name)) is not None:
        server, own = split
        if not by_name[server].rule.shows_more:
            text = f"The toolset names single tools of the MCP server {server!r}: its resources are not offered"
            raise MCPError(INVALID_REQUEST, text, {"uri": uri})
        return by_name[server], own
    owners = await _owners(view, uri)
    if len(owners) > 1 and public_uri("", uri) != uri:
        known_as = [public_uri(owner.name, uri) for owner in owners]
        text = f"Several MCP servers have the resource {uri!r}: read it as one of {', '.join(known_as)}"
        raise MCPError(INVALID_PARAMS, text, {"uri": uri})
    if not owners:
        raise MCPError(_not_found(version), "Resource not found", {"uri": uri})
    return owners[0], uri


def _in_the_callers_words(error: MCPError, own: str, uri: str, version: str) -> MCPError:
    """Return the error with the URI that was asked for, and with the code that its era has for what is not there."""
    data: Any = error.data
    names_it = isinstance(data, dict) and cast("dict[str, Any]", data).get("uri") == own
    is_unknown = error.code == _LEGACY_NOT_FOUND or (error.code == INVALID_PARAMS and names_it)
    code = _not_found(version) if is_unknown else error.code
    return MCPError(code, error.message, {**data, "uri": uri} if names_it else data)


def _not_found(version: str) -> int:
    return INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _LEGACY_NOT_FOUND


async def _owners(view: View, uri: str) -> list[SeenUpstream]:
    if listing := [seen for seen, listed in await entries_by_server(view, RESOURCES) if uri in listed]:
        return listing
    fits = partial(_fits, uri)
    return [seen for seen, listed in await entries_by_server(view, TEMPLATES) if any(map(fits, listed))]


def _fits(uri: str, template: str) -> bool:
    try:
        return uri == template or UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return False
