"""Answers of tools that do nothing: they say so, and are valid for the tools' own schemas.

`example_value` makes a small value for a JSON Schema of the kind that tools have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from jsonschema import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from mcp_types import CallToolResult, TextContent, Tool
from referencing import Registry
from referencing.exceptions import Unresolvable

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
"""Deeper than any useful schema; a schema that refers to itself ends here."""

Schema = Mapping[str, Any]


def echo_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer with the call itself, as the fixture contract of the conformance suite says."""
    call = {"name": tool.name, "arguments": dict(arguments)}
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(call, ensure_ascii=False))],
        structured_content=None if tool.output_schema is None else call,
    )


def canned_answer(tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
    """Answer a call with an example value for the output schema, and say that it is one.

    Arguments that the input schema does not allow get a result with `is_error` that names each wrong place.
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
        kind = validator_for(schema)
        kind.check_schema(schema)
        # An empty registry: references in a catalog file are never fetched.
        validator: Validator = kind(schema, registry=Registry())
        errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except (SchemaError, Unresolvable) as error:
        return [f"the schema of this tool cannot be used: {error}"]
    place = [".".join(map(str, error.absolute_path)) or "arguments" for error in errors]
    return [f"{where}: {error.message}" for where, error in list(zip(place, errors, strict=True))[:_MAX_COMPLAINTS]]


def example_value(schema: Schema) -> Any:
    """Return a value for `schema`: one that it states (`const`, `default`, `examples`, `enum`), else the smallest.

    It has only required members. Local references are followed. The value is a guess where the schema negates, or has a
    `pattern` without an example; validate it where that matters.
    """
    return _value(schema, schema, 0)


def _value(schema: Any, root: Schema, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    schema = _flattened(cast("Schema", schema), root, depth)
    for stated in ("const", "default"):
        if stated in schema:
            return schema[stated]
    for stated in (schema.get("examples"), schema.get("enum")):
        if isinstance(stated, list) and stated:
            return cast("list[Any]", stated)[0]
    return _smallest(schema, root, depth)


def _smallest(schema: Schema, root: Schema, depth: int) -> Any:
    match _type(schema):
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "string":
            return _string(schema)
        case "integer" | "number" as kind:
            return _number(schema, step=schema.get("multipleOf", 1 if kind == "integer" else 0))
        case "boolean":
            return False
        case _:
            return None


def _flattened(schema: Schema, root: Schema, depth: int) -> Schema:
    """Fold a reference, every branch of `allOf` and the first of `anyOf` or `oneOf` into one schema."""
    branches: list[Any] = []
    if isinstance(reference := schema.get("$ref"), str):
        branches.append(_resolved(reference, root))
    branches += schema.get("allOf", [])
    for choice in ("anyOf", "oneOf"):
        branches += schema.get(choice, [])[:1]
    if not branches or depth > _MAX_DEPTH:
        return schema
    merged: dict[str, Any] = {}
    for branch in [*branches, {k: v for k, v in schema.items() if k not in {"$ref", "allOf", "anyOf", "oneOf"}}]:
        if isinstance(branch, Mapping):
            _merge(merged, _flattened(cast("Schema", branch), root, depth + 1))
    return merged


def _merge(into: dict[str, Any], schema: Schema) -> None:
    for keyword, value in schema.items():
        if keyword == "properties" and isinstance(into.get(keyword), dict):
            into[keyword] = into[keyword] | value
        elif keyword == "required" and isinstance(into.get(keyword), list):
            into[keyword] = [*into[keyword], *value]
        else:
            into[keyword] = value


def _resolved(reference: str, root: Schema) -> Any:
    found: Any = root if reference.startswith("#") else None
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = cast("Schema", found).get(key) if isinstance(found, Mapping) else None
    return found


def _type(schema: Schema) -> str | None:
    stated = schema.get("type")
    if isinstance(stated, list):
        kinds = cast("list[Any]", stated)
        return next((kind for kind in kinds if kind != "null"), "null")
    if isinstance(stated, str):
        return stated
    return "object" if "properties" in schema or "required" in schema else None


def _object(schema: Schema, root: Schema, depth: int) -> dict[str, Any]:
    properties: Schema = schema.get("properties", {})
    required: Sequence[str] = schema.get("required", [])
    return {name: _value(properties.get(name, {}), root, depth + 1) for name in required}


def _array(schema: Schema, root: Schema, depth: int) -> list[Any]:
    leading: Sequence[Any] = schema.get("prefixItems", [])
    count = schema.get("minItems", 0)
    kinds = [leading[i] if i < len(leading) else schema.get("items", {}) for i in range(count)]
    return [_value(kind, root, depth + 1) for kind in kinds]


def _string(schema: Schema) -> str:
    text = _FORMATS.get(schema.get("format", ""), "example")
    longest = schema.get("maxLength", len(text))
    return text[:longest].ljust(schema.get("minLength", 0), "x")


def _number(schema: Schema, *, step: float) -> float:
    """Return zero if that is allowed, else the number nearest to it."""
    low = _bound(schema, "minimum", "exclusiveMinimum", step)
    high = _bound(schema, "maximum", "exclusiveMaximum", step)
    if low is not None and low > 0:
        return -(-low // step) * step if step else low
    if high is not None and high < 0:
        return high // step * step if step else high
    return 0


def _bound(schema: Schema, inclusive: str, exclusive: str, step: float) -> float | None:
    """Return the bound itself, or a number just within an exclusive one."""
    if exclusive not in schema:
        return schema.get(inclusive)
    inward = (step or 0.5) * (1 if exclusive == "exclusiveMinimum" else -1)
    return schema[exclusive] + inward
