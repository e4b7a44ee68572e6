"""Which tools stand in the list of each session because they were found: bounded, those used least lately out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp_ext_tools_search.for_models import is_for_model
from tools_search_hosts.toolsets import Toolset

from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.gateway.changes import tell
from tools_search_server.gateway.gateway import Offer
from tools_search_server.gateway.views import View, Views
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["FoundLists"]

_MOST_SESSIONS: Final = 1024
"""Sessions that are remembered; one that has been silent for longest is forgotten first, since none says goodbye."""

_SESSION_HEADER: Final = "mcp-session-id"


@dataclass
class _Session:
    speaker: ServerSession
    owner: str | None
    """The principal who has opened it, if there are any."""
    found: OrderedDict[str, Offer | None] = field(default_factory=OrderedDict[str, Offer | None])
    """With the tool as it was found, where it stands in no index."""
    told: Mapping[str, Offer] = field(default_factory=dict[str, Offer])


class FoundLists:
    """The lists of the legacy sessions of one endpoint.

    Args:
        views: What the callers see.
        always: What stands in every list.
        most_tools: Found tools in one list.
        most_sessions: Sessions that are remembered.
    """

    def __init__(
        self, views: Views, always: AlwaysAvailable, *, most_tools: int, most_sessions: int = _MOST_SESSIONS
    ) -> None:
        self._views = views
        self._always = always
        self._most_tools = most_tools
        self._most_sessions = most_sessions
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def listed(self, ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Offer]:
        """Return what stands in the list of the session of `ctx`, by public name: what always does comes first."""
        session, view = self.session(ctx), self._views.seen_by(ctx)
        return _listed(session, view, self._always.of(view))

    def add(
        self, ctx: ServerRequestContext[Any, Any], names: Sequence[str], beyond: Mapping[str, Offer] | None = None
    ) -> bool:
        """Put found tools, the best first, into the list of a session; tell whether that has changed it.

        Args:
            ctx: A request of the session.
            names: Public names of the tools.
            beyond: Those of the tools that stand in no index.
        """
        session = self.session(ctx)
        before = set(session.found)
        for name in reversed(names):
            session.found[name] = (beyond or {}).get(name)
            session.found.move_to_end(name)
        while len(session.found) > self._most_tools:
            session.found.popitem(last=False)
        return before != set(session.found)

    def note_use(self, ctx: ServerRequestContext[Any, Any], name: str) -> None:
        """Note that a tool is used, so that it stays longer."""
        found = self.session(ctx).found
        if name in found:
            found.move_to_end(name)

    async def announce(self) -> None:
        """Tell the sessions whose list has changed since they were told last."""
        always: dict[str, Mapping[str, Offer]] = {}  # made once for each toolset, as there may be many tools
        async with anyio.create_task_group() as tasks:
            for session, toolset, view in self._seen():
                if toolset.name not in always:
                    always[toolset.name] = self._always.of(view)
                listed = _listed(session, view, always[toolset.name])
                if listed != session.told:
                    session.told = listed
                    tasks.start_soon(tell, session.speaker, ToolsListChanged())

    async def publish(self, upstream: Upstream, event: ServerEvent) -> None:
        """Tell the sessions that see more of a server than its tools of a change there."""
        async with anyio.create_task_group() as tasks:
            for session, toolset, _ in self._seen():
                rule = toolset.rule(upstream.name)
                if rule is not None and rule.shows_more:
                    tasks.start_soon(tell, session.speaker, event)

    async def missed(self) -> None:
        """Tell the sessions that prompts and resources may have changed; what tools they list is known here."""
        async with anyio.create_task_group() as tasks:
            for session in list(self._sessions.values()):
                tasks.start_soon(tell, session.speaker, PromptsListChanged())
                tasks.start_soon(tell, session.speaker, ResourcesListChanged())

    def session(self, ctx: ServerRequestContext[Any, Any]) -> _Session:
        """Return what is remembered of the session of `ctx`, from now on if it is new."""
        # On stdio there is one session, and it has no id.
        key = "" if ctx.request is None else str(ctx.request.headers.get(_SESSION_HEADER, ""))
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(ctx.session, self._views.owner_of(ctx))
            session.told = self._always.of(self._views.seen_by(ctx))
            if len(self._sessions) > self._most_sessions:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return session

    def _seen(self) -> list[tuple[_Session, Toolset, View]]:
        """Return the sessions of those who may see anything, with what each sees now."""
        seen = [(session, self._views.of_owner(session.owner)) for session in self._sessions.values()]
        return [(session, *now) for session, now in seen if now is not None]


def _listed(session: _Session, view: View, always: Mapping[str, Offer]) -> Mapping[str, Offer]:
    elsewhere = {seen.upstream for seen, _ in view.remotes}
    found: dict[str, Offer] = {}
    for name in sorted(session.found):
        offer = view.offers.get(name) or session.found[name]
        if offer is None or not is_for_model(offer.tool):
            continue
        if name in view.offers or offer.upstream in elsewhere:
            found[name] = offer
    return {**always, **found}
