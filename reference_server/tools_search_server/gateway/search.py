"""Search over all tools of a gateway, for the extension and the compatibility modes.

Most upstreams are indexed here. Searches of upstreams that support `tools/search` and have very many tools are
delegated to them instead (`View.delegated`). The results are fused by rank, because two servers' scores are not
comparable. Ranks alone do not show whose first tool fits better, so the best hits of all are also ranked together, and
that ranking has two votes.

The cursor records which servers contributed to the first page. A server that failed then is omitted from the following
pages too. A server that fails later makes its page fail, rather than change the order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import anyio.to_thread
from mcp.server.caching import CacheHint
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES, PrimitivesServerSettings
from mcp_ext_search_primitives.server import PromptsSearch, ResourcesSearch
from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.floor import Floor, terms, tool_terms, trimmed
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_ext_tools_search.server.errors import too_busy
from mcp_ext_tools_search.types import ServerSettings
from mcp_types import Tool
from tools_search_hosts import own_name, split_candidates
from tools_search_ranking import FieldedRanker, default_ranker
from tools_search_ranking.cache import IndexCache
from tools_search_ranking.hits import LazyHits, names_of

from tools_search_server.access.principals import HTTP_CALLER
from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway import orientation
from tools_search_server.gateway.fanout import ask_all
from tools_search_server.gateway.gateway import ExposedTool, Gateway
from tools_search_server.gateway.item_search import ItemSearch
from tools_search_server.gateway.listing import GatewayListing
from tools_search_server.gateway.views import Ctx, View, Views, VisibleServer
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError, matched_members
from tools_search_server.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from tools_search_server.gateway.shared_index import SharedIndex

logger = logging.getLogger(__name__)

_TTL_MS: Final = 5_000

_LARGE_RANKED_AT_ONCE: Final = 4
"""Maximum concurrent rankings in large catalogs."""

_FUSED_AT_ONCE: Final = 4

_SEARCH_SECONDS: Final = 4
"""Time limit for all requests to one server about one query."""

_LOOKUP_SECONDS: Final = 10
"""Time limit for all servers together to look up names."""

_HEAD: Final = 100
"""Number of indexed hits that are fused. The rest follow in their own order."""

_RANKED_TOGETHER: Final = 50


class _DelegatedResult(NamedTuple):
    """One upstream's search results."""

    tools: dict[str, tuple[ExposedTool, tuple[str, ...]]]
    """Tools with their matching members, by public name, best first."""
    ttl_ms: float
    """How long they can be cached; 0 if they are incomplete."""


class GatewaySearch:
    """The tools that callers of a gateway can list and search."""

    def __init__(self, gateway: Gateway, limits: Limits) -> None:
        self.gateway = gateway
        self.limits = limits
        self.views = Views(gateway)
        self.caching = CacheHint(ttl_ms=_TTL_MS, scope="private" if gateway.access.principals else "public")
        """How long clients may cache a listing, and whether caches may be shared."""
        self.listing = GatewayListing(gateway, limits)
        ranker = limits.ranker or default_ranker()
        kinds = gateway.options.searched_kinds
        self._items = {kind: ItemSearch(self.views, kind, ranker, self.caching) for kind in kinds}
        resources, templates, prompts = map(self._items.get, (RESOURCES, RESOURCE_TEMPLATES, PROMPTS))
        self.extension = ToolsSearch(
            search=self._search,
            settings=self._settings,
            default_limit=limits.default_limit,
            max_limit=limits.max_limit,
            max_searches=limits.searches_at_once,
            cursor_key=limits.cursor_key,
            resources=resources is not None and ResourcesSearch(search=resources, templates=templates),
            prompts=prompts is not None and PromptsSearch(search=prompts),
        )
        self.shared: SharedIndex | None = None
        """The index in a database, if the replicas share one."""
        if limits.index is not None:
            from tools_search_server.gateway.shared_index import SharedIndex  # here because it needs an extra

            self.shared = SharedIndex(gateway, limits.index, limits.index_name, limits.embedder)
        self._indexes = IndexCache(ranker, max_concurrency=_LARGE_RANKED_AT_ONCE)
        self._ranker = FieldedRanker()
        self._limiter = anyio.CapacityLimiter(_FUSED_AT_ONCE)
        self._searches = 0
        """Number of open searches in compatibility modes. The extension counts its own."""

    async def found(self, ctx: Ctx, query: str) -> tuple[Sequence[Hit], Mapping[str, ExposedTool]]:
        """Return all hits of `tools/search` for the current caller, best first, and the tools that are not indexed.

        Raises:
            MCPError: -32603, too many searches are open, or a required server did not answer.
        """
        # As in the extension, which counts its own searches: any more are refused, not queued.
        if self._searches >= self.limits.searches_at_once:
            raise too_busy()
        self._searches += 1
        try:
            answer, not_indexed = await self._found(ctx, query, None)
        finally:
            self._searches -= 1
        return answer.hits, not_indexed

    async def unknown_words(self, ctx: Ctx, query: str) -> Sequence[str]:
        """Return the words of `query` that are in no tool that this caller's model may use.

        Return none if there are tools that are not indexed here, since their words are unknown.
        """
        view = self.views.current()
        if view.delegated or self.shared is not None:
            return ()
        everything = self.gateway.pages
        visible = view.for_model.pages.names_in(everything)
        return await self._indexes.unknown_words(everything.snapshot(ctx.protocol_version), query, visible)

    async def named(self, names: Iterable[str]) -> Mapping[str, ExposedTool]:
        """Return the tools with these public names that are not indexed.

        Raises:
            NoAnswerError: A server that may have one of them did not answer.
        """
        view = self.views.current()
        found: dict[str, ExposedTool] = {}
        with anyio.move_on_after(_LOOKUP_SECONDS) as looking:
            for name in names:
                for seen, delegate in [] if name in view.tools else view.delegated_named(name):
                    if (tool := await delegate.find(name)) is not None:
                        exposed = self.gateway.expose(seen.upstream, tool)
                        found[exposed.tool.name] = exposed
                        break
        if looking.cancelled_caught:
            raise NoAnswerError(f"The MCP servers of these tools did not look them up within {_LOOKUP_SECONDS} s")
        return found

    def _settings(self) -> ServerSettings:
        view = self.views.current()
        # Draft, Server Settings: no size if callers see different numbers of tools. Principals never get one; otherwise
        # its presence would depend on the other principals' toolsets.
        tools = orientation.settings(view.upstreams, None if HTTP_CALLER.get() is not None else view.tool_count)
        if not self._items:
            return tools
        others = {
            kind.setting: self._items[kind].settings().to_wire() for kind in (RESOURCES, PROMPTS) if kind in self._items
        }
        return PrimitivesServerSettings.model_validate({**tools.to_wire(), **others})

    async def _search(self, ctx: Ctx, query: str, note: str | None) -> Answer:
        return (await self._found(ctx, query, note))[0]

    async def _found(self, ctx: Ctx, query: str, note: str | None) -> tuple[Answer, Mapping[str, ExposedTool]]:
        """Return the answer to a search, and the tools in it that are not indexed, by name.

        `note` is from the previous page; `None` on the first page.

        Raises:
            MCPError: -32603, a server that this page requires did not answer.
        """
        view, hits, is_complete = await self._indexed(query, ctx.protocol_version)
        their_ttl_ms = math.inf
        tools: Mapping[str, dict[str, Any]] = view.pages.wire(ctx.protocol_version)
        not_indexed: Mapping[str, ExposedTool] = {}
        absent = ""
        if delegated := view.delegated:
            asks = {seen.name: partial(self._search_delegated, seen, delegate, query) for seen, delegate in delegated}
            # A server that the query names must answer: without it, the tool that is meant would be missing.
            finds, absent = await ask_all(
                asks, note, lambda failed: [server for server, _ in split_candidates(trimmed(query), failed)]
            )
            is_complete = is_complete and not absent
            their_ttl_ms = min((its.ttl_ms for its in finds.values()), default=math.inf)
            ordered = [its.tools for its in finds.values()]
            not_indexed = {name: exposed for result in ordered for name, (exposed, _) in result.items()}
            pages = ToolPages([exposed.tool for exposed in not_indexed.values()], len(not_indexed))
            definitions = pages.wire(ctx.protocol_version)
            tools = {**tools, **definitions}
            there = [
                [Hit(name, 0.0, its[1]) for name, its in result.items() if name in definitions] for result in ordered
            ]
            if found_there := [hits for hits in there if hits]:
                known = {name: view.tools[name].tool for name in names_of(hits[:_HEAD])}
                known |= {name: not_indexed[name].tool for name in definitions}
                arguments = (query, hits, found_there, known, self._ranker)
                hits = await anyio.to_thread.run_sync(fused, *arguments, limiter=self._limiter)
        if note is None:  # the first page
            self.gateway.searches.note_search(query, hits)
        # An incomplete answer must not be cached, neither one from here nor one from a gateway behind this one.
        ttl_ms = int(min(self.caching.ttl_ms, their_ttl_ms)) if is_complete else 0
        return Answer(hits, tools, ttl_ms, self.caching.scope, absent), not_indexed

    async def _indexed(self, query: str, protocol_version: str) -> tuple[View, Sequence[Hit], bool]:
        """Return the caller's view, its indexed tools that match, and whether the index has all tools of the view."""
        view = self.views.current()
        if self.shared is None:
            everything = self.gateway.pages
            snapshot, visible = everything.snapshot(protocol_version), view.pages.names_in(everything)
            return view, await self._indexes.rank(snapshot, query, visible), True
        hits, is_complete = await self.shared.rank(view, query, protocol_version)
        if (now := self.views.current()) is not view:  # the tools of the earlier view may have left the index
            view = now
            hits, is_complete = await self.shared.rank(view, query, protocol_version)
            is_complete = is_complete and view is self.views.current()
        return view, hits, is_complete

    async def _search_delegated(self, seen: VisibleServer, delegate: DelegatedSearch, query: str) -> _DelegatedResult:
        """Search one upstream, and also look for tools that match only by their public names, which it does not know.

        Raises:
            NoAnswerError: It did not answer the search, or the lookup of a tool that the query names, in time.
        """
        deadline = anyio.current_time() + _SEARCH_SECONDS * delegate.patience
        found: dict[str, tuple[ExposedTool, tuple[str, ...]]] = {}

        def add(exposed: ExposedTool, matched: tuple[str, ...]) -> None:
            found.setdefault(exposed.tool.name, (exposed, matched))

        hits = await delegate.search(query)
        ttl_ms = hits.ttl_ms
        for tool in hits.entries:
            add(self.gateway.expose(seen.upstream, tool), matched_members(tool))
        if trimmed(query) not in found and split_candidates(trimmed(query), [seen.name]):
            with anyio.CancelScope(deadline=deadline) as looking:
                exact = await delegate.find(trimmed(query))
                if exact is not None:
                    add(self.gateway.expose(seen.upstream, exact), ("name",))
            if looking.cancelled_caught:
                raise NoAnswerError(f"The MCP server {seen.name!r} did not look up the named tool in time")
        wanted = dict.fromkeys(terms(query))
        others = [term for term in wanted if term not in set(terms(seen.name))]
        if others and len(others) < len(wanted):  # the query has words from the server's name
            try:
                with anyio.CancelScope(deadline=deadline) as searching:
                    more = await delegate.search(" ".join(others))
                    ttl_ms = min(ttl_ms, more.ttl_ms)
                    for tool in more.entries:
                        exposed = self.gateway.expose(seen.upstream, tool)
                        if wanted.keys() <= frozenset[str]().union(*tool_terms(exposed.tool).values()):
                            add(exposed, matched_members(tool))
                ttl_ms = 0 if searching.cancelled_caught else ttl_ms
            except NoAnswerError as failure:
                logger.warning("a search is incomplete: %s", failure, extra={"server": seen.name})
                ttl_ms = 0
        return _DelegatedResult(found, ttl_ms)


def fused(
    query: str, local: Sequence[Hit], delegated: Sequence[Sequence[Hit]], tools: Mapping[str, Tool], ranker: Ranker
) -> Sequence[Hit]:
    """Return all hits in one order, with scores on one scale.

    `tools` contains the definitions of all delegated hits and of the first hundred indexed hits. `ranker` ranks the
    best of all together. No name may occur in two of the lists.
    """
    heads = [list(local[:_HEAD]), *map(list, delegated)]
    rankings = [[hit.name for hit in head] for head in heads if head]
    together: list[Hit] = []

    def rank(candidates: Sequence[str]) -> list[str]:
        together.extend(ranker([tools[name] for name in candidates]).search(query))
        return [hit.name for hit in together]

    order = fuse_and_rerank(rankings, rank, depth=_RANKED_TOGETHER)
    own = {hit.name: hit for hit in together} | {hit.name: hit for head in heads for hit in head if hit.matched}
    best = order[0][1]
    hits: Sequence[Hit] = [own.get(name, Hit(name, 0.0))._replace(score=weight / best) for name, weight in order]
    # The fusion does not know that the tool which a query names comes first (draft: Order and Matching).
    exact = tools.get(trimmed(query))
    if exact is not None:
        hits = Floor([exact]).under(query, hits)
    return _with_rest(hits, local)


def _with_rest(head: Sequence[Hit], local: Sequence[Hit]) -> Sequence[Hit]:
    """Return `head`, followed by the local hits that were not fused, in their order."""
    if len(local) <= _HEAD:
        return head
    # Scaled so that scores never rise again behind the head.
    lowest, highest = head[-1].score, local[_HEAD - 1].score or 1.0

    def names() -> list[str]:
        return [hit.name for hit in head] + list(names_of(local))[_HEAD:]

    def hits_at(places: range) -> list[Hit]:
        behind = local[max(places.start - len(head), 0) + _HEAD : max(places.stop - len(head), 0) + _HEAD]
        return [
            *head[places.start : places.stop],
            *(hit._replace(score=lowest * hit.score / highest) for hit in behind),
        ]

    return LazyHits(len(head) + len(local) - _HEAD, names, hits_at)


async def destination(view: View, name: str) -> tuple[Upstream, str] | None:
    """Return the upstream that handles calls to a public name, and its own name for the tool.

    A call goes to a delegate even if the tool has not been listed, since the delegate knows its tools best. A call also
    goes to an upstream that is down, so that the error says so.
    """
    if (exposed := view.tools.get(name)) is not None:
        return exposed.upstream, exposed.original.name
    for seen, delegate in view.delegated_named(name):
        own = own_name(seen.name, name)
        try:
            if own is None:
                tool = await delegate.find(name)
                own = None if tool is None else tool.name
            elif seen.upstream.is_modern and seen.upstream.transport != "stdio" and delegate.seen(own) is None:
                await delegate.lookup(own)  # so that the session knows which arguments to send as headers
        except NoAnswerError:  # the call itself will fail for the same reason
            own = own or name
        if own is not None:
            return seen.upstream, own
    upstream = view.unavailable(name)
    return None if upstream is None else (upstream, name)
