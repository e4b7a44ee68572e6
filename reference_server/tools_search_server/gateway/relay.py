"""Passing a request on to an upstream server and its result back, unchanged as far as can be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_ext_tools_search.client.endings import malformed, timed_out
from mcp_ext_tools_search.client.raw import MODERN_ONLY
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from tools_search_hosts.results import INPUT_REQUIRED

from tools_search_server.base.redaction import quoted
from tools_search_server.gateway.caller_questions import Unanswered, answerable, ask_caller, completed
from tools_search_server.gateway.caller_session import connection_of
from tools_search_server.gateway.links import with_public_links
from tools_search_server.gateway.public_uris import public_uri
from tools_search_server.gateway.results import UnusableResultError, in_revision
from tools_search_server.upstreams.questions import Caller
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["relay", "relay_call"]

_READ: Final = "resources/read"
_ENVELOPE: Final = "io.modelcontextprotocol/"

_OF_THE_CONNECTION: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION}
)
"""Errors that speak of the message between gateway and server: to the caller they would say what is not so."""


_Ask: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


async def relay_call(upstream: Upstream, tool: str, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Call `tool` of an upstream server for the caller of `ctx`.

    Progress goes back while the call runs; when the caller cancels, so does the upstream request. What the caller could
    do nothing with as a protocol error (the server is down, the result needs a newer client) is a result with
    `isError`, for the model to read.

    Raises:
        MCPError: The server answered with an error, took too long, or answered with what is no result.
    """
    params = ctx.params or {}
    arguments = {"arguments": params["arguments"]} if "arguments" in params else {}
    try:
        await upstream.ensure_running(tool)
        return await _relay(upstream, {"name": tool, **arguments}, ctx, partial(public_uri, upstream.name))
    except (UnavailableError, UnusableResultError) as error:
        return {"resultType": "complete", "content": [{"type": "text", "text": str(error)}], "isError": True}


async def relay(
    upstream: Upstream,
    params: Mapping[str, Any],
    ctx: ServerRequestContext[Any, Any],
    *,
    public: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Ask an upstream server what the caller of `ctx` has asked.

    Args:
        upstream: The server.
        params: The members of the parameters that are the method's own, as the server knows them.
        ctx: The request.
        public: Gives the URI by which callers know one of the server's.

    Raises:
        MCPError: The server answered with an error, is down, took too long, or answered with what is no result.
    """
    try:
        await upstream.ensure_running()
        return await _relay(upstream, params, ctx, public)
    except (UnavailableError, UnusableResultError) as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from error


async def _relay(
    upstream: Upstream, own: Mapping[str, Any], ctx: ServerRequestContext[Any, Any], public: Callable[[str], str]
) -> dict[str, Any]:
    caller = Caller(connection_of(ctx), partial(ask_caller, ctx), ctx.session.send_elicit_complete)

    is_modern = upstream.is_modern

    async def ask(members: Mapping[str, Any]) -> Mapping[str, Any]:
        result = await upstream.request(
            ctx.method,
            _forwarded(ctx.params or {}, {**own, **members}, is_modern=is_modern),
            caller,
            on_progress=ctx.session.report_progress if _wants_progress(ctx.params or {}) else None,
            capabilities=answerable(ctx),
        )
        if not is_modern:
            return {name: value for name, value in result.items() if name not in MODERN_ONLY}
        # Before anybody is asked, or waits.
        asks = result.get("resultType") == INPUT_REQUIRED
        return in_revision(result, ctx.method, LATEST_MODERN_VERSION, upstream.name) if asks else result

    try:
        result = await ask({})
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            result = await _completed(result, upstream.name, ctx, ask)
    except MCPError as error:
        raise _translated(error, upstream.name) from error
    return _presented(with_public_links(result, public), ctx.method, ctx.protocol_version, upstream.name)


async def _completed(
    result: Mapping[str, Any], server: str, ctx: ServerRequestContext[Any, Any], ask: _Ask
) -> Mapping[str, Any]:
    try:
        return await completed(result, ctx, ask)
    except Unanswered as error:
        text = f"The MCP server {server!r} asks for more input before it goes on, which it cannot be given: {error}."
        raise UnusableResultError(text) from error


def _forwarded(params: Mapping[str, Any], own: Mapping[str, Any], *, is_modern: bool) -> dict[str, Any]:
    answers = ("inputResponses", "requestState") if is_modern else ()
    forwarded = {**own} | {name: params[name] for name in answers if name in params}
    meta = {
        key: value
        for key, value in _object(params.get("_meta")).items()
        if not key.startswith(_ENVELOPE) and key != "progressToken"
    }
    return forwarded | ({"_meta": meta} if meta else {})


def _wants_progress(params: Mapping[str, Any]) -> bool:
    return "progressToken" in _object(params.get("_meta"))


def _translated(error: MCPError, server: str) -> MCPError:
    if timed_out(error):
        return MCPError(error.code, f"The MCP server {server!r} did not answer in time", error.data)
    if malformed(error):
        return MCPError(error.code, f"The MCP server {server!r} answered, and {error.message}")
    if error.code in _OF_THE_CONNECTION:
        message = f"The MCP server {server!r} refused the request with error {error.code}: {quoted(error.message)}"
        return MCPError(INTERNAL_ERROR, message, error.data)
    return MCPError(error.code, error.message, error.data)


def _presented(result: Mapping[str, Any], method: str, protocol_version: str, server: str) -> dict[str, Any]:
    """Return a result as the gateway's own: without the upstream's identity, and in the caller's revision.

    Raises:
        UnusableResultError: The caller's revision does not allow it.
    """
    presented = dict(result)
    if meta := {k: v for k, v in _object(presented.pop("_meta", None)).items() if k != SERVER_INFO_META_KEY}:
        presented["_meta"] = meta
    if method == _READ and presented.get("resultType", "complete") == "complete":
        # What the gateway's own token may read is not for every caller of the gateway.
        ttl = presented.get("ttlMs")
        presented |= {"ttlMs": ttl if isinstance(ttl, int) and ttl >= 0 else 0, "cacheScope": "private"}
    return in_revision(presented, method, protocol_version, server)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
