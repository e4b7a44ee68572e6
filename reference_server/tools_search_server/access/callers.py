"""Which principal a request comes from: the guard of the HTTP endpoint notes it, handlers ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp_types import INTERNAL_ERROR
from starlette.types import Scope

from tools_search_server.access.principals import Principal

__all__ = ["HTTP_CALLER", "caller_of", "name_of_caller", "note_caller", "remember_caller"]

HTTP_CALLER: Final = ContextVar[Principal | None]("tools_search_http_caller", default=None)
"""Whose HTTP request this task is answering, for what the SDK calls without saying who asks."""


def note_caller(scope: Scope, principal: Principal) -> None:
    """Note in an HTTP request whose it is, where the SDK also looks when it binds a session to who has opened it."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal.name, scopes=[]))


def caller_of(ctx: ServerRequestContext[Any, Any], principals: Mapping[str, Principal]) -> Principal | None:
    """Return the principal whose request `ctx` is, or `None` where there are none, and on stdio.

    Raises:
        MCPError: An HTTP request has no principal although some are configured: it has passed no guard.
    """
    if not principals or ctx.request is None:
        return None
    user = ctx.request.scope.get("user")
    principal = principals.get(user.username) if isinstance(user, AuthenticatedUser) else None
    if principal is None:  # who has been one when the request came is none any more
        raise MCPError(INTERNAL_ERROR, "Internal server error")
    return principal


def name_of_caller(ctx: ServerRequestContext[Any, Any], principals: Mapping[str, Principal]) -> str | None:
    """Return the name of the principal whose request `ctx` is, or `None` where there are none, and on stdio.

    Raises:
        MCPError: As `caller_of`.
    """
    principal = caller_of(ctx, principals)
    return None if principal is None else principal.name


def remember_caller(principals: Mapping[str, Principal]) -> ServerMiddleware[Any]:
    """Return what sets `HTTP_CALLER` for each request: a session answers in a task of its own, whoever has opened it.

    It turns away what `caller_of` does, so it goes first in the chain.
    """

    async def remember(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        noted = HTTP_CALLER.set(caller_of(ctx, principals))
        try:
            return await call_next(ctx)
        finally:
            HTTP_CALLER.reset(noted)

    return remember
