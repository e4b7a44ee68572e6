"""Authentication and rate limits for the HTTP endpoints: they admit only principals, each within its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_ext_tools_search.types import BusyData
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tools_search_server.access.configuration import Access
from tools_search_server.access.principals import (
    HTTP_CALLER,
    Principal,
    Throttle,
    bearer_token,
    note_caller,
    principal_of,
)
from tools_search_server.programs.health import HEALTH_PATH

_SERVER_ERROR: Final = -32000

_MAX_SESSIONS: Final = 500
"""Maximum open sessions per principal: a quarter of an endpoint's."""

_INVALID_TOKEN: Final = "The bearer token is not valid here"  # noqa: S105 - a text
_TOO_MANY_SESSIONS: Final = (
    f"Too many sessions: {_MAX_SESSIONS} are open with this token; end unused sessions with DELETE; sessions time out "
    "after 30 minutes without a request"
)


class Guard:
    """Passes principals' requests on to an ASGI application and refuses all others.

    The health document needs no token, since monitors have none; with a token it contains more. Revoking a principal
    ends its open requests. `sessions` returns a principal's number of open sessions; it is `None` if there are none.
    """

    def __init__(self, app: ASGIApp, sessions: Callable[[str], int] | None, *, access: Access) -> None:
        self._app = app
        self._principals = access.principals
        self._throttles: dict[str, tuple[Principal, Throttle]] = {}
        self._open: dict[str, set[anyio.CancelScope]] = {}
        self._sessions = sessions
        self._opening: set[tuple[str, int]] = set()
        access.on_revoked.append(self._end)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        token = bearer_token(Headers(scope=scope)) if scope["type"] == "http" else None
        if scope["type"] != "http" or (token is None and scope["path"] == HEALTH_PATH):
            await self._app(scope, receive, send)
            return
        principal = None if token is None else principal_of(token, self._principals.values())
        if principal is None:
            # RFC 6750: the challenge has no error code if the request has no token.
            challenge = "Bearer" if token is None else 'Bearer error="invalid_token"'
            text = "Send a bearer token in the Authorization header" if token is None else _INVALID_TOKEN
            await _refusal(401, text, {"WWW-Authenticate": challenge})(scope, receive, send)
            return
        # Kept while the principal is the same: a reload of the configuration does not refill its bucket.
        known, throttle = self._throttles.get(principal.name, (None, None))
        if throttle is None or known != principal:
            throttle = Throttle(principal.requests_per_minute, principal.open_requests)
            self._throttles[principal.name] = principal, throttle
        if seconds := throttle.enter(anyio.current_time()):
            wait = math.ceil(seconds)
            # Draft, Error Handling: this is the error for a search over the rate limit. Other methods get it too.
            text, headers = f"Too many requests: try again in {wait} s", {"Retry-After": str(wait)}
            data = BusyData(retry_after_ms=wait * 1000).to_wire()
            await _refusal(429, text, headers, code=INTERNAL_ERROR, data=data)(scope, receive, send)
            return
        try:
            await self._pass_on(principal, scope, receive, send)
        finally:
            throttle.leave()

    async def _pass_on(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        opening = (principal.name, id(scope))
        if self._sessions is not None and _opens_session(scope):
            # Sessions being opened are not in `sessions` yet, and a client may open any number at once.
            others = sum(name == principal.name for name, _ in self._opening)
            if self._sessions(principal.name) + others >= _MAX_SESSIONS:
                await _refusal(429, _TOO_MANY_SESSIONS, {"Retry-After": "60"})(scope, receive, send)
                return
            self._opening.add(opening)

        async def answer(message: Message) -> None:
            self._opening.discard(opening)  # `sessions` counts it by now
            await send(message)

        note_caller(scope, principal)
        # For what runs in this task: the health document, and the schema of a called tool.
        noted = HTTP_CALLER.set(principal)
        opened = self._open.setdefault(principal.name, set())
        with anyio.CancelScope() as end:
            opened.add(end)
            try:
                await self._app(scope, receive, answer)
            finally:
                opened.discard(end)
                self._opening.discard(opening)
                HTTP_CALLER.reset(noted)

    def _end(self, revoked: Collection[str]) -> None:
        for name in revoked:
            for end in self._open.get(name, set[anyio.CancelScope]()):
                end.cancel()


def _opens_session(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    is_legacy = headers.get(MCP_PROTOCOL_VERSION_HEADER) in {None, *HANDSHAKE_PROTOCOL_VERSIONS}
    return scope["method"] == "POST" and MCP_SESSION_ID_HEADER not in headers and is_legacy


def _refusal(status: int, message: str, headers: Mapping[str, str], **error: Any) -> JSONResponse:
    document = {"jsonrpc": "2.0", "id": None, "error": {"code": _SERVER_ERROR, "message": message, **error}}
    return JSONResponse(document, status, headers)
