"""Following a catalogue file that is replaced while the server runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import anyio

from tools_search_server.catalog_file import read_catalog
from tools_search_server.catalog_server import Catalog
from tools_search_server.changes import ListChanges
from tools_search_server.mendable import Mendable

__all__ = ["follow_catalog", "state_of"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2


async def follow_catalog(file: Path, catalog: Catalog, changes: ListChanges) -> None:
    """Serve what the file says each time it changes, and announce it; never returns.

    A file that is missing or invalid is reported, and what was served before stays.
    """
    seen = await state_of(file)
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        if (state := await state_of(file)) == seen:
            continue
        seen = state
        try:
            catalog.replace(read_catalog(file))
        except Mendable as error:
            logger.warning("%s The catalogue as it was is still served.", error)
            continue
        logger.info("%s changed: %d tools", file, len(catalog.contents.tools))
        await changes.announce()


async def state_of(file: Path) -> tuple[int, int, int] | None:
    """Return something that changes when the file does, or `None` where there is none."""
    try:
        status = await anyio.Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
