"""Bearer tokens, and the salted hashes by which a configuration knows them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

__all__ = ["TokenHash", "new_token"]

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
