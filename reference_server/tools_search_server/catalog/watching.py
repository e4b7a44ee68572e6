"""Following a catalog file that is replaced while the server runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
from tools_search_hosts import ConfigurationError

from tools_search_server.catalog.catalog_file import read_catalog
from tools_search_server.catalog.catalog_server import Catalog
from tools_search_server.gateway.changes import ListChanges

__all__ = ["changes_of", "follow_catalog"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2


async def follow_catalog(file: Path, catalog: Catalog, changes: ListChanges) -> None:
    """Serve what the file says each time it changes, and announce it; never returns.

    A file that is missing or invalid is reported, and what was served before stays.
    """
    async for _ in changes_of(file, _LOOK_SECONDS):
        try:
            catalog.replace(read_catalog(file))
        except ConfigurationError as error:
            text = "%s cannot be used: %s The catalog as it was is still served."
            logger.warning(text, file, " ".join(error.problems))
            continue
        logger.info("%s changed: %d tools", file, len(catalog.contents.tools))
        await changes.announce()


async def changes_of(file: Path, seconds: float) -> AsyncIterator[None]:
    """Yield each time the file is found to be another one, or gone; never ends.

    Args:
        file: Looked at.
        seconds: Between two looks.
    """
    seen = await _state_of(file)
    while True:
        await anyio.sleep(seconds)
        if (state := await _state_of(file)) != seen:
            seen = state
            yield


async def _state_of(file: Path) -> tuple[int, int, int] | None:
    """Return something that changes when the file does, or `None` where there is none."""
    try:
        status = await anyio.Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
