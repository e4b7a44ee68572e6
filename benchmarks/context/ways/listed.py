"""Every definition with every request, as hosts do that know nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from benchmarks.context.catalog import Catalog, definition
from benchmarks.context.requests import Request, user
from benchmarks.context.stand_in import StandIn
from benchmarks.context.ways.interface import Replay

__all__ = ["everything_listed"]


@asynccontextmanager
async def everything_listed(catalog: Catalog, _limit: int | None) -> AsyncGenerator[Replay]:
    """Send everything."""
    tools = [definition(name, catalog.tools[key]) for name, key in catalog.prefixed.items()]
    available = frozenset(catalog.tools)

    async def replay(model: StandIn) -> None:
        if model.search_for(Request(tools, [user(model.task.text)], available, 0)) is not None:
            raise LookupError("a tool that is needed is not in the catalog")

    yield replay
