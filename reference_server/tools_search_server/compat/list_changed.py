"""The mode `list-changed`: the tools that a session finds are added to its list, and it is notified of the change.

This needs a session, which protocol revisions since 2026-07-28 do not have: their callers are listed every tool. The
found tools in the list of a session are bounded, least recently used first out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp.server import Server
from mcp.server.context import HandlerResult
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_ext_tools_search.client import is_for_model
from mcp_types import CallToolRequestParams, NotificationParams, PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts.toolsets import EVERYTHING, Toolset

from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.definitions import CompatOptions, MetaNames, checked_arguments, search_tool
from tools_search_server.compat.meta_tools import Browser
from tools_search_server.compat.model_tools import ToolFailureError, answer, failures_as_results
from tools_search_server.gateway.changes import notify_session
from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import call_by_name, new_endpoint
from tools_search_server.gateway.views import Ctx, View, Views
from tools_search_server.upstreams.upstream import Upstream

_FOUND: Final = 20

_MAX_SESSIONS: Final = 1024
"""Sessions that are remembered; the one that has been silent for longest goes first, since none says goodbye."""

_SESSION_HEADER: Final = "mcp-session-id"


def list_changed_server(search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> Server[Any]:
    """Build the endpoint of the mode `list-changed`."""
    mode = _ListChanged(search, options, always)
    guide = (
        f"Few of them are in its list: {mode.own.name} finds more and adds them. Clients of a protocol revision "
        "without sessions see all of them."
    )
    server = new_endpoint(
        search,
        "list-changed",
        "tools-search-list-changed",
        mode.list_tools,
        failures_as_results(mode.call_tool),
        mode.input_schema,
        guide=lambda _: guide,
    )
    search.gateway.notifiers.append(mode.lists)
    # In place of the endpoint's own: a session's list changes when its found tools do.
    server.add_notification_handler("notifications/initialized", NotificationParams, mode.remember)
    return server


class _ListChanged:
    def __init__(self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> None:
        self._names = MetaNames(options.prefix)
        self.own = search_tool(self._names)
        self._search = search
        self._most_tools = options.most_tools
        self._always = always
        self._views = search.views
        self._browser = Browser(search, self._names)
        self.lists = SessionLists(self._views, always, most_tools=options.most_tools)

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> HandlerResult:
        self._always.report(self._views.of(EVERYTHING))
        if not _has_session(ctx):
            return await self._search.listing.page(self._views.seen_by(ctx), params.cursor, ctx.protocol_version)
        tools = [self.own, *(exposed.tool for exposed in self.lists.listed(ctx).values())]
        return ToolPages(tools, len(tools)).page(params.cursor, ctx.protocol_version)

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> HandlerResult:
        if self._names.plain(params.name) == "search_tools":
            return answer(await self._find(ctx, checked_arguments(self.own, "search_tools", params.arguments or {})))
        if _has_session(ctx):
            self.lists.note_use(ctx, params.name)
        # A tool that has left the list, or is not yet in it, is called as well: the client's copy may be older.
        return await call_by_name(self._views.seen_by(ctx), params.name, ctx, [self.own.name])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self.own.input_schema if name == self.own.name else self._views.input_schema(name)

    async def remember(self, ctx: Ctx, _: NotificationParams) -> None:
        self.lists.session(ctx)

    async def _find(self, ctx: Ctx, arguments: dict[str, Any]) -> dict[str, Any]:
        if not _has_session(ctx):
            why = (
                f"In protocol revision {ctx.protocol_version} a list of tools is the same for every connection, so "
                "found tools cannot be added to it."
            )
            raise ToolFailureError(why, ["All tools are in the list already: call them directly."])
        most = min(int(arguments.get("max_results", _FOUND)), self._most_tools)
        document, tools = await self._browser.search(ctx, arguments | {"detail_level": "brief", "max_results": most})
        found = [tool if isinstance(tool, str) else tool["name"] for tool in document["tools"]]
        if self.lists.add(ctx, found, tools.not_indexed):
            self._search.gateway.announce_soon()
        note = "The tools found are now in the list of tools: call them by their names."
        return document | ({"note": note} if found else {})


def _has_session(ctx: Ctx) -> bool:
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS


@dataclass
class _Session:
    session: ServerSession
    owner: str | None
    """The principal that has opened it, if there are any."""
    found: OrderedDict[str, ExposedTool | None] = field(default_factory=OrderedDict[str, ExposedTool | None])
    """By public name; with the tool itself where it is not indexed."""
    announced: Mapping[str, ExposedTool] = field(default_factory=dict[str, ExposedTool])


class SessionLists:
    """The lists of the legacy sessions of one endpoint, which are notified of changes.

    Args:
        views: What the callers see.
        always: The tools in every list.
        most_tools: Found tools in one list.
        most_sessions: Sessions that are remembered.
    """

    def __init__(
        self, views: Views, always: AlwaysAvailable, *, most_tools: int, most_sessions: int = _MAX_SESSIONS
    ) -> None:
        self._views = views
        self._always = always
        self._most_tools = most_tools
        self._most_sessions = most_sessions
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def listed(self, ctx: Ctx) -> Mapping[str, ExposedTool]:
        """Return the list of the session of `ctx`, by public name: always-available tools come first."""
        session, view = self.session(ctx), self._views.seen_by(ctx)
        return _listed(session, view, self._always.of(view))

    def add(self, ctx: Ctx, names: Sequence[str], not_indexed: Mapping[str, ExposedTool] | None = None) -> bool:
        """Add found tools to the list of a session, and return whether that has changed it.

        Args:
            ctx: A request of the session.
            names: Public names of the tools, the best first.
            not_indexed: Those of the tools that are not indexed.
        """
        session = self.session(ctx)
        before = set(session.found)
        for name in reversed(names):
            session.found[name] = (not_indexed or {}).get(name)
            session.found.move_to_end(name)
        while len(session.found) > self._most_tools:
            session.found.popitem(last=False)
        return before != set(session.found)

    def note_use(self, ctx: Ctx, name: str) -> None:
        """Note that a tool is used, so that it stays longer."""
        found = self.session(ctx).found
        if name in found:
            found.move_to_end(name)

    def session(self, ctx: Ctx) -> _Session:
        """Return the session of `ctx`, which is remembered from now on if it is new."""
        # On stdio there is one session, without an id.
        key = "" if ctx.request is None else str(ctx.request.headers.get(_SESSION_HEADER, ""))
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(ctx.session, self._views.owner_of(ctx))
            session.announced = self._always.of(self._views.seen_by(ctx))
            if len(self._sessions) > self._most_sessions:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return session

    async def announce(self) -> None:
        """Notify the sessions whose list has changed since they were notified last."""
        always: dict[str, Mapping[str, ExposedTool]] = {}  # made once for each toolset, as there may be many tools
        async with anyio.create_task_group() as tasks:
            for session, toolset, view in self._seen():
                if toolset.name not in always:
                    always[toolset.name] = self._always.of(view)
                listed = _listed(session, view, always[toolset.name])
                if listed != session.announced:
                    session.announced = listed
                    tasks.start_soon(notify_session, session.session, ToolsListChanged())

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Notify the sessions that see more of an upstream than single tools."""
        async with anyio.create_task_group() as tasks:
            for session, toolset, _ in self._seen():
                rule = toolset.rule(upstream.name)
                if rule is not None and rule.shows_more:
                    tasks.start_soon(notify_session, session.session, event)

    async def missed(self) -> None:
        """Notify the sessions that prompts and resources may have changed; `announce` covers their tools."""
        async with anyio.create_task_group() as tasks:
            for session in list(self._sessions.values()):
                for event in (PromptsListChanged(), ResourcesListChanged()):
                    tasks.start_soon(notify_session, session.session, event)

    def close(self) -> None:
        """Do nothing: sessions have no subscriptions to end."""

    def _seen(self) -> list[tuple[_Session, Toolset, View]]:
        """Return the sessions whose owners may see anything, with what each sees now."""
        seen = [(session, self._views.of_owner(session.owner)) for session in self._sessions.values()]
        return [(session, *now) for session, now in seen if now is not None]


def _listed(session: _Session, view: View, always: Mapping[str, ExposedTool]) -> Mapping[str, ExposedTool]:
    elsewhere = {seen.upstream for seen, _ in view.delegated}
    found = {name: view.tools.get(name) or session.found[name] for name in sorted(session.found)}
    return {**always} | {
        name: exposed
        for name, exposed in found.items()
        if exposed is not None and is_for_model(exposed.tool) and (name in view.tools or exposed.upstream in elsewhere)
    }
