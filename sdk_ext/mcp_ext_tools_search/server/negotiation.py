"""Negotiation and validation: the advertisement, the capability gate and the parameters of a search.

Draft: Capability Negotiation, Request. For a parameter of the wrong type, the SDK would return an error that names no
member, and it would report a handler's own validation errors as the client's fault. So the method is bound to a model
that accepts anything, and `read_params` validates.
"""

from __future__ import annotations

from typing import Any, Final, cast

import mcp_types
from mcp import MCPError
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp_types import ErrorData, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from mcp_ext_tools_search import types
from mcp_ext_tools_search.server.errors import invalid_params
from mcp_ext_tools_search.types import EXTENSION_ID, SearchToolsRequestParams, first_problem

PLACES: Final = {
    "server/discover": ("extensions",),
    # The SDK takes `extensions` out of the legacy result, and older clients know no such member: both places, always.
    "initialize": ("extensions", "experimental"),
}
"""Members of `capabilities` that contain the settings, by the method that returns them."""


class AnyParams(BaseModel):
    """Parameters that the SDK passes on unchecked, so that the gate comes before their validation."""


def as_object(result: HandlerResult) -> dict[str, Any]:
    """Return a handler's or middleware's result as a JSON object.

    Raises:
        MCPError: The result is an error that was returned instead of raised, as the SDK allows.
    """
    if isinstance(result, ErrorData):
        raise MCPError.from_error_data(result)
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return result or {}


def advertise_in(method: str, result: HandlerResult, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `method` with `settings` in each of its places, and with `tools` declared."""
    answer = as_object(result)
    capabilities = _member(answer, "capabilities")
    for place in PLACES[method]:
        capabilities[place] = {**_member(capabilities, place), EXTENSION_ID: settings}
    return {**answer, "capabilities": {"tools": {}, **capabilities}}


def _member(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the request uses protocol 2026-07-28 or later, where every request has capabilities."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def require_declared(ctx: ServerRequestContext[Any, Any]) -> None:
    """Refuse a modern client that did not declare the extension in this request.

    Legacy callers pass, since a stateless legacy HTTP server cannot know what a client declared in `initialize`.

    Raises:
        MCPError: -32021, with the missing capability.
    """
    if not is_modern(ctx):
        return
    # Read from the request itself: the SDK drops all capabilities of a request when one of them has a wrong shape.
    match ctx.params:
        case {"_meta": {mcp_types.CLIENT_CAPABILITIES_META_KEY: {"extensions": {types.EXTENSION_ID: dict()}}}}:
            return
        case _:
            raise MCPError(
                mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"Declare {EXTENSION_ID} in clientCapabilities.extensions to use {ctx.method}",
                data={"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}},
            )


def read_params(ctx: ServerRequestContext[Any, Any], max_query_chars: int) -> SearchToolsRequestParams:
    """Return the parameters of a search, ignoring members that the draft does not define.

    Raises:
        MCPError: -32602 with the member and the reason.
    """
    params = ctx.params or {}
    envelope = {name: value for name, value in params.items() if name == "_meta"}
    try:
        # With another `_meta` this caller could not list tools either: here that still counts as its own mistake.
        methods.validate_client_request("tools/list", ctx.protocol_version, envelope)
    except ValidationError:
        raise invalid_params("_meta", "is not what this protocol version defines") from None
    own = {name: value for name, value in params.items() if name != "_meta"}
    query = own.get("query")
    if isinstance(query, str) and len(query) > max_query_chars:
        raise invalid_params("query", f"must not be longer than {max_query_chars} characters")
    try:
        return SearchToolsRequestParams.model_validate(own, by_name=False)
    except ValidationError as error:
        raise invalid_params(*first_problem(error)) from None
