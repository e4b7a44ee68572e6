"""`search_tools`, the synthetic tool by which a model finds tools and loads them: arguments, search, answer.

The arguments are read with patience for how models write them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tools_search_client.conversation import prompts
from tools_search_client.conversation.loaded_tools import Admission, LoadedTools
from tools_search_client.conversation.messages import SyntheticToolResult
from tools_search_client.conversation.search import Finding, SearchScope

_MOST_NAMES: Final = 100

_MOST_CHARS: Final = 40_000
"""Of all descriptions together; the tools after those are described by their names alone."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of one call; at least one of the first three says something."""

    query: str | None
    server: str | None
    names: tuple[str, ...]
    detail: prompts.Detail


class SearchRequestError(ValueError):
    """A search that cannot be answered; the message is for the model.

    Args:
        message: What is wrong.
        remarks: The same without words of the model; the message unless given.
    """

    def __init__(self, message: str, remarks: str | None = None) -> None:
        super().__init__(message)
        self.remarks = message if remarks is None else remarks


async def search_tools(scope: SearchScope, loaded: LoadedTools, arguments: Mapping[str, Any]) -> SyntheticToolResult:
    """Answer one call of `search_tools`: find tools, and load those that the model does not have, if there is room."""
    try:
        request = read_request(arguments, [offer.name for offer in scope.catalog.servers if offer.name])
    except SearchRequestError as error:
        return SyntheticToolResult(str(error), is_error=True, remarks=error.remarks)
    finding = await _find(scope, request)
    admission = loaded.admit(finding.tools, finding.loaded_anyway)
    is_repeated = request in scope.answered
    scope.answered.add(request)
    text, remarks = _answer(request, finding, admission, is_repeated=is_repeated)
    failed = not finding.tools and bool(finding.missing or finding.too_many or finding.failures)
    return SyntheticToolResult(text, admission.loaded, is_error=failed, remarks=remarks)


def read_request(arguments: Mapping[str, Any], servers: Sequence[str]) -> SearchRequest:
    """Return the request of the model; what is empty or null counts as left out.

    Args:
        arguments: As the model wrote them.
        servers: The names of the servers that there are.

    Raises:
        SearchRequestError: It cannot be answered.
    """
    query, server = _text(arguments, "query"), _text(arguments, "server_name")
    names = _names(arguments.get("tool_names"))
    detail = _text(arguments, "detail") or "brief"
    if detail not in prompts.DETAILS:
        raise SearchRequestError(f"Error: detail must be one of {', '.join(prompts.DETAILS)}.")
    if query is None and server is None and not names:
        raise SearchRequestError("Error: Provide at least one of: query, server_name, or tool_names.")
    if len(names) > _MOST_NAMES:
        raise SearchRequestError(f"Error: tool_names has {len(names)} names; give at most {_MOST_NAMES} at once.")
    if server is not None and server not in servers:
        alike = [name for name in servers if name.casefold() == server.casefold()]
        if len(alike) != 1:
            raise SearchRequestError(prompts.unknown_server(server, servers), prompts.unknown_server(None, servers))
        server = alike[0]
    return SearchRequest(query, server, names, detail)


def _text(arguments: Mapping[str, Any], member: str) -> str | None:
    value = arguments.get(member)
    if value is not None and not isinstance(value, str):
        raise SearchRequestError(f"Error: {member} must be a text.")
    return (value or "").strip() or None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):  # a model wrote the list as a text
        text = value.strip()
        try:
            value = json.loads(text) if text.startswith("[") else text.split(",")
        except (ValueError, RecursionError):
            value = text.strip("[]").split(",")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
        raise SearchRequestError("Error: tool_names must be a list of names.")
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in cast("list[str]", value)))))


async def _find(scope: SearchScope, request: SearchRequest) -> Finding:
    servers = None if request.server is None else [request.server]
    if request.names:
        named = await scope.by_names(request.names, servers)
        if named.tools or request.query is None:
            return named
        instead = await scope.by_query(request.query, servers)
        return replace(instead, missing=named.missing, closest=named.closest, by_query_instead=True)
    if request.query is not None:
        return await scope.by_query(request.query, servers)
    return await scope.by_server(request.server or "")


def _answer(request: SearchRequest, finding: Finding, admission: Admission, *, is_repeated: bool) -> tuple[str, str]:
    """Return the text for the model, and its remarks: the text without descriptions, in words of the host alone."""
    # Whether it is all there is to say that nothing was found.
    is_nothing = finding.by_query_instead or not (finding.missing or finding.too_many or finding.failures)
    instead = "These are the results of the query instead."
    missing = remark = ""
    if finding.too_many is not None:
        missing = remark = prompts.too_many_tools(request.server or "", finding.too_many)
    elif finding.missing:
        missing = prompts.unknown_tool(finding.missing, finding.closest, request.server)
        remark = prompts.no_such_names(len(finding.missing), finding.closest, request.server)
        if finding.by_query_instead:
            missing = f"{missing} {instead}"
            remark = f"{remark} {instead}" if finding.tools else remark
        elif not finding.tools:
            missing = f"Error: {missing}"
    found = ""
    if finding.tools:
        found = _described(finding, request.detail)
    elif is_nothing:
        found = prompts.nothing_found(request.query, request.server)
        without_query = prompts.nothing_found(request.query, request.server, repeats_query=False)
        remark = f"{remark} {without_query}".strip()
    after = [prompts.already_loaded(admission.had)]
    if admission.no_room:
        after.append(f"Not loaded, because no more tools fit: {prompts.names_of_tools(admission.no_room)}.")
    if admission.oversized:
        names = prompts.names_of_tools(admission.oversized)
        after.append(f"Not loaded, because its definition is larger than any model should read: {names}.")
    last = ""
    if is_repeated and not admission.loaded:
        last = "This was asked before, with the same answer: asking again will not change it."
    loaded = prompts.now_loaded([tool.name for tool in admission.loaded])
    text = [missing, found, loaded, *after, prompts.unreachable(finding.failures), last]
    remarks = [remark, *after, prompts.unreachable(finding.failures, with_reasons=False), last]
    return "\n\n".join(filter(None, text)), "\n\n".join(filter(None, remarks))


def _described(finding: Finding, detail: prompts.Detail) -> str:
    count = len(finding.tools)
    paragraphs = [f"Found {count} tool{'' if count == 1 else 's'}:"]
    left = _MOST_CHARS
    for tool in finding.tools:
        paragraphs.append(prompts.described(tool, detail if left > 0 else "minimal"))
        left -= len(paragraphs[-1])
    return "\n\n".join(paragraphs)
