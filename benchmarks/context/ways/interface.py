"""What a way of offering tools is to the benchmark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from benchmarks.context.catalog import Catalog
from benchmarks.context.stand_in import StandIn

__all__ = ["Replay", "Way"]

Replay: TypeAlias = Callable[[StandIn], Awaitable[None]]
"""Holds one conversation with the stand-in: gives it request after request and makes its searches, until it ends."""

Way: TypeAlias = Callable[[Catalog, int | None], AbstractAsyncContextManager[Replay]]
"""Opens a host with a catalog whose tools are all deferred; the number bounds what one search finds, and `None`
leaves that to the host's own default."""
