"""The example files are what their folders say, and the draft shows no other JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from sentences import fences
from tools_search_spec import EXTENSION_ID, METHOD, PRIMITIVES, Example, Primitive, examples, schema
from tools_search_spec.typescript import declared_names

Accepts = Callable[[str, object], bool]


def label(example: Example) -> str:
    return f"{example.type}-{'valid' if example.valid else 'invalid'}-{example.name}"


@pytest.mark.parametrize("example", examples(), ids=label)
def test_an_example_validates_exactly_when_its_folder_says_so(example: Example, accepts: Accepts):
    assert accepts(example.type, example.value) == example.valid


def test_every_shape_of_the_extension_has_valid_and_invalid_examples():
    shown = {(example.type, example.valid) for example in examples()}
    assert not [(name, valid) for name in declared_names() for valid in (True, False) if (name, valid) not in shown]


def test_every_file_below_examples_is_an_example_with_a_kebab_name(spec_folder: Path):
    files = [path for path in (spec_folder / "tools_search_spec" / "examples").rglob("*") if path.is_file()]
    assert len(files) == len(examples())
    assert not [path for path in files if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.json", path.name)]
    assert {path.parent.name for path in files} == {"valid", "invalid"}


def test_every_json_block_of_the_draft_is_the_text_of_a_valid_example_file(pages: dict[str, str], spec_folder: Path):
    folder = spec_folder / "tools_search_spec" / "examples"
    known = {path.read_text(encoding="utf-8") for path in folder.glob("*/valid/*.json")}
    for page, text in pages.items():
        blocks = [fence for fence in fences(text) if fence.language == "json"]
        assert len(blocks) >= 4
        assert not [f"draft/{page}:{fence.line}" for fence in blocks if fence.text not in known]


def test_every_part_of_a_message_that_the_draft_shows_holds_the_value_of_a_valid_example_file(pages: dict[str, str]):
    known = [example.value for example in examples() if example.valid]
    for page, text in pages.items():
        parts = [fence for fence in fences(text) if fence.language == "jsonc"]
        held = {fence.line: [*without_comments(fence.text).values()] for fence in parts}
        assert parts
        assert not [f"draft/{page}:{line}" for line, values in held.items() if not all(v in known for v in values)]


def without_comments(text: str) -> dict[str, object]:
    return json.loads("".join(line for line in text.splitlines() if not line.startswith("//")))


@pytest.mark.parametrize(("member", "mended"), [("query", "invoice"), ("limit", 3), ("cursor", "c")])
def test_every_refusal_of_a_parameter_is_due_to_that_parameter_alone(member: str, mended: object, accepts: Accepts):
    refused = [example for example in examples() if not example.valid and example.name.startswith(f"{member}-")]
    refused = [example for example in refused if example.type == "SearchToolsRequestParams"]
    assert f"{member}-null" in {example.name for example in refused}
    assert all(accepts(example.type, {**example.value, member: mended}) for example in refused)


def test_the_schema_is_a_valid_schema_of_2020_12():
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_schema_refers_to_nothing_outside_of_itself():
    references = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema())))
    assert references <= {f"#/$defs/{name}" for name in schema()["$defs"]}


def test_the_schema_is_returned_afresh_so_that_no_caller_changes_it_for_another():
    schema()["$defs"].clear()
    assert schema()["$defs"]


def test_the_schema_knows_the_method_and_the_identifier():
    definitions = schema()["$defs"]
    assert definitions["SearchToolsRequest"]["properties"]["method"] == {"const": METHOD}
    assert list(definitions["DeclaringClientCapabilities"]["properties"]["extensions"]["properties"]) == [EXTENSION_ID]


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.method)
def test_the_schema_knows_each_method_by_its_member_and_its_items(primitive: Primitive):
    definitions = schema()["$defs"]
    name = f"Search{primitive.items}s"
    assert definitions[f"{name}Request"]["properties"]["method"] == {"const": primitive.method}
    assert definitions[f"{name}Request"]["properties"]["params"] == {"$ref": "#/$defs/SearchToolsRequestParams"}
    for result in (f"{name}Result", f"Legacy{name}Result"):
        items = definitions[result]["properties"][primitive.member]["items"]["$ref"].removeprefix("#/$defs/")
        assert items.removeprefix("Legacy") == primitive.items
        assert primitive.key in definitions[primitive.items]["required"]


def test_the_schema_calls_blank_what_consists_of_unicode_white_space_only():
    """The set is that of the Unicode property White_Space, which `str.isspace` exceeds by four separators."""
    pattern = schema()["$defs"]["SearchToolsRequestParams"]["properties"]["query"]["pattern"]
    scalar_values = set(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    separators = set(map(chr, range(0x1C, 0x20)))
    refused = {character for character in scalar_values if not re.search(pattern, character)}
    assert refused == {character for character in scalar_values if character.isspace()} - separators
