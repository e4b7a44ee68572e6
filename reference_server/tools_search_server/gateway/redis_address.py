"""Where the Redis server of the replicas is, and how to connect to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

from tools_search_hosts import ConfigurationError
from tools_search_ranking.extras import install_command

__all__ = ["DEFAULT_CHANNEL", "REDIS_VARIABLE", "RedisAddress", "connector", "redis_address", "secrets_of"]

REDIS_VARIABLE: Final = "TOOLS_SEARCH_REDIS"
DEFAULT_CHANNEL: Final = "tools-search"

_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})


@dataclass(frozen=True)
class RedisAddress:
    """Where Redis is, and what the channel is called there."""

    url: str = field(repr=False)
    channel: str = DEFAULT_CHANNEL


def redis_address(url: str | None, channel: str) -> RedisAddress | None:
    """Return where Redis is, from the command line or else from the environment; `None` where neither says.

    Raises:
        ConfigurationError: The command line holds a password, which other users of the machine can read there.
    """
    if url is None:
        url = os.environ.get(REDIS_VARIABLE)
    elif secrets_of(url):
        wrong = "holds a password, which everyone on this machine can read"
        advice = f"Put the whole address into the environment variable {REDIS_VARIABLE} instead."
        raise ConfigurationError("--redis", [f"{wrong}. {advice}"])
    return RedisAddress(url, channel) if url else None


def connector(url: str, *, answer_seconds: float) -> Callable[[], Any]:
    """Return what makes a client, which connects when it is used: `Any`, since its types are incomplete.

    Args:
        url: The address.
        answer_seconds: How long Redis may take for anything.

    Raises:
        ConfigurationError: Redis cannot be used with this installation or at this address.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        wrong = "needs the package `redis`, which is not installed"
        raise ConfigurationError("--redis", [f"{wrong}. {install_command('redis')}"]) from None

    def connect() -> Any:
        # No retries of its own: after any break, what may have been missed has to be made up for.
        return cast("Any", Redis).from_url(
            url, socket_timeout=answer_seconds, socket_connect_timeout=answer_seconds, retry=Retry(NoBackoff(), 0)
        )

    try:
        scheme = urlsplit(url).scheme
        if scheme not in _SCHEMES:
            raise ValueError(scheme)
        connect()
    except ValueError:
        # Without the address, which may hold a password.
        problem = "is no address of a Redis server. Write redis://HOST:PORT, or rediss:// with TLS."
        raise ConfigurationError("--redis", [problem]) from None
    return connect


def secrets_of(url: str) -> list[str]:
    """Return what an address holds that nobody is shown, the longest first."""
    try:
        parts = urlsplit(url)
        password = parts.password or ""
    except ValueError:
        return []
    stated = {password, unquote(password), *parse_qs(parts.query).get("password", [])} - {""}
    return sorted(stated, key=len, reverse=True)
