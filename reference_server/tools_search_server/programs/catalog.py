"""The catalog server as a program, which follows its file, and which is the fixture of the conformance suite.

`TOOLS_SEARCH_CATALOG` names the catalog that a conformance run has generated. Then each call answers with itself, as
the fixture contract says. `TOOLS_SEARCH_DELAY_MS` makes searches slow enough to be cancelled.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_ext_tools_search.types import METHOD
from mcp_types import NotificationParams, SubscriptionsListenRequestParams
from tools_search_hosts import ConfigurationError

from tools_search_server.base.file_changes import changes_of
from tools_search_server.base.limits import Limits
from tools_search_server.catalog.answers import canned_answer, echo_answer
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog
from tools_search_server.catalog.catalog_server import Catalog, catalog_server
from tools_search_server.gateway.changes import LegacySessions, declare_list_changes
from tools_search_server.programs.serving import Program

logger = logging.getLogger(__name__)

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"

_LOOK_SECONDS: Final = 0.2

_FIXTURE_PAGE_SIZE: Final = 100
"""Small enough that a conformance run sees several pages of `tools/list`."""


@dataclass(frozen=True)
class CatalogChoice:
    """The catalog to serve."""

    file: Path | None
    """`None` for the bundled one."""

    fixture: bool
    """Whether calls answer with themselves, as the fixture contract of the conformance suite says."""


def chosen_catalog(file: Path | None) -> CatalogChoice:
    """Return the catalog that the command line names, else the one of the environment, else the bundled one."""
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
    milliseconds = os.environ.get(DELAY_VARIABLE, "0")
    if not milliseconds.isdecimal():
        problem = f"is {milliseconds!r}. Give whole milliseconds."
        raise ConfigurationError(f"environment variable {DELAY_VARIABLE}", [problem])

    async def delay(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == METHOD:
            await anyio.sleep(int(milliseconds) / 1000)
        return await call_next(ctx)

    if int(milliseconds):
        server.middleware.append(delay)
    notifier = _CatalogNotifier()
    notifier.install(server)

    @asynccontextmanager
    async def follow() -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            if choice.file is not None:
                tasks.start_soon(_follow_catalog, choice.file, catalog, notifier)
            yield
            tasks.cancel_scope.cancel()

    return Program(server, follow, notifier.close)


class _CatalogNotifier:
    """Notifies every client that asked when `tools/list` answers differently."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._sessions = LegacySessions()

    def install(self, server: Server[Any]) -> None:
        """Serve subscriptions on `server` and declare them in its capabilities."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        server.add_notification_handler("notifications/initialized", NotificationParams, self._remember)
        server.middleware.append(declare_list_changes)

    async def announce(self) -> None:
        """Notify all subscribers; returns when each was notified or given up."""
        await self._bus.publish(ToolsListChanged())
        await self._sessions.notify(ToolsListChanged())

    def close(self) -> None:
        """End the open subscriptions of modern clients in good order."""
        self._listen.close()

    async def _remember(self, ctx: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
        self._sessions.add(ctx.session)


async def _follow_catalog(file: Path, catalog: Catalog, notifier: _CatalogNotifier) -> None:
    """Serve the new contents each time the file changes, and announce them; never returns.

    A file that is missing or invalid is reported, and the previous contents stay.
    """
    async for _ in changes_of(file, _LOOK_SECONDS):
        try:
            catalog.replace(read_catalog(file))
        except ConfigurationError as error:
            text = "%s cannot be used: %s The catalog as it was is still served."
            logger.warning(text, file, " ".join(error.problems))
            continue
        logger.info("%s changed: %d tools", file, len(catalog.contents.tools))
        await notifier.announce()
