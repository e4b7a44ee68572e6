"""The modes `meta-tools` and `auto`, and the answers of the meta-tools.

* `meta-tools` lists a few tools that find and call all others. The list never changes.
* `auto` does the same for a caller who sees many tools, and lists all of them to a caller who sees few. Only what the
  caller sees decides, so replicas agree. When that crosses the line, the client is notified that its list has changed;
  tools from either list can be called all the same, by name or through `call_tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mcp import MCPError
from mcp_ext_tools_search.client import is_for_model
from mcp_ext_tools_search.types import SearchToolsRequestParams
from mcp_types import CallToolRequestParams, PaginatedRequestParams
from pydantic import ValidationError
from tools_search_hosts.arguments import complaints
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.errors import unknown_tool
from tools_search_server.base.paging import ToolPages
from tools_search_server.base.redaction import quoted
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.definitions import CompatOptions, MetaNames, checked_arguments, meta_tools
from tools_search_server.compat.model_tools import (
    ModelTools,
    ToolFailureError,
    answer,
    not_for_models,
)
from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.gateway.views import Ctx, View
from tools_search_server.upstreams.delegated_search import NoAnswerError

_PAGE_SIZE: Final = 50
_MAX_PAGE_SIZE: Final = 100
_MAX_QUERY_CHARS: Final = 4096
_RELATED: Final = 5
_MAX_CATEGORIES: Final = 500
_MAX_SCHEMA_CHARS: Final = 8_000
_MAX_ERROR_CHARS: Final = 4_000
"""Characters of a server's error."""

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

Arguments = Mapping[str, Any]


class CompatEndpoint(Endpoint):
    """An endpoint for hosts without search."""

    def __init__(self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable) -> None:
        super().__init__(search)
        self.always = always
        self.names = MetaNames(options.prefix)
        self.browser = Browser(search, self.names)

    async def call_tool(self, ctx: Ctx, params: CallToolRequestParams) -> dict[str, Any]:
        """Answer `tools/call`, and a `ToolFailureError` with a result that a model can read."""
        try:
            return await self.answer_call(ctx, params.name, params.arguments or {})
        except ToolFailureError as failure:
            return answer(failure.document, is_error=True)

    async def answer_call(self, ctx: Ctx, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a call of one of the endpoint's own tools, or of another tool."""
        raise NotImplementedError


class MetaTools(CompatEndpoint):
    """The endpoint of the mode `meta-tools`, or of the mode `auto`."""

    def __init__(
        self, search: GatewaySearch, options: CompatOptions, always: AlwaysAvailable, mode: str = "meta-tools"
    ) -> None:
        super().__init__(search, options, always)
        self.mode = mode
        self._list_at_most = options.list_at_most
        self._own = {tool.name: tool for tool in meta_tools(self.names)}

    async def list_tools(self, ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        """Return the meta-tools and the always-available tools, or all tools where `auto` finds them few."""
        view = self.views.current()
        if self._lists_all(view):
            return await self.search.listing.page(view, params.cursor, ctx.protocol_version)
        self.always.report(self.views.of(EVERYTHING))
        tools = [*self._own.values(), *(exposed.tool for exposed in self.always.of(view).values())]
        return ToolPages(tools, len(tools)).page(params.cursor, ctx.protocol_version)

    async def answer_call(self, ctx: Ctx, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a call of a meta-tool, or of another tool by its name."""
        if (plain := self.names.plain(name)) is None:
            if self.mode == "auto":  # even if all tools are not listed now: the client's copy of the list may be older
                return await self.call_by_name(ctx, name, self._own)
            return await self._call_listed(ctx, name)
        arguments = checked_arguments(self._own[self.names(plain)], plain, arguments)
        if plain == "call_tool":
            return await self.browser.call_tool(ctx, arguments)
        return answer(await getattr(self.browser, plain)(ctx, arguments))  # named as the meta-tool is

    async def _call_listed(self, ctx: Ctx, name: str) -> dict[str, Any]:
        view = self.views.current()
        if (exposed := self.always.of(view).get(name)) is not None:
            return await relay(exposed.upstream, ctx, {"name": exposed.original_name})
        if name in view.for_model.tools:
            advice = f'Call {self.names("call_tool")} with {{"name": "{name}", "arguments": {{…}}}}.'
            raise ToolFailureError(f"{name} is not in the list of this server.", [advice])
        if name in view.tools:
            raise not_for_models(name)
        raise unknown_tool(name, [*self._own, *view.for_model.tools])

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of a tool, or `None` if the current caller is not offered one of that name."""
        if name in self._own:
            return self._own[name].input_schema
        if self.mode == "auto":
            return super().input_schema(name)
        exposed = self.always.of(self.views.current()).get(name)
        return None if exposed is None else exposed.tool.input_schema

    def listed(self, view: View) -> object:
        """Return what `tools/list` holds for the callers with a view, for comparison."""
        return view.contents if self._lists_all(view) else self.always.of(view)

    def guide(self, view: View) -> str:
        """Return a text for models on how tools are found."""
        if self._lists_all(view):
            return "All of them are in its list."
        names = self.names
        return (
            f"They are not in its list: find them with {names('search_tools')}, look at {names('describe_tools')} for "
            f"what they take, and call them with {names('call_tool')}."
        )

    def _lists_all(self, view: View) -> bool:
        # An unknown number counts as too many.
        return self.mode == "auto" and view.tool_count is not None and view.tool_count <= self._list_at_most


class Browser:
    """Finds, shows and calls the tools that a model may use.

    Each meta-tool has a method of its name. The arguments fit the schema of the tool. All raise `ToolFailureError` for
    what cannot be answered.
    """

    def __init__(self, search: GatewaySearch, names: MetaNames) -> None:
        self._search = search
        self._names = names

    def _tools(
        self, ctx: Ctx, not_indexed: Mapping[str, ExposedTool] = _NONE, definitions: Mapping[str, Any] = _NONE
    ) -> ModelTools:
        """Return what a model may use now, with some tools that are not indexed."""
        view = self._search.views.current()
        shown = view.for_model.pages.wire(ctx.protocol_version)
        more = [name for name, exposed in not_indexed.items() if name in definitions and is_for_model(exposed.tool)]
        return ModelTools(view, {**shown, **{name: definitions[name] for name in more}} if more else shown, not_indexed)

    async def _tools_with(self, ctx: Ctx, names: Iterable[str]) -> ModelTools:
        """Return what a model may use now, with those of some tools that only their server can look up."""
        try:
            return self._tools(ctx, *await self._search.named(ctx, names))
        except NoAnswerError as failure:
            raise ToolFailureError(f"{failure}.", ["Try again."]) from failure

    async def search_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return the tools that fit a query, in the order of `tools/search`."""
        return (await self.search(ctx, arguments))[0]

    async def search(self, ctx: Ctx, arguments: Arguments) -> tuple[dict[str, Any], ModelTools]:
        """Return the answer of `search_tools`, and the tools that it is about."""
        suggestions = ["Say in a few words what the tool should do, for example 'read a file'."]
        if len(arguments["query"]) > _MAX_QUERY_CHARS:
            raise ToolFailureError(f"The query is longer than {_MAX_QUERY_CHARS} characters.", suggestions)
        try:
            query = SearchToolsRequestParams(query=arguments["query"]).query
        except ValidationError:
            raise ToolFailureError("The query is empty or is no text.", suggestions) from None
        hits, not_indexed, definitions = await self._search.found(ctx, query)
        tools = self._tools(ctx, not_indexed, definitions)
        allowed = tools.select(arguments)
        hits = [hit for hit in hits if hit.name in allowed]
        limits = self._search.limits
        wanted = int(arguments.get("max_results", limits.default_limit))
        best = [hit.name for hit in hits[: min(wanted, limits.max_limit)]]
        level = arguments.get("detail_level", "brief")
        document = {"tools": tools.shown(best, level), "metadata": tools.metadata(len(hits), level)}
        if unknown := await self._search.unknown_words(ctx, query):
            document["no_tool_mentions"] = [*unknown]
        if not best:
            document = self._nothing(tools, f"No tools found for {query[:200]!r}.") | document
        return document, tools

    async def list_tool_categories(self, ctx: Ctx, _: Arguments) -> dict[str, Any]:
        """Return the categories with their counts and descriptions, as far as those are known."""
        tools = self._tools(ctx)
        described = {
            seen.name: f"{seen.name} says: {quoted(seen.summary)}" for seen in tools.view.upstreams if seen.summary
        }
        own = {**described, **self._search.gateway.metadata.categories}
        categories: list[dict[str, Any]] = [
            {"name": name, "count": len(members), **({"description": own[name]} if own.get(name) else {})}
            for name, members in sorted(tools.categories.items())
        ]
        for seen, delegate in tools.view.delegated:  # categories whose tools are found by searching only
            count = {} if delegate.size is None else {"count": delegate.size}
            about = {"description": described[seen.name]} if seen.name in described else {}
            categories.append({"name": seen.name, **count, **about, "listed": False})
        down = [seen.name for seen in tools.view.upstreams if not seen.state.is_usable]
        more = {"unavailable_servers": down} if down else {}
        metadata = {"total_count": tools.total, "category_count": len(categories)}
        return {"categories": categories[:_MAX_CATEGORIES], "metadata": metadata, **more}

    async def list_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools that pass the filters."""
        return self._page(self._tools(ctx), arguments, "minimal")

    async def find_by_tags(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools with any or all of some tags."""
        return self._page(self._tools(ctx), arguments, "brief")

    async def get_related_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return the tools that go together with one, the closest first."""
        name = arguments["name"]
        tools = await self._tools_with(ctx, [name])
        tools.known(name)
        found = tools.related(name)
        kept = found[: int(arguments.get("max_results", _RELATED))]
        described = tools.shown([one["name"] for one in kept], "brief")
        # Without room for its description, a tool is shown as its name.
        related = [why if isinstance(one, str) else one | why for one, why in zip(described, kept, strict=True)]
        return {"name": name, "related": related, "metadata": {"filtered_count": len(found)}}

    async def describe_tools(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Return complete definitions, and a failure for each unknown name."""
        tools = await self._tools_with(ctx, arguments["names"])
        known: list[str] = []
        failures: list[ToolFailureError] = []
        for name in dict.fromkeys(arguments["names"]):
            try:
                tools.known(name)
                known.append(name)
            except ToolFailureError as failure:
                failures.append(failure)
        if not known:
            raise failures[0]
        not_found = {"not_found": [failure.document for failure in failures]} if failures else {}
        return {"tools": tools.shown(known, "full"), **not_found}

    async def call_tool(self, ctx: Ctx, arguments: Arguments) -> dict[str, Any]:
        """Call a tool, after a check of the arguments against its own schema, and return its unchanged result.

        Progress, cancellation and questions of the inner call are those of the outer call, `ctx`.
        """
        name, given = arguments["name"], arguments.get("arguments", {})
        tools = await self._tools_with(ctx, [name])
        if (plain := self._names.plain(name)) is not None:
            raise ToolFailureError(f"{self._names(plain)} is a tool of this server.", ["Call it directly."])
        inner = replace(ctx, params={**(ctx.params or {}), "name": name, "arguments": given})
        if name not in tools.definitions and (upstream := tools.view.unavailable(name)) is not None:
            return await relay(upstream, inner, {"name": name})  # its result says why and since when it is down
        exposed = tools.known(name)
        schema = exposed.tool.input_schema
        if wrong := complaints(schema, given):
            shown = schema if len(json.dumps(schema)) <= _MAX_SCHEMA_CHARS else None
            advice = [f"Correct `arguments` and call {self._names('call_tool')} again."]
            see = {"see": f"{self._names('describe_tools')} shows the input schema."}
            more = {"input_schema": shown} if shown else see
            raise ToolFailureError(f"These arguments do not fit {name}.", advice, problems=wrong, **more)
        try:
            return await relay(exposed.upstream, inner, {"name": exposed.original_name})
        except MCPError as error:
            # As a protocol error, a host would take it for an error of `call_tool` itself.
            reason = quoted(error.message, _MAX_ERROR_CHARS)
            raise ToolFailureError(f"{name} failed with error {error.code}: {reason}") from error

    def _page(self, tools: ModelTools, arguments: Arguments, default_level: str) -> dict[str, Any]:
        names = [*tools.select(arguments)]
        size = min(int(arguments.get("page_size", _PAGE_SIZE)), _MAX_PAGE_SIZE)
        pages = -(-len(names) // size)
        page = int(arguments.get("page", 1))
        if page > max(pages, 1):
            raise ToolFailureError(f"There is no page {page}.", [f"Ask for a page from 1 to {max(pages, 1)}."])
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

    def _nothing(self, tools: ModelTools, error: str) -> dict[str, Any]:
        down = [f"{seen.name} ({seen.state.kind})" for seen in tools.view.upstreams if not seen.state.is_usable]
        suggestions = [
            "Try a more general term, or fewer filters.",
            f"{self._names('list_tool_categories')} shows what there is.",
            *([f"Tools of these servers are not available at the moment: {', '.join(down)}."] if down else []),
        ]
        return {"error": error, "suggestions": suggestions, "available_categories": tools.some_categories()}
