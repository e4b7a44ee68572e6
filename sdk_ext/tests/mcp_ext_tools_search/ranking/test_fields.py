from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp_ext_tools_search.ranking.fields import DEEPEST_SCHEMA, MAX_SCHEMA_TEXTS, MEMBERS, fields
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool, ToolAnnotations


def _texts(tool: Tool, member: str) -> list[str]:
    return [text for field in fields(tool) if field.member == member for text in field.texts if text]


def _weighed(tool: Tool) -> dict[str, float]:
    return {text.strip(): field.weight for field in fields(tool) for text in field.texts}


def test_a_name_counts_more_than_a_sentence_and_a_sentence_more_than_the_rest(make_tool: Callable[..., Tool]):
    tool = make_tool("send_mail", "Send a message. Needs v1.2 of the relay. Slow.", title="Send mail")
    weighed = _weighed(tool)
    assert weighed["send_mail"] > weighed["Send mail"] == weighed["Send a message."]
    assert weighed["Send a message."] > weighed["Needs v1.2 of the relay. Slow."]


@pytest.mark.parametrize(
    ("description", "first"),
    [
        ("One\ntwo", "One\n"),
        ("读取文件。返回内容。", "读取文件。"),
        ("Reads example.com pages", "Reads example.com pages"),
        ("  Padded. Rest", "Padded."),
    ],
)
def test_the_first_sentence_stands_alone(make_tool: Callable[..., Tool], description: str, first: str):
    assert _texts(make_tool("x", description), "description")[0] == first


def test_parameters_are_read_wherever_they_are_nested(make_tool: Callable[..., Tool]):
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["metre", "foot", 3], "description": "Unit of length"},
            "points": {"type": "array", "items": {"properties": {"latitude": {"type": "number"}}}},
            "target": {"anyOf": [{"const": "everyone"}, {"allOf": [{"description": "A mailbox"}]}]},
        },
        "$defs": {"Colour": {"description": "Red or green"}},
        "additionalProperties": {"description": "Anything else"},
    }
    assert set(_texts(make_tool("x", schema=schema), "inputSchema")) == {
        "unit", "metre", "foot", "Unit of length", "points", "latitude", "target", "everyone", "A mailbox", "Colour",
        "Red or green", "Anything else",
    }  # fmt: skip


def test_labels_that_a_server_publishes_are_fields(make_tool: Callable[..., Tool]):
    published = {"group": "billing", "aliases": ["invoice_mailer", 7], "tags": ["finance"], "related": ["unsearched"]}
    assert _texts(make_tool("x", published=published), "_meta") == ["billing", "invoice_mailer", "finance"]


def test_a_category_counts_as_a_label_and_its_description_less(make_tool: Callable[..., Tool]):
    published = {"group": "git", "category": "history", "categoryDescription": "What has happened"}
    weighed = _weighed(make_tool("x", published=published))
    assert weighed["history"] == weighed["git"] > weighed["What has happened"] > 0


def test_the_tags_of_fastmcp_are_tags():
    meta = {EXTENSION_ID: {"tags": ["finance"]}, "fastmcp": {"tags": ["finance", "mail"]}, "_fastmcp": "no object"}
    tool = Tool(name="x", input_schema={"type": "object"}, _meta=meta)
    assert _texts(tool, "_meta") == ["finance", "mail"]


def test_the_annotated_title_stands_in_for_a_missing_one():
    annotations = ToolAnnotations(title="Old title")
    untitled = Tool(name="x", input_schema={"type": "object"}, annotations=annotations)
    assert _texts(untitled, "annotations") == ["Old title"]
    assert _texts(untitled.model_copy(update={"title": "New title"}), "annotations") == []


def _chain(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"innermost": {}}}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


_NOT_SCHEMAS: list[dict[str, Any]] = [
    {"properties": ["not", "an", "object"], "enum": "not a list", "description": {"not": "a text"}},
    {"properties": {"loop": {"$ref": "#"}}, "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"properties": {"a": None, "b": True, "c": 3, "d": "text"}, "items": False, "anyOf": [1, None, [[]]]},
    {"enum": list(range(100_000)), "properties": {"x": {"enum": [None, True, 1.5, {}]}}},
]
_NOT_LABELS: list[dict[str, Any]] = [{"group": 3, "tags": "text", "aliases": {"a": 1}}, {"tags": [None, []]}, {}]


@pytest.mark.parametrize("schema", _NOT_SCHEMAS)
def test_what_is_not_a_schema_is_passed_over(make_tool: Callable[..., Tool], schema: dict[str, Any]):
    assert {field.member for field in fields(make_tool("x", schema=schema))} <= set(MEMBERS)


@pytest.mark.parametrize("published", _NOT_LABELS)
def test_labels_of_a_wrong_type_are_passed_over(make_tool: Callable[..., Tool], published: dict[str, Any]):
    assert _texts(make_tool("x", published=published), "_meta") == []
    assert list(fields(Tool(name="x", input_schema={"type": "object"}, _meta={"other": 1})))


def test_depth_and_number_of_schema_texts_are_bounded(make_tool: Callable[..., Tool]):
    assert "innermost" in _texts(make_tool("x", schema=_chain(DEEPEST_SCHEMA - 1)), "inputSchema")
    assert _texts(make_tool("x", schema=_chain(5_000)), "inputSchema") == []
    wide: dict[str, Any] = {"properties": {f"p{number}": {} for number in range(50_000)}}
    assert len(_texts(make_tool("x", schema=wide), "inputSchema")) == MAX_SCHEMA_TEXTS
