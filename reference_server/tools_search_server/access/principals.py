"""Principals: who may use a gateway over HTTP, what each sees and how much it may ask.

    "principals": {"alice": {"token": "sha256:…", "toolset": "reading", "requestsPerMinute": 600, "openRequests": 8}}

Only `token` has to be there. Without a toolset a principal sees everything, without limits it has none. Members of
any other name are refused: a toolset that is overlooked would show what it hides.


Bearer tokens, and the salted hashes by which a configuration knows them.

How much one caller may ask of this process: requests per minute, and requests that are open at the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tools_search_hosts.toolsets import EVERYTHING, Toolset, closest

_MEMBERS: Final = ("token", "toolset", "requestsPerMinute", "openRequests")
_LEAST_OPEN: Final = 2
"""A client may hold one request open for notifications while it makes another."""


@dataclass(frozen=True, slots=True)
class Principal:
    """One who may use the gateway."""

    name: str
    token: TokenHash
    toolset: Toolset = EVERYTHING

    requests_per_minute: int | None = None
    """How many HTTP requests it may make; all of a minute's may come at once."""

    open_requests: int | None = None
    """How many HTTP requests it may have open at the same time, streams of notifications included."""


def principal_of(token: str, principals: Collection[Principal]) -> Principal | None:
    """Return whose token it is. Every principal is compared, so that the time taken does not tell which one."""
    fitting = [principal for principal in principals if principal.token.fits(token)]
    return fitting[0] if fitting else None


def read_principals(stated: Any, toolsets: Mapping[str, Toolset], problems: list[str]) -> tuple[Principal, ...]:
    """Return the principals in the order of the file.

    Args:
        stated: The member `principals` of the configuration.
        toolsets: Those that they may be given, by name.
        problems: Takes a line for everything that is wrong, with its place.
    """
    if not isinstance(stated, dict) or not stated:
        problems.append("`principals` must be an object that names at least one principal")
        return ()
    principals: list[Principal] = []
    for name, members in cast("dict[str, Any]", stated).items():
        place = f"principals.{name}"
        if not name.strip():
            problems.append("`principals` has one with an empty name")
        elif not isinstance(members, dict):
            problems.append(f"`{place}` must be an object with `token`")
        elif principal := _principal(name, place, cast("dict[str, Any]", members), toolsets, problems):
            principals.append(principal)
    _refuse_shared_tokens(principals, problems)
    return tuple(principals)


def _principal(
    name: str, place: str, members: dict[str, Any], toolsets: Mapping[str, Toolset], problems: list[str]
) -> Principal | None:
    problems.extend(
        f"`{place}.{member}` is no member of a principal; {closest(member, _MEMBERS)}"
        for member in members
        if member not in _MEMBERS
    )
    toolset = _toolset(place, members, toolsets, problems)
    rate = _count(place, "requestsPerMinute", members, 1, problems)
    most = _count(place, "openRequests", members, _LEAST_OPEN, problems)
    try:
        token = TokenHash.read(str(members.get("token", "")))
    except ValueError as error:
        problems.append(f"`{place}.token` {error}: `tools-search-server token {name}` makes one")
        return None
    return Principal(name, token, toolset, rate, most)


def _toolset(place: str, members: Mapping[str, Any], toolsets: Mapping[str, Toolset], problems: list[str]) -> Toolset:
    if "toolset" not in members:
        return EVERYTHING
    named = members["toolset"]
    if isinstance(named, str) and named in toolsets:
        return toolsets[named]
    which = closest(named, toolsets) if isinstance(named, str) else "give the name of one"
    problems.append(f"`{place}.toolset`: there is no toolset of that name; {which}")
    return EVERYTHING  # never used: a configuration with a problem is refused as a whole


def _count(place: str, member: str, members: Mapping[str, Any], least: int, problems: list[str]) -> int | None:
    value = members.get(member)
    if member not in members or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    problems.append(f"`{place}.{member}` must be a whole number of at least {least}")
    return None


def _refuse_shared_tokens(principals: Collection[Principal], problems: list[str]) -> None:
    owners: dict[TokenHash, str] = {}
    for principal in principals:
        owner = owners.setdefault(principal.token, principal.name)
        if owner != principal.name:
            problems.append(f"`principals.{principal.name}.token` is that of {owner!r}: each needs one of its own")


_PREFIX: Final = "tsk_"
"""Lets people and scanners of leaked secrets tell what a token is."""

_RANDOM_BYTES: Final = 32
_SALT_BYTES: Final = 16
_SPELLED: Final = re.compile(rf"sha256:([0-9a-f]{{{2 * _SALT_BYTES}}}):([0-9a-f]{{64}})")


def new_token() -> str:
    """Return a token of 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


@dataclass(frozen=True, slots=True)
class TokenHash:
    """What is kept of a token.

    A single round of SHA-256 is enough, since a token is as hard to guess as the hash: slow hashes are for passwords,
    and would be paid for with every request.
    """

    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, token: str) -> TokenHash:
        """Hash a token with a salt of its own."""
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(salt, _digest(salt, token))

    @classmethod
    def read(cls, text: str) -> TokenHash:
        """Read what `str` gives.

        Raises:
            ValueError: It is something else; the message does not repeat it, since it may be a token.
        """
        spelled = _SPELLED.fullmatch(text)
        if spelled is None:
            raise ValueError("is no hash of a token")
        return cls(bytes.fromhex(spelled[1]), bytes.fromhex(spelled[2]))

    def __str__(self) -> str:
        return f"sha256:{self.salt.hex()}:{self.digest.hex()}"

    def fits(self, token: str) -> bool:
        """Tell whether `token` is the one that was hashed, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self.digest, _digest(self.salt, token))


def _digest(salt: bytes, token: str) -> bytes:
    return hashlib.sha256(salt + token.encode("utf-8", "surrogatepass")).digest()


_MINUTE: Final = 60.0
_WHEN_FULL: Final = 1.0
"""Seconds after which it may be tried again whether an open request has ended; nobody knows when one will."""


class Throttle:
    """A token bucket and a count.

    Args:
        per_minute: Requests that are admitted within a minute, all of which may come at once; `None` for any number.
        most_open: Requests that are open at the same time; `None` for any number.
    """

    def __init__(self, per_minute: int | None, most_open: int | None) -> None:
        self._per_minute = per_minute
        self._most_open = most_open
        self._left = float(per_minute or 0)
        self._counted_at: float | None = None
        self._open = 0

    def enter(self, now: float) -> float:
        """Admit a request, to be followed by `leave`, or return after how many seconds to ask again.

        Args:
            now: Seconds on a clock that never goes back.
        """
        if self._most_open is not None and self._open >= self._most_open:
            return _WHEN_FULL
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
