"""Answers of a server that has tools but does nothing: honest about it, and valid for the tool's own schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from jsonschema import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from mcp_types import CallToolResult, TextContent, Tool
from referencing import Registry
from referencing.exceptions import Unresolvable

from tools_search_server.catalog.example_value import example_value

__all__ = ["canned_answer", "echo_answer"]

_MAX_COMPLAINTS: Final = 5


def echo_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer with the call itself, as the conformance suite's fixture contract wants it."""
    call = {"name": tool.name, "arguments": dict(arguments)}
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(call, ensure_ascii=False))],
        structured_content=None if tool.output_schema is None else call,
    )


def canned_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer a call with a value made up from the output schema, and say that it is made up.

    Arguments that the input schema does not allow get a result with `is_error`, naming each place that is wrong.
    """
    if complaints := _complaints(tool.input_schema, arguments):
        return _failure(f"Invalid arguments for {tool.name}:\n" + "\n".join(f"- {line}" for line in complaints))
    text = f"Canned answer: this catalog server did not run {tool.name}."
    if tool.output_schema is None:
        return CallToolResult(content=[TextContent(type="text", text=text)])
    value = example_value(tool.output_schema)
    if complaints := _complaints(tool.output_schema, value):
        return _failure(f"No canned answer for {tool.name} satisfies its own output schema: {complaints[0]}")
    shown = json.dumps(value, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=f"{text}\n{shown}")], structured_content=value)


def _failure(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _complaints(schema: dict[str, Any], value: Any) -> list[str]:
    try:
        errors = sorted(_validator(schema).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except (SchemaError, Unresolvable) as error:
        return [f"the schema of this tool cannot be used: {error}"]
    return [f"{_place(error.absolute_path)}: {error.message}" for error in errors[:_MAX_COMPLAINTS]]


def _validator(schema: dict[str, Any]) -> Validator:
    kind = validator_for(schema)
    kind.check_schema(schema)
    # An empty registry: what a catalog file refers to is never fetched.
    return kind(schema, registry=Registry())


def _place(path: Any) -> str:
    return ".".join(map(str, path)) or "arguments"
