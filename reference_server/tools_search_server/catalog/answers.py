"""Canned answers: they say that the tool did not run, and are valid for the tool's own output schema.

`example_value` makes a small value for a JSON Schema of the kind that tools use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_types import CallToolResult, TextContent, Tool

_MAX_COMPLAINTS: Final = 5

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "uri-reference": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

_MAX_DEPTH: Final = 16
"""Deeper than any useful schema. Stops the recursion in a schema that refers to itself."""

Schema = Mapping[str, Any]


def echo_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer with the call itself, as the conformance suite's fixture contract requires."""
    call = {"name": tool.name, "arguments": dict(arguments)}
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(call, ensure_ascii=False))],
        structured_content=None if tool.output_schema is None else call,
    )


def canned_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer a call with an example value for the output schema, and say that it is one.

    If the input schema does not allow the arguments, the result has `is_error` and lists at most five problems.
    """

    def said(text: str, value: Any = None, *, is_error: bool = False) -> CallToolResult:
        content = [TextContent(type="text", text=text)]
        return CallToolResult(content=[*content], structured_content=value, is_error=is_error)

    if wrong := _complaints(tool.input_schema, arguments):
        lines = "\n".join(f"- {line}" for line in wrong)
        return said(f"Invalid arguments for {tool.name}:\n{lines}", is_error=True)
    text = f"Canned answer: this catalog server did not run {tool.name}."
    if tool.output_schema is None:
        return said(text)
    value = example_value(tool.output_schema)
    if wrong := _complaints(tool.output_schema, value):
        return said(f"No canned answer for {tool.name} satisfies its own output schema: {wrong[0]}", is_error=True)
    return said(f"{text}\n{json.dumps(value, ensure_ascii=False)}", value)


def _complaints(schema: dict[str, Any], value: Any) -> list[str]:
    # Imported here: this takes as long as importing all of this program's modules, and startup does not need it.
    from jsonschema import SchemaError
    from jsonschema.protocols import Validator
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        kind = validator_for(schema)
        kind.check_schema(schema)
        # Empty, so that references in a catalog file are never fetched.
        validator: Validator = kind(schema, registry=Registry())
        errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except (SchemaError, Unresolvable, RecursionError) as error:
        return [f"this tool's schema cannot be used: {error}"]
    places = [".".join(map(str, error.absolute_path)) or "arguments" for error in errors]
    return [f"{where}: {error.message}" for where, error in zip(places, errors, strict=True)][:_MAX_COMPLAINTS]


def example_value(schema: Schema) -> Any:
    """Return a value for `schema`: one that it contains (`const`, `default`, `examples`, `enum`), or else the smallest.

    Objects have only required members. Local references are followed. The value is a guess if the schema uses `not`, or
    has a `pattern` without an example. Validate it if that matters.
    """
    return _value(schema, schema, 0)


def _value(part: Any, root: Schema, depth: int) -> Any:
    if not isinstance(part, Mapping) or depth > _MAX_DEPTH:
        return None
    schema = _flattened(cast("Schema", part), root, depth)
    for stated in ("const", "default"):
        if stated in schema:
            return schema[stated]
    for stated in ("examples", "enum"):
        if isinstance(schema.get(stated), list) and schema[stated]:
            return schema[stated][0]
    kind = schema.get("type", "object" if "properties" in schema or "required" in schema else None)
    if isinstance(kind, list):  # an alternative other than null says more about the tool
        kind = next((named for named in cast("list[Any]", kind) if named != "null"), "null")
    return _smallest(kind, schema, root, depth)


def _smallest(kind: Any, schema: Schema, root: Schema, depth: int) -> Any:
    match kind:
        case "object":
            properties: Schema = schema.get("properties", {})
            return {name: _value(properties.get(name, {}), root, depth + 1) for name in schema.get("required", [])}
        case "array":
            leading, others = schema.get("prefixItems", []), schema.get("items", {})
            items = [leading[i] if i < len(leading) else others for i in range(schema.get("minItems", 0))]
            return [_value(item, root, depth + 1) for item in items]
        case "string":
            text = _FORMATS.get(schema.get("format", ""), "example")
            return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), "x")
        case "integer" | "number":
            return _nearest_to_zero(schema, step=schema.get("multipleOf", 1 if kind == "integer" else 0))
        case "boolean":
            return False
        case _:
            return None


def _flattened(schema: Schema, root: Schema, depth: int) -> Schema:
    """Merge a reference, every branch of `allOf`, and the first of `anyOf` or `oneOf` into one schema."""
    branches: list[Any] = []
    if isinstance(reference := schema.get("$ref"), str):
        found: Any = root if reference.startswith("#") else None
        for step in reference.removeprefix("#").split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            found = cast("Schema", found).get(key) if isinstance(found, Mapping) else None
        branches.append(found)
    branches += [*schema.get("allOf", []), *schema.get("anyOf", [])[:1], *schema.get("oneOf", [])[:1]]
    if not branches or depth > _MAX_DEPTH:
        return schema
    merged: dict[str, Any] = {}
    for branch in [*branches, {k: v for k, v in schema.items() if k not in {"$ref", "allOf", "anyOf", "oneOf"}}]:
        if not isinstance(branch, Mapping):
            continue
        for keyword, value in _flattened(cast("Schema", branch), root, depth + 1).items():
            if keyword == "properties" and isinstance(merged.get(keyword), dict):
                merged[keyword] = merged[keyword] | value
            elif keyword == "required" and isinstance(merged.get(keyword), list):
                merged[keyword] = [*merged[keyword], *value]
            else:
                merged[keyword] = value
    return merged


def _nearest_to_zero(schema: Schema, *, step: float) -> float:
    inward = step or 0.5  # distance from an exclusive bound
    low = schema["exclusiveMinimum"] + inward if "exclusiveMinimum" in schema else schema.get("minimum", 0)
    high = schema["exclusiveMaximum"] - inward if "exclusiveMaximum" in schema else schema.get("maximum", 0)
    # The multiple of `step` closest to zero that is still within the bound.
    if low > 0:
        return -(-low // step) * step if step else low
    if high < 0:
        return high // step * step if step else high
    return 0
