"""What the user of the command can do about a failure; of the library, that is for its host to say."""

from __future__ import annotations

from tools_search_client.errors import Challenge, Failure, UnauthorizedError


def with_remedy(failure: Failure | Exception) -> str:
    """Return the reason of a failure, with what the user can do about it where this program knows."""
    challenge = failure.challenge if isinstance(failure, Failure | UnauthorizedError) else None
    return str(failure) if challenge is None else f"{failure}: {_remedy(challenge)}"


def _remedy(challenge: Challenge) -> str:
    if challenge.status == 403 and challenge.scope:
        return f"sign in again to allow it that (`tools-search-client login --scope {challenge.scope!r}`)"
    if challenge.resource_metadata:
        return "sign in with OAuth (`tools-search-client login`), or configure `headers` with a token"
    return "configure `headers` with what it wants, such as `Authorization`"
