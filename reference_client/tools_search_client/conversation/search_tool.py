"""`search_tools`, the synthetic tool that models use to find and load tools: arguments, search, answer.

The arguments are parsed leniently, as models write them. The answer's text can quote servers and the model. Its remarks
must not, because they can reach the model in the user's role (see `prompts`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tools_search_hosts.counts import number_of
from tools_search_hosts.json_values import as_list, as_object

from tools_search_client.conversation.budget import affordable, count_search
from tools_search_client.conversation.loaded_tools import Admission, LoadedTools
from tools_search_client.conversation.messages import SyntheticToolResult
from tools_search_client.conversation.offered_tools import Finding
from tools_search_client.conversation.prompts import BRIEF_CHARS, DETAILS, Detail, listing_of, names_of_tools, one_name
from tools_search_client.found import FoundTool
from tools_search_client.json_values import compact_json
from tools_search_client.text import first_sentence, printable, shorten

_MAX_NAMES: Final = 100

_MAX_CHARS: Final = 40_000
"""Limit on characters for all descriptions; further tools are listed by name only."""

_SENTENCE_CHARS: Final = 120
_FULL_CHARS: Final = 8_000
_QUERY_CHARS: Final = 100
_MAX_PARAMETERS: Final = 25
_MAX_SERVERS: Final = 100
_DEEPEST_CHOICE: Final = 3


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of one call; at least one of the first three is set."""

    query: str | None
    server: str | None
    names: tuple[str, ...]
    detail: Detail


class SearchRequestError(ValueError):
    """A search that cannot be answered. The message is for the model; `remarks` is the same without quotations."""

    def __init__(self, message: str, remarks: str | None = None) -> None:
        super().__init__(message)
        self.remarks = message if remarks is None else remarks


async def search_tools(
    loaded: LoadedTools, arguments: Mapping[str, Any], usual: Detail
) -> tuple[SyntheticToolResult, Finding]:
    """Answer a call of `search_tools`: find tools, report which can be loaded, and return what was found.

    Args:
        loaded: The loaded and offered tools.
        arguments: As the model wrote them.
        usual: How to describe tools if the model does not say.
    """
    state, offered = loaded.state, loaded.offered
    try:
        request = _read_request(arguments, [offer.name for offer in state.catalog.servers if offer.name], usual)
    except SearchRequestError as error:
        return SyntheticToolResult(str(error), is_error=True, remarks=error.remarks), Finding()
    servers = None if request.server is None else [request.server]
    if request.names:
        finding = await offered.by_names(request.names, servers)
        if not finding.tools and request.query is not None:
            named, finding = finding, await offered.by_query(request.query, servers)
            failed = {**named.failed, **finding.failed}
            finding = replace(
                finding, missing=named.missing, closest=named.closest, failed=failed, by_query_instead=True
            )
    elif request.query is not None:
        finding = await offered.by_query(request.query, servers)
    else:
        finding = await offered.by_server(request.server or "")
    answer = request, tuple(sorted(tool.name for tool in finding.tools))
    is_repeated = answer in state.answered and not finding.failed
    if not finding.failed:  # a failed server might answer next time
        state.answered.add(answer)
    known = {tool.name for tool in finding.tools if loaded.has(tool)}
    texts = _described(finding.tools, request.detail, known)
    within_budget: Sequence[FoundTool] = finding.tools
    if not request.names or finding.by_query_instead:
        within_budget = affordable(offered, finding.tools, texts, by_query=request.query is not None)
    admission = loaded.admit(finding.tools, within_budget, finding.loaded_anyway)
    text, remarks = _answer(request, finding, admission, texts, is_repeated=is_repeated)
    call = {"name": state.search_name, "arguments": arguments}
    count_search(offered, json.dumps(call, ensure_ascii=False, default=str), text)
    failed = not finding.tools and bool(finding.missing or finding.too_many or finding.failed)
    return SyntheticToolResult(text, admission.loaded, is_error=failed, remarks=remarks), finding


def _read_request(arguments: Mapping[str, Any], servers: Sequence[str], usual: Detail) -> SearchRequest:
    """Parse the model's request, or raise `SearchRequestError`; empty and null values count as missing."""
    query, server = _text(arguments, "query"), _text(arguments, "server_name")
    names = _names(arguments.get("tool_names"))
    detail = _text(arguments, "detail")
    if detail is not None and detail not in DETAILS:
        raise SearchRequestError(f"Error: detail must be one of {', '.join(DETAILS)}.")
    if query is None and server is None and not names:
        raise SearchRequestError("Error: Provide at least one of: query, server_name, or tool_names.")
    if len(names) > _MAX_NAMES:
        raise SearchRequestError(f"Error: tool_names has {len(names)} names; give at most {_MAX_NAMES} at once.")
    if server is not None and server not in servers:
        alike = [name for name in servers if name.casefold() == server.casefold()]
        if len(alike) != 1:
            valid = f"Valid servers: {listing_of(servers, _MAX_SERVERS) or 'none'}."
            raise SearchRequestError(
                f"Error: Unknown server '{one_name(server)}'. {valid}", f"Error: Unknown server. {valid}"
            )
        server = alike[0]
    return SearchRequest(query, server, names, detail or usual)


def _text(arguments: Mapping[str, Any], member: str) -> str | None:
    value = arguments.get(member)
    if value is not None and not isinstance(value, str):
        raise SearchRequestError(f"Error: {member} must be a text.")
    return (value or "").strip() or None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):  # the model wrote the list as a string
        text = value.strip()
        try:
            value = json.loads(text) if text.startswith("[") else text.split(",")
        except (ValueError, RecursionError):
            value = text.strip("[]").split(",")
    names = as_list(value)
    if not isinstance(value, list | None) or not all(isinstance(name, str) for name in names):
        raise SearchRequestError("Error: tool_names must be a list of names.")
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in names))))


def _answer(
    request: SearchRequest, finding: Finding, admission: Admission, texts: Mapping[str, str], *, is_repeated: bool
) -> tuple[str, str]:
    """Return the text for the model, and the remarks: the same without descriptions, in fixed text only."""
    text: list[str] = []
    remarks: list[str] = []
    where = f" in server '{one_name(request.server)}'" if request.server else ""
    if finding.too_many is not None:
        text.append(
            f"Error: Server '{request.server or ''}' has {finding.too_many} tools, too many to load at once. "
            "Add a query to find the best of them, or name the ones to load with tool_names."
        )
        remarks += text
    elif finding.missing:
        missing, remark = _missing(finding, where)
        text.append(missing)
        remarks.append(remark)
    if finding.tools:
        heading = f"Found {number_of(len(finding.tools), 'tool')}"
        shown = [text for name, text in texts.items() if text and name not in admission.left_out]
        heading += ":" if shown else "."
        text += ["\n".join([heading, *shown])] if request.detail == "sentence" else [heading, *shown]
    elif finding.by_query_instead or not (finding.missing or finding.too_many or finding.failed):
        matching = f" matching '{shorten(request.query, _QUERY_CHARS)}'" if request.query else ""
        advice = (
            " Try a different query: other words for what the tool does, or fewer of them." if request.query else ""
        )
        text.append(f"No tools found{matching}{where}.{advice}")
        remarks = [" ".join([*remarks, f"No tools found{where}.{advice}"])]
    if finding.unknown:
        none = f"No tool{where} mentions" if finding.knows_all else "None of the tools found mentions"
        text.append(f"{none}: {listing_of(finding.unknown)}.")
    if names := [tool.name for tool in admission.loaded]:
        shown = names_of_tools(names, most=len(names))
        they, its = ("This tool is", "Its name") if len(names) == 1 else ("These tools are", "Their names")
        called = "" if request.detail == "sentence" else f"\n{its} to call: {shown}"
        text.append(f"{they} now loaded and available to call.{called}")
    after = _not_loaded(admission)
    text += after
    remarks += after
    if finding.failed:
        reasons = [f"{one_name(name)} ({shorten(str(why), BRIEF_CHARS)})" for name, why in finding.failed.items()]
        text.append(f"Not reachable at present: {'; '.join(reasons)}.")
        remarks.append(f"Not reachable at present: {listing_of(finding.failed)}.")
    if is_repeated and not admission.loaded:
        last = "This was asked before, with the same answer: asking again will not change it."
        text.append(last)
        remarks.append(last)
    return "\n\n".join(text), "\n\n".join(remarks)


def _not_loaded(admission: Admission) -> list[str]:
    """Return the texts about found tools that this search does not load."""
    texts: list[str] = []
    if admission.had:
        advice = "Call what fits directly, without searching for it again."
        texts.append(f"Already loaded: {names_of_tools(admission.had)}. {advice}")
    if admission.left_out:
        advice = "Load those that you need with tool_names."
        texts.append(f"Not loaded, because that would cost too much: {names_of_tools(admission.left_out)}. {advice}")
    if admission.no_room:
        texts.append(f"Not loaded, because no more tools fit: {names_of_tools(admission.no_room)}.")
    if admission.oversized:
        names = names_of_tools(admission.oversized)
        texts.append(f"Not loaded, because its definition is larger than any model should read: {names}.")
    return texts


def _missing(finding: Finding, where: str) -> tuple[str, str]:
    """Return the text about names that match no tool, and the remark, which does not repeat the names."""
    near = f" Closest matches: {listing_of(finding.closest)}." if finding.closest else ""
    text = f"Not found{where}: {listing_of(finding.missing)}.{near}"
    near = f" Closest matches: {names_of_tools(finding.closest)}." if finding.closest else ""
    remark = f"Not found{where}: {len(finding.missing)} of the names that were asked for.{near}"
    if finding.by_query_instead:
        instead = " These are the results of the query instead."
        return text + instead, remark + instead if finding.tools else remark
    return text if finding.tools else f"Error: {text}", remark


def _described(tools: Sequence[FoundTool], detail: Detail, known: Collection[str]) -> dict[str, str]:
    """Return a description of each found tool, by name.

    A `known` tool is described again only if its full definition is requested.
    """
    paragraphs: dict[str, str] = {}
    left = _MAX_CHARS
    for found in tools:
        tool, shown = found.tool, detail if left > 0 and (found.name not in known or detail != "brief") else "minimal"
        paragraph = f"- {one_name(found.server)}:{one_name(tool.name)}" if found.server else f"- {one_name(tool.name)}"
        purpose = tool.description or tool.title or ""
        if shown == "sentence":
            purpose = shorten(first_sentence(purpose), _SENTENCE_CHARS)
            paragraph = f"- {names_of_tools([found.name])}{': ' if purpose else ''}{purpose}"
            paragraph = "" if found.name in known else paragraph
        elif shown == "brief":
            purpose = shorten(purpose.strip().partition("\n\n")[0], BRIEF_CHARS) or "(no description)"
            paragraph += f"\n  {purpose}\n  Parameters: {_parameters(tool.input_schema)}"
        elif shown == "full":
            schema = _cut(printable(compact_json(tool.input_schema)))
            purpose = _cut(printable(purpose).strip()).replace("\n", "\n  ") or "(no description)"
            paragraph += f"\n  {purpose}\n  Parameters (JSON Schema): {schema}"
        paragraphs[found.name] = paragraph
        left -= len(paragraph)
    return paragraphs


def _parameters(schema: Mapping[str, Any]) -> str:
    required = as_list(schema.get("required"))
    shown = [
        f"{one_name(name)} ({_type(member)}{', required' if name in required else ''})"
        for name, member in as_object(schema.get("properties")).items()
    ]
    more = f", ... and {len(shown) - _MAX_PARAMETERS} more" if len(shown) > _MAX_PARAMETERS else ""
    return ", ".join(shown[:_MAX_PARAMETERS]) + more if shown else "none"


def _type(member: object, depth: int = 0) -> str:
    """Return a parameter's type, if its schema states one directly."""
    stated = as_object(member) if depth <= _DEEPEST_CHOICE else {}
    match stated.get("type"):
        case str(kind):
            return one_name(kind)
        case list():
            return "|".join(one_name(str(kind)) for kind in as_list(stated["type"]))
        case _:
            choices = as_list(stated.get("anyOf") or stated.get("oneOf"))
            return "|".join(dict.fromkeys(_type(choice, depth + 1) for choice in choices)) or "any"


def _cut(text: str) -> str:
    return text if len(text) <= _FULL_CHARS else text[: _FULL_CHARS - 1] + "…"
