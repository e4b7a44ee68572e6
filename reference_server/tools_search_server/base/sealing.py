"""Texts that come back unchanged or not at all: what a cursor holds of a list that is elsewhere."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from typing import Any, Final, cast

__all__ = ["Seal"]

_DOMAIN: Final = b"tools/list cursor\0"
_MAC_BYTES: Final = 18


class Seal:
    """Makes texts of lists of JSON values, and reads its own.

    Args:
        key: Secret that replicas share; without one, a random one of this process.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key or secrets.token_bytes(hashlib.sha256().digest_size)

    def close(self, values: list[Any]) -> str:
        """Return the text that stands for `values`, which everyone can read and nobody else can make."""
        body = json.dumps(values, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode("ascii").rstrip("=")

    def open(self, text: str) -> list[Any] | None:
        """Return what a text stands for, or `None` where it was not made with this key."""
        try:
            token = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        mac, body = token[:_MAC_BYTES], token[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        return cast("list[Any]", json.loads(body))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, _DOMAIN + body, hashlib.sha256).digest()[:_MAC_BYTES]
