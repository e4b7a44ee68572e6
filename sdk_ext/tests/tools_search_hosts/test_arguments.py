"""What is wrong with the arguments of a call, and that no schema of a hostile server holds anyone up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tools_search_hosts.arguments import complaints

OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "options": {"type": "object", "properties": {"depth": {"type": "integer", "maximum": 3}}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("dialect", [None, "http://json-schema.org/draft-07/schema#", "https://unheard.of/schema"])
def test_every_mistake_is_told_with_its_place(dialect: str | None) -> None:
    schema = OBJECT if dialect is None else OBJECT | {"$schema": dialect}
    assert complaints(schema, {"path": "a", "options": {"depth": 2}}) == []
    told = complaints(schema, {"options": {"depth": 9}, "pth": 1})
    assert sorted(line.partition(":")[0] for line in told) == ["arguments", "arguments", "options.depth"]
    assert any("'path' is a required property" in line for line in told)
    assert any("'pth' was unexpected" in line for line in told)


def test_few_mistakes_are_told_and_briefly() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    told = complaints(schema, {f"a{n}": "x" * 10_000 for n in range(50)})
    assert len(told) == 5
    assert all(len(line) < 700 for line in told)


DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
_DRAFT_04 = "http://json-schema.org/draft-04/schema#"
WIDE: dict[str, Any] = {"w": {"properties": {f"p{n}": {} for n in range(10_000)}}}

HOSTILE: dict[str, dict[str, Any]] = {
    "refers to itself": {"$ref": "#"},
    "doubles forty times": {"$defs": DOUBLING | {"d40": {}}, "$ref": "#/$defs/d0"},
    "is wide and often asked": {"$defs": WIDE, "allOf": [{"$ref": "#/$defs/w"}] * 10_000},
    "has a pattern that takes for ever": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "names members by one": {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    "hides another dialect": {"properties": {"a": {"$schema": _DRAFT_04, "pattern": "^b"}}},
    "hides another dialect in a list": {"allOf": [{"$schema": _DRAFT_04, "properties": {"a": {"pattern": "^b"}}}]},
    "is no schema": {"properties": 7, "required": 3, "type": {}},
    "has a pattern that is none": {"properties": {"a": {"pattern": "("}}},
    "refers to elsewhere": {"$ref": "https://example.com/schema.json"},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_schema_that_cannot_be_judged_refuses_nothing_and_comes_to_an_end(schema: dict[str, Any]) -> None:
    began = time.process_time()
    assert complaints(schema, {"a": "a" * 40 + "!", "a" * 40 + "!": 1}) == []
    assert time.process_time() - began < 20  # without a bound it would be years
