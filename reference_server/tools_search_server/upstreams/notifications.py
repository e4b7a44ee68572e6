"""What a connected server tells unasked: that its lists have changed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import (
    ElicitCompleteNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ServerCapabilities,
    ToolListChangedNotification,
)

from tools_search_server.base.redaction import quoted
from tools_search_server.upstreams.session import is_modern
from tools_search_server.upstreams.state import pauses

logger = logging.getLogger(__name__)

_OF_LEGACY: Final[Mapping[type, ServerEvent]] = {
    ToolListChangedNotification: ToolsListChanged(),
    PromptListChangedNotification: PromptsListChanged(),
    ResourceListChangedNotification: ResourcesListChanged(),
}


class News:
    """Follows the changes that the server on one connection tells of.

    Args:
        server: Its name, for the log.
        tell: Called with each change, in the order in which the server tells them, and with those that may have been
            missed.
        on_page_answered: Called with the id of a question that was answered on a page in a browser.
    """

    def __init__(
        self,
        server: str,
        tell: Callable[[ServerEvent, bool], None],
        on_page_answered: Callable[[str], Awaitable[None]],
    ) -> None:
        self._on_page_answered = on_page_answered
        self._server = server
        self._tell = tell
        self._is_subscribed = False
        self._is_noisy = False

    async def on_message(self, message: object) -> None:
        """Take what a legacy server sends unasked; of a modern one, the streams tell the same."""
        if not self._is_subscribed and (event := _OF_LEGACY.get(type(message))) is not None:
            self._tell(event, True)
        elif not self._is_subscribed and isinstance(message, ResourceUpdatedNotification):
            self._tell(ResourceUpdated(message.params.uri), True)
        elif isinstance(message, ElicitCompleteNotification):
            await self._on_page_answered(message.params.elicitation_id)
        elif isinstance(message, Exception) and not self._is_noisy:
            self._is_noisy = True
            logger.warning("%s sends what is no message of the protocol; it is passed over", self._server)

    async def follow(self, client: Client) -> None:
        """Subscribe to the changes of a modern server's lists; a legacy one tells them without being asked."""
        if not is_modern(client):
            return
        self._is_subscribed = True
        followed = _followed(client.server_capabilities)
        if not followed:
            return
        names: Any = dict.fromkeys(followed, True)
        for pause in pauses():
            try:
                async with client.listen(**names) as events:
                    for event in followed.values():  # for what has changed since it was read
                        self._tell(event, False)
                    async for event in events:
                        self._tell(event, True)
            except SubscriptionLost:
                logger.debug("%s: the subscription was lost", self._server)
            except MCPError as error:
                logger.warning("%s: cannot follow changes of its lists: %s", self._server, quoted(error.message))
                return
            await anyio.sleep(pause)


def _followed(offered: ServerCapabilities) -> Mapping[str, ServerEvent]:
    """Return by the name of their filter the changes that a server says it tells of."""
    kinds: Mapping[str, tuple[object, ServerEvent]] = {
        "tools_list_changed": (offered.tools, ToolsListChanged()),
        "prompts_list_changed": (offered.prompts, PromptsListChanged()),
        "resources_list_changed": (offered.resources, ResourcesListChanged()),
    }
    return {name: event for name, (kind, event) in kinds.items() if getattr(kind, "list_changed", False)}
