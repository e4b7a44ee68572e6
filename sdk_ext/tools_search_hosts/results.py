"""Salvages the valid parts of results that their protocol revision does not allow.

A result is checked against the type for its method and kind only. The types that revision 2026-07-28 defines for
methods with two kinds of results accept any object, so they would silently drop the result's contents.

A tool may have had its effect before it sent an invalid result. So a result of `tools/call` keeps everything that the
revision allows, with a text in place of each invalid content block. It is an error if the server says so, if `isError`
is invalid, or if nothing in the answer is valid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, cast, get_args

import mcp_types
from mcp_ext_tools_search.client import MODERN_ONLY
from mcp_types import methods
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from tools_search_hosts.json_values import is_list

CALL: Final = "tools/call"
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
"""The `resultType` of a result that asks for more input."""
UNREAD: Final = "io.github.tools-search/unread"
"""Member of `_meta` by which this project's gateway tells its client that a search for resources went without texts
that are not read yet. It is not part of the draft."""

ASKING: Final = frozenset({"inputRequests", "requestState"})
"""Members of results that ask for input. They are meaningless in complete results."""

_MAX_PLACE_CHARS: Final = 200


def call_result(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a tool's result without members that are meaningless in `version`. If it is invalid, salvage it.

    A result that asks for input, or whose `resultType` is not in the core protocol, is returned unchanged.
    """
    meaningless = ASKING if version in MODERN_PROTOCOL_VERSIONS else ASKING | set(MODERN_ONLY)
    # Legacy revisions have no `resultType`: a member of that name means nothing there.
    is_complete = version not in MODERN_PROTOCOL_VERSIONS or result.get("resultType", COMPLETE) == COMPLETE
    if (CALL, version) not in SERVER_RESULTS or not is_complete:
        return result
    members = {name: value for name, value in result.items() if name not in meaningless}
    model = cast("type[BaseModel]", result_model(CALL, version, COMPLETE))  # every revision has it
    try:
        sieved({**members, "resultType": COMPLETE}, CALL, version, model)
    except ValidationError:
        return salvaged({**members, "resultType": COMPLETE}, version, model)
    return members


def result_model(method: str, version: str, kind: str) -> type[BaseModel] | None:
    """Return the type for one kind of a method's results; `None` if the method has no results of that kind."""
    row = SERVER_RESULTS[(method, version)]
    models = cast("tuple[type[BaseModel], ...]", get_args(row) if isinstance(row, UnionType) else (row,))
    asks = kind == INPUT_REQUIRED
    return next((model for model in models if ("input_requests" in model.model_fields) == asks), None)


def sieved(members: Mapping[str, Any], method: str, version: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return only the members that a type defines.

    Raises:
        ValidationError: The type does not allow their values.
    """
    return methods.serialize_server_result(method, version, members, surface={(method, version): model})


def salvaged(members: Mapping[str, Any], version: str, model: type[BaseModel], server: str = "") -> dict[str, Any]:
    """Return the valid parts of a tool's result, with a text for each invalid part, which names the server, if given.

    The result can contain anything. `model` is the revision's type for the results of tools.
    """
    sender = f"The MCP server {server!r}" if server else "The MCP server"

    def problem_of(**member: Any) -> str | None:
        try:
            sieved({"resultType": COMPLETE, "content": [], **member}, CALL, version, model)
        except ValidationError as error:
            return invalid_member(error)
        return None

    def left_out(problem: str) -> dict[str, Any]:
        text = f"{sender} sent content that revision {version} does not allow; it was omitted ({problem})."
        return {"type": "text", "text": text}

    # Member by member: one validation of the whole would not say which members and blocks are valid.
    others = {name: value for name, value in members.items() if name != "content"}
    problems = {name: problem for name, value in others.items() if (problem := problem_of(**{name: value}))}
    kept = {name: value for name, value in others.items() if name not in problems}
    sent = members.get("content", [])
    content: list[Any] = []
    count = 0
    for place, block in enumerate(sent if is_list(sent) else [sent]):
        # A plain string is the most common mistake, and its meaning is clear.
        read = {"type": "text", "text": block} if isinstance(block, str) else block
        problem = problem_of(content=[read])
        content.append(read if problem is None else left_out(problem.replace("content.0", f"content.{place}", 1)))
        count += problem is None
    structured = members.get("structuredContent")
    if structured is not None and not count:  # servers should also send this as text, for clients that read only text
        content.append({"type": "text", "text": json.dumps(structured, ensure_ascii=False)})
        count += 1
    content += [left_out(problem) for problem in problems.values()]
    if not count:
        text = f"{sender} answered with nothing that revision {version} allows as the result of a tool"
        content.append({"type": "text", "text": f"{text}; the call may or may not have taken effect."})
    if not count or "isError" in problems:
        kept["isError"] = True
    return sieved({**kept, "content": content}, CALL, version, model)


def invalid_member(error: ValidationError) -> str:
    """Return the place of the most relevant mistake, and the mistake.

    An invalid content block violates the rules of every kind of block. Only those of its declared kind are relevant.
    """
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    kinds = [mistake for mistake in mistakes if mistake["loc"][-1:] in (("type",), ("method",))]
    others = [mistake["loc"][:-1] for mistake in kinds]
    telling = [mistake for mistake in mistakes if not any(mistake["loc"][: len(kind)] == kind for kind in others)]
    first = (telling or kinds)[0]
    # The original message would name only the first of the possible kinds.
    words = "Unknown kind" if first["type"] == "literal_error" and not telling else first["msg"]
    place = ".".join(str(step) for step in first["loc"] if not _is_type(step))[:_MAX_PLACE_CHARS]
    return f"{''.join(char if char.isprintable() else ' ' for char in place)}: {words}"


def _is_type(step: int | str) -> bool:
    """Return whether a step in a place is the name of a possible type rather than a member."""
    return isinstance(step, str) and ("[" in step or (step[:1].isupper() and hasattr(mcp_types, step)))
