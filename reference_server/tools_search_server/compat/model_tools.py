"""The tools that one caller's model may use, and the meta-tools' answers about them.

A tool that is only for its server's user interface is visible to the host but not to the model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from mcp import MCPError
from mcp_ext_tools_search.client import is_for_model
from mcp_ext_tools_search.types import SearchToolsRequestParams
from pydantic import ValidationError
from tools_search_hosts import qualified_name

from tools_search_server.base.errors import closest_names
from tools_search_server.base.paging import ToolPages
from tools_search_server.base.redaction import quoted
from tools_search_server.compat.definitions import CompatOptions, ToolFailureError
from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.relay import relay
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.tool_metadata import category_of, examples_of, related_of, tags_of
from tools_search_server.gateway.views import Ctx
from tools_search_server.upstreams.delegated_search import NoAnswerError

_BRIEF_CHARS: Final = 300
_SOME_CATEGORIES: Final = 64
_MAX_CATEGORIES: Final = 500
_MAX_CHARS: Final = 150_000
"""Maximum length of all definitions in one answer; official clients refuse events of more than 1 MiB."""

_PAGE_SIZE: Final = 50
_MAX_PAGE_SIZE: Final = 100
_MAX_QUERY_CHARS: Final = 4096
_RELATED: Final = 5
_MAX_SCHEMA_CHARS: Final = 8_000
_MAX_ERROR_CHARS: Final = 4_000
"""Maximum characters of a server's error in an answer."""

_DEFINITION: Final = ("title", "inputSchema", "outputSchema", "annotations")

Arguments = Mapping[str, Any]


class ModelTools:
    """The tools that a model can find and call in one request.

    Each meta-tool has a method of the same name. The arguments must match the tool's schema. All methods raise
    `ToolFailureError` if the call cannot be answered.
    """

    def __init__(self, search: GatewaySearch, options: CompatOptions, ctx: Ctx) -> None:
        self._search = search
        self._options = options
        self._ctx = ctx
        self._see({})

    def _see(self, not_indexed: Mapping[str, ExposedTool]) -> None:
        """Record what the caller sees now, plus some tools of upstreams that are not indexed."""
        self.view = self._search.views.current()
        """The caller's view, including tools that are not for models."""
        shown = self.view.for_model.pages.wire(self._ctx.protocol_version)
        more = [exposed.tool for exposed in not_indexed.values() if is_for_model(exposed.tool)]
        self.definitions = {**shown, **ToolPages(more, len(more)).wire(self._ctx.protocol_version)} if more else shown
        """The definitions of the tools for models, by name, in the form and order of the caller's listing."""
        self.not_indexed = not_indexed

    async def _look_up(self, names: Iterable[str]) -> None:
        """Record what the caller sees now, plus those of the named tools that only their server can look up."""
        try:
            self._see(await self._search.named(names))
        except NoAnswerError as failure:
            raise ToolFailureError(f"{failure}.", ["Try again."]) from failure

    async def search_tools(self, arguments: Arguments) -> dict[str, Any]:
        """Return the tools that match a query, in the order of `tools/search`."""
        suggestions = ["Say in a few words what the tool should do, for example 'read a file'."]
        if len(arguments["query"]) > _MAX_QUERY_CHARS:
            raise ToolFailureError(f"The query is longer than {_MAX_QUERY_CHARS} characters.", suggestions)
        try:
            query = SearchToolsRequestParams(query=arguments["query"]).query
        except ValidationError:
            raise ToolFailureError("The query is empty or not a text.", suggestions) from None
        hits, not_indexed = await self._search.found(self._ctx, query)
        self._see(not_indexed)
        # Filters apply to all hits, before the best are chosen: otherwise a page could be empty without need.
        allowed = self.select(arguments)
        hits = [hit for hit in hits if hit.name in allowed]
        limits = self._search.limits
        wanted = int(arguments.get("max_results", limits.default_limit))
        best = [hit.name for hit in hits[: min(wanted, limits.max_limit)]]
        level = arguments.get("detail_level", "brief")
        document = {"tools": self.shown(best, level), "metadata": self.metadata(len(hits), level)}
        if unknown := await self._search.unknown_words(self._ctx, query):
            document["no_tool_mentions"] = [*unknown]
        return document if best else self._nothing(f"No tools found for {query[:200]!r}.") | document

    async def list_tool_categories(self, _: Arguments) -> dict[str, Any]:
        """Return the categories, with their counts and descriptions if known."""
        described = {
            seen.name: f"{seen.name} says: {quoted(seen.summary)}" for seen in self.view.upstreams if seen.summary
        }
        own = {**described, **self._search.gateway.metadata.categories}
        categories: list[dict[str, Any]] = [
            {"name": name, "count": len(members), **({"description": own[name]} if own.get(name) else {})}
            for name, members in sorted(self.categories.items())
        ]
        for seen, delegate in self.view.delegated:  # categories whose tools can only be found by searching
            count = {} if delegate.size is None else {"count": delegate.size}
            about = {"description": described[seen.name]} if seen.name in described else {}
            categories.append({"name": seen.name, **count, **about, "listed": False})
        down = [seen.name for seen in self.view.upstreams if not seen.state.is_usable]
        more = {"unavailable_servers": down} if down else {}
        metadata = {"total_count": self.total, "category_count": len(categories)}
        return {"categories": categories[:_MAX_CATEGORIES], "metadata": metadata, **more}

    async def list_tools(self, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools that match the filters."""
        return self._page(arguments, "minimal")

    async def find_by_tags(self, arguments: Arguments) -> dict[str, Any]:
        """Return one page of the tools with any or all of the tags."""
        return self._page(arguments, "brief")

    async def get_related_tools(self, arguments: Arguments) -> dict[str, Any]:
        """Return the tools that are related to a tool, the closest first."""
        name = arguments["name"]
        await self._look_up([name])
        self.known(name)
        found = self.related(name)
        kept = found[: int(arguments.get("max_results", _RELATED))]
        described = self.shown([hit["name"] for hit in kept], "brief")
        # If there is no room for its description, only a tool's name is shown.
        related = [why if isinstance(shown, str) else shown | why for shown, why in zip(described, kept, strict=True)]
        return {"name": name, "related": related, "metadata": {"filtered_count": len(found)}}

    async def describe_tools(self, arguments: Arguments) -> dict[str, Any]:
        """Return complete definitions, and a failure for each unknown name."""
        await self._look_up(arguments["names"])
        known: list[str] = []
        failures: list[ToolFailureError] = []
        for name in dict.fromkeys(arguments["names"]):
            try:
                self.known(name)
                known.append(name)
            except ToolFailureError as failure:
                failures.append(failure)
        if not known:
            raise failures[0]
        not_found = {"not_found": [failure.document for failure in failures]} if failures else {}
        return {"tools": self.shown(known, "full"), **not_found}

    async def call_tool(self, arguments: Arguments) -> dict[str, Any]:
        """Check the arguments against a tool's own schema, call the tool, and return its result unchanged.

        The outer call carries the inner call's progress, cancellation and requests to the client.
        """
        from tools_search_hosts.arguments import complaints  # deferred: importing jsonschema is slow

        name, given = arguments["name"], arguments.get("arguments", {})
        await self._look_up([name])
        if (plain := self._options.plain(name)) is not None:
            raise ToolFailureError(f"{self._options.named(plain)} is a tool of this server.", ["Call it directly."])
        inner = replace(self._ctx, params={**(self._ctx.params or {}), "name": name, "arguments": given})
        if name not in self.definitions and (upstream := self.view.unavailable(name)) is not None:
            return await relay(
                upstream, inner, {"name": name}
            )  # the result says why the server is down, and since when
        exposed = self.known(name)
        schema = exposed.tool.input_schema
        if wrong := complaints(schema, given):
            shown = schema if len(json.dumps(schema)) <= _MAX_SCHEMA_CHARS else None
            advice = [f"Correct `arguments` and call {self._options.named('call_tool')} again."]
            see = {"see": f"{self._options.named('describe_tools')} shows the input schema."}
            more = {"input_schema": shown} if shown else see
            raise ToolFailureError(f"These arguments do not fit {name}.", advice, problems=wrong, **more)
        try:
            return await relay(exposed.upstream, inner, {"name": exposed.original.name})
        except MCPError as error:
            # A host would take a protocol error for an error of `call_tool` itself.
            reason = quoted(error.message, _MAX_ERROR_CHARS)
            raise ToolFailureError(f"{name} failed with error {error.code}: {reason}") from error

    def _page(self, arguments: Arguments, default_level: str) -> dict[str, Any]:
        names = [*self.select(arguments)]
        size = min(int(arguments.get("page_size", _PAGE_SIZE)), _MAX_PAGE_SIZE)
        pages = -(-len(names) // size)
        page = int(arguments.get("page", 1))
        if page > max(pages, 1):
            raise ToolFailureError(f"There is no page {page}.", [f"Ask for a page from 1 to {max(pages, 1)}."])
        level = arguments.get("detail_level", default_level)
        document = {
            "tools": self.shown(names[(page - 1) * size : page * size], level),
            "metadata": self.metadata(len(names), level),
            "pagination": {
                "page": page,
                "page_size": size,
                "total_tools": len(names),
                "total_pages": pages,
                "has_next": page < pages,
                "has_prev": page > 1,
            },
        }
        return document if names else self._nothing("No tools pass these filters.") | document

    def _nothing(self, error: str) -> dict[str, Any]:
        down = [f"{seen.name} ({seen.state.kind})" for seen in self.view.upstreams if not seen.state.is_usable]
        suggestions = [
            "Try a more general term, or fewer filters.",
            f"{self._options.named('list_tool_categories')} shows what there is.",
            *([f"Tools of these servers are not available at the moment: {', '.join(down)}."] if down else []),
        ]
        return {"error": error, "suggestions": suggestions, "available_categories": self.some_categories()}

    @property
    def total(self) -> int:
        """The approximate number of tools, including those that are not indexed."""
        elsewhere = sum(delegate.size or 0 for _, delegate in self.view.delegated)
        return len(self.definitions) - sum(name in self.definitions for name in self.not_indexed) + elsewhere

    @cached_property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """Tool names by category, in the order of the listing."""
        found: dict[str, list[str]] = {}
        for name in self.definitions:
            found.setdefault(category_of(self.exposed(name).tool), []).append(name)
        return found

    def exposed(self, name: str) -> ExposedTool:
        """Return the tool with a name in `definitions`."""
        return self.not_indexed[name] if name in self.not_indexed else self.view.tools[name]

    def known(self, name: str) -> ExposedTool:
        """Return the tool with a name that a caller gives.

        Raises:
            ToolFailureError: There is no such tool, or it is not for models.
        """
        if name in self.definitions:
            return self.exposed(name)
        hidden = self.not_indexed.get(name) or self.view.tools.get(name)
        if hidden is not None and not is_for_model(hidden.tool):
            raise not_for_models(name)
        closest = closest_names(name, self.definitions)
        raise ToolFailureError(f"There is no tool named {name[:128]!r}.", _did_you_mean(closest), closest=closest)

    def select(self, arguments: Mapping[str, Any]) -> Collection[str]:
        """Return the names of the tools that match a meta-tool's filters, in the order of the listing.

        Filters are case-insensitive.

        Raises:
            ToolFailureError: There is no such category or server.
        """
        names: Collection[str] = self.definitions
        if "category" in arguments:
            names = self.categories[_existing("category", arguments["category"], self.categories)]
        if "server" in arguments:
            server = _existing("server", arguments["server"], [seen.name for seen in self.view.upstreams])
            names = [name for name in names if self.exposed(name).upstream.name == server]
        if wanted := {tag.casefold() for tag in arguments.get("tags", ())}:
            least = len(wanted) if arguments.get("match_mode") == "all" else 1
            tags = {name: {tag.casefold() for tag in tags_of(self.exposed(name).tool)} for name in names}
            names = [name for name in names if len(wanted & tags[name]) >= least]
        return names if names is self.definitions else dict.fromkeys(names)

    def related(self, name: str) -> list[dict[str, Any]]:
        """Return the tools that are related to a tool, the closest relation first.

        Explicitly related tools come first, in their published order, then tools by number of shared tags, then tools
        of the same category.
        """
        tool = self.exposed(name).tool
        tags = tags_of(tool)
        explicit = self._explicitly_related(name)
        sharing: dict[str, list[str]] = {}
        for other in self.definitions.keys() - {name, *explicit}:
            theirs = set(tags_of(self.exposed(other).tool))
            if common := [tag for tag in tags if tag in theirs]:
                sharing[other] = common
        closest = sorted(sharing, key=lambda other: (-len(sharing[other]), other))
        known = {name, *explicit, *sharing}
        neighbors = [other for other in self.categories.get(category_of(tool), ()) if other not in known]
        return [
            *({"name": other, "relation": "explicit"} for other in explicit),
            *({"name": other, "relation": "shared_tags", "shared_tags": sharing[other]} for other in closest),
            *({"name": other, "relation": "same_category"} for other in neighbors),
        ]

    def _explicitly_related(self, name: str) -> list[str]:
        """Return the visible tools that a tool names as related, by its server's own names or by public names."""
        exposed = self.exposed(name)
        own = {qualified_name(exposed.upstream.name, other): other for other in related_of(exposed.tool)}
        found = [public if public in self.definitions else other for public, other in own.items()]
        return [other for other in dict.fromkeys(found) if other in self.definitions and other != name]

    def metadata(self, found: int, level: str) -> dict[str, Any]:
        """Return the `metadata` member of an answer."""
        return {
            "total_count": self.total,
            "filtered_count": found,
            "categories_available": self.some_categories(),
            "detail_level": level,
        }

    def some_categories(self) -> list[str]:
        """Return the names of the first categories, at most 64."""
        return sorted(self.categories)[:_SOME_CATEGORIES]

    def shown(self, names: Iterable[str], level: str) -> list[Any]:
        """Return tools in the form of an answer. Those for which there is no room are only names."""
        room = _MAX_CHARS
        shown: list[Any] = []  # as many as names: callers combine the two
        for name in names:
            tool = self._shown(name, level)
            room -= len(str(tool))
            shown.append(tool if room >= 0 else name)
        return shown

    def _shown(self, name: str, level: str) -> Any:
        if level == "minimal":
            return name
        definition, tool = self.definitions[name], self.exposed(name).tool
        description = definition.get("description") or ""
        if level == "brief" and len(description) > _BRIEF_CHARS:
            description = description[:_BRIEF_CHARS] + "…"
        shown: dict[str, Any] = {"name": name, "description": description, "category": category_of(tool)}
        if level == "full":
            shown["server"] = self.exposed(name).upstream.name
            shown |= {member: definition[member] for member in _DEFINITION if member in definition}
            shown |= {"examples": examples_of(tool), "related": self._explicitly_related(name)}
        shown["tags"] = tags_of(tool)
        return {member: value for member, value in shown.items() if value not in ([], None)}


def not_for_models(name: str) -> ToolFailureError:
    """Return the error for a tool that is only for its server's user interface."""
    why = f"{name} is only for its server's user interface, and models may not call it."
    return ToolFailureError(why, ["Look for another tool that does what is needed."])


def _existing(what: str, given: str, known: Iterable[str]) -> str:
    """Return the known category or server with this name, ignoring case."""
    folded = {name.casefold(): name for name in known}
    if (name := folded.get(given.casefold())) is not None:
        return name
    closest = [folded[name] for name in closest_names(given.casefold(), folded)]
    some = sorted(folded.values())[:_SOME_CATEGORIES]
    available = {"available_categories" if what == "category" else "available_servers": some}
    raise ToolFailureError(f"There is no {what} named {given[:128]!r}.", _did_you_mean(closest), **available)


def _did_you_mean(closest: Sequence[str]) -> list[str]:
    return [f"Did you mean {' or '.join(closest)}?"] if closest else []
