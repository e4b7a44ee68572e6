"""Noticing that a server's tools changed, in both eras.

Modern servers say so on a subscription that the client opens; legacy ones send a notification unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["ListChanges", "announces_changes"]

_RELISTEN_SECONDS: Final = 5.0
"""Between a subscription that was lost and the next attempt."""


class ListChanges:
    """Calls `on_change` whenever a server says, or may have failed to say, that its tools changed."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = _nothing

    async def on_message(self, message: IncomingMessage) -> None:
        """Take note of a notification; for `Client(message_handler=…)`."""
        if isinstance(message, ToolListChangedNotification):
            self.on_change()

    async def listen(self, client: Client) -> None:
        """Keep a modern subscription open until cancelled, or until the server does not grant one."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _event in subscription:
                        self.on_change()
                return
            except SubscriptionLost:
                self.on_change()  # whatever was said meanwhile went unheard
            except (MCPError, TimeoutError):
                return
            await anyio.sleep(_RELISTEN_SECONDS)


def announces_changes(client: Client) -> bool:
    """Tell whether a subscription to list changes is worth opening."""
    tools = client.server_capabilities.tools
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and tools is not None and bool(tools.list_changed)


def _nothing() -> None:
    """Nobody listens yet."""
