"""The catalog server as a program. It reloads its file on changes, and serves as the conformance suite's fixture.

`TOOLS_SEARCH_CATALOG` names the catalog that a conformance run has generated. With it, each call returns its own name
and arguments, as the fixture contract requires. `TOOLS_SEARCH_DELAY_MS` makes searches slow enough to cancel.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.types import METHOD
from mcp_types import SubscriptionsListenRequestParams
from tools_search_hosts import ConfigurationError
from tools_search_hosts.counts import number_of
from tools_search_hosts.locations import real_path

from tools_search_server.base.defaults import CATALOG_VARIABLE, DELAY_VARIABLE
from tools_search_server.base.limits import Limits
from tools_search_server.catalog.answers import canned_answer, echo_answer
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog
from tools_search_server.catalog.catalog_server import CallTool, Catalog, catalog_server, with_caller
from tools_search_server.gateway.changes import LegacySessions
from tools_search_server.programs.database import checked_catalog, import_file, is_database
from tools_search_server.programs.serving import Program, changes_of
from tools_search_server.upstreams.notifications import LIST_EVENTS

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2

_FIXTURE_PAGE_SIZE: Final = 100
"""Small enough that `tools/list` has several pages in a conformance run."""


def catalog_program(source: str | None, limits: Limits, name: str) -> Program:
    """Build the server for a catalog file or a database, or else for the file that the environment names.

    Without any of these, serve the bundled catalog. `name` is the catalog's name in the database.

    Raises:
        ConfigurationError: The catalog or the delay cannot be used.
    """
    database = source if source is not None and is_database(source) else None
    generated = os.environ.get(CATALOG_VARIABLE) if source is None or database is not None else None
    fixture = Path(generated) if generated else None
    answer = canned_answer if fixture is None else echo_answer
    if fixture is not None:
        limits = replace(limits, page_size=min(limits.page_size, _FIXTURE_PAGE_SIZE))
    if database is not None:
        return _database_program(database, name, limits, answer, fixture)
    return _file_program(fixture if source is None else Path(source), limits, answer)


def _file_program(file: Path | None, limits: Limits, answer: CallTool) -> Program:
    catalog = Catalog(bundled_catalog() if file is None else read_catalog(file), limits)
    server = catalog_server(catalog, answer)
    _delay_searches(server)
    changes = _Changes(server)

    async def follow(file: Path) -> None:
        async for _ in changes_of(file, _POLL_SECONDS):
            try:
                catalog.replace(read_catalog(file))
            except ConfigurationError as error:
                text = "%s cannot be used: %s The previous catalog is still served."
                logger.warning(text, file, " ".join(error.problems))
                continue
            logger.info("%s changed: %s", file, number_of(len(catalog.contents.tools), "tool"))
            await changes.announce()

    return Program(
        server,
        nullcontext,
        changes.close,
        guard=lambda app, _: with_caller(app),
        background=() if file is None else (changes.sessions.run, partial(follow, file)),
    )


def _database_program(source: str, name: str, limits: Limits, answer: CallTool, fixture: Path | None) -> Program:
    if fixture is None:
        address = checked_catalog(source, name, limits.embedder)
    else:
        name = f"{CATALOG_VARIABLE} {real_path(fixture)}"  # so that runs at the same time do not disturb each other
        address = import_file(source, name, fixture, limits.embedder)
    # Imported here because it needs an extra.
    from tools_search_server.catalog.database import DatabaseCatalog, database_server, with_schema_of_call

    catalog = DatabaseCatalog(address, name, limits)
    server = database_server(catalog, answer)
    _delay_searches(server)
    changes = _Changes(server)

    async def import_changes(fixture: Path) -> None:
        async for _ in changes_of(fixture, _POLL_SECONDS):
            try:
                await anyio.to_thread.run_sync(import_file, address, name, fixture, limits.embedder)
            except ConfigurationError as error:
                logger.warning("%s cannot be used: %s", fixture, " ".join(error.problems))

    return Program(
        server,
        catalog.running,
        changes.close,
        guard=lambda app, _: with_schema_of_call(catalog, app),
        background=(
            changes.sessions.run,
            partial(catalog.follow, changes.announce),
            *(() if fixture is None else (partial(import_changes, fixture),)),
        ),
    )


class _Changes:
    """Notifies a server's clients of changes to its lists, in both eras."""

    def __init__(self, server: Server[Any]) -> None:
        offered = {name: event for name, event in LIST_EVENTS.items() if server.get_request_handler(f"{name}/list")}
        self._events = list(offered.values())
        self._bus = InMemorySubscriptionBus()
        self.sessions = LegacySessions()
        self.sessions.install(server, offered)
        listen = ListenHandler(self._bus)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
        self.close = listen.close

    async def announce(self) -> None:
        for event in self._events:
            await self._bus.publish(event)
            self.sessions.notify(event)


def _delay_searches(server: Server[Any]) -> None:
    """Delay searches by the time that the environment states.

    Raises:
        ConfigurationError: It is not a number of milliseconds.
    """
    milliseconds = os.environ.get(DELAY_VARIABLE, "0")
    if not milliseconds.isdecimal():
        problem = f"is {milliseconds!r}. Give whole milliseconds."
        raise ConfigurationError(f"environment variable {DELAY_VARIABLE}", [problem])
    seconds = int(milliseconds) / 1000

    async def delay(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method in (METHOD, RESOURCES.method, RESOURCE_TEMPLATES.method, PROMPTS.method):
            await anyio.sleep(seconds)
        return await call_next(ctx)

    if seconds:
        server.middleware.append(delay)
