"""Schemas of tools in the dialects of providers, and their arguments back."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tools_search_client.providers.gemini import KEYWORDS
from tools_search_client.providers.schemas import adapted

OBJECT: dict[str, Any] = {"type": "object"}
odd_names = st.one_of(st.text(), st.sampled_from(("a b", "a_b", "a.b", "search_tools", "a_b_5d5c3b32d9a7", "9lives")))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)
keywords = st.sampled_from(
    (
        "type",
        "properties",
        "required",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "$ref",
        "$defs",
        "items",
        "enum",
        "const",
        "$id",
    )
)


@given(st.lists(odd_names, max_size=6, unique=True), st.booleans())
def test_every_argument_is_valid_and_leads_back_to_its_original(stated: list[str], is_plain: bool):
    root = OBJECT | {"properties": {name: {"type": "string"} for name in stated}, "required": stated}
    schema, renamed = adapted(root, plain_names=is_plain)
    sent = list(schema["properties"])
    pattern = r"[A-Za-z_][A-Za-z0-9_]{0,63}" if is_plain else r"[A-Za-z0-9_.-]{1,64}"
    assert all(re.fullmatch(pattern, name) for name in sent)
    assert schema.get("required", []) == sent
    assert [name.encode("utf-8", "replace").decode() for name in stated] == [renamed.get(name, name) for name in sent]


@given(st.dictionaries(keywords, json_values, max_size=5), st.booleans())
def test_any_json_in_place_of_a_schema_becomes_one_that_providers_accept(stated: dict[str, Any], is_narrow: bool):
    schema, _ = adapted(stated, keywords=KEYWORDS if is_narrow else None)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not {"oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref", "$id"} & set(schema)


REWRITTEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"type": "object", "properties": {}}),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/b"}}}, "b": {"type": "null"}}},
        {"properties": {"x": {"$ref": "#/$defs/b"}}, "type": "object"},
    ),
    (
        {"allOf": [{"properties": {"x": {}}, "required": ["x"]}, {"properties": {"y": True}}]},
        {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]},
    ),
    (
        {"properties": {"x": {"$ref": "http://elsewhere"}, "y": {"$ref": "#/$defs/none", "title": "Y"}}},
        {"properties": {"x": {}, "y": {"title": "Y"}}, "type": "object"},
    ),
    (
        {"properties": {"$id": {"$id": "x", "type": "string"}}},
        {"properties": {"_id": {"type": "string"}}, "type": "object"},
    ),
    (
        {"properties": {"x": {"description": "of old", "exclusiveMinimum": True, "minimum": 1}}},
        {"type": "object", "properties": {"x": {"description": "of old"}}},
    ),
]


@pytest.mark.parametrize(("stated", "sent"), REWRITTEN)
def test_schemas_that_providers_refuse_are_rewritten(stated: dict[str, Any], sent: dict[str, Any]):
    schema, _ = adapted(stated)
    assert {key: value for key, value in schema.items() if key not in ("$defs", "description")} == sent


def test_alternatives_at_the_root_are_described_in_words():
    root: dict[str, Any] = OBJECT | {
        "properties": {"x": {}, "y": {}},
        "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
    }
    assert adapted(root)[0]["description"] == (
        'The arguments together must also satisfy oneOf: [{"required":["x"]},{"required":["y"]}]'
    )


def test_keywords_that_a_narrow_dialect_lacks_are_described_in_words():
    property_ = {"type": "string", "pattern": "^a", "description": "A word."}
    root = OBJECT | {"properties": {"x": property_, "y": {"const": 5}, "z": {"enum": [True]}}}
    assert adapted(root, keywords=KEYWORDS)[0]["properties"] == {
        "x": {"type": "string", "description": 'A word. (pattern: "^a")'},
        "y": {"enum": [5]},
        "z": {},
    }


MIXED = [number if number % 2 else str(number) for number in range(8_000)]
COSTLY: dict[str, dict[str, Any]] = {
    "many schemas": {"a": {"anyOf": [{}] * 30_000}},
    "types of several types": {"a": {"type": MIXED}},
    "names of several types": {"a": {"required": MIXED}},
    "dependencies of several types": {"a": {"dependencies": {"b": MIXED}}},
    "names that are alike": {chr(0x4E00 + number): {} for number in range(10_000)},
}


@pytest.mark.parametrize("costly", COSTLY)
@pytest.mark.parametrize("narrow", [False, True])
def test_no_schema_keeps_a_host_waiting(costly: str, narrow: bool):
    began = process_time()
    schema, _ = adapted(OBJECT | {"properties": COSTLY[costly]}, keywords=KEYWORDS if narrow else None)
    assert process_time() - began < 2
    assert len(schema["properties"]) == len(COSTLY[costly])


def test_names_that_a_list_repeats_are_sent_once():
    inner = {"type": ["string", "null", "string"], "required": ["x", 1, "x"], "dependentRequired": {"x": ["y", "y"]}}
    assert adapted(OBJECT | {"properties": {"a": inner}})[0]["properties"]["a"] == {
        "type": ["string", "null"],
        "required": ["x"],
        "dependentRequired": {"x": ["y"]},
    }
