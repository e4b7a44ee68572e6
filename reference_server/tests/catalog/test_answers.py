"""Canned answers: made up, said to be so, and valid for the tool's own schemas."""

from __future__ import annotations

from typing import Any

import pytest
from clients import text_of
from jsonschema import Draft202012Validator
from mcp_types import Tool
from tools_search_server.catalog.answers import canned_answer, echo_answer, example_value
from tools_search_server.catalog.catalog_file import bundled_catalog

BUNDLED = bundled_catalog().tools


def made(**schemas: Any) -> Tool:
    return Tool(name="t", input_schema={"type": "object"} | schemas.pop("input", {}), **schemas)


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    validator: Any = Draft202012Validator(schema)
    return validator.is_valid(value)


def test_every_bundled_output_schema_has_an_example() -> None:
    schemas = {tool.name: tool.output_schema for tool in BUNDLED if tool.output_schema is not None}
    assert {name for name, schema in schemas.items() if not is_valid(schema, example_value(schema))} == set()


def test_bundled_tools_answer_as_their_output_schema_says() -> None:
    called = [tool for tool in BUNDLED if is_valid(tool.input_schema, example_value(tool.input_schema))]
    for tool in called:
        result = canned_answer(tool, example_value(tool.input_schema))
        assert text_of(result).startswith("Canned answer"), tool.name
        assert (result.structured_content is None) == (tool.output_schema is None)
    assert len(called) > 100


def test_bad_arguments_are_a_result_that_names_each_place() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}}, "required": ["c"]}
    result = canned_answer(made(input=schema), {"a": "x", "b": ["y", 1]})
    assert result.is_error
    assert [line.split(":")[0] for line in text_of(result).splitlines()[1:]] == ["- arguments", "- a", "- b.1"]


def test_a_schema_that_refers_outside_is_not_followed() -> None:
    result = canned_answer(made(input={"properties": {"a": {"$ref": "https://example.com/s"}}}), {"a": 1})
    assert result.is_error
    assert "cannot be used" in text_of(result)


@pytest.mark.parametrize("endless", [{"type": "object", "$ref": "#"}, {"allOf": [{"$ref": "#"}]}])
def test_a_schema_that_cannot_be_followed_to_its_end_is_said_to_be_unusable(endless: dict[str, Any]) -> None:
    result = canned_answer(made(input=endless), {})
    assert result.is_error
    assert "cannot be used" in text_of(result)


def test_an_output_schema_that_nothing_simple_satisfies_is_an_honest_failure() -> None:
    result = canned_answer(made(output_schema={"type": "string", "pattern": "^[0-9]{7}$"}), {})
    assert result.is_error
    assert result.structured_content is None


def test_the_fixture_answers_with_the_call_itself() -> None:
    result = echo_answer(made(output_schema={"type": "object"}), {"é": 1})
    assert text_of(result) == '{"name": "t", "arguments": {"é": 1}}'
    assert result.structured_content == {"name": "t", "arguments": {"é": 1}}
    assert echo_answer(made(), {}).structured_content is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, None),
        ({"type": "null"}, None),
        ({"type": "boolean"}, False),
        ({"const": 7, "examples": [8]}, 7),
        ({"type": "string", "default": "d", "enum": ["e"]}, "d"),
        ({"enum": ["e", "f"]}, "e"),
        ({"type": "string", "examples": ["x"]}, "x"),
        ({"type": ["null", "integer"]}, 0),
        ({"type": ["null"]}, None),
        ({"type": "string", "format": "date"}, "2026-01-01"),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "maxLength": 3}, "exa"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "integer", "minimum": 3, "multipleOf": 5}, 5),
        ({"type": "integer", "exclusiveMaximum": -5, "multipleOf": 5}, -10),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, 0.5),
        ({"type": "number", "exclusiveMaximum": 0}, -0.5),
        ({"type": "number", "minimum": 1.5}, 1.5),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 2}, [1, 2]),
        ({"properties": {"a": {"const": 1}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, 1),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
                    {"properties": {"b": {"const": 2}}, "required": ["b"]}]}, {"a": 1, "b": 2}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 3}}}, 3),
        ({"$ref": "#/$defs/none"}, None),
        ({"$ref": "https://example.com/"}, None),
        ({"allOf": [True]}, None),
    ],
)  # fmt: skip
def test_an_example_is_the_smallest_thing_a_schema_wants(schema: dict[str, Any], value: Any) -> None:
    assert example_value(schema) == value


def test_a_schema_without_end_has_an_example_with_one() -> None:
    schema = {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert "None" in str(example_value(schema))
    assert example_value({"$ref": "#"}) is None
