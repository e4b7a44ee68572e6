"""Searching the servers that are searched where they are, and putting what they find beside what is indexed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.ranking.terms import terms, tool_terms, trimmed
from mcp_ext_tools_search.server import Answer
from mcp_types import INTERNAL_ERROR, Tool
from tools_search_hosts import split_candidates
from tools_search_ranking import FieldedRanker
from tools_search_ranking.hits import names_of

from tools_search_server.base.paging import ToolPages
from tools_search_server.gateway.fused import fused
from tools_search_server.gateway.gateway import Gateway, Offer
from tools_search_server.gateway.views import SeenUpstream, View, Views
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError

__all__ = ["RemoteSearch"]

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4
_MARK_CHARS: Final = 8
_MOST_MARKS: Final = 100


@dataclass
class _Found:
    """What one server has found, by public name, in its order."""

    offers: dict[str, Offer] = field(default_factory=dict[str, Offer])
    hits: list[Hit] = field(default_factory=list[Hit])

    def add(self, offer: Offer, matched: tuple[str, ...] = ()) -> None:
        name = offer.tool.name
        if name not in self.offers:
            self.offers[name] = offer
            self.hits.append(Hit(name, 0.0, matched))


class RemoteSearch:
    """Extends the answers of the index.

    What the answer of a first page is made of is noted in its cursor: a server that has failed then is left out of the
    following pages as well, and one that fails later makes its page fail rather than the order differ.

    Args:
        gateway: Whose servers these are.
        views: What its callers see.
    """

    def __init__(self, gateway: Gateway, views: Views) -> None:
        self._gateway = gateway
        self._views = views
        self._ranker = FieldedRanker()
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def extended(
        self, ctx: ServerRequestContext[Any, Any], query: str, answer: Answer, note: str | None
    ) -> tuple[Answer, Mapping[str, Offer]]:
        """Return the answer with the finds of the caller's other servers, and the tools behind the names that it adds.

        Args:
            ctx: Who asks.
            query: What is searched.
            answer: What the index has found.
            note: That of the page before; `None` on the first page.

        Raises:
            MCPError: -32603, a server that is needed for this page did not answer.
        """
        view = self._views.seen_by(ctx)
        remotes = view.remotes if self._gateway.has_remotes else ()
        if not remotes:
            return answer, {}
        absent = _marks_in(note or "")
        asked = [(seen, remote) for seen, remote in remotes if _mark(seen.name) not in absent]
        found: dict[str, _Found] = {}
        failed: list[SeenUpstream] = []
        async with anyio.create_task_group() as tasks:
            for seen, remote in asked:
                tasks.start_soon(self._ask, seen, remote, query, found, failed)
        if failed:
            self._require_dispensable(failed, query, is_first=note is None)
            absent = [*absent, *(_mark(seen.name) for seen in failed)][:_MOST_MARKS]
        ordered = [found[seen.name] for seen, _ in asked if seen.name in found]
        offers = {name: offer for one in ordered for name, offer in one.offers.items()}
        pages = ToolPages([offer.tool for offer in offers.values()], len(offers))
        definitions = pages.wire(ctx.protocol_version)
        # An answer that lacks something is not to be kept.
        ttl_ms = 0 if absent else answer.ttl_ms
        tools = {**answer.tools, **definitions}
        remote_hits = [[hit for hit in one.hits if hit.name in definitions] for one in ordered]
        hits = await self._fused(query, answer.hits, [hits for hits in remote_hits if hits], view, offers)
        return Answer(hits, tools, ttl_ms, answer.cache_scope, "".join(absent)), offers

    async def _fused(
        self,
        query: str,
        local: Sequence[Hit],
        remote: Sequence[Sequence[Hit]],
        view: View,
        offers: Mapping[str, Offer],
    ) -> Sequence[Hit]:
        if not remote:
            return local
        tools = {name: view.offers[name].tool for name in names_of(local[:100])}
        tools |= {name: offer.tool for name, offer in offers.items()}
        return await anyio.to_thread.run_sync(fused, query, local, remote, tools, self._ranker, limiter=self._limiter)

    async def _ask(
        self,
        seen: SeenUpstream,
        remote: DelegatedSearch,
        query: str,
        found: dict[str, _Found],
        failed: list[SeenUpstream],
    ) -> None:
        try:
            found[seen.name] = await self._search(seen, remote, query)
        except NoAnswerError as failure:
            logger.warning("left out of a search: %s", failure, extra={"server": seen.name})
            failed.append(seen)

    async def _search(self, seen: SeenUpstream, remote: DelegatedSearch, query: str) -> _Found:
        """Search one server, and ask it for the tools that only their public name makes a match."""
        found = _Found()
        for hit in await remote.search(query):
            found.add(self._gateway.offer(seen.upstream, hit.tool), hit.matched)
        if split_candidates(trimmed(query), [seen.name]):
            exact = await remote.find(trimmed(query))
            if exact is not None:
                found.add(self._gateway.offer(seen.upstream, exact), ("name",))
        wanted = dict.fromkeys(terms(query))
        others = [term for term in wanted if term not in set(terms(seen.name))]
        if others and len(others) < len(wanted):
            for hit in await remote.search(" ".join(others)):
                offer = self._gateway.offer(seen.upstream, hit.tool)
                if wanted.keys() <= _terms_of(offer.tool):
                    found.add(offer, hit.matched)
        return found

    def _require_dispensable(self, failed: Sequence[SeenUpstream], query: str, *, is_first: bool) -> None:
        """Refuse to answer without a server whose tools were on earlier pages, or one of which is asked for by name."""
        names = [seen.name for seen in failed]
        if is_first:
            names = [server for server, _ in split_candidates(trimmed(query), names)]
        if names:
            text = f"The MCP server {names[0]!r} did not answer its part of this search in time; ask again"
            raise MCPError(INTERNAL_ERROR, text)


def _terms_of(tool: Tool) -> frozenset[str]:
    return frozenset[str]().union(*tool_terms(tool).values())


def _mark(server: str) -> str:
    return hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]


def _marks_in(note: str) -> list[str]:
    return [note[start : start + _MARK_CHARS] for start in range(0, len(note), _MARK_CHARS)]
