"""The catalog server as a program: which catalog, how calls are answered, and following the file."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp_ext_tools_search.types import METHOD
from tools_search_hosts import ConfigurationError

from tools_search_server.base.limits import Limits
from tools_search_server.catalog.canned import canned_answer, echo_answer
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog
from tools_search_server.catalog.catalog_server import Catalog, catalog_server
from tools_search_server.catalog.watching import follow_catalog
from tools_search_server.gateway.changes import ListChanges
from tools_search_server.programs.serving import Program

__all__ = ["CATALOG_VARIABLE", "DELAY_VARIABLE", "CatalogChoice", "catalog_program", "chosen_catalog"]

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"

_FIXTURE_PAGE_SIZE: Final = 100
"""So small that a conformance run meets pages of `tools/list`."""


@dataclass(frozen=True)
class CatalogChoice:
    """Which catalog to serve."""

    file: Path | None
    """`None` for the bundled one."""

    fixture: bool
    """Whether calls answer with themselves, as the conformance suite's fixture contract wants it."""


def chosen_catalog(file: Path | None) -> CatalogChoice:
    """Return the file that was named, else the one of the environment, else the bundled catalog."""
    if file is None and (named := os.environ.get(CATALOG_VARIABLE)):
        return CatalogChoice(Path(named), fixture=True)
    return CatalogChoice(file, fixture=False)


def catalog_program(choice: CatalogChoice, limits: Limits) -> Program:
    """Build the server of a catalog.

    Raises:
        ConfigurationError: The catalog or the delay cannot be used.
    """
    if choice.fixture:
        limits = replace(limits, page_size=min(limits.page_size, _FIXTURE_PAGE_SIZE))
    catalog = Catalog(bundled_catalog() if choice.file is None else read_catalog(choice.file), limits)
    server = catalog_server(catalog, echo_answer if choice.fixture else canned_answer)
    if seconds := _delay_seconds():
        server.middleware.append(_delay(seconds))
    changes = ListChanges()
    changes.install(server)

    @asynccontextmanager
    async def follow() -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            if choice.file is not None:
                tasks.start_soon(follow_catalog, choice.file, catalog, changes)
            yield
            tasks.cancel_scope.cancel()

    return Program(server, beside=follow, farewell=changes.close)


def _delay_seconds() -> float:
    stated = os.environ.get(DELAY_VARIABLE, "0")
    if not stated.isdecimal():
        raise ConfigurationError(f"environment variable {DELAY_VARIABLE}", [f"is {stated!r}. Give whole milliseconds."])
    return int(stated) / 1000


def _delay(seconds: float) -> ServerMiddleware[Any]:
    async def delay(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == METHOD:
            await anyio.sleep(seconds)
        return await call_next(ctx)

    return delay
