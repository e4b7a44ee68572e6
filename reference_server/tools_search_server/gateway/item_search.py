"""Search over the resources, resource templates and prompts of all upstreams, if the operator has enabled it.

Everything that callers can list is ranked here, with the texts of resources if the gateway reads them. Upstreams with
their own search for these items are asked too, because they may know more than the definitions say. All results are
fused by rank. If an upstream does not answer in time, its items are only ranked here.

Searches find only items that the gateway lists, as it lists them. The exception is resources of upstreams that declare
that they also find unlisted ones (draft: Resources That Are Not Listed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
from mcp.server.caching import CacheHint
from mcp_ext_search_primitives import RESOURCES, PrimitiveSettings, ResourcesSettings
from mcp_ext_search_primitives.index import CONTENTS, PrimitiveIndex, led_by_identity
from mcp_ext_tools_search.ranking import Hit, Ranker
from mcp_ext_tools_search.ranking.floor import trimmed
from mcp_ext_tools_search.ranking.fusion import fuse_and_rerank
from mcp_ext_tools_search.server import Answer
from mcp_ext_tools_search.types import published_metadata
from pydantic import BaseModel
from tools_search_hosts.json_values import as_list

from tools_search_server.gateway.fanout import ask_all
from tools_search_server.gateway.orientation import topics
from tools_search_server.gateway.prompts_and_resources import entries_by_server, public_key, wire_entry
from tools_search_server.gateway.public_names import split_uri
from tools_search_server.gateway.views import Ctx, View, Views, VisibleServer
from tools_search_server.upstreams.delegated_search import UpstreamSearch
from tools_search_server.upstreams.listing import Kind, key_of

_AT_ONCE: Final = 4
_KEPT: Final = 8
"""Maximum number of cached indexes, one for each set of visible servers and protocol version."""

_ENTRIES_AT_ONCE: Final = 100
"""Number of definitions to serialize before yielding to other tasks."""

_NO_TEXTS: Final[Mapping[str, str]] = {}

FOUND_UNREAD: Final = ContextVar("FOUND_UNREAD", default=False)
"""Whether the search in this request went without texts that are not read yet."""


@dataclass(frozen=True)
class _ServerItems:
    """One upstream's list, built from these entries and texts."""

    entries: Mapping[str, BaseModel]
    texts: Mapping[str, str]
    wire: Mapping[str, dict[str, Any]]
    """The entries as listed, by public key."""
    public_texts: Mapping[str, str]
    is_unread: bool
    """Whether texts are missing, because they were still being read for the first time."""


@dataclass(frozen=True)
class _Catalog:
    """Everything that one caller can list."""

    parts: Sequence[_ServerItems]
    owners: Mapping[str, str]
    """The upstream of each item, by public key."""
    wire: Mapping[str, dict[str, Any]]
    index: PrimitiveIndex


@dataclass
class _Found:
    """An upstream's own search results, best first."""

    members: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The matching members, by public key."""
    unlisted: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """The definitions of unlisted items, by public key."""
    ttl_ms: float = math.inf
    """How long the results can be cached."""
    is_unread: bool = False
    """Whether the upstream went without texts that it has not read yet."""


class ItemSearch:
    """An optional search over one kind of items that each caller of a gateway can list.

    Args:
        views: The callers' views.
        kind: The kind of items.
        ranker: The local ranker.
        caching: How long clients may cache an answer, and whether caches may be shared.
    """

    def __init__(self, views: Views, kind: Kind, ranker: Ranker, caching: CacheHint) -> None:
        self._views = views
        self._gateway = views.gateway
        self._kind = kind
        self._caching = caching
        self._ranker = ranker
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        self._making = anyio.Lock()
        self._of_server: dict[tuple[str, str], _ServerItems] = {}
        self._catalogs: dict[tuple[str, ...], _Catalog] = {}

    async def __call__(self, ctx: Ctx, query: str, note: str | None) -> Answer:
        """Return the items that match `query`. `note` marks the upstreams that did not answer for the previous page.

        Raises:
            MCPError: -32603, an upstream that this page requires did not answer.
        """
        view = self._views.current()
        catalog = await self._catalog(view, ctx.protocol_version)
        asks = {
            seen.name: partial(self._found_by, seen, search, query, catalog, ctx.protocol_version)
            for seen in view.upstreams
            if seen.rule.shows_more and (search := seen.upstream.searches.by_kind.get(self._kind)) is not None
        }
        found, absent = await ask_all(asks, note)
        unlisted = {key: item for result in found.values() for key, item in result.unlisted.items()}
        items = {**catalog.wire, **unlisted} if unlisted else catalog.wire
        hits = await anyio.to_thread.run_sync(
            _in_order, self._kind, query, catalog, found, items, limiter=self._limiter
        )
        if note is None:  # the first page
            self._gateway.searches.note_other_search(self._kind.member, query, is_empty=not hits)
        # Do not cache an incomplete answer, neither one from here nor one from a gateway behind this one.
        is_unread = any(part.is_unread for part in catalog.parts)
        FOUND_UNREAD.set(is_unread or any(result.is_unread for result in found.values()))
        own_ttl_ms = 0 if absent or is_unread else self._caching.ttl_ms
        ttl_ms = int(min([own_ttl_ms, *(result.ttl_ms for result in found.values())]))
        return Answer(hits, items, ttl_ms, self._caching.scope, absent)

    def settings(self) -> PrimitiveSettings:
        """Return the settings to advertise to the current caller."""
        seen = [server for server in self._views.current().upstreams if server.rule.shows_more]
        own = self._kind.setting
        offering = [server for server in seen if own in server.upstream.greeting.features]
        facts: dict[str, Any] = {"topics": topics(offering)}
        if self._kind is not RESOURCES:
            return PrimitiveSettings(**facts)
        if "contents" in self._gateway.options.searched:
            facts["contents"] = True
        if any(server.upstream.searches.unlisted for server in seen):
            facts["unlisted"] = True
        return ResourcesSettings(**facts)

    async def _catalog(self, view: View, version: str) -> _Catalog:
        """Return everything that the caller with a view can list: the same object until it changes."""
        parts: list[_ServerItems] = []
        names: list[str] = []
        for seen, entries in await entries_by_server(view, self._kind):
            parts.append(await self._items_of(seen, entries, version))
            names.append(seen.name)
        key = (version, *names)
        configured = {upstream.name for upstream in self._gateway.upstreams}
        self._of_server = {key: items for key, items in self._of_server.items() if key[0] in configured}
        async with self._making:  # concurrent searches wait instead of building the same catalog
            self._catalogs = {key: kept for key, kept in self._catalogs.items() if configured.issuperset(key[1:])}
            kept = self._catalogs.pop(key, None)  # and back, as the most recently used one
            if kept is None or any(part is not other for part, other in zip(kept.parts, parts, strict=True)):
                # Whatever catalog was used last probably has most of these texts.
                similar = kept or next(reversed(self._catalogs.values()), None)
                make = partial(self._built, names, parts, None if similar is None else similar.index)
                kept = await anyio.to_thread.run_sync(make, limiter=self._limiter)
            self._catalogs[key] = kept
            while len(self._catalogs) > _KEPT:
                del self._catalogs[next(iter(self._catalogs))]
        return kept

    def _built(self, names: Sequence[str], parts: Sequence[_ServerItems], previous: PrimitiveIndex | None) -> _Catalog:
        owners: dict[str, str] = {}
        wire: dict[str, dict[str, Any]] = {}
        texts: dict[str, str] = {}
        for name, part in zip(names, parts, strict=True):
            new = {
                public: item for public, item in part.wire.items() if public not in wire
            }  # servers may share a web address
            wire |= new
            owners |= dict.fromkeys(new, name)
            texts |= {public: text for public, text in part.public_texts.items() if public in new}
        return _Catalog(parts, owners, wire, PrimitiveIndex(self._kind, wire, self._ranker, texts, previous))

    async def _items_of(self, seen: VisibleServer, entries: Mapping[str, BaseModel], version: str) -> _ServerItems:
        texts, is_unread = _NO_TEXTS, False
        if self._kind is RESOURCES and (reading := seen.upstream.texts) is not None:
            await reading.first_read(self._gateway.start_ends)
            texts, is_unread = reading.texts, reading.is_incomplete
        # Lists and texts stay the same objects until they change, so comparing them costs nothing.
        kept = self._of_server.get((seen.name, version))
        if kept is not None and kept.entries is entries and kept.texts is texts and kept.is_unread is is_unread:
            return kept
        wire: dict[str, dict[str, Any]] = {}
        public_texts: dict[str, str] = {}
        for number, (own, entry) in enumerate(entries.items(), 1):
            if number % _ENTRIES_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            public = public_key(self._kind, seen.name, own)
            item = wire_entry(self._kind, public, entry, version)
            if item is not None:
                wire[public] = item
                if own in texts:
                    public_texts[public] = texts[own]
        made = self._of_server[seen.name, version] = _ServerItems(entries, texts, wire, public_texts, is_unread)
        return made

    async def _found_by(
        self, seen: VisibleServer, search: UpstreamSearch, query: str, catalog: _Catalog, version: str
    ) -> _Found:
        found = _Found()
        may_be_unlisted = self._kind is RESOURCES and seen.upstream.searches.unlisted
        hits = await search.search(query)
        entries, found.ttl_ms, found.is_unread = [*hits.entries], hits.ttl_ms, hits.is_unread
        named = split_uri(trimmed(query), [seen.name])
        if may_be_unlisted and named is not None and trimmed(query) not in catalog.wire:
            # The upstream does not know the public form of its URI.
            exact = await search.search(named[1])
            found.ttl_ms = min(found.ttl_ms, exact.ttl_ms)
            entries = [entry for entry in exact.entries if key_of(self._kind, entry) == named[1]] + entries
        for entry in entries:
            public = public_key(self._kind, seen.name, key_of(self._kind, entry))
            if public not in catalog.wire:
                # An unlisted web address leads to no server, so it could not be read.
                can_be_read = may_be_unlisted and split_uri(public, [seen.name]) is not None
                item = wire_entry(self._kind, public, entry, version) if can_be_read else None
                if item is None:
                    continue
                found.unlisted[public] = item
            stated = published_metadata(getattr(entry, "meta", None)).get("matched")
            # The upstream's words, so only members that the item has.
            known = {*(catalog.wire.get(public) or found.unlisted[public]), CONTENTS}
            members = (name for name in as_list(stated) if isinstance(name, str) and name in known)
            found.members[public] = tuple(dict.fromkeys(members))
        return found


def _in_order(
    kind: Kind, query: str, catalog: _Catalog, found: Mapping[str, _Found], items: Mapping[str, dict[str, Any]]
) -> Sequence[Hit]:
    """Return all hits for `query`, from here and from upstreams, in one order."""
    if not any(result.members for result in found.values()):
        return catalog.index.search(query)
    # The gateway has not read these contents, so its own order would put them after every definition with one word.
    ranks = {
        key: rank
        for result in found.values()
        for rank, (key, members) in enumerate(result.members.items(), 1)
        if CONTENTS in members
    }
    local = catalog.index.search(query, claimed=ranks)
    own = {hit.name: hit for hit in local}
    order = {name: place for place, name in enumerate(own)}
    owners = catalog.owners
    # For each upstream, its own hits come first and then those found only here. The latter are needed because the
    # matching floor also applies to public names, which the upstream does not know.
    rankings = [[name for name in own if name in owners and owners[name] not in found]]
    rankings += [
        [*result.members, *(name for name in own if owners.get(name) == server and name not in result.members)]
        for server, result in found.items()
    ]

    def rank(candidates: Sequence[str]) -> list[str]:
        return sorted((name for name in candidates if name in order), key=order.__getitem__)

    fused = fuse_and_rerank([ranking for ranking in rankings if ranking], rank)
    matched = {name: members for result in found.values() for name, members in result.members.items()}
    best = fused[0][1]
    hits = [
        Hit(name, weight / best, matched.get(name) or (own[name].matched if name in own else ()))
        for name, weight in fused
    ]
    return led_by_identity(kind, query, items, hits)
