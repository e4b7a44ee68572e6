"""Changes of a file, found by looking at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio


async def changes_of(file: Path, seconds: float) -> AsyncIterator[None]:
    """Yield each time the file, looked at every few seconds, has been replaced, changed or removed; never ends."""
    seen = await _state_of(file)
    while True:
        await anyio.sleep(seconds)
        if (state := await _state_of(file)) != seen:
            seen = state
            yield


async def _state_of(file: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when the file does, or `None` if there is no file."""
    try:
        status = await anyio.Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
