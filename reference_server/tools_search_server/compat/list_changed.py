"""The mode `list-changed`: tools that a session finds are added to its list, and it is told that the list has changed.

That needs a session, which protocol revisions since 2026-07-28 do not have: their callers see every tool in the list.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mcp.server.context import HandlerResult
from mcp.server.subscriptions import ServerEvent
from mcp_types import CallToolRequestParams, NotificationParams, PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.answers import ToolFailure, answer
from tools_search_server.compat.browser import Browser
from tools_search_server.compat.definitions import search_tool
from tools_search_server.compat.endpoint import Announcers, Ctx, Endpoint, Parts, bare_server, checked
from tools_search_server.compat.found_lists import FoundLists
from tools_search_server.gateway.relay import relay_call
from tools_search_server.gateway.remote_tools import called_tool
from tools_search_server.gateway.view_changes import ViewChanges
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["list_changed_endpoint"]

_NAME: Final = "tools-search-list-changed"
_FOUND: Final = 20


def list_changed_endpoint(parts: Parts) -> Endpoint:
    """Build the endpoint of the mode `list-changed`."""
    mode = _ListChanged(parts)
    search = mode.own.name
    how = (
        f"Few of them are in its list: {search} finds more and adds them. Clients of a protocol revision without "
        "sessions see all of them."
    )
    server = bare_server(_NAME, parts, mode.list_tools, mode.call_tool, mode.input_schema, lambda _: how)
    bus = partial(parts.gateway.replicas.bus, "list-changed")
    for_all = ViewChanges(parts.searched.views, parts.gateway.access, bus=bus)
    for_all.install(server)
    server.add_notification_handler("notifications/initialized", NotificationParams, mode.remember)
    hide_internal_errors(server)
    return Endpoint(server, Announcers([for_all, mode]))


class _ListChanged:
    """Lists, finds and calls for both eras, and tells sessions when their own list has changed."""

    def __init__(self, parts: Parts) -> None:
        self.own = search_tool(parts.names)
        self._parts = parts
        self._views = parts.searched.views
        self._browser = Browser(parts.searched, parts.names)
        self._lists = FoundLists(self._views, parts.always, most_tools=parts.options.most_tools)

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        self._parts.always.report(self._views.of(EVERYTHING))
        if not _has_session(ctx):
            seen = self._views.seen_by(ctx)
            return await self._parts.searched.listing.page(seen, params.cursor, ctx.protocol_version)
        tools = [self.own, *(offer.tool for offer in self._lists.listed(ctx).values())]
        return ToolPages(tools, len(tools)).page(params.cursor, ctx.protocol_version)

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        if self._parts.names.plain(params.name) == "search_tools":
            return answer(await self._reveal(ctx, checked(self.own, "search_tools", params.arguments or {})))
        if _has_session(ctx):
            self._lists.note_use(ctx, params.name)
        # A tool that has left the list, or is not yet in it, is called as well: the client's copy may be older.
        seen = self._views.seen_by(ctx)
        called = await called_tool(seen, params.name)
        if called is None:
            raise unknown_tool(params.name, [self.own.name, *seen.for_model.offers])
        return await relay_call(*called, ctx)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self.own.input_schema if name == self.own.name else self._views.input_schema(name)

    async def remember(self, ctx: Ctx, _: NotificationParams) -> None:
        self._lists.session(ctx)

    async def announce(self) -> None:
        await self._lists.announce()

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        await self._lists.publish(upstream, event)

    async def missed(self) -> None:
        await self._lists.missed()

    def close(self) -> None:
        """Sessions have no subscriptions that would have to be closed."""

    async def _reveal(self, ctx: Ctx, arguments: dict[str, Any]) -> dict[str, Any]:
        if not _has_session(ctx):
            why = (
                f"In protocol revision {ctx.protocol_version} a list of tools is the same for every connection, so "
                "found tools cannot be added to it."
            )
            raise ToolFailure(why, ["All tools are in the list already: call them directly."])
        most = min(int(arguments.get("max_results", _FOUND)), self._parts.options.most_tools)
        chosen = arguments | {"detail_level": "brief", "max_results": most}
        document, tools = await self._browser.search(ctx, chosen)
        found = [tool if isinstance(tool, str) else tool["name"] for tool in document["tools"]]
        if self._lists.add(ctx, found, tools.beyond):
            self._parts.gateway.announce_soon()
        note = "The tools found are now in the list of tools: call them by their names."
        return document | ({"note": note} if found else {})


def _has_session(ctx: Ctx) -> bool:
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
