"""The server side: the searches that `ToolsSearch(resources=..., prompts=...)` adds to a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcp import MCPError
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.server.listing import ListPage, caller_listing, read_listing
from mcp_ext_tools_search.server.search import Answer, ListingSearch, Search
from mcp_ext_tools_search.types import Primitive, require_kind
from mcp_types import METHOD_NOT_FOUND

from mcp_ext_search_primitives.contents import Contents, ContentStore
from mcp_ext_search_primitives.index import CONTENTS, Definition, PrimitiveIndex
from mcp_ext_search_primitives.types import PROMPTS, RESOURCE_TEMPLATES, RESOURCES

__all__ = ["MAX_ITEMS", "Contents", "PromptsSearch", "ResourcesSearch", "optional_searches"]

_SEARCH: Final = "an async function that returns an Answer"
_KEPT_WITH_CONTENTS: Final = 2  # indexes; each takes many times the memory of the texts

MAX_ITEMS: Final = 200_000
"""Maximum number of definitions that a search reads from one listing. Servers with more need their own search."""


@dataclass(frozen=True, kw_only=True)
class ResourcesSearch:
    """How to search resources and resource templates; by default as `ToolsSearch` searches tools.

    Raises:
        TypeError: `contents` is neither a boolean nor a `Contents`, or another argument has the wrong type.
        ValueError: `unlisted` without `search`, which alone can find what is not listed.
    """

    contents: Contents | bool = False
    """Whether to search their content too: `True` for the default limits, or a `Contents` with other limits."""

    search: Search | None = None
    """Finds resources instead of listing and ranking. `contents` then only declares that it searches contents."""

    templates: Search | None = None
    """Finds resource templates instead of listing and ranking."""

    unlisted: bool = False
    """Whether `search` may find resources that `resources/list` omits (draft: Resources That Are Not Listed)."""

    def __post_init__(self) -> None:
        _require("contents", self.contents, Contents)
        require_kind("unlisted", self.unlisted, bool, instead="True or False")
        for name in ("search", "templates"):
            require_kind(name, getattr(self, name), Callable, type(None), instead=_SEARCH)
        if self.unlisted and self.search is None:
            raise ValueError("unlisted=True needs a search: a list of resources holds no others")


@dataclass(frozen=True, kw_only=True)
class PromptsSearch:
    """How to search prompts. Raises `TypeError` if `search` is not a function."""

    search: Search | None = None
    """Finds prompts instead of listing and ranking."""

    def __post_init__(self) -> None:
        require_kind("search", self.search, Callable, type(None), instead=_SEARCH)


Attach: TypeAlias = Callable[[MCPServer[Any] | Server[Any], Server[Any]], None]
"""Prepares a server, and the low-level one behind it, for its searches."""


class OptionalSearches(NamedTuple):
    """The searches of `ToolsSearch` other than the one for tools."""

    searches: Mapping[Primitive[Any], Search]
    settings: dict[str, dict[str, Any]]
    """The settings that advertise them."""

    attach: Attach


def optional_searches(
    resources: bool | ResourcesSearch, prompts: bool | PromptsSearch, ranker: Ranker, max_concurrency: int
) -> OptionalSearches:
    """Return the searches that the `resources` and `prompts` arguments of `ToolsSearch` request.

    Raises:
        TypeError: One of these arguments is neither a boolean nor what configures its search.
    """
    _require("resources", resources, ResourcesSearch)
    _require("prompts", prompts, PromptsSearch)
    searches: dict[Primitive[Any], Search] = {}
    settings: dict[str, dict[str, Any]] = {}
    store: ContentStore | None = None
    if resources:
        how = resources if isinstance(resources, ResourcesSearch) else ResourcesSearch()
        stated = {"contents": bool(how.contents), "unlisted": how.unlisted}
        settings["resources"] = {name: True for name, is_so in stated.items() if is_so}
        if how.contents and how.search is None:
            store = ContentStore(how.contents if isinstance(how.contents, Contents) else Contents())
        searches[RESOURCES] = how.search or _ListedSearch(RESOURCES, ranker, max_concurrency, store)
        searches[RESOURCE_TEMPLATES] = how.templates or _ListedSearch(RESOURCE_TEMPLATES, ranker, max_concurrency)
    if prompts:
        own = prompts.search if isinstance(prompts, PromptsSearch) else None
        settings["prompts"] = {}
        searches[PROMPTS] = own or _ListedSearch(PROMPTS, ranker, max_concurrency)
    attach: Attach = store.attach if store else lambda _, __: None
    return OptionalSearches(searches, settings, attach)


def _require(name: str, value: object, settings: type[Any]) -> None:
    """Refuse what is true but configures nothing, such as a class or a dict, which would mean the defaults."""
    if not isinstance(value, (bool, settings)):
        raise TypeError(f"{name} must be True, False or {settings.__name__}(...), not {value!r}")


class _ListedSearch(ListingSearch):
    """Searches the caller's own list, and the content of the listed items (`Search`)."""

    def __init__(
        self, primitive: Primitive[Any], ranker: Ranker, max_concurrency: int, store: ContentStore | None = None
    ) -> None:
        super().__init__(ranker, max_concurrency=max_concurrency)
        if store:
            self.kept_indexes = _KEPT_WITH_CONTENTS
            self.thread_from = 0  # contents are long
        self._primitive, self._own_ranker, self._store = primitive, ranker, store
        self._latest: PrimitiveIndex | None = None

    async def __call__(self, ctx: ServerRequestContext[Any, Any], query: str, note: str | None) -> Answer:
        """Return the items in the caller's listing that match `query`."""
        listing = await read_listing(_bounded(caller_listing(ctx), self._primitive), self._primitive)
        items, ttl_ms = listing.items, listing.ttl_ms or 0
        texts: dict[str, str] = {}
        if self._store is not None:
            contents = await self._store.read_of(items, ctx)
            texts = {uri: own.text for uri, own in contents.items()}
            # The digests make changed contents change the index.
            items = {**items, **{uri: {**items[uri], CONTENTS: own.digest} for uri, own in contents.items()}}
            ttl_ms = ttl_ms if self._store.is_settled else 0
        hits = await self.rank(items, query, lambda: self._built(listing.items, texts))
        return Answer(hits, listing.items, ttl_ms, listing.cache_scope)

    def _built(self, items: Mapping[str, Definition], texts: Mapping[str, str]) -> PrimitiveIndex:
        self._latest = PrimitiveIndex(self._primitive, items, self._own_ranker, texts, self._latest)
        return self._latest


def _bounded(list_page: ListPage, primitive: Primitive[Any]) -> ListPage:
    """Wrap `list_page`: a missing list of templates is empty, and a list that is too long raises an error."""
    count = 0

    async def page(cursor: str | None) -> dict[str, Any]:
        nonlocal count
        try:
            listed = await list_page(cursor)
        except MCPError as error:
            if cursor is None and error.code == METHOD_NOT_FOUND and primitive is RESOURCE_TEMPLATES:
                return {"cacheScope": "public"}  # a server with resources need not have templates
            raise
        entries = listed.get(primitive.member)
        count += len(cast("list[Any]", entries)) if isinstance(entries, list) else 0
        if count > MAX_ITEMS:
            raise ServerSetupError(
                f"{primitive.list_method} has more than {MAX_ITEMS:,} definitions, too many to read for each search: "
                "give ToolsSearch your own search for them"
            )
        return listed

    return page
