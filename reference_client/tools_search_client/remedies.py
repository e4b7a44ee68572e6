"""What the command's user can do about a failure. The library leaves that to its host."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tools_search_client.errors import Challenge, Failure, ServerError, ServerTimeoutError, UnauthorizedError
from tools_search_client.text import printable

MORE_TIME: Final = "--timeout gives it more time"

_HEADERS: Final = "`headers` in the configuration, or --header for --url"


def with_remedy(failure: Failure | Exception) -> str:
    """Return the reason for a failure, with a remedy if there is one."""
    if isinstance(failure, Failure) and failure.kind == "timeout":
        return f"{failure}: {MORE_TIME}"
    challenge = failure.challenge if isinstance(failure, Failure | UnauthorizedError) else None
    return str(failure) if challenge is None else f"{failure}: {_remedy(challenge)}"


@contextmanager
def naming(request: str, more_time: str) -> Generator[None]:
    """Begin the message of a server's error in the block with what was requested, and end a timeout with a remedy."""
    try:
        yield
    except ServerError as error:
        remedy = f": {more_time}" if isinstance(error, ServerTimeoutError) else ""
        error.args = (f"{printable(request)}: {error}{remedy}",)
        raise


def _remedy(challenge: Challenge) -> str:
    if challenge.status == 403 and challenge.scope:
        return f"sign in again to allow it that (`tools-search-client login --scope {challenge.scope!r}`)"
    if challenge.resource_metadata:
        return (
            f"sign in with OAuth (`tools-search-client login` with the same options), or send a token with {_HEADERS}"
        )
    return f"send what it requires, such as `Authorization`, with {_HEADERS}"
