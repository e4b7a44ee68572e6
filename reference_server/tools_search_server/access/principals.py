"""Principals: the callers who may use a gateway over HTTP, with their tokens, toolsets and rate limits.

The guard of the HTTP endpoint sets the principal of each request, and handlers read it from `HTTP_CALLER`.
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
"""Lets people and secret scanners recognize a token."""

_SALT_BYTES: Final = 16
_HASH_FORM: Final = re.compile(rf"sha256:[0-9a-f]{{{2 * _SALT_BYTES}}}:[0-9a-f]{{64}}")

MIN_OPEN_REQUESTS: Final = 2
"""A client can keep one request open for notifications while it makes another."""

_MINUTE: Final = 60.0
_RETRY_SECONDS: Final = 1.0
"""When to retry while too many requests are open. When one will end is unknown."""


def new_token() -> str:
    """Return a bearer token of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str, salt: bytes | None = None) -> str:
    """Return the hash of a token for the configuration, with a new salt unless one is given."""
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    # A single round of SHA-256 is enough, since a token is as hard to guess as the hash. Slow hashes are for passwords,
    # and would slow down every request.
    digest = hashlib.sha256(salt + token.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{salt.hex()}:{digest}"


def is_token_hash(text: str) -> bool:
    """Return whether a text has the format of a `token_hash`."""
    return _HASH_FORM.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of the gateway."""

    name: str

    token: str
    """The token's `token_hash`."""

    toolset: Toolset = EVERYTHING

    requests_per_minute: int | None = None
    """Maximum HTTP requests per minute, which may all come at once; `None` for no limit."""

    open_requests: int | None = None
    """Maximum concurrent HTTP requests, including notification streams; `None` for no limit."""


def principal_of(token: str, principals: Collection[Principal]) -> Principal | None:
    """Return the owner of a token. The time taken reveals neither the owner nor how much of a hash matches."""

    def fits(hashed: str) -> bool:
        salt = bytes.fromhex(hashed.split(":")[1])
        return hmac.compare_digest(hashed, token_hash(token, salt))

    # Every principal is compared, also after a match.
    fitting = [principal for principal in principals if fits(principal.token)]
    return fitting[0] if fitting else None


@dataclass
class Throttle:
    """One caller's rate limits: a token bucket for requests per minute, and a count of open requests."""

    per_minute: int | None
    """Maximum requests per minute, which may all come at once; `None` for no limit."""

    most_open: int | None
    """Maximum concurrent requests; `None` for no limit."""

    _left: float = 0.0
    _counted_at: float = -math.inf
    _open: int = 0

    def enter(self, now: float) -> float:
        """Admit a request and return 0, or return the seconds to wait before a retry. Call `leave` when it ends."""
        # First, so that a request that is refused for this reason takes nothing from the bucket.
        if self.most_open is not None and self._open >= self.most_open:
            return _RETRY_SECONDS
        if self.per_minute is not None:
            # Infinitely long ago at first, so the bucket starts full.
            since = (now - self._counted_at) * self.per_minute / _MINUTE
            self._left = min(self._left + since, float(self.per_minute))
            self._counted_at = now
            if self._left < 1:
                return (1 - self._left) * _MINUTE / self.per_minute
            self._left -= 1
        self._open += 1
        return 0.0

    def leave(self) -> None:
        """Record the end of an admitted request."""
        self._open -= 1


HTTP_CALLER: Final = ContextVar[Principal | None]("tools_search_http_caller", default=None)
"""The principal whose HTTP request this task is answering; `None` without principals and on stdio."""


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the bearer token in the headers of a request, or `None` if there is none."""
    scheme, space, token = headers.get("authorization", "").partition(" ")
    return token.strip() if space and scheme.lower() == "bearer" else None


def note_caller(scope: Scope, principal: Principal) -> None:
    """Set the principal as the user of an HTTP request. The SDK binds sessions to this user."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal.name, scopes=[]))


def caller_name() -> str | None:
    """Return the name of the principal whose request this task is answering, or `None`."""
    principal = HTTP_CALLER.get()
    return None if principal is None else principal.name


def remember_caller(principals: Mapping[str, Principal]) -> ServerMiddleware[Any]:
    """Return middleware that sets `HTTP_CALLER` for each request, since sessions do not run in the guard's tasks.

    Everything that depends on the caller must be further in. If principals are configured, it refuses HTTP requests
    without one.
    """

    async def remember(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        principal = None
        if principals and ctx.request is not None:
            user = ctx.request.scope.get("user")
            principal = principals.get(user.username) if isinstance(user, AuthenticatedUser) else None
            if principal is None:  # the request bypassed the guard, or the principal was removed since
                raise MCPError(INTERNAL_ERROR, "Internal server error")
        noted = HTTP_CALLER.set(principal)
        try:
            return await call_next(ctx)
        finally:
            HTTP_CALLER.reset(noted)

    return remember
