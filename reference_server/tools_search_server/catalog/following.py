"""A catalog file that is followed while the server runs, and the notifications of its changes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import NotificationParams, SubscriptionsListenRequestParams
from tools_search_hosts import ConfigurationError

from tools_search_server.base.file_changes import changes_of
from tools_search_server.catalog.catalog_file import read_catalog
from tools_search_server.catalog.catalog_server import Catalog
from tools_search_server.gateway.changes import LegacySessions, declare_list_changes

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2


class CatalogNotifier:
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


async def follow_catalog(file: Path, catalog: Catalog, notifier: CatalogNotifier) -> None:
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
