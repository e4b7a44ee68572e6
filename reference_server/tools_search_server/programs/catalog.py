"""The catalog server as a program: it reloads its file on changes, and serves as the conformance suite's fixture.

`TOOLS_SEARCH_CATALOG` names the catalog that a conformance run has generated. Then each call answers with itself, as
the fixture contract says. `TOOLS_SEARCH_DELAY_MS` makes searches slow enough to be cancelled.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_tools_search.types import METHOD
from mcp_types import SubscriptionsListenRequestParams
from tools_search_hosts import ConfigurationError

from tools_search_server.base.limits import Limits
from tools_search_server.catalog.answers import canned_answer, echo_answer
from tools_search_server.catalog.catalog_file import bundled_catalog, read_catalog
from tools_search_server.catalog.catalog_server import Catalog, catalog_server
from tools_search_server.gateway.changes import LegacySessions
from tools_search_server.programs.serving import Program, changes_of

logger = logging.getLogger(__name__)

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"

_POLL_SECONDS: Final = 0.2

_FIXTURE_PAGE_SIZE: Final = 100
"""Small enough that a conformance run sees several pages of `tools/list`."""


def catalog_program(file: Path | None, limits: Limits) -> Program:
    """Build the server of a catalog file, else of the one that the environment names, else of the bundled catalog.

    Raises:
        ConfigurationError: The catalog or the delay cannot be used.
    """
    is_fixture = file is None and bool(os.environ.get(CATALOG_VARIABLE))
    if is_fixture:
        file = Path(os.environ[CATALOG_VARIABLE])
        limits = replace(limits, page_size=min(limits.page_size, _FIXTURE_PAGE_SIZE))
    catalog = Catalog(bundled_catalog() if file is None else read_catalog(file), limits)
    server = catalog_server(catalog, echo_answer if is_fixture else canned_answer)
    milliseconds = os.environ.get(DELAY_VARIABLE, "0")
    if not milliseconds.isdecimal():
        problem = f"is {milliseconds!r}. Give whole milliseconds."
        raise ConfigurationError(f"environment variable {DELAY_VARIABLE}", [problem])
    if int(milliseconds):
        server.middleware.append(_delay(int(milliseconds) / 1000))
    bus = InMemorySubscriptionBus()
    listen = ListenHandler(bus)
    sessions = LegacySessions()
    sessions.install(server)
    offered = {"resources": ResourcesListChanged(), "prompts": PromptsListChanged()}
    offered = {name: event for name, event in offered.items() if server.get_request_handler(f"{name}/list")}
    server.middleware.append(_promise_changes(offered))
    changes: list[ServerEvent] = [ToolsListChanged(), *offered.values()]
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)

    async def follow(file: Path) -> None:
        async for _ in changes_of(file, _POLL_SECONDS):
            try:
                catalog.replace(read_catalog(file))
            except ConfigurationError as error:
                text = "%s cannot be used: %s The catalog as it was is still served."
                logger.warning(text, file, " ".join(error.problems))
                continue
            logger.info("%s changed: %d tools", file, len(catalog.contents.tools))
            for event in changes:
                await bus.publish(event)
                await sessions.notify(event)

    return Program(server, nullcontext, listen.close, background=() if file is None else (partial(follow, file),))


def _promise_changes(offered: Iterable[str]) -> ServerMiddleware[Any]:
    """Declare `listChanged` in `initialize` for what is offered besides tools: the SDK's HTTP entry has no option."""

    async def declare(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            for name in offered:
                result.setdefault("capabilities", {}).setdefault(name, {})["listChanged"] = True
        return result

    return declare


def _delay(seconds: float) -> ServerMiddleware[Any]:
    async def delay(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method in (METHOD, RESOURCES.method, RESOURCE_TEMPLATES.method, PROMPTS.method):
            await anyio.sleep(seconds)
        return await call_next(ctx)

    return delay
