"""Limits of listings and searches, their cursor key, and the ranker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_ext_tools_search.cursor import MIN_KEY_BYTES
from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import ConfigurationError
from tools_search_hosts.counts import number_of

from tools_search_server.base.defaults import CURSOR_KEY_VARIABLE, MAX_PAGE_SIZE

if TYPE_CHECKING:
    from tools_search_ranking.semantic import Embedder


@dataclass(frozen=True)
class Limits:
    """Limits of `tools/list` and `tools/search`, their cursor key and ranker."""

    page_size: int = MAX_PAGE_SIZE
    """Maximum tools per page of `tools/list`; fewer if their definitions exceed a page's size in bytes."""

    default_limit: int = 10
    """Tools per page of `tools/search` if the request has no `limit`."""

    max_limit: int = 50
    """Maximum tools per page of `tools/search`, whatever the request's `limit`."""

    cursor_key: bytes | None = None
    """Shared by replicas, so each accepts the others' cursors; `None` for a random key of this process."""

    ranker: Ranker | None = None
    """The ranker of searches; `None` for the default."""

    searches_at_once: int = 64
    """Maximum concurrent searches; any more are refused."""

    index: str | None = None
    """Address of the database with the gateway's tool index; `None` for an index in this process's memory."""

    index_name: str = "gateway"
    """Name of the catalog in that database; the same for all replicas."""

    @property
    def embedder(self) -> Embedder | None:
        """The model of a ranker that ranks by meaning too; `None` for any other."""
        from tools_search_ranking.semantic import SemanticRanker  # takes a while to import

        return self.ranker.embedder if isinstance(self.ranker, SemanticRanker) else None


def read_cursor_key(file: Path | None) -> bytes | None:
    """Return the key from a file, or else from the environment; `None` if neither has one.

    Raises:
        ConfigurationError: The file cannot be read, or the key is too short to be secure.
    """
    if file is not None:
        try:
            key, source = file.read_bytes().strip(), str(file)
        except OSError as error:
            problem = f"cannot be read ({error.strerror}). Name a file that contains a random key."
            raise ConfigurationError(str(file), [problem]) from None
    else:
        key, source = os.environ.get(CURSOR_KEY_VARIABLE, "").encode(), f"environment variable {CURSOR_KEY_VARIABLE}"
        if not key:
            return None
    if len(key) < MIN_KEY_BYTES:
        advice = f"Give at least {MIN_KEY_BYTES} random bytes, such as the output of `openssl rand -hex 32`."
        raise ConfigurationError(source, [f"contains a key of only {number_of(len(key), 'byte')}. {advice}"])
    return key
