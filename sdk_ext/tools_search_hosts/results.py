"""What can be kept of a result that its protocol revision does not allow.

A result is checked against the type of its method and kind alone. The types that revision 2026-07-28 gives to methods
with two kinds of results accept any object, and what such a result holds would be dropped without a word.

A tool may have had its effect before it answered badly. So a result of `tools/call` keeps all that the revision
allows: a text stands where a content block is left out, and the result is an error if the server says so, if its
statement about that cannot be read, or if nothing of its answer can be.
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

CALL: Final = "tools/call"
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
"""The `resultType` of a result that asks for more."""

ASKING: Final = frozenset({"inputRequests", "requestState"})
"""Members of results that ask for input; they mean nothing in one that is complete."""

_MAX_PLACE_CHARS: Final = 200


def call_result(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the result of a tool with what means something in `version`, or what can be kept of a bad one.

    A result that asks for input, or whose `resultType` is not of the core protocol, is returned as it is.
    """
    meaningless = ASKING if version in MODERN_PROTOCOL_VERSIONS else ASKING | set(MODERN_ONLY)
    is_complete = version not in MODERN_PROTOCOL_VERSIONS or result.get("resultType", COMPLETE) == COMPLETE
    if (CALL, version) not in SERVER_RESULTS or not is_complete:
        return result
    members = {name: value for name, value in result.items() if name not in meaningless}
    model = cast("type[BaseModel]", result_model(CALL, version, COMPLETE))  # which every revision has
    try:
        sieved({**members, "resultType": COMPLETE}, CALL, version, model)
    except ValidationError:
        return salvaged({**members, "resultType": COMPLETE}, version, model)
    return members


def result_model(method: str, version: str, kind: str) -> type[BaseModel] | None:
    """Return the type of one kind of the results of a method; `None` where it has none of that kind."""
    row = SERVER_RESULTS[(method, version)]
    models = cast("tuple[type[BaseModel], ...]", get_args(row) if isinstance(row, UnionType) else (row,))
    asks = kind == INPUT_REQUIRED
    return next((model for model in models if ("input_requests" in model.model_fields) == asks), None)


def sieved(members: Mapping[str, Any], method: str, version: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return the members that a type has.

    Raises:
        ValidationError: The type does not allow them.
    """
    return methods.serialize_server_result(method, version, members, surface={(method, version): model})


def salvaged(members: Mapping[str, Any], version: str, model: type[BaseModel], server: str = "") -> dict[str, Any]:
    """Return what can be kept of the result of a tool, with a text for each part that cannot.

    Args:
        members: The result, which the revision does not allow; it may hold anything.
        version: The revision.
        model: Its type of the results of tools.
        server: The server's name, for the texts.
    """
    sender = f"The MCP server {server!r}" if server else "The MCP server"

    def problem_of(**member: Any) -> str | None:
        try:
            sieved({"resultType": COMPLETE, "content": [], **member}, CALL, version, model)
        except ValidationError as error:
            return invalid_member(error)
        return None

    def left_out(problem: str) -> dict[str, Any]:
        text = f"{sender} sent what revision {version} does not allow; it is left out ({problem})."
        return {"type": "text", "text": text}

    others = {name: value for name, value in members.items() if name != "content"}
    problems = {name: problem for name, value in others.items() if (problem := problem_of(**{name: value}))}
    kept = {name: value for name, value in others.items() if name not in problems}
    sent = members.get("content", [])
    content: list[Any] = []
    count = 0
    for place, block in enumerate(cast("list[Any]", sent) if isinstance(sent, list) else [sent]):
        # A plain string is the commonest slip, and nothing is lost by reading it as what it must be.
        read = {"type": "text", "text": block} if isinstance(block, str) else block
        problem = problem_of(content=[read])
        content.append(read if problem is None else left_out(problem.replace("content.0", f"content.{place}", 1)))
        count += problem is None
    structured = members.get("structuredContent")
    if structured is not None and not count:  # which servers shall repeat as text, for those who read nothing else
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
    """Return the member with the most telling mistake, by its place, and the mistake.

    A content block that fits none of the kinds of blocks breaks the rules of each; only those of the kind that it says
    it is of are of interest.
    """
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    kinds = [mistake for mistake in mistakes if mistake["loc"][-1:] in (("type",), ("method",))]
    others = [mistake["loc"][:-1] for mistake in kinds]
    telling = [mistake for mistake in mistakes if not any(mistake["loc"][: len(kind)] == kind for kind in others)]
    first = (telling or kinds or mistakes)[0]
    # It would name only the first of the kinds that there are.
    words = "Unknown kind" if first["type"] == "literal_error" and not telling else first["msg"]
    place = ".".join(str(step) for step in first["loc"] if not _is_type(step))[:_MAX_PLACE_CHARS]
    return f"{''.join(char if char.isprintable() else ' ' for char in place)}: {words}"


def _is_type(step: int | str) -> bool:
    """Return whether a step of a place is the name of one of the types that are possible there, and no member."""
    return isinstance(step, str) and ("[" in step or (step[:1].isupper() and hasattr(mcp_types, step)))
