"""Limits of listings and searches, the key of their cursors, and the ranker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp_ext_tools_search.cursor import MIN_KEY_BYTES
from mcp_ext_tools_search.ranking import Ranker
from tools_search_hosts import ConfigurationError

CURSOR_KEY_VARIABLE: Final = "TOOLS_SEARCH_CURSOR_KEY"

MAX_PAGE_SIZE: Final = 10_000
"""More than fit on a page, so that bytes alone decide unless the operator says otherwise."""


@dataclass(frozen=True)
class Limits:
    """Limits of `tools/list` and `tools/search`, their cursor key and ranker."""

    page_size: int = MAX_PAGE_SIZE
    """Tools on one page of `tools/list`; fewer where their definitions come to more than a page may hold."""

    default_limit: int = 10
    """Tools on one page of `tools/search` when the request has no `limit`."""

    max_limit: int = 50
    """Tools on one page of `tools/search` at most, for any `limit` in the request."""

    cursor_key: bytes | None = None
    """Shared by replicas, so that each honors the others' cursors; `None` for a key of this process alone."""

    ranker: Ranker | None = None
    """The ranker of searches; `None` for the default."""

    searches_at_once: int = 64
    """How many searches are answered at the same time; one more is refused as one too many."""

    index: str | None = None
    """Address of the database with the index of a gateway's tools; `None` for an index of this process."""

    index_name: str = "gateway"
    """Name of the catalog in that database, the same for all replicas."""


def read_cursor_key(file: Path | None) -> bytes | None:
    """Return the key from a file, else from the environment, else `None`.

    Raises:
        ConfigurationError: The file cannot be read, or the key is too short to keep forgers out.
    """
    if file is not None:
        try:
            key, source = file.read_bytes().strip(), str(file)
        except OSError as error:
            problem = f"cannot be read ({error.strerror}). Name a file with a random key."
            raise ConfigurationError(str(file), [problem]) from None
    else:
        key, source = os.environ.get(CURSOR_KEY_VARIABLE, "").encode(), f"environment variable {CURSOR_KEY_VARIABLE}"
        if not key:
            return None
    if len(key) < MIN_KEY_BYTES:
        advice = f"Give at least {MIN_KEY_BYTES} random bytes, such as the output of `openssl rand -hex 32`."
        raise ConfigurationError(source, [f"holds a key of {len(key)} bytes. {advice}"])
    return key
