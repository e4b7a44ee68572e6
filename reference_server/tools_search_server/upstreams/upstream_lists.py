"""The prompts, resources and templates of one connected server, read when somebody asks for them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import anyio
from mcp import Client, MCPError
from mcp.server.subscriptions import PromptsListChanged, ServerEvent
from mcp_types import METHOD_NOT_FOUND, PromptsCapability, ResourcesCapability
from pydantic import BaseModel

from tools_search_server.base.revealing import quoted
from tools_search_server.upstreams.upstream_listing import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    Allowance,
    Kind,
    ListingError,
    ListingTooLargeError,
    read_entries,
)

__all__ = ["KeptLists", "Listed", "Lists"]

logger = logging.getLogger(__name__)

_SECONDS: Final = 5
"""How long one server may hold up a listing of all of them."""

_FRESH_SECONDS: Final = 5
"""How long the list of a server is taken for current that does not tell of changes: as long as callers may keep it."""

_FAILED_SECONDS: Final = 30
"""How long a server that failed to list is left alone."""

_EXCESS_SECONDS: Final = 3600
"""How long a list is left alone that is larger than is read."""

_NEVER: Final[tuple[float, Mapping[str, BaseModel]]] = -math.inf, {}


class Listed(Protocol):
    """What a server lists beside its tools, wherever that is known from."""

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind, by what tells them apart."""
        ...

    def forget(self, event: ServerEvent) -> bool:
        """Read again what has changed when it is asked for next; tell whether it was known before."""
        ...


class KeptLists:
    """What a server listed when it was last connected.

    Args:
        kept: The entries by the method that lists them.
    """

    def __init__(self, kept: Mapping[str, Mapping[str, BaseModel]]) -> None:
        self._kept = kept

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind, by what tells them apart."""
        return self._kept.get(kind.method, {})

    def forget(self, event: ServerEvent) -> bool:
        """There is no connection to read anything again from."""
        return False


class Lists:
    """What a server lists beside its tools.

    Args:
        client: The connection.
        server: Its name, for the log.
        allowance: How much of its lists is read.
        on_faults: Called with what is wrong with its lists whenever that has changed, with nothing when nothing is.
    """

    def __init__(
        self, client: Client, server: str, allowance: Allowance, on_faults: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._allowance = allowance
        self._server = server
        self._on_faults = on_faults
        self._faults: dict[str, str] = {}
        self._read: dict[str, tuple[float, Mapping[str, BaseModel]]] = {}
        self._locks = {kind.method: anyio.Lock() for kind in (PROMPTS, RESOURCES, TEMPLATES)}
        self._changes = 0

    async def entries(self, kind: Kind) -> Mapping[str, BaseModel]:
        """Return the entries of a kind, by what tells them apart; none where the server has none or fails to list."""
        capability = self._capability(kind)
        if capability is None:
            return {}
        async with self._locks[kind.method]:
            until, entries = self._read.get(kind.method, _NEVER)
            if anyio.current_time() < until:
                return entries
            before = self._changes
            seconds = math.inf if capability.list_changed else _FRESH_SECONDS
            try:
                with anyio.fail_after(_SECONDS):
                    entries = await read_entries(
                        self._client, self._server, kind, self._allowance, page_seconds=_SECONDS
                    )
                self._note(kind, None)
            except (ListingError, MCPError, TimeoutError) as error:
                is_excess = isinstance(error, ListingTooLargeError)
                entries, seconds = _NEVER[1], _EXCESS_SECONDS if is_excess else _FAILED_SECONDS
                # Templates are optional, and there is no capability that says so.
                if not isinstance(error, MCPError) or error.code != METHOD_NOT_FOUND or kind is not TEMPLATES:
                    told = {"server": self._server}
                    reason = quoted(error.message) if isinstance(error, MCPError) else str(error)
                    reason = reason or f"it took more than {_SECONDS} s"
                    logger.warning("%s: its list of %ss failed: %s", self._server, kind.noun, reason, extra=told)
                    self._note(kind, f"its list of {kind.noun}s failed: {reason}")
            if before == self._changes:
                self._read[kind.method] = anyio.current_time() + seconds, entries
            return entries

    def forget(self, event: ServerEvent) -> bool:
        """Read again what has changed when it is asked for next; tell whether it was known before."""
        self._changes += 1
        kinds: Sequence[Kind] = (PROMPTS,) if isinstance(event, PromptsListChanged) else (RESOURCES, TEMPLATES)
        known = [self._read.pop(kind.method, None) is not None for kind in kinds]
        return any(known)

    def _note(self, kind: Kind, fault: str | None) -> None:
        if self._faults.get(kind.method) == fault:
            return
        self._faults.pop(kind.method, None)
        if fault is not None:
            self._faults[kind.method] = fault
        self._on_faults("; ".join(self._faults.values()))

    def _capability(self, kind: Kind) -> PromptsCapability | ResourcesCapability | None:
        offered = self._client.server_capabilities
        return offered.prompts if kind is PROMPTS else offered.resources
