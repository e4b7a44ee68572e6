"""Relays requests to an upstream, and results back to the caller.

* Results stay unchanged as far as the caller's protocol revision allows. Only the URIs of resources change, so that
  they lead back to the upstream, and the upstream's identity is removed.
* The valid parts of an invalid `tools/call` result are kept, since the tool may have had its effect. All other methods
  only read, so their invalid results become errors.
* Errors about the message between gateway and upstream would mislead the caller, so they become internal errors.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_ext_search_primitives import PROMPTS, RESOURCES
from mcp_ext_tools_search.client import MODERN_ONLY
from mcp_ext_tools_search.types import TOOLS, cache_hints
from mcp_types import (
    CORE_RESULT_TYPES,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from tools_search_hosts.endings import malformed, refused_status, timed_out
from tools_search_hosts.json_values import as_list, as_object, is_list, is_object
from tools_search_hosts.results import (
    ASKING,
    CALL,
    COMPLETE,
    INPUT_REQUIRED,
    invalid_member,
    result_model,
    salvaged,
    sieved,
)

from tools_search_server.base.errors import LEGACY_NOT_FOUND
from tools_search_server.base.redaction import quoted
from tools_search_server.gateway.caller_questions import (
    UnansweredError,
    answerable,
    ask_caller,
    completed,
    connection_of,
)
from tools_search_server.gateway.public_names import public_uri
from tools_search_server.upstreams.listing import Kind
from tools_search_server.upstreams.questions import Caller
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)

_ENVELOPE: Final = "io.modelcontextprotocol/"
_KEPT: Final[Mapping[str, Sequence[str]]] = {
    CALL: ("arguments",),
    "completion/complete": ("argument", "context"),
    "prompts/get": ("arguments",),
}
"""Parameters that are passed to the upstream unchanged, by method."""

_LINKING: Final = ("content", "messages", "contents")
"""Members of results that can contain resource URIs."""

_CONNECTION_ERRORS: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION}
)
"""Errors about the message between gateway and upstream, which do not apply to the caller's message."""


_LISTED_AS: Final[Mapping[str, tuple[Kind, str]]] = {
    CALL: (TOOLS, "name"),
    "prompts/get": (PROMPTS, "name"),
    "resources/read": (RESOURCES, "uri"),
}
"""By method, the list of the item that is requested, and the parameter that names the item."""

_UNKNOWN_CODES: Final = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND, LEGACY_NOT_FOUND})
_UNKNOWN: Final = re.compile(r"unknown|not found|no such|(?:not|n't) (?:exist|available|registered)", re.IGNORECASE)
"""What servers say of an item that they do not have, with any code, and of tools also in results."""


class UnusableResultError(Exception):
    """A result that the caller cannot get. The text names server, revision, member and place."""


async def relay(
    upstream: Upstream,
    ctx: ServerRequestContext[Any, Any],
    own: Mapping[str, Any],
    *,
    public: Callable[[str], str] | None = None,
) -> dict[str, Any]:
    """Send the caller's request to an upstream, and return the result.

    Progress and cancellation are relayed while the request runs. In `tools/call`, a failure that a caller could not
    handle as a protocol error (the server is down, the result needs a newer client) becomes a result with `isError`
    for the model.

    Args:
        upstream: The server.
        ctx: The caller's request.
        own: Parameters in the upstream's terms. In addition, the caller's parameters in `_KEPT` are sent unchanged.
        public: Returns the public form of an upstream's URI; by default `public_uri`.

    Raises:
        MCPError: The server answered with an error, took too long, or answered with something that is not a result; or,
            except in `tools/call`, it is down.
    """
    params = ctx.params or {}
    kept = {name: params[name] for name in _KEPT.get(ctx.method, ()) if name in params}
    try:
        # First, because whether an upstream is modern is known only while it runs.
        await upstream.ensure_running(own["name"] if ctx.method == CALL else None)
        result = await _result(upstream, {**own, **kept}, ctx)
        return _presented(result, ctx, upstream.name, public or partial(public_uri, upstream.name))
    except (UnavailableError, UnusableResultError) as error:
        if ctx.method == CALL:
            return {"resultType": COMPLETE, "content": [{"type": "text", "text": str(error)}], "isError": True}
        raise MCPError(INTERNAL_ERROR, str(error)) from error


async def _result(upstream: Upstream, own: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    """Return the upstream's final result, or, for a modern caller, its `input_required` result."""
    caller = Caller(connection_of(ctx), partial(ask_caller, ctx), ctx.session.send_elicit_complete)
    params = ctx.params or {}
    meta = as_object(params.get("_meta"))
    # Each side of the gateway has its own envelope and its own progress tokens.
    forwarded_meta = {k: v for k, v in meta.items() if not k.startswith(_ENVELOPE) and k != "progressToken"}
    is_modern = upstream.is_modern

    async def ask(more: Mapping[str, Any]) -> Mapping[str, Any]:
        forwarded = {**own, **more}
        if is_modern:  # a modern caller repeats its request with the answers to the upstream's questions
            forwarded |= {name: params[name] for name in ("inputResponses", "requestState") if name in params}
        result = await upstream.request(
            ctx.method,
            forwarded | ({"_meta": forwarded_meta} if forwarded_meta else {}),
            caller,
            ctx.session.report_progress if "progressToken" in meta else None,
            answerable(ctx),
        )
        if ctx.method == CALL and result.get("isError") is True:
            texts = [as_object(block).get("text") for block in as_list(result.get("content"))]
            _doubt(upstream, ctx.method, own, None, " ".join(text for text in texts if isinstance(text, str)))
        if not is_modern:
            return {name: value for name, value in result.items() if name not in MODERN_ONLY}
        # Checked here, because `completed` acts on it.
        if result.get("resultType") == INPUT_REQUIRED:
            return _in_revision(result, ctx.method, LATEST_MODERN_VERSION, upstream.name)
        return result

    try:
        result = await ask({})
        return result if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else await completed(result, ctx, ask)
    except UnansweredError as error:
        why = f"asks for more input before it continues, but cannot get it: {error}."
        raise UnusableResultError(f"The MCP server {upstream.name!r} {why}") from error
    except MCPError as error:
        _doubt(upstream, ctx.method, own, error.code, error.message)
        raise _for_caller(error, f"The MCP server {upstream.name!r}") from error


def _doubt(upstream: Upstream, method: str, own: Mapping[str, Any], code: int | None, text: str) -> None:
    """Have the list of the requested item read again if the server says that it does not have the item."""
    kind, parameter = _LISTED_AS.get(method, (None, ""))
    if kind is not None and (code in _UNKNOWN_CODES or (own[parameter] in text and _UNKNOWN.search(text))):
        upstream.doubt(kind, own[parameter])


def _for_caller(error: MCPError, server: str) -> MCPError:
    """Return a server's error as the caller gets it."""
    code, message = error.code, error.message
    if timed_out(error):
        message = f"{server} did not answer in time"
    elif malformed(error):
        message = f"{server} answered, but {message}"
    elif (status := refused_status(error)) is not None:
        code, message = INTERNAL_ERROR, f"{server} refused the request with HTTP {status}"
    elif code in _CONNECTION_ERRORS:
        message = f"{server} refused the request with error {code}: {quoted(message)}"
        code = INTERNAL_ERROR
    return MCPError(code, message, error.data)


def _in_revision(result: Mapping[str, Any], method: str, version: str, server: str) -> dict[str, Any]:
    """Return the members of an unvalidated result that a protocol revision defines."""
    kind = result.get("resultType", COMPLETE)
    if not isinstance(kind, str) or kind not in CORE_RESULT_TYPES:
        text = f"The MCP server {server!r} answered with a result of type {repr(kind)[:100]}, which cannot be relayed."
        raise UnusableResultError(text)
    model = result_model(method, version, kind)
    if model is None:
        text = f"The MCP server {server!r} asks for more input, which revision {version} does not allow in {method!r}."
        raise UnusableResultError(text)
    if kind == INPUT_REQUIRED and not ASKING & result.keys():
        raise UnusableResultError(f"The MCP server {server!r} asks for more input but does not say what it needs.")
    members = {**result, "resultType": kind}
    try:
        return sieved(members, method, version, model)
    except ValidationError as error:
        problem = invalid_member(error)
    logger.warning(
        "%s: a result is invalid in protocol revision %s, at %s", server, version, problem, extra={"server": server}
    )
    if method == CALL and kind == COMPLETE:
        return salvaged(members, version, model, server)
    text = f"The MCP server {server!r} answered with a result that revision {version} does not allow: {problem}"
    raise UnusableResultError(text)


def _presented(
    result: Mapping[str, Any], ctx: ServerRequestContext[Any, Any], server: str, public: Callable[[str], str]
) -> dict[str, Any]:
    """Return a result as if from the gateway: without the upstream's identity, in the caller's revision."""
    presented = {name: _linked(value, public) if name in _LINKING else value for name, value in result.items()}
    if meta := {k: v for k, v in as_object(presented.pop("_meta", None)).items() if k != SERVER_INFO_META_KEY}:
        presented["_meta"] = meta
    if ctx.method == "resources/read" and presented.get("resultType", COMPLETE) == COMPLETE:
        # The gateway reads with its own token; other callers of the gateway might not be allowed to read this.
        presented |= {"ttlMs": cache_hints(presented)[0], "cacheScope": "private"}
    return _in_revision(presented, ctx.method, ctx.protocol_version, server)


def _linked(value: Any, public: Callable[[str], str]) -> Any:
    """Return an unvalidated value from a result, with the URIs of linked and embedded resources replaced."""
    if is_list(value):
        return [_linked(item, public) for item in value]
    if not is_object(value):
        return value
    block = dict(value)
    match block:
        case {"type": "resource_link", "uri": str(uri)}:
            block["uri"] = public(uri)
        case {"type": "resource", "resource": {"uri": str(uri), **others}}:
            block["resource"] = others | {"uri": public(uri)}
        case {"role": _, "content": content}:
            block["content"] = _linked(content, public)
        case {"uri": str(uri)} if "type" not in block:
            block["uri"] = public(uri)
        case _:
            pass
    return block
