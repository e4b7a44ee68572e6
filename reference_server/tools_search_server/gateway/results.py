"""A server's result as the caller's protocol revision has it, or an error that says why there is none.

What can be kept of a bad result of `tools/call` is kept, since the tool may have had its effect. Methods that only read
are answered with an error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mcp_types import CORE_RESULT_TYPES
from pydantic import ValidationError
from tools_search_hosts.results import (
    ASKING,
    CALL,
    COMPLETE,
    INPUT_REQUIRED,
    problem_in,
    result_model,
    salvaged,
    sieved,
)

__all__ = ["UnusableResultError", "in_revision"]

logger = logging.getLogger(__name__)


class UnusableResultError(Exception):
    """A server answered with what its caller cannot be given; the text names server, revision, member and place."""


def in_revision(result: Mapping[str, Any], method: str, version: str, server: str) -> dict[str, Any]:
    """Return a result with the members that a protocol revision has for it.

    Args:
        result: What the server answered; it may be anything.
        method: The method that was asked for.
        version: The revision.
        server: The server's name.

    Raises:
        UnusableResultError: The revision does not allow the result.
    """
    kind = result.get("resultType", COMPLETE)
    if not isinstance(kind, str) or kind not in CORE_RESULT_TYPES:
        text = f"The MCP server {server!r} answered with a result of type {repr(kind)[:100]}, which cannot be relayed."
        raise UnusableResultError(text)
    model = result_model(method, version, kind)
    if model is None:
        text = f"The MCP server {server!r} asks for more input, which revision {version} does not allow for {method!r}."
        raise UnusableResultError(text)
    if kind == INPUT_REQUIRED and not ASKING & result.keys():
        raise UnusableResultError(f"The MCP server {server!r} asks for more input and does not say for what.")
    members = {name: value for name, value in result.items() if kind == INPUT_REQUIRED or name not in ASKING}
    members["resultType"] = kind
    try:
        return sieved(members, method, version, model)
    except ValidationError as error:
        problem = problem_in(error)
    logger.warning(
        "%s: a result is invalid in protocol revision %s, at %s", server, version, problem, extra={"server": server}
    )
    if method == CALL and kind == COMPLETE:
        return salvaged(members, version, model, server)
    text = f"The MCP server {server!r} answered with a result that revision {version} does not allow: {problem}"
    raise UnusableResultError(text)
