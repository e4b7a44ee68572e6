"""The upstreams that the answer to a search is without, as cursors carry them to the search for the next page.

A server that had failed for the first page is left out of the following ones as well, so that the pages are of one
answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MARK_CHARS: Final = 8
_MAX_MARKS: Final = 100


@dataclass(frozen=True, slots=True)
class AbsentServers:
    """Some servers, by marks that say no names."""

    note: str = ""
    """The marks, one behind the other."""

    def __contains__(self, server: str) -> bool:
        return any(self.note.startswith(_mark(server), start) for start in range(0, len(self.note), _MARK_CHARS))

    def joined_by(self, servers: Iterable[str]) -> AbsentServers:
        """Return these servers and some more, within a bound."""
        return AbsentServers((self.note + "".join(map(_mark, servers)))[: _MARK_CHARS * _MAX_MARKS])


def _mark(server: str) -> str:
    return hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]
