"""Answers of the meta-tools that look and change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp_ext_tools_search.for_models import is_for_model
from mcp_ext_tools_search.types import SearchToolsRequestParams
from pydantic import ValidationError

from tools_search_server.base.redaction import quoted
from tools_search_server.compat.answers import ToolFailure
from tools_search_server.compat.callers_tools import CallersTools, Filters
from tools_search_server.compat.definitions import MetaNames
from tools_search_server.compat.relations import related_tools
from tools_search_server.gateway.gateway import Offer
from tools_search_server.gateway.searched import Searched
from tools_search_server.gateway.views import SeenUpstream
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError

__all__ = ["Browser"]

_PAGE_SIZE: Final = 50
_MAX_PAGE_SIZE: Final = 100
_MAX_QUERY_CHARS: Final = 4096
_RELATED: Final = 5
_MOST_CATEGORIES: Final = 500

Ctx = ServerRequestContext[Any, Any]
Arguments = Mapping[str, Any]


class Browser:
    """Finds and shows the tools that a caller sees.

    The arguments of every method fit the schema of its tool. All raise `ToolFailure` for what cannot be answered.

    Args:
        searched: The tools.
        names: How these meta-tools are called.
    """

    def __init__(self, searched: Searched, names: MetaNames) -> None:
        self._searched = searched
        self._names = names
        self.answers: Mapping[str, Callable[[Ctx, Arguments], Awaitable[dict[str, Any]]]] = {
            "search_tools": self.search_tools,
            "list_tool_categories": self.list_tool_categories,
            "list_tools": self.list_tools,
            "find_by_tags": self.find_by_tags,
            "get_related_tools": self.get_related_tools,
            "describe_tools": self.describe_tools,
        }
        """By the name of the tool, without prefix."""

    def tools_of(self, ctx: Ctx) -> CallersTools:
        """Return what a model of the caller may see now."""
        return self._tools(ctx, {}, {})

    async def tools_with(self, ctx: Ctx, names: Iterable[str]) -> CallersTools:
        """Return what a model may see now, with those of some tools that only their server can look up.

        Raises:
            ToolFailure: Such a server did not answer.
        """
        try:
            beyond, definitions = await self._searched.named(ctx, names)
        except NoAnswerError as failure:
            raise ToolFailure(f"{failure}.", ["Try again."]) from failure
        return self._tools(ctx, beyond, definitions)

    def _tools(
        self, ctx: Ctx, beyond: Mapping[str, Offer], definitions: Mapping[str, Mapping[str, Any]]
    ) -> CallersTools:
        """Return what a model may see, with further tools that stand in no index."""
        view = self._searched.views.seen_by(ctx)
        shown = view.for_model.pages.wire(ctx.protocol_version)
        more = {
            name: definitions[name]
            for name, offer in beyond.items()
            if name in definitions and is_for_model(offer.tool)
        }
        return CallersTools(view, {**shown, **more} if more else shown, beyond)

    async def search_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return the tools that fit a query, in the order and with the scores of `tools/search`."""
        return (await self.search(ctx, arguments))[0]

    async def search(self, ctx: Ctx, arguments: Arguments) -> tuple[dict[str, Any], CallersTools]:
        """Return what `search_tools` does, and the tools that it speaks of."""
        query = _checked_query(arguments["query"])
        filters = _filters(arguments)
        hits, beyond, definitions = await self._searched.found(ctx, query)
        tools = self._tools(ctx, beyond, definitions)
        allowed = set(tools.select(filters)) if filters.any_set else tools.definitions
        hits = [hit for hit in hits if hit.name in allowed]
        limits = self._searched.limits
        wanted = int(arguments.get("max_results", limits.default_limit))
        best = {hit.name: hit for hit in hits[: min(wanted, limits.max_limit)]}
        level = arguments.get("detail_level", "brief")
        document = {"tools": tools.shown(best, level, best), "metadata": tools.metadata(len(hits), level)}
        if not best:
            document = self._nothing(tools, f"No tools found for {query[:200]!r}.") | document
        return document, tools

    async def list_tool_categories(self, ctx: Ctx, _: Arguments) -> dict[str, Any]:
        """Return the categories with their counts and, where one is known, a description."""
        tools = self.tools_of(ctx)
        described = {seen.name: _said_by(seen) for seen in tools.view.upstreams} | dict(self._searched.categories)
        categories = [
            {"name": name, "count": len(members)} | ({"description": about} if (about := described.get(name)) else {})
            for name, members in sorted(tools.categories.items())
        ]
        categories += [_searched_there(seen, remote) for seen, remote in tools.view.remotes]
        waited_for = [seen.name for seen in tools.view.upstreams if not seen.state.is_usable]
        more = {"unavailable_servers": waited_for} if waited_for else {}
        metadata = {"total_count": tools.total, "category_count": len(categories)}
        return {"categories": categories[:_MOST_CATEGORIES], "metadata": metadata, **more}

    async def list_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools that pass the filters."""
        return self._page(self.tools_of(ctx), arguments, "minimal")

    async def find_by_tags(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools with any or all of some tags."""
        return self._page(self.tools_of(ctx), arguments, "brief")

    async def get_related_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return the relatives of a tool, the closest first."""
        name = arguments["name"]
        tools = await self.tools_with(ctx, [name])
        tools.known(name)
        found = related_tools(tools, name)
        kept = found[: int(arguments.get("max_results", _RELATED))]
        described = tools.shown([one["name"] for one in kept], "brief")
        # One for which there is no room is its name.
        related = [why if isinstance(one, str) else one | why for one, why in zip(described, kept, strict=True)]
        return {"name": name, "related": related, "metadata": {"filtered_count": len(found)}}

    async def describe_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return complete definitions; names that no tool has are told apart."""
        tools = await self.tools_with(ctx, arguments["names"])
        known: list[str] = []
        failures: list[ToolFailure] = []
        for name in dict.fromkeys(arguments["names"]):
            try:
                tools.known(name)
                known.append(name)
            except ToolFailure as failure:
                failures.append(failure)
        if not known:
            raise failures[0]
        not_found = {"not_found": [failure.document for failure in failures]} if failures else {}
        return {"tools": tools.shown(known, "full"), **not_found}

    def _page(self, tools: CallersTools, arguments: Arguments, default_level: str) -> dict[str, Any]:
        names = tools.select(_filters(arguments))
        size = min(int(arguments.get("page_size", _PAGE_SIZE)), _MAX_PAGE_SIZE)
        pages = -(-len(names) // size)
        page = int(arguments.get("page", 1))
        if page > max(pages, 1):
            raise ToolFailure(f"There is no page {page}.", [f"Ask for a page from 1 to {max(pages, 1)}."])
        level = arguments.get("detail_level", default_level)
        document = {
            "tools": tools.shown(names[(page - 1) * size : page * size], level),
            "metadata": tools.metadata(len(names), level),
            "pagination": {
                "page": page,
                "page_size": size,
                "total_tools": len(names),
                "total_pages": pages,
                "has_next": page < pages,
                "has_prev": page > 1,
            },
        }
        return document if names else self._nothing(tools, "No tools pass these filters.") | document

    def _nothing(self, tools: CallersTools, error: str) -> dict[str, Any]:
        down = [f"{seen.name} ({seen.state.kind})" for seen in tools.view.upstreams if not seen.state.is_usable]
        suggestions = [
            "Try a more general term, or fewer filters.",
            f"{self._names('list_tool_categories')} shows what there is.",
            *([f"Tools of these servers are not available at the moment: {', '.join(down)}."] if down else []),
        ]
        return {"error": error, "suggestions": suggestions, "available_categories": tools.some_categories()}


def _searched_there(seen: SeenUpstream, remote: DelegatedSearch) -> dict[str, Any]:
    """Return the category of a server whose tools are found by searching only."""
    count = {} if remote.size is None else {"count": remote.size}
    about = {"description": said} if (said := _said_by(seen)) else {}
    return {"name": seen.name, **count, **about, "listed": False}


def _said_by(seen: SeenUpstream) -> str:
    return f"{seen.name} says: {quoted(seen.summary)}" if seen.summary else ""


def _filters(arguments: Arguments) -> Filters:
    return Filters(
        arguments.get("category"),
        arguments.get("server"),
        arguments.get("tags", ()),
        match_all=arguments.get("match_mode") == "all",
    )


def _checked_query(query: str) -> str:
    suggestions = ["Say in a few words what the tool should do, for example 'read a file'."]
    if len(query) > _MAX_QUERY_CHARS:
        raise ToolFailure(f"The query is longer than {_MAX_QUERY_CHARS} characters.", suggestions)
    try:
        return SearchToolsRequestParams(query=query).query
    except ValidationError:
        raise ToolFailure("The query is empty or is no text.", suggestions) from None
