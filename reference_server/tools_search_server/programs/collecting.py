"""When Python looks for garbage: seldom among definitions of tools, which live as long as their servers.

Looking through the objects of 10,000 tools takes half a second in which nobody is answered. By default that is done
every few seconds while servers come and go.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

__all__ = ["collect_seldom"]

_THRESHOLDS: Final = (5_000, 10, 10)
"""Objects, and rounds among the younger, after which a round is made; of what is not set aside, so that it is short."""

_EVERY_SECONDS: Final = 60


async def collect_seldom(loaded: Callable[[], Awaitable[None]]) -> None:
    """Set aside what is there to stay, once a minute; never returns.

    It changes how the whole process collects, so it is for programs, not for what others import.

    Args:
        loaded: Returns when the tools have been read for the first time.
    """
    gc.set_threshold(*_THRESHOLDS)
    await loaded()
    while True:
        _set_aside()
        await anyio.sleep(_EVERY_SECONDS)


def _set_aside() -> None:
    gc.unfreeze()  # what was set aside before may have become garbage
    gc.collect()
    gc.freeze()
