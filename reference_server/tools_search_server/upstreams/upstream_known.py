"""What is known of a server, connected or not: its state, its tools, and what it says of itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from mcp import Client
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent
from mcp_types import ServerCapabilities, Tool

from tools_search_server.upstreams.remote import Remote
from tools_search_server.upstreams.upstream_session import about, features_beside_tools, says
from tools_search_server.upstreams.upstream_state import State

__all__ = ["KnownServer"]

logger = logging.getLogger(__name__)


class KnownServer:
    """A configured server as others may look at it.

    Args:
        name: Its name in the configuration.
        on_change: Called when its tools or its state have changed.
        on_event: Called with each change beside its tools.
    """

    def __init__(self, name: str, on_change: Callable[[], None], on_event: Callable[[ServerEvent], None]) -> None:
        self.name = name
        self.tools: Mapping[str, Tool] = {}
        self.remote: Remote | None = None
        """Where its tools are found while it is connected, if they are so many that they are not among `tools`."""
        self.about = ""
        """What it says it is for, in one short line."""
        self.says = ""
        """What it says of itself to models."""
        self.protocol: str | None = None
        """The revision spoken on the latest connection."""
        self.features: Sequence[str] = ()
        """What it offered on the latest connection beside tools."""
        self.capabilities: ServerCapabilities | None = None
        """What it declared on the latest connection; `None` while it has never been reached."""
        self.settled = anyio.Event()
        """Set once the server has been reached or has failed for the first time."""
        self._state = State("starting", datetime.now(UTC))
        self._changed = on_change
        self._tell = on_event

    @property
    def state(self) -> State:
        """How the server is now."""
        return self._state

    @property
    def tool_count(self) -> int | None:
        """About how many tools it has; `None` where it keeps them to itself and does not tell."""
        return len(self.tools) if self.remote is None else self.remote.size

    def _learn(self, client: Client, tools: Mapping[str, Tool], remote: Remote | None) -> None:
        """Note that the server is ready, and what it says of itself on this connection."""
        self.remote = remote
        self.about, self.says = about(client), says(client)
        self.protocol, self.features = client.protocol_version, features_beside_tools(client)
        self.capabilities = client.server_capabilities
        told = {"server": self.name, "state": "ready", "tools": len(tools), "protocol": self.protocol}
        count = f"{len(tools)} tools" if remote is None else f"about {remote.size or 'many'} tools, searched there"
        logger.info("%s is ready: %s, protocol %s", self.name, count, self.protocol, extra=told)
        self._move(State("ready", datetime.now(UTC)), tools)

    def _update(self, tools: Mapping[str, Tool]) -> None:
        """Note the tools of a server that is still connected."""
        if tools != self.tools:
            told = {"server": self.name, "state": "ready", "tools": len(tools)}
            logger.info("%s changed: %d tools", self.name, len(tools), extra=told)
            self._move(self._state, tools)

    def _fail(self, reason: str) -> None:
        """Note that the server cannot be used, and why; the log tells each reason once."""
        told = {"server": self.name, "state": "down", "reason": reason}
        level = logging.WARNING if reason != self._state.reason else logging.DEBUG
        logger.log(level, "%s is down: %s", self.name, reason, extra=told)
        self._move(State("down", datetime.now(UTC), reason), self._tools_without_connection())

    def _tools_without_connection(self) -> Mapping[str, Tool]:
        """Return the tools that are offered while the server is down."""
        return {}

    def _move(self, state: State, tools: Mapping[str, Tool]) -> None:
        # Down for another reason is still down since the first one.
        since = self._state.since if state.kind == self._state.kind else state.since
        self._state = replace(state, since=since)
        self.tools = tools
        self.settled.set()
        self._changed()

    def _tell_of_lists(self) -> None:
        """Tell that what the server lists beside its tools has come or gone."""
        if "prompts" in self.features:
            self._tell(PromptsListChanged())
        if "resources" in self.features:
            self._tell(ResourcesListChanged())
