"""The synthetic tool by which a model finds tools and loads them: `search_tools`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_types import ToolAnnotations

from tools_search_client.conversation import prompts
from tools_search_client.conversation.catalog import ServerOffer
from tools_search_client.conversation.finding import Finding, by_names, by_query, by_server
from tools_search_client.conversation.manifest import manifest
from tools_search_client.conversation.messages import Definition, SyntheticToolResult
from tools_search_client.conversation.reach import Reach
from tools_search_client.conversation.search_answer import Loading, answer
from tools_search_client.conversation.search_request import SearchRequest, SearchRequestError, read_request
from tools_search_client.conversation.shelf import Shelf
from tools_search_client.found import FoundTool

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
            "enum": list(prompts.DETAILS),
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
        is_gone: Returns whether a tool that the model has is no longer offered, as far as is known.
        make_room: Makes room for so many more definitions, leaves those with these names, and returns how many fit.
    """

    def __init__(
        self,
        reach: Callable[[], Reach],
        shelf: Shelf,
        is_gone: Callable[[str], bool],
        make_room: Callable[[int, Collection[str]], int | None],
    ) -> None:
        self.name = _NAMES[0]
        """What the model calls it by."""
        self._reach = reach
        self._shelf = shelf
        self._is_gone = is_gone
        self._make_room = make_room
        self._answered: set[SearchRequest] = set()
        self._answered_for: Reach | None = None

    @property
    def offers(self) -> list[ServerOffer]:
        """The servers with the tools that have to be found there."""
        reach = self._reach()
        offers = [_to_be_found(offer, reach.deferred) for offer in reach.catalog.servers]
        return [offer for offer in offers if offer.tools is None or offer.tools or offer.failure]

    @property
    def manifest(self) -> str:
        """What the model is told of the servers whose tools have to be found."""
        return manifest(self.offers)

    @property
    def definition(self) -> Definition:
        """What the model is shown, with what can be found at the moment."""
        description = prompts.search_description(self.manifest)
        return Definition(self.name, description, _SCHEMA, ToolAnnotations(read_only_hint=True, open_world_hint=False))

    def avoid(self, taken: Collection[str]) -> None:
        """Go by a name that no other tool has, if one of a server without a prefix is called the same."""
        self.name = next((name for name in _NAMES if name not in taken), self.name)

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        """Find tools; those that the model does not have yet are loaded, as far as there is room."""
        reach = self._reach()
        try:
            request = read_request(arguments, [offer.name for offer in reach.catalog.servers if offer.name])
        except SearchRequestError as error:
            return SyntheticToolResult(str(error), is_error=True, remarks=error.remarks)
        finding = await _found(reach, request)
        loading = self._loading(finding)
        said = answer(request, finding, loading, repeated=self._is_repeated(reach, request))
        failed = not finding.tools and bool(finding.missing or finding.too_many or finding.failures)
        return SyntheticToolResult(said.text, loading.loaded, is_error=failed, remarks=said.remarks)

    def _loading(self, finding: Finding) -> Loading:
        """Return what becomes of what was found: what is offered again, or otherwise, counts as new."""
        oversized = tuple(tool.name for tool in finding.tools if Definition.of(tool).is_oversized)
        back = {tool.name for tool in finding.tools if self._is_new(tool) and tool.name not in oversized}
        fitting = [tool.name for tool in finding.tools if tool.name not in self._shelf and tool.name not in oversized]
        loadable = {*back, *fitting[: self._make_room(len(fitting), [tool.name for tool in finding.tools])]}
        every = dict.fromkeys(tool.name for tool in (*finding.tools, *finding.beside))
        return Loading(
            loaded=tuple(tool for tool in finding.tools if tool.name in loadable),
            had=tuple(name for name in every if name in self._shelf and name not in back),
            no_room=tuple(name for name in fitting if name not in loadable),
            oversized=oversized,
        )

    def _is_new(self, tool: FoundTool) -> bool:
        """Return whether the model has a tool, but does not know it as it is now."""
        had = self._shelf.get(tool.name)
        return had is not None and (self._is_gone(tool.name) or not had.is_like(Definition.of(tool)))

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
