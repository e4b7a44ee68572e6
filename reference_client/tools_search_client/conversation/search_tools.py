"""The synthetic tool by which a model finds tools and loads them: `search_tools`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_types import ToolAnnotations

from tools_search_client.conversation import wording
from tools_search_client.conversation.catalogue import ServerOffer
from tools_search_client.conversation.definitions import Definition
from tools_search_client.conversation.finding import Finding, Reach, by_names, by_query, by_server
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.search_request import SearchRequest, read_request
from tools_search_client.conversation.shelf import Shelf
from tools_search_client.conversation.synthetic import SyntheticToolResult
from tools_search_client.reports import FederatedTool

__all__ = ["SearchTools"]

_NAMES: Final = ("search_tools", "search_more_tools", "search_all_tools")

_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Natural language capability search across all deferred tools "
            "(e.g. 'create a calendar event'). Uses keyword matching.",
        },
        "server_name": {
            "type": "string",
            "description": "Filter results to a specific server by name; alone, it loads all tools of that server.",
        },
        "tool_names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Load specific tools by exact name. "
            "Most token-efficient when you know the tool name from the manifest.",
        },
        "detail": {
            "type": "string",
            "enum": list(wording.DETAILS),
            "description": "How much to say of each tool: its name, its purpose and parameters (unless set), "
            "or its whole definition.",
        },
    },
}


class SearchTools:
    """Finds deferred tools for a model; a `SyntheticTool`.

    Args:
        reach: Returns what can be found at the moment.
        shelf: What the model has already.
        is_gone: Tells of a tool that the model has whether it is no longer offered, as far as is known.
    """

    def __init__(self, reach: Callable[[], Reach], shelf: Shelf, is_gone: Callable[[str], bool]) -> None:
        self.name = _NAMES[0]
        """What the model calls it by."""
        self._reach = reach
        self._shelf = shelf
        self._is_gone = is_gone
        self._answered: set[SearchRequest] = set()
        self._answered_for: Reach | None = None

    @property
    def manifest(self) -> str:
        """What the model is told of the servers whose tools have to be found."""
        reach = self._reach()
        offers = [_to_be_found(offer, reach.deferred) for offer in reach.catalogue.servers]
        return manifest([offer for offer in offers if offer.tools is None or offer.tools or offer.failure])

    @property
    def definition(self) -> Definition:
        """What the model is shown, with what can be found at the moment."""
        description = wording.search_description(self.manifest)
        return Definition(self.name, description, _SCHEMA, ToolAnnotations(read_only_hint=True, open_world_hint=False))

    def avoid(self, taken: Collection[str]) -> None:
        """Go by a name that no other tool has, if one of a server without a prefix is called the same."""
        self.name = next((name for name in _NAMES if name not in taken), self.name)

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        """Find tools; those that the model does not have yet are loaded, as far as there is room."""
        reach = self._reach()
        try:
            request = read_request(arguments, [offer.name for offer in reach.catalogue.servers if offer.name])
        except ValueError as error:
            return SyntheticToolResult(f"Error: {error}", is_error=True)
        finding = await _found(reach, request)
        loaded = self._loadable(finding.tools)
        paragraphs = [*_missing(request, finding), *self._report(request, finding, loaded), *_unanswered(finding)]
        if self._is_repeated(reach, request) and not loaded:
            paragraphs.append("This was asked before, with the same answer: asking again will not change it.")
        failed = not finding.tools and bool(finding.missing or finding.too_many or finding.failures)
        return SyntheticToolResult("\n\n".join(paragraphs), loaded, is_error=failed)

    def _loadable(self, tools: tuple[FederatedTool, ...]) -> tuple[FederatedTool, ...]:
        """Return the tools that the model can call from now on: new ones, and those that are offered again."""
        back = [tool.name for tool in tools if tool.name in self._shelf and self._is_gone(tool.name)]
        new = [tool.name for tool in tools if tool.name not in self._shelf][: self._shelf.room]
        return tuple(tool for tool in tools if tool.name in (*back, *new))

    def _report(self, request: SearchRequest, finding: Finding, loaded: tuple[FederatedTool, ...]) -> list[str]:
        """Return what was found, what of it is new, and what the model had all along."""
        now = {tool.name for tool in loaded}
        others = [tool.name for tool in (*finding.tools, *finding.beside) if tool.name not in now]
        had = [name for name in others if name in self._shelf]
        left_out = [name for name in others if name not in self._shelf]
        report: list[str] = []
        if finding.tools:
            count = len(finding.tools)
            found = [wording.described(tool, request.detail) for tool in finding.tools]
            report.append("\n\n".join([f"Found {count} tool{'' if count == 1 else 's'}:", *found]))
        elif not finding.missing and finding.too_many is None and not finding.failures:
            report.append(wording.nothing_found(request.query, request.server))
        if loaded:
            report.append(_now_loaded(loaded))
        if had:
            names = wording.listing_of(dict.fromkeys(had))
            report.append(f"Already loaded: {names}. Call what fits directly, without searching for it again.")
        if left_out:
            report.append(f"Not loaded, because no more tools fit: {wording.listing_of(left_out)}.")
        return report

    def _is_repeated(self, reach: Reach, request: SearchRequest) -> bool:
        if self._answered_for is not reach:
            self._answered_for = reach
            self._answered.clear()
        repeated = request in self._answered
        self._answered.add(request)
        return repeated


def _to_be_found(offer: ServerOffer, deferred: Collection[str]) -> ServerOffer:
    if offer.tools is None:
        return offer
    return replace(offer, tools=tuple(tool for tool in offer.tools if tool.name in deferred))


async def _found(reach: Reach, request: SearchRequest) -> Finding:
    servers = None if request.server is None else [request.server]
    if request.names:
        named = await by_names(reach, request.names, servers)
        if named.tools or request.query is None:
            return named
        instead = await by_query(reach, request.query, servers)
        return replace(instead, missing=named.missing, closest=named.closest, by_query_instead=True)
    if request.query is not None:
        return await by_query(reach, request.query, servers)
    return await by_server(reach, request.server or "")


def _now_loaded(tools: tuple[FederatedTool, ...]) -> str:
    names = wording.listing_of(tool.name for tool in tools)
    if len(tools) == 1:
        return f"This tool is now loaded and available to call.\nIts name to call: {names}"
    return f"These tools are now loaded and available to call.\nTheir names to call: {names}"


def _missing(request: SearchRequest, finding: Finding) -> list[str]:
    if finding.too_many is not None:
        return [
            f"Error: Server '{request.server}' has {finding.too_many} tools, too many to load at once. "
            "Add a query to find the best of them, or name the ones to load with tool_names."
        ]
    if not finding.missing:
        return []
    said = wording.unknown_tool(finding.missing, finding.closest, request.server)
    if finding.by_query_instead:
        return [f"{said} These are the results of the query instead."]
    return [said if finding.tools else f"Error: {said}"]


def _unanswered(finding: Finding) -> list[str]:
    if not finding.failures:
        return []
    said = "; ".join(wording.server_failure(server, reason) for server, reason in finding.failures.items())
    return [f"Not reachable at present: {said}."]
