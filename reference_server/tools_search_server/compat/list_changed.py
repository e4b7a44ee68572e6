"""The `list-changed` mode: adds the tools that a session finds to its list, and notifies it of the change.

This requires a session. Protocol revisions since 2026-07-28 have none, so their callers get a list of all tools. The
number of found tools in a session's list is limited: the least recently used one is evicted first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.subscriptions import ServerEvent, ToolsListChanged
from mcp_ext_tools_search.client import is_for_model
from mcp_types import PaginatedRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.access.configuration import Access
from tools_search_server.base.paging import ToolPages
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.definitions import CompatOptions, ToolFailureError, checked_arguments, search_tool
from tools_search_server.compat.meta_tools import CompatEndpoint, result_of
from tools_search_server.compat.model_tools import ModelTools
from tools_search_server.gateway.caller_questions import connection_of
from tools_search_server.gateway.changes import LegacySessions
from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.views import Ctx, View, Views

_FOUND: Final = 20
_LIST: Final = "tools-search list"
"""Key of a session's list in the state that the SDK keeps for its connection."""


class ListChanged(CompatEndpoint):
    """The endpoint of the `list-changed` mode."""

    mode = "list-changed"

    def __init__(self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> None:
        super().__init__(search, options, always)
        self._own = search_tool(options)
        self.sessions = _SessionLists(self.views, search.gateway.access, always)

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        """Return the always-available tools and then those that the session has found; all tools without a session."""
        self.always.report(self.views.of(EVERYTHING))
        view = self.views.current()
        if not _has_session(ctx):
            return await self.search.listing.page(view, params.cursor, ctx.protocol_version)
        listed = _list_of(connection_of(ctx)).tools(view, self.always.of(view))
        tools = [self._own, *(exposed.tool for exposed in listed.values())]
        return ToolPages(tools, len(tools)).page(params.cursor, ctx.protocol_version)

    async def answer_call(self, ctx: Ctx, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Search, or call a tool by its name."""
        if self.options.plain(name) == "search_tools":
            return result_of(await self._find(ctx, checked_arguments(self._own, "search_tools", arguments)))
        if _has_session(ctx):  # others have no list from which a tool could be evicted
            _list_of(connection_of(ctx)).note_use(name)
        # The tool need not be in the list now: the client's copy may be older.
        return await self.call_by_name(ctx, name, [self._own.name])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of a tool, or `None` if the current caller sees no tool of that name."""
        return self._own.input_schema if name == self._own.name else super().input_schema(name)

    def guide(self, view: View) -> str:
        """Return instructions for models on how to find tools."""
        return (
            f"Few of them are in its list: {self._own.name} finds more and adds them. Clients of a protocol revision "
            "without sessions see all of them."
        )

    async def _find(self, ctx: Ctx, arguments: dict[str, Any]) -> dict[str, Any]:
        if not _has_session(ctx):
            why = (
                f"In protocol revision {ctx.protocol_version} a list of tools is the same for every connection, so "
                "found tools cannot be added to it."
            )
            raise ToolFailureError(why, ["All tools are in the list already: call them directly."])
        most = min(int(arguments.get("max_results", _FOUND)), self.options.most_tools)
        tools = ModelTools(self.search, self.options, ctx)
        document = await tools.search_tools(arguments | {"detail_level": "brief", "max_results": most})
        names = [tool if isinstance(tool, str) else tool["name"] for tool in document["tools"]]
        found = {name: tools.not_indexed.get(name) for name in names}
        if _list_of(connection_of(ctx)).add(found, self.options.most_tools):
            self.search.gateway.announce_soon()
        note = "The tools found are now in the list of tools: call them by their names."
        return document | ({"note": note} if found else {})


def _has_session(ctx: Ctx) -> bool:
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS


@dataclass
class SessionList:
    """The tools that a session has found."""

    found: OrderedDict[str, ExposedTool | None] = field(default_factory=OrderedDict[str, ExposedTool | None])
    """The found tools by public name, most recently used last; `None` for an indexed tool."""

    announced: Mapping[str, ExposedTool] = field(default_factory=dict[str, ExposedTool])
    """The list when its client was last notified."""

    def add(self, found: Mapping[str, ExposedTool | None], most: int) -> bool:
        """Add tools, given best first, and evict all but `most`. Return whether the list has changed."""
        before = set(self.found)
        # The best last, so that it is evicted last.
        for name in reversed([*found]):
            self.found[name] = found[name]
            self.found.move_to_end(name)
        while len(self.found) > most:
            self.found.popitem(last=False)
        return before != set(self.found)

    def note_use(self, name: str) -> None:
        """Record a tool's use, so that it is evicted later."""
        if name in self.found:
            self.found.move_to_end(name)

    def tools(self, view: View, always: Mapping[str, ExposedTool]) -> Mapping[str, ExposedTool]:
        """Return the listed tools of a session with a view, by public name: the always-available ones come first."""
        # A found tool of an upstream that is not indexed stays while the caller may see that upstream.
        elsewhere = {seen.upstream for seen, _ in view.delegated}
        found = {name: view.tools.get(name) or self.found[name] for name in sorted(self.found)}
        return {**always} | {
            name: exposed
            for name, exposed in found.items()
            if exposed is not None
            and is_for_model(exposed.tool)
            and (name in view.tools or exposed.upstream in elsewhere)
        }


def _list_of(connection: Connection) -> SessionList:
    return connection.state.setdefault(_LIST, SessionList())


class _SessionLists(LegacySessions):
    """The endpoint's sessions, each with its own list of tools."""

    def __init__(self, views: Views, access: Access, always: AlwaysAvailable) -> None:
        super().__init__()
        self._views = views
        self._access = access
        self._always = always

    def add(self, connection: Connection) -> None:
        super().add(connection)
        _list_of(connection).announced = self._always.of(self._views.current())

    def notify(self, event: ServerEvent, is_meant: Callable[[str | None], bool] = lambda _: True) -> None:
        # A change of the view need not change a session's own list: `announce` compares them.
        if not isinstance(event, ToolsListChanged):
            super().notify(event, is_meant)

    def announce(self) -> None:
        always: dict[str, Mapping[str, ExposedTool]] = {}  # computed once per toolset, as there may be many tools
        for connection, owner in self.owners.items():
            if (toolset := self._access.toolset_of(owner)) is not None:
                view, session = self._views.of(toolset), _list_of(connection)
                if toolset.name not in always:
                    always[toolset.name] = self._always.of(view)
                listed = session.tools(view, always[toolset.name])
                if listed != session.announced:
                    session.announced = listed
                    self.post(connection, ToolsListChanged())
