"""Principals: who may use a gateway over HTTP, by which token, what each sees and how much it may ask.

The guard of the HTTP endpoint notes the principal of a request, and handlers read it from `HTTP_CALLER`.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp_types import INTERNAL_ERROR
from starlette.types import Scope
from tools_search_hosts.toolsets import EVERYTHING, Toolset

_PREFIX: Final = "tsk_"
"""Lets people and scanners for leaked secrets recognize a token."""

_SALT_BYTES: Final = 16
_HASH_FORM: Final = re.compile(rf"sha256:[0-9a-f]{{{2 * _SALT_BYTES}}}:[0-9a-f]{{64}}")

MIN_OPEN_REQUESTS: Final = 2
"""A client may hold one request open for notifications while it makes another."""

_MINUTE: Final = 60.0
_RETRY_SECONDS: Final = 1.0
"""When to try again while too many requests are open; nobody knows when one will end."""


def new_token() -> str:
    """Return a bearer token of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str, salt: bytes | None = None) -> str:
    """Return the hash by which a configuration knows a token, with a new salt unless one is given.

    A single round of SHA-256 is enough, since a token is as hard to guess as the hash: slow hashes are for passwords,
    and would be paid for with every request.
    """
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.sha256(salt + token.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{salt.hex()}:{digest}"


def is_token_hash(text: str) -> bool:
    """Return whether a text has the form of a `token_hash`."""
    return _HASH_FORM.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of the gateway."""

    name: str

    token: str
    """The `token_hash` of its token."""

    toolset: Toolset = EVERYTHING

    requests_per_minute: int | None = None
    """How many HTTP requests it may make; all of a minute's may come at once."""

    open_requests: int | None = None
    """How many HTTP requests it may have open at the same time, streams of notifications included."""


def principal_of(token: str, principals: Collection[Principal]) -> Principal | None:
    """Return the owner of a token, in a time that reveals neither the owner nor how much of a hash is right."""

    def fits(hashed: str) -> bool:
        salt = bytes.fromhex(hashed.split(":")[1])
        return hmac.compare_digest(hashed, token_hash(token, salt))

    fitting = [principal for principal in principals if fits(principal.token)]  # every principal is compared
    return fitting[0] if fitting else None


@dataclass
class Throttle:
    """Limits of one caller: a token bucket for requests per minute, and a count of open requests."""

    per_minute: int | None
    """Requests that are admitted within a minute, all of which may come at once; `None` for any number."""

    most_open: int | None
    """Requests that may be open at the same time; `None` for any number."""

    _left: float = 0.0
    _counted_at: float = -math.inf
    _open: int = 0

    def enter(self, now: float) -> float:
        """Admit a request, to be followed by `leave`, and return 0; or return after how many seconds to ask again."""
        if self.most_open is not None and self._open >= self.most_open:
            return _RETRY_SECONDS
        if self.per_minute is not None:
            since = (now - self._counted_at) * self.per_minute / _MINUTE
            self._left = min(self._left + since, float(self.per_minute))
            self._counted_at = now
            if self._left < 1:
                return (1 - self._left) * _MINUTE / self.per_minute
            self._left -= 1
        self._open += 1
        return 0.0

    def leave(self) -> None:
        """Note the end of a request that was admitted."""
        self._open -= 1


HTTP_CALLER: Final = ContextVar[Principal | None]("tools_search_http_caller", default=None)
"""The principal whose HTTP request this task is answering; `None` where there are no principals, and on stdio."""


def note_caller(scope: Scope, principal: Principal) -> None:
    """Note the principal in an HTTP request, where the SDK looks when it binds a session to its user."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal.name, scopes=[]))


def caller_name() -> str | None:
    """Return the name of the principal whose request this task is answering, or `None`."""
    principal = HTTP_CALLER.get()
    return None if principal is None else principal.name


def remember_caller(principals: Mapping[str, Principal]) -> ServerMiddleware[Any]:
    """Return the middleware that sets `HTTP_CALLER` for each request: a session answers in other tasks than its guard.

    It goes first in the chain, since it refuses an HTTP request without a principal where some are configured.
    """

    async def remember(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        principal = None
        if principals and ctx.request is not None:
            user = ctx.request.scope.get("user")
            principal = principals.get(user.username) if isinstance(user, AuthenticatedUser) else None
            if principal is None:  # it has passed no guard, or it has been removed since
                raise MCPError(INTERNAL_ERROR, "Internal server error")
        noted = HTTP_CALLER.set(principal)
        try:
            return await call_next(ctx)
        finally:
            HTTP_CALLER.reset(noted)

    return remember
