"""Doing several things at once and having their results in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

__all__ = ["in_parallel"]

_AT_ONCE: Final = 10
"""Enough to hide the time of a network, and no flood for a small server."""

Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_parallel(
    function: Callable[[Item], Awaitable[Result]], items: Sequence[Item], *, at_once: int = _AT_ONCE
) -> list[Result]:
    """Return `function` of each item, in the order of `items`, running at most `at_once` of them at the same time."""
    results: dict[int, Result] = {}
    limiter = anyio.CapacityLimiter(at_once)

    async def run(position: int, item: Item) -> None:
        async with limiter:
            results[position] = await function(item)

    if len(items) == 1:  # no group, so that what the function raises is raised as it is
        return [await function(items[0])]
    async with anyio.create_task_group() as tasks:
        for position, item in enumerate(items):
            tasks.start_soon(run, position, item)
    return [results[position] for position in range(len(items))]
