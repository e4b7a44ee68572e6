"""Reading the parameters of a search, with errors that say what is wrong (draft: Request, Protocol Errors).

The SDK would answer a parameter of the wrong type with an error that names no member, and hand a handler's own
validation errors to the client as its fault. So the method is bound to a model that accepts anything, and this module
decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, methods
from pydantic import BaseModel, ConfigDict, ValidationError

from mcp_ext_tools_search.types import BusyData, SearchToolsRequestParams

__all__ = ["AnyParams", "invalid_params", "read_params", "too_busy"]

_RETRY_AFTER_MS: Final = 1000
"""Many times what a search takes, so that those who were refused do not come back to the same crowd."""

_REASONS = {
    "missing": "is required",
    "string_type": "must be a string",
    "greater_than_equal": "must be at least 1",
}


class AnyParams(BaseModel):
    """Parameters that the SDK is to let through, so that the gate comes before any check of them."""

    model_config = ConfigDict(extra="ignore")


def invalid_params(field: str, reason: str) -> MCPError:
    """Return the error for a parameter that is wrong; nothing of its value is repeated."""
    return MCPError(INVALID_PARAMS, f"Invalid params: {field} {reason}", data={"field": field, "reason": reason})


def too_busy() -> MCPError:
    """Return the error for a search that is one too many at the moment."""
    message = f"Too many searches at once; search again in {_RETRY_AFTER_MS} ms"
    return MCPError(INTERNAL_ERROR, message, data=BusyData(retry_after_ms=_RETRY_AFTER_MS).to_wire())


def read_params(
    params: Mapping[str, Any] | None, *, protocol_version: str, max_query_chars: int
) -> SearchToolsRequestParams:
    """Return the parameters of a search; members that the draft does not define are ignored.

    Raises:
        MCPError: -32602 with the member and the reason.
    """
    _require_listable(params or {}, protocol_version)
    own = {name: value for name, value in (params or {}).items() if name != "_meta"}
    query = own.get("query")
    if isinstance(query, str) and len(query) > max_query_chars:
        raise invalid_params("query", f"must not be longer than {max_query_chars} characters")
    try:
        return SearchToolsRequestParams.model_validate(own, by_name=False)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = _REASONS.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise invalid_params(str(first["loc"][0]), reason) from None


def _require_listable(params: Mapping[str, Any], protocol_version: str) -> None:
    """Refuse a `_meta` with which this caller could not list tools either, while it still counts as its own mistake."""
    envelope = {name: value for name, value in params.items() if name == "_meta"}
    try:
        methods.validate_client_request("tools/list", protocol_version, envelope)
    except ValidationError:
        raise invalid_params("_meta", "is not what this protocol version defines") from None
