"""Search cursors: self-contained, authenticated and bound to one method, query and answer (draft: Pagination).

A cursor contains a position and a digest of the answer, but no server state, so every replica with the same key can
continue a search that another one started. Its length does not depend on the query, and it contains no secret: only a
number, and a hash of the names already shown to its owner and of the number of matches.

If a server's answer depends on more than query and catalog, for example on which other servers have answered, the
server can store that in the cursor's note and read it back from there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import secrets
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from mcp_ext_tools_search.types import require_kind

MIN_KEY_BYTES: Final = 32
"""Minimum key length: the number of bytes that SHA-256 outputs."""

_VERSION: Final = 1
_DIGEST_BYTES: Final = 16
_MAC_BYTES: Final = 20  # with the body a multiple of three, so that base64 needs no padding
_BODY: Final = struct.Struct(f">BQ{_DIGEST_BYTES}s")
_NOTE: Final = re.compile(r"[0-9A-Za-z_-]{1,1024}")


class InvalidCursorError(ValueError):
    """The cursor was not issued with this key for this query and this answer."""


def answer_digest(shown: Iterable[str], count: int) -> bytes:
    """Return the digest of an answer with `count` matches, at the position after those already `shown`.

    Earlier and later pages fit together as long as the same tools come first and no match was added or lost. So the
    digest does not cover the rest of the order, which takes much longer to compute in a large catalog.
    """
    names = list(shown)
    # All lengths go first: without them ["ab", "c"] and ["a", "bc"] would be one answer.
    digest = hashlib.sha256(struct.pack(f">QQ{len(names)}Q", count, len(names), *map(len, names)))
    digest.update("".join(names).encode("utf-8", "surrogatepass"))
    return digest.digest()[:_DIGEST_BYTES]


class Continuation(NamedTuple):
    """The content of a cursor."""

    position: int  # where the next page begins
    answer: bytes  # the digest of the answer there
    note: str  # what else the answer depends on

    def require(self, answer: bytes) -> None:
        """Raise `InvalidCursorError` if the answer has changed since the cursor was issued."""
        if not hmac.compare_digest(self.answer, answer):
            raise InvalidCursorError("has expired because the catalog changed: search again without a cursor")


class CursorKey:
    """Issues and reads cursors.

    Args:
        key: Secret shared by the replicas of one server, at least `MIN_KEY_BYTES` long. By default, a random key that
            makes cursors valid in this process only.
        method: The method of the cursors. Other methods do not accept them.

    Raises:
        ValueError: `key` is too short.
    """

    def __init__(self, key: bytes | None = None, method: str = "tools/search") -> None:
        require_kind("cursor_key", key, bytes, type(None), instead="bytes, as from secrets.token_bytes(32)")
        if key is not None and len(key) < MIN_KEY_BYTES:
            raise ValueError(
                f"a cursor key needs at least {MIN_KEY_BYTES} bytes, not {len(key)}: "
                f"make one with secrets.token_bytes({MIN_KEY_BYTES}) and give it to every replica"
            )
        self._key = secrets.token_bytes(MIN_KEY_BYTES) if key is None else key
        self._method = method

    def issue(self, query: str, position: int, answer: bytes, note: str = "") -> str:
        """Return the cursor that continues `query` at `position`, where its answer has the digest `answer`.

        Raises:
            ValueError: `note`, which clients can read, is not at most 1,024 letters, digits, `_` and `-`.
        """
        if note and not _NOTE.fullmatch(note):
            raise ValueError("a note is at most 1,024 letters, digits, _ and -")
        body = _BODY.pack(_VERSION, position, answer)
        token = base64.urlsafe_b64encode(body + self._mac(body, query, note)).decode("ascii")
        return f"{token}.{note}" if note else token

    def read(self, cursor: str, query: str) -> Continuation:
        """Return the content of a cursor.

        Raises:
            InvalidCursorError: The cursor was not issued with this key for this query.
        """
        token, _, note = cursor.partition(".")
        try:
            _, position, answer = _BODY.unpack(base64.urlsafe_b64decode(token)[: _BODY.size])
            # The query is authenticated and not stored: a cursor of another query fails exactly as a forged one does.
            # Whole strings are compared, as base64 can spell the same bytes in several ways.
            if not hmac.compare_digest(cursor.encode("ascii"), self.issue(query, position, answer, note).encode()):
                raise ValueError
        except (ValueError, struct.error) as error:
            raise InvalidCursorError("was not issued by this server for this query") from error
        return Continuation(position, answer, note)

    def _mac(self, body: bytes, query: str, note: str) -> bytes:
        # A note ends where the query begins, for any query: it holds no NUL.
        domain = f"{self._method} cursor with a note\0{note}\0" if note else f"{self._method} cursor\0"
        message = domain.encode("ascii") + body + query.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256")[:_MAC_BYTES]


async def follow_cursors(read_page: Callable[[str | None], Awaitable[str | None]], max_pages: float = math.inf) -> str:
    """Read the pages of a listing in order, and return why it does not end, or an empty string if it does.

    `read_page` reads the page at a cursor, or the first page, and returns the next cursor, or `None` to stop.
    """
    cursor: str | None = None
    used: set[str] = set()
    while len(used) < max_pages:
        cursor = await read_page(cursor)
        if cursor is None:
            return ""
        if cursor in used:
            return "repeats a cursor: its pages go round in a circle"
        used.add(cursor)
    return f"has no end after {max_pages} pages"
