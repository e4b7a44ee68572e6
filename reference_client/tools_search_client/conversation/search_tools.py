"""The synthetic tool by which a model finds tools and loads them: `search_tools`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_types import ToolAnnotations

from tools_search_client.conversation import wording
from tools_search_client.conversation.catalogue import ServerOffer
from tools_search_client.conversation.definitions import Definition
from tools_search_client.conversation.finding import Finding, by_names, by_query, by_server
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.reach import Reach
from tools_search_client.conversation.search_answer import Loading, answer
from tools_search_client.conversation.search_request import SearchRequest, read_request
from tools_search_client.conversation.shelf import Shelf
from tools_search_client.conversation.synthetic import SyntheticToolResult

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
        loading = self._loading(finding)
        said = answer(request, finding, loading, repeated=self._is_repeated(reach, request))
        failed = not finding.tools and bool(finding.missing or finding.too_many or finding.failures)
        return SyntheticToolResult(said.text, loading.loaded, is_error=failed, remarks=said.remarks)

    def _loading(self, finding: Finding) -> Loading:
        """Return what becomes of what was found: what is offered again counts as new, and takes no room."""
        back = {tool.name for tool in finding.tools if tool.name in self._shelf and self._is_gone(tool.name)}
        new = [tool for tool in finding.tools if tool.name not in self._shelf]
        oversized = tuple(tool.name for tool in new if Definition.of(tool).is_oversized)
        fitting = [tool.name for tool in new if tool.name not in oversized]
        loadable = {*back, *fitting[: self._shelf.room]}
        every = dict.fromkeys(tool.name for tool in (*finding.tools, *finding.beside))
        return Loading(
            loaded=tuple(tool for tool in finding.tools if tool.name in loadable),
            had=tuple(name for name in every if name in self._shelf and name not in back),
            no_room=tuple(name for name in fitting if name not in loadable),
            oversized=oversized,
        )

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
