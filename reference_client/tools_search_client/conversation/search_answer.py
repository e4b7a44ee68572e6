"""The answer of `search_tools`, put together from what was found and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools_search_client.conversation import prompts
from tools_search_client.conversation.finding import Finding
from tools_search_client.conversation.search_request import SearchRequest
from tools_search_client.found import FoundTool

__all__ = ["Answer", "Loading", "answer"]

_MOST_CHARS: Final = 40_000
"""Of all descriptions together; those that come after are described by their names alone."""


@dataclass(frozen=True, slots=True)
class Loading:
    """What became of the tools that were found."""

    loaded: tuple[FoundTool, ...] = ()
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
    """What the text says besides describing the tools that were found, in words of the host alone."""


def answer(request: SearchRequest, finding: Finding, loading: Loading, *, repeated: bool) -> Answer:
    """Return what to say to the model.

    Args:
        request: What it asked for.
        finding: What was found.
        loading: What became of that.
        repeated: Whether the same was asked before.
    """
    after = [_had(loading.had)]
    if loading.no_room:
        after.append(f"Not loaded, because no more tools fit: {prompts.names_of_tools(loading.no_room)}.")
    if loading.oversized:
        names = prompts.names_of_tools(loading.oversized)
        after.append(f"Not loaded, because its definition is larger than any model should read: {names}.")
    last = ""
    if repeated and not loading.loaded:
        last = "This was asked before, with the same answer: asking again will not change it."
    text = [_missing(request, finding), _found(request, finding), _loaded(loading.loaded), *after, _unanswered(finding)]
    remarks = [_remarks(request, finding), *after, _unreachable(finding)]
    return Answer(_joined([*text, last]), _joined([*remarks, last]))


def _remarks(request: SearchRequest, finding: Finding) -> str:
    """Return what there is to say of what was not found, without words of a server or of the model."""
    if finding.too_many is not None:
        return _missing(request, finding)
    said: list[str] = []
    if finding.missing:
        said.append(prompts.no_such_names(len(finding.missing), finding.closest, request.server))
    if finding.by_query_instead and finding.tools:
        said.append("These are the results of the query instead.")
    if not finding.tools and _is_nothing(finding):
        said.append(prompts.nothing_found(request.query, request.server, repeats_query=False))
    return " ".join(said)


def _is_nothing(finding: Finding) -> bool:
    """Return whether it is all there is to say that nothing was found."""
    return finding.by_query_instead or not (finding.missing or finding.too_many or finding.failures)


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
    said = prompts.unknown_tool(finding.missing, finding.closest, request.server)
    if finding.by_query_instead:
        return f"{said} These are the results of the query instead."
    return said if finding.tools else f"Error: {said}"


def _found(request: SearchRequest, finding: Finding) -> str:
    if finding.tools:
        count = len(finding.tools)
        heading = f"Found {count} tool{'' if count == 1 else 's'}:"
        return "\n\n".join([heading, *_descriptions(finding.tools, request.detail)])
    if _is_nothing(finding):
        return prompts.nothing_found(request.query, request.server)
    return ""


def _descriptions(tools: Sequence[FoundTool], detail: prompts.Detail) -> list[str]:
    described: list[str] = []
    left = _MOST_CHARS
    for tool in tools:
        described.append(prompts.described(tool, detail if left > 0 else "minimal"))
        left -= len(described[-1])
    return described


def _loaded(tools: Sequence[FoundTool]) -> str:
    names = prompts.names_of_tools((tool.name for tool in tools), most=len(tools))
    if len(tools) == 1:
        return f"This tool is now loaded and available to call.\nIts name to call: {names}"
    return f"These tools are now loaded and available to call.\nTheir names to call: {names}" if tools else ""


def _had(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"Already loaded: {prompts.names_of_tools(names)}. Call what fits directly, without searching for it again."


def _unanswered(finding: Finding) -> str:
    if not finding.failures:
        return ""
    said = "; ".join(prompts.server_failure(server, reason) for server, reason in finding.failures.items())
    return f"Not reachable at present: {said}."


def _unreachable(finding: Finding) -> str:
    return f"Not reachable at present: {prompts.listing_of(finding.failures)}." if finding.failures else ""
