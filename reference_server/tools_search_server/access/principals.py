"""Principals: who may use a gateway over HTTP, by which token, what each sees and how much it may ask.

The guard of the HTTP endpoint notes the principal of a request; handlers read it (`caller_of`, `HTTP_CALLER`).

    "principals": {"alice": {"token": "sha256:…", "toolset": "reading", "requestsPerMinute": 600, "openRequests": 8}}

Only `token` is required. Without a toolset a principal sees everything, without limits it has none. Members of any
other name are refused: a toolset that is overlooked would show what it hides.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp_types import INTERNAL_ERROR
from starlette.types import Scope
from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest

_PREFIX: Final = "tsk_"
"""Lets people and scanners for leaked secrets recognize a token."""

_TOKEN_BYTES: Final = 32
_SALT_BYTES: Final = 16
_HASH_FORM: Final = re.compile(rf"sha256:([0-9a-f]{{{2 * _SALT_BYTES}}}):([0-9a-f]{{64}})")

_MEMBERS: Final = ("token", "toolset", "requestsPerMinute", "openRequests")
_MIN_OPEN_REQUESTS: Final = 2
"""A client may hold one request open for notifications while it makes another."""

_MINUTE: Final = 60.0
_RETRY_SECONDS: Final = 1.0
"""When to try again while too many requests are open; nobody knows when one will end."""


def new_token() -> str:
    """Return a bearer token of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class TokenHash:
    """The salted hash by which a configuration knows a token.

    A single round of SHA-256 is enough, since a token is as hard to guess as the hash: slow hashes are for passwords,
    and would be paid for with every request.
    """

    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, token: str) -> TokenHash:
        """Hash a token with a new salt."""
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(salt, _digest(salt, token))

    @classmethod
    def read(cls, text: str) -> TokenHash:
        """Read the form that `str` gives.

        Raises:
            ValueError: It is something else; the message does not repeat it, since it may be a token.
        """
        form = _HASH_FORM.fullmatch(text)
        if form is None:
            raise ValueError("is no hash of a token")
        return cls(bytes.fromhex(form[1]), bytes.fromhex(form[2]))

    def __str__(self) -> str:
        return f"sha256:{self.salt.hex()}:{self.digest.hex()}"

    def fits(self, token: str) -> bool:
        """Return whether `token` was hashed, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self.digest, _digest(self.salt, token))


def _digest(salt: bytes, token: str) -> bytes:
    return hashlib.sha256(salt + token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Principal:
    """A user of the gateway."""

    name: str
    token: TokenHash
    toolset: Toolset = EVERYTHING

    requests_per_minute: int | None = None
    """How many HTTP requests it may make; all of a minute's may come at once."""

    open_requests: int | None = None
    """How many HTTP requests it may have open at the same time, streams of notifications included."""


def principal_of(token: str, principals: Collection[Principal]) -> Principal | None:
    """Return the owner of a token. Every principal is compared, so that the time taken does not reveal the owner."""
    fitting = [principal for principal in principals if principal.token.fits(token)]
    return fitting[0] if fitting else None


class Throttle:
    """Limits of one caller: a token bucket for requests per minute, and a count of open requests.

    Args:
        per_minute: Requests that are admitted within a minute, all of which may come at once; `None` for any number.
        most_open: Requests that may be open at the same time; `None` for any number.
    """

    def __init__(self, per_minute: int | None, most_open: int | None) -> None:
        self._per_minute = per_minute
        self._most_open = most_open
        self._left = float(per_minute or 0)
        self._counted_at: float | None = None
        self._open = 0

    def enter(self, now: float) -> float:
        """Admit a request, to be followed by `leave`, and return 0; or return after how many seconds to ask again.

        Args:
            now: Seconds on a clock that never goes back.
        """
        if self._most_open is not None and self._open >= self._most_open:
            return _RETRY_SECONDS
        if self._per_minute is not None:
            passed = 0.0 if self._counted_at is None else now - self._counted_at
            self._left = min(self._left + passed * self._per_minute / _MINUTE, float(self._per_minute))
            self._counted_at = now
            if self._left < 1:
                return (1 - self._left) * _MINUTE / self._per_minute
            self._left -= 1
        self._open += 1
        return 0.0

    def leave(self) -> None:
        """Note the end of a request that was admitted."""
        self._open -= 1


HTTP_CALLER: Final = ContextVar[Principal | None]("tools_search_http_caller", default=None)
"""The principal of the HTTP request that this task answers, for functions that the SDK calls without a request."""


def note_caller(scope: Scope, principal: Principal) -> None:
    """Note the principal in an HTTP request, where the SDK looks when it binds a session to its user."""
    scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal.name, scopes=[]))


def caller_of(ctx: ServerRequestContext[Any, Any], principals: Mapping[str, Principal]) -> Principal | None:
    """Return the principal of the request `ctx`, or `None` where there are none, and on stdio.

    Raises:
        MCPError: An HTTP request has no principal although some are configured: it has passed no guard.
    """
    if not principals or ctx.request is None:
        return None
    user = ctx.request.scope.get("user")
    principal = principals.get(user.username) if isinstance(user, AuthenticatedUser) else None
    if principal is None:  # it may have been one when the request came, and been removed since
        raise MCPError(INTERNAL_ERROR, "Internal server error")
    return principal


def name_of_caller(ctx: ServerRequestContext[Any, Any], principals: Mapping[str, Principal]) -> str | None:
    """Return the name of the principal of the request `ctx`, or `None`; raises what `caller_of` raises."""
    principal = caller_of(ctx, principals)
    return None if principal is None else principal.name


def remember_caller(principals: Mapping[str, Principal]) -> ServerMiddleware[Any]:
    """Return the middleware that sets `HTTP_CALLER` for each request: a session answers in other tasks than its guard.

    It refuses what `caller_of` refuses, so it goes first in the chain.
    """

    async def remember(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        noted = HTTP_CALLER.set(caller_of(ctx, principals))
        try:
            return await call_next(ctx)
        finally:
            HTTP_CALLER.reset(noted)

    return remember


def read_principals(stated: Any, toolsets: Mapping[str, Toolset], problems: list[str]) -> tuple[Principal, ...]:
    """Return the principals in the order of the file.

    Args:
        stated: The member `principals` of the configuration.
        toolsets: The toolsets that they may be given, by name.
        problems: Takes a line for every problem, with its place.
    """
    if not isinstance(stated, dict) or not stated:
        problems.append("`principals` must be an object that names at least one principal")
        return ()
    principals: dict[TokenHash, Principal] = {}
    for name, members in cast("dict[str, Any]", stated).items():
        place = f"principals.{name}"
        if not name.strip():
            problems.append("`principals` has one with an empty name")
        elif not isinstance(members, dict):
            problems.append(f"`{place}` must be an object with `token`")
        elif principal := _principal(name, place, cast("dict[str, Any]", members), toolsets, problems):
            owner = principals.setdefault(principal.token, principal)
            if owner is not principal:
                problems.append(f"`{place}.token` is the token of {owner.name!r}: each principal needs its own")
    return tuple(principals.values())


def _principal(
    name: str, place: str, members: dict[str, Any], toolsets: Mapping[str, Toolset], problems: list[str]
) -> Principal | None:
    problems.extend(
        f"`{place}.{member}` is no member of a principal; {closest(member, _MEMBERS)}"
        for member in members
        if member not in _MEMBERS
    )
    toolset = EVERYTHING
    if "toolset" in members:
        named = members["toolset"]
        if isinstance(named, str) and named in toolsets:
            toolset = toolsets[named]
        else:
            which = closest(named, toolsets) if isinstance(named, str) else "give the name of one"
            problems.append(f"`{place}.toolset`: there is no toolset of that name; {which}")
    rate = _count(place, "requestsPerMinute", members, 1, problems)
    most = _count(place, "openRequests", members, _MIN_OPEN_REQUESTS, problems)
    try:
        token = TokenHash.read(str(members.get("token", "")))
    except ValueError as error:
        problems.append(f"`{place}.token` {error}: `tools-search-server token {name}` makes one")
        return None
    return Principal(name, token, toolset, rate, most)


def _count(place: str, member: str, members: Mapping[str, Any], least: int, problems: list[str]) -> int | None:
    value = members.get(member)
    if member not in members or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    problems.append(f"`{place}.{member}` must be a whole number of at least {least}")
    return None
