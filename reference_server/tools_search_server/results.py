"""A server's result as the caller's protocol revision has it, or an error that says why there is none.

A result is checked against the type of its method and kind alone. The types that revision 2026-07-28 gives to methods
with two kinds of results accept any object, and what such a result holds would be dropped without a word.

A tool may have had its effect before it answered badly. So a result of `tools/call` keeps whatever the revision allows:
a text stands where a content block is left out, and the result is an error if the server says so, if what it says of
that cannot be read, or if nothing of its answer can be. Methods that only read are answered with an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, cast, get_args

import mcp_types
from mcp_types import CORE_RESULT_TYPES, methods
from mcp_types.methods import SERVER_RESULTS
from pydantic import BaseModel, ValidationError

from tools_search_server.caller_questions import INPUT_REQUIRED

__all__ = ["UnusableResultError", "in_revision"]

logger = logging.getLogger(__name__)

_CALL: Final = "tools/call"
_COMPLETE: Final = "complete"
_ASKING: Final = frozenset({"inputRequests", "requestState"})
"""Members of results that ask for input; they mean nothing in one that is complete."""

_MOST_PLACE_CHARS: Final = 200


class UnusableResultError(Exception):
    """A server answered with what its caller cannot be given; the text names server, revision, member and place."""


def in_revision(result: Mapping[str, Any], method: str, version: str, server: str) -> dict[str, Any]:
    """Return a result with the members that a protocol revision has for it.

    Args:
        result: What the server answered; it may be anything.
        method: The method that was asked for.
        version: The revision.
        server: The server's name.

    Raises:
        UnusableResultError: The revision does not allow the result.
    """
    kind = result.get("resultType", _COMPLETE)
    if not isinstance(kind, str) or kind not in CORE_RESULT_TYPES:
        text = f"The MCP server {server!r} answered with a result of type {repr(kind)[:100]}, which cannot be relayed."
        raise UnusableResultError(text)
    model = _model(method, version, kind)
    if model is None:
        text = f"The MCP server {server!r} asks for more input, which revision {version} does not allow for {method!r}."
        raise UnusableResultError(text)
    if kind == INPUT_REQUIRED and not _ASKING & result.keys():
        raise UnusableResultError(f"The MCP server {server!r} asks for more input and does not say for what.")
    members = {name: value for name, value in result.items() if kind == INPUT_REQUIRED or name not in _ASKING}
    members["resultType"] = kind
    try:
        return _sieved(members, method, version, model)
    except ValidationError as error:
        problem = _problem(error)
    logger.warning(
        "%s: a result is invalid in protocol revision %s, at %s", server, version, problem, extra={"server": server}
    )
    if method == _CALL and kind == _COMPLETE:
        return _salvaged(members, version, model, server)
    text = f"The MCP server {server!r} answered with a result that revision {version} does not allow: {problem}"
    raise UnusableResultError(text)


def _model(method: str, version: str, kind: str) -> type[BaseModel] | None:
    """Return the type of one kind of the results of a method; `None` where it has none of that kind."""
    row = SERVER_RESULTS[(method, version)]
    models = cast("tuple[type[BaseModel], ...]", get_args(row) if isinstance(row, UnionType) else (row,))
    asks = kind == INPUT_REQUIRED
    return next((model for model in models if ("input_requests" in model.model_fields) == asks), None)


def _sieved(members: Mapping[str, Any], method: str, version: str, model: type[BaseModel]) -> dict[str, Any]:
    return methods.serialize_server_result(method, version, members, surface={(method, version): model})


def _salvaged(members: Mapping[str, Any], version: str, model: type[BaseModel], server: str) -> dict[str, Any]:
    """Return what can be kept of the result of a tool, with a text for each part that cannot."""

    def problem_of(**member: Any) -> str | None:
        try:
            _sieved({"resultType": _COMPLETE, "content": [], **member}, _CALL, version, model)
        except ValidationError as error:
            return _problem(error)
        return None

    def left_out(problem: str) -> dict[str, Any]:
        text = f"The MCP server {server!r} sent what revision {version} does not allow; it is left out ({problem})."
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
        text = f"The MCP server {server!r} answered with nothing that revision {version} allows as the result of a tool"
        content.append({"type": "text", "text": f"{text}; the call may or may not have taken effect."})
    if not count or "isError" in problems:
        kept["isError"] = True
    return _sieved({**kept, "content": content}, _CALL, version, model)


def _problem(error: ValidationError) -> str:
    """Return the place of the most telling mistake, and the mistake.

    A content block that fits none of the kinds of blocks breaks the rules of each; only those of the kind that it says
    it is of are of interest.
    """
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    kinds = [mistake for mistake in mistakes if mistake["loc"][-1:] in (("type",), ("method",))]
    others = [mistake["loc"][:-1] for mistake in kinds]
    telling = [mistake for mistake in mistakes if not any(mistake["loc"][: len(kind)] == kind for kind in others)]
    first = (telling or kinds or mistakes)[0]
    # Of the kinds that there are, it would name but the first.
    words = "Unknown kind" if first["type"] == "literal_error" and not telling else first["msg"]
    place = ".".join(str(step) for step in first["loc"] if not _is_type(step))[:_MOST_PLACE_CHARS]
    return f"{''.join(char if char.isprintable() else ' ' for char in place)}: {words}"


def _is_type(step: int | str) -> bool:
    """Tell whether a step of a place is the name of one of the types that are possible there, and no member."""
    return isinstance(step, str) and ("[" in step or (step[:1].isupper() and hasattr(mcp_types, step)))
