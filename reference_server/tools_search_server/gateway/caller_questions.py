"""Forwards an upstream's questions (elicitation, sampling, roots) to the caller whose request it is processing.

A modern server asks by answering with `input_required`, and then gets the request again with the answers. A modern
caller handles that itself. For a legacy caller, this module sends ordinary requests and repeats the original one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from typing import Any, Final, cast

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_REQUEST, ServerRequest, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts.json_values import as_object, is_object
from tools_search_hosts.results import INPUT_REQUIRED

from tools_search_server.upstreams.questions import ANSWER_SECONDS

_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}

_MAX_ROUNDS: Final = 10
_MAX_QUESTIONS: Final = 16
"""Maximum number of questions per round."""

_FIRST_WAIT: Final = 0.05
_MAX_WAIT: Final = 1
"""Seconds to wait before repeating the request to a server that asks no questions but wants a retry."""


class UnansweredError(Exception):
    """The caller does not answer a question. The text says why."""


class _RawResult(BaseModel):
    model_config = ConfigDict(extra="allow")


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the connection of `ctx`: the same object for all requests of a legacy session, which closes with it.

    The SDK has no public API for this. `reference_server/tests/test_sdk_canaries.py` checks the private one.
    """
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def answerable(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Return the capabilities that declare which questions the caller of `ctx` answers."""
    declared = ctx.session.client_capabilities
    if declared is None:
        return {}
    dumped = declared.model_dump(by_alias=True, mode="json", exclude_none=True)
    # `roots.listChanged` is meaningless to a server that asks on each request.
    return {name: {} if name == "roots" else dumped[name] for name in sorted(_CAPABILITIES.values()) if name in dumped}


async def ask_caller(ctx: ServerRequestContext[Any, Any], method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request to the legacy caller of `ctx` while its own request is open, and return the raw result.

    Raises:
        MCPError: The caller cannot be asked this, refuses, or takes too long. The message says which.
    """
    if reason := _reason_not_to_ask(ctx, method, params):
        raise MCPError(INVALID_REQUEST, reason)
    try:
        question = cast("ServerRequest", methods.parse_server_request(method, ctx.protocol_version, params))
    except (KeyError, ValidationError):
        text = f"the client's protocol revision {ctx.protocol_version} has no such request"
        raise MCPError(INVALID_REQUEST, text) from None
    # Over HTTP, the question must travel on the response to this request, the only stream that surely is open.
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answer = await ctx.session.send_request(question, _RawResult, ANSWER_SECONDS, related)
    except ValidationError:
        raise MCPError(INVALID_REQUEST, "the client answered with an invalid result") from None
    return answer.model_dump(mode="json")


async def completed(
    result: Mapping[str, Any],
    ctx: ServerRequestContext[Any, Any],
    again: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
) -> Mapping[str, Any]:
    """Answer the questions of a modern server on behalf of a legacy caller, and return its final result.

    `result`, the server's first one, may already be final. `again` repeats the request with additional parameters.

    Raises:
        UnansweredError: The caller cannot be asked or refuses, or the server does not stop asking.
    """
    wait = _FIRST_WAIT
    for _ in range(_MAX_ROUNDS + 1):
        if result.get("resultType") != INPUT_REQUIRED:
            return result
        # The state is the server's own, possibly sealed: it is returned as it came.
        more = {"requestState": result["requestState"]} if "requestState" in result else {}
        if questions := result.get("inputRequests"):
            more["inputResponses"] = await _answers(questions, ctx)
        else:
            await anyio.sleep(wait)
            wait = min(wait * 2, _MAX_WAIT)
        result = await again(more)
    raise UnansweredError(f"it asks more than {_MAX_ROUNDS} times")


async def _answers(questions: Any, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    if not is_object(questions) or len(questions) > _MAX_QUESTIONS:
        raise UnansweredError(f"it asks more than {_MAX_QUESTIONS} questions at once, or its questions are unreadable")
    answers: dict[str, Any] = {}
    for key, question in questions.items():
        match question:
            case {"method": str(method), **others}:
                params = as_object(others.get("params"))
            case _:
                raise UnansweredError("it asks a question that is not in the protocol")
        if params.get("mode") == "url":  # legacy revisions require an id, but modern ones have none
            params = {"elicitationId": token_hex(), **params}
        try:
            answers[key] = await ask_caller(ctx, method, params)
        except MCPError as error:
            raise UnansweredError(error.message) from error
    return answers


def _reason_not_to_ask(ctx: ServerRequestContext[Any, Any], method: str, params: Mapping[str, Any]) -> str:
    """Return why the caller of `ctx` cannot be asked this, or an empty string if it can."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return (
            f"the client uses revision {ctx.protocol_version}, which asks with results of type {INPUT_REQUIRED!r}, "
            "but the server uses an older revision, which cannot repeat requests"
        )
    name = _CAPABILITIES.get(method)
    if name is None:
        return f"clients are never asked for {method!r}"
    if not ctx.session.can_send_request:  # without a session (`--stateless`), the gateway knows no capabilities either
        return "the client's connection cannot carry requests to the client"
    capability = answerable(ctx).get(name)
    lacks = f"the client does not declare the capability {name!r}"
    if capability is None:
        return lacks
    is_url = params.get("mode") == "url"
    if name == "elicitation" and is_url and "url" not in capability:
        return f"{lacks} for URLs"
    if name == "elicitation" and not is_url and capability and "form" not in capability:
        return f"{lacks} for forms"
    if name == "sampling" and params.get("tools") and "tools" not in capability:
        return f"{lacks} with tools"
    return ""
