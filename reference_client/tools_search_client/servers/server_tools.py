"""One server's tools and other items: finds them, and calls tools with a deadline."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import anyio
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES, PrimitivesServerSettings
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_tools_search.client import hit_metadata
from mcp_ext_tools_search.types import EXTENSION_ID, TOOLS, HitMetadata, Primitive
from mcp_types import CallToolRequestParams, CallToolResult, RequestParamsMeta, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tools_search_client.errors import HostError, InvalidServerResultError, ServerRefusedError, ServerUnavailableError
from tools_search_client.found import Era, Found, FoundTool, Mode
from tools_search_client.json_values import require_sendable
from tools_search_client.known_tools import MANY, KnownTools, in_thread, known_tools
from tools_search_client.servers.discovery import Discovery
from tools_search_client.servers.discovery_options import CompleteDiscoveryOptions, DiscoveryOptions, stated
from tools_search_client.servers.faults import server_faults

_MAX_EXTENSION: Final = 10
"""Factor by which reporting progress can extend a call's total time."""


class ServerTools:
    """One connected server's tools and other items.

    Args:
        client: A connected client that declares the extension (`extensions=[TOOLS_SEARCH]`); if it does not, tools are
            listed. `open_server` takes care of both.
        options: Search options.
        ended: Returns why the connection ended, for error messages; empty if unknown.
    """

    def __init__(
        self, client: Client, options: DiscoveryOptions | None = None, *, ended: Callable[[], str] = str
    ) -> None:
        self._ended = ended
        self._options = CompleteDiscoveryOptions(**stated(options) if options else {})
        self.client: Final = client
        """The connection, for everything other than finding tools."""
        # Read them now, because a client discards them when its connection ends, before reports are written.
        self.settings: Final[PrimitivesServerSettings | None] = (
            primitives_settings(client) if _is_declared(client) else None
        )
        """The server's search settings; `None` if it has none, or the client does not declare the extension."""
        self.protocol_version: Final = client.protocol_version
        self.info: Final = client.server_info
        self.instructions: Final = client.instructions
        self.era: Final[Era] = "modern" if client.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"
        """The connection's protocol era."""
        self._discoveries = {
            primitive.method: Discovery(client, primitive, self.settings, self._options, self._deadline)
            for primitive in (TOOLS, RESOURCES, RESOURCE_TEMPLATES, PROMPTS)
        }
        self._known: tuple[tuple[Tool, ...], KnownTools] | None = None
        """The last listing that was ranked, and its tools."""
        self._indexing = anyio.Lock()
        self._calls: dict[anyio.CancelScope, float] = {}
        """The deadlines of the calls in progress, and when each ends regardless of progress."""
        self._waits_for_person = 0
        self.host_fault: HostError | None = None
        """The last exception from a host callback; the server was only sent its name."""

    @property
    def mode(self) -> Mode:
        """How the next search for tools will be made, unless it fails."""
        return self.discovery().mode

    @property
    def left_out(self) -> int:
        """Number of tools left out of the last listing: invalid definitions, and those that repeat a name."""
        return self.discovery().left_out

    def discovery(self, primitive: Primitive[Any] = TOOLS) -> Discovery:
        """Return the `Discovery` for tools or other items."""
        return self._discoveries[primitive.method]

    async def search(self, query: str, *, limit: int = 10) -> Found:
        """Return up to `limit` tools that fit `query`, best first.

        Raises:
            LocalError: The query is blank or not valid Unicode, or `limit` is not positive.
            ServerError: The server failed in a way that listing cannot help with, or the listing failed too. After a
                single failed search, the tools are listed if that is cheap; otherwise the error is raised. A server
                that stays busy (`ServerBusyError`) is not listed, and not searched before the time it stated.
        """
        answer = await self.discovery().search_or_list(query, limit)
        if answer.mode == "search":
            found = (
                FoundTool(tool.name, "", tool, hit_metadata(tool) or HitMetadata(), "search") for tool in answer.items
            )
            return Found(tuple(found), "search")
        known = await self._indexed(answer.items)
        return Found(known.found(query, limit), "list", answer.fallback)

    async def _indexed(self, listing: tuple[Tool, ...]) -> KnownTools:
        """Return the index of a listing, made in a thread if there are many tools."""
        async with self._indexing:
            # The cached listing is the same object until it is read again.
            if self._known is None or self._known[0] is not listing:
                listed = tuple(FoundTool(tool.name, "", tool) for tool in listing)
                index = partial(known_tools, listed, self._options.ranker, self._known and self._known[1])
                self._known = listing, index() if len(listing) < MANY else await in_thread(index)
            return self._known[1]

    async def list(self) -> tuple[Tool, ...]:
        """Return all tools in the server's order, except those with invalid definitions (see `left_out`).

        Raises:
            ServerError: The server failed, or its list is endless. If a later page failed, the error has the tools of
                the earlier ones (`listed`).
        """
        return await self.discovery().list()

    async def call(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> CallToolResult:
        """Call a tool that a search or listing on this connection returned; this does not list the tools.

        Raises:
            LocalError: The name, arguments or `meta` cannot be sent as JSON.
            ServerError: The server failed. A failing tool, or a result with no valid part, gives a result with
                `is_error`, not an exception. With a client from `open_server`, a partly invalid result keeps its valid
                parts, with a text in place of the others.
        """
        given = {"name": name, "arguments": arguments, "_meta": meta}
        require_sendable(CallToolRequestParams, f"the call of {name!r}", **given)
        report = progress
        seconds = self._options.call_timeout
        async with self.patience() as scope:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                scope.deadline = max(scope.deadline, min(anyio.current_time() + seconds, self._calls.get(scope, 0)))
                if report is not None:
                    await report(progress, total, message)

            try:
                return await self.client.call_tool(name, arguments, progress_callback=progressed, meta=meta)
            except RuntimeError as error:
                # The SDK's error for structured content that violates the tool's output schema.
                raise InvalidServerResultError(f"{error}; the call might have taken effect") from error

    @asynccontextmanager
    async def patience(self) -> AsyncGenerator[anyio.CancelScope]:
        """Limit the block, in which the server does something for the user such as a call, to `call_timeout`.

        Raises:
            ServerError: The server failed in the block.
            HostError: The server gave up because a host callback raised.
        """
        try:
            async with self._deadline(math.inf if self._waits_for_person else self._options.call_timeout) as scope:
                self._calls[scope] = self._latest()
                try:
                    yield scope
                finally:
                    del self._calls[scope]
        except ServerRefusedError as error:
            # The server was told which part of the host failed; an error that does not repeat it has another reason.
            fault, self.host_fault = self.host_fault, None
            if fault is None or fault.part not in str(error):
                raise
            raise fault from fault.__cause__

    @contextmanager
    def waiting_for_person(self) -> Generator[None]:
        """Suspend call timeouts in the block, in which a host callback asks a person on the server's behalf."""
        self._waits_for_person += 1
        for scope in self._calls:
            scope.deadline = math.inf
        try:
            yield
        finally:
            self._waits_for_person -= 1
            if not self._waits_for_person:  # nobody is asked any more, so every call has its whole timeout again
                for scope in self._calls:
                    scope.deadline = anyio.current_time() + self._options.call_timeout
                self._calls = dict.fromkeys(self._calls, self._latest())

    def _latest(self) -> float:
        return anyio.current_time() + self._options.call_timeout * _MAX_EXTENSION

    def forget(self, setting: str | None = None) -> None:
        """Clear the caches because the server's lists changed; a refused search is tried again.

        Args:
            setting: Which lists changed: `resources`, `prompts`, or tools if empty; all by default.
        """
        for discovery in self._discoveries.values():
            if setting is None or discovery.primitive.setting == setting:
                discovery.forget()

    def ending(self) -> ServerUnavailableError:
        """Return the error for an ended connection, with the reason if known."""
        how = self._ended()
        return ServerUnavailableError(f"the connection ended: {how}" if how else "the connection ended")

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncGenerator[anyio.CancelScope]:
        with server_faults(self._ended), anyio.fail_after(seconds) as scope:
            try:
                _ = self.client.session
                yield scope
            except RuntimeError as error:  # the SDK's error for a client that is closed, or was closed meanwhile
                if is_connected(self.client):
                    raise
                raise self.ending() from error


def is_connected(client: Client) -> bool:
    """Return whether a client is open and has negotiated a protocol version."""
    try:
        return client.session.protocol_version is not None
    except RuntimeError:  # the SDK's error for a client that is closed or not open yet
        return False


def _is_declared(client: Client) -> bool:
    """Return whether a client declares the extension, without which it must not search (draft: Client Declaration)."""
    declared = client.session._extensions  # pyright: ignore[reportPrivateUsage] - a session has no public way
    return declared is not None and EXTENSION_ID in declared
