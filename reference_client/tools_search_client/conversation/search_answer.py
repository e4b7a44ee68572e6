"""The answer of `search_tools`, put together from what was found and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools_search_client.conversation import wording
from tools_search_client.conversation.finding import Finding
from tools_search_client.conversation.search_request import SearchRequest
from tools_search_client.reports import FederatedTool

__all__ = ["Answer", "Loading", "answer"]

_MOST_CHARS: Final = 40_000
"""Of all descriptions together; those that come after are described by their names alone."""


@dataclass(frozen=True, slots=True)
class Loading:
    """What became of the tools that were found."""

    loaded: tuple[FederatedTool, ...] = ()
    """Those that the model can call from now on."""

    had: tuple[str, ...] = ()
    """Those that it could call before."""

    no_room: tuple[str, ...] = ()
    oversized: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to the model."""

    text: str

    remarks: str
    """The text without the descriptions of the tools that were found and loaded."""


def answer(request: SearchRequest, finding: Finding, loading: Loading, *, repeated: bool) -> Answer:
    """Return what to say to the model.

    Args:
        request: What it asked for.
        finding: What was found.
        loading: What became of that.
        repeated: Whether the same was asked before.
    """
    before = [_missing(request, finding)]
    found = [_found(request, finding), _loaded(loading.loaded)]
    after = [_had(loading.had)]
    if loading.no_room:
        after.append(f"Not loaded, because no more tools fit: {wording.listing_of(loading.no_room)}.")
    if loading.oversized:
        names = wording.listing_of(loading.oversized)
        after.append(f"Not loaded, because its definition is larger than any model should read: {names}.")
    after.append(_unanswered(finding))
    if repeated and not loading.loaded:
        after.append("This was asked before, with the same answer: asking again will not change it.")
    return Answer(_joined([*before, *found, *after]), _joined([*before, *after]))


def _joined(paragraphs: list[str]) -> str:
    return "\n\n".join(filter(None, paragraphs))


def _missing(request: SearchRequest, finding: Finding) -> str:
    if finding.too_many is not None:
        return (
            f"Error: Server '{request.server}' has {finding.too_many} tools, too many to load at once. "
            "Add a query to find the best of them, or name the ones to load with tool_names."
        )
    if not finding.missing:
        return ""
    said = wording.unknown_tool(finding.missing, finding.closest, request.server)
    if finding.by_query_instead:
        return f"{said} These are the results of the query instead."
    return said if finding.tools else f"Error: {said}"


def _found(request: SearchRequest, finding: Finding) -> str:
    if finding.tools:
        count = len(finding.tools)
        heading = f"Found {count} tool{'' if count == 1 else 's'}:"
        return "\n\n".join([heading, *_descriptions(finding.tools, request.detail)])
    if finding.by_query_instead or not (finding.missing or finding.too_many or finding.failures):
        return wording.nothing_found(request.query, request.server)
    return ""


def _descriptions(tools: Sequence[FederatedTool], detail: wording.Detail) -> list[str]:
    described: list[str] = []
    left = _MOST_CHARS
    for tool in tools:
        described.append(wording.described(tool, detail if left > 0 else "minimal"))
        left -= len(described[-1])
    return described


def _loaded(tools: Sequence[FederatedTool]) -> str:
    names = wording.listing_of((tool.name for tool in tools), most=len(tools))
    if len(tools) == 1:
        return f"This tool is now loaded and available to call.\nIts name to call: {names}"
    return f"These tools are now loaded and available to call.\nTheir names to call: {names}" if tools else ""


def _had(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"Already loaded: {wording.listing_of(names)}. Call what fits directly, without searching for it again."


def _unanswered(finding: Finding) -> str:
    if not finding.failures:
        return ""
    said = "; ".join(wording.server_failure(server, reason) for server, reason in finding.failures.items())
    return f"Not reachable at present: {said}."
