"""The bundled catalog is fit for any client of either protocol era, and varied enough to be worth searching."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import combinations
from typing import Any, Final, cast

import pytest
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_ext_tools_search import EXTENSION_ID
from mcp_types import Tool
from mcp_types.methods import serialize_server_result

Json = dict[str, Any]

ERAS: Final[Mapping[str, Json]] = {
    "2025-11-25": {},
    "2026-07-28": {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"},
}
"""What `tools/list` carries besides the tools, by protocol revision."""

IDENTIFIER_HOSTS: Final = {"json-schema.org", "www.w3.org"}
"""Hosts in the names of a schema dialect and an XML namespace, which nobody fetches."""


def _read_themes() -> dict[str, list[Json]]:
    folder = resources.files("tools_search_server.catalog") / "data"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return {file.name: json.loads(file.read_text(encoding="utf-8"))["tools"] for file in files}


THEMES: Final = _read_themes()
TOOLS: Final = [tool for tools in THEMES.values() for tool in tools]


def _published(tool: Json) -> Json:
    return tool["_meta"][EXTENSION_ID]


def _schemas(tool: Json) -> list[Json]:
    return [tool[member] for member in ("inputSchema", "outputSchema") if member in tool]


def _objects(value: Any) -> Iterator[Json]:
    """Every JSON object within a value, outermost first."""
    if isinstance(value, dict):
        found = cast("Json", value)
        yield found
        for inner in found.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _objects(inner)


def _resolves(root: Json, reference: str) -> bool:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(found, dict) or step not in found:
            return False
        found = cast("Json", found)[step]
    return reference.startswith("#/")


def _validator(schema: Json) -> Validator:
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def _complaints(schema: Json, value: Any) -> list[str]:
    return [error.message for error in _validator(schema).iter_errors(value)]


def test_there_are_many_tools_over_many_themes():
    assert len(TOOLS) >= 220
    assert len(THEMES) >= 16
    assert min(map(len, THEMES.values())) >= 5


def test_names_are_unique_and_valid_for_model_providers():
    assert [name for name, count in Counter(tool["name"] for tool in TOOLS).items() if count > 1] == []
    assert [tool["name"] for tool in TOOLS if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", tool["name"])] == []


def test_dots_stay_within_one_theme():
    dotted = {theme for theme, tools in THEMES.items() for tool in tools if "." in tool["name"]}
    assert len(dotted) == 1


@pytest.mark.parametrize("version", ERAS)
def test_either_era_lists_every_definition_unchanged(version: str):
    listed = serialize_server_result("tools/list", version, {"tools": TOOLS, **ERAS[version]})
    assert listed["tools"] == TOOLS


def test_the_sdk_reads_every_definition_without_loss():
    read = [Tool.model_validate(tool, by_name=False) for tool in TOOLS]
    assert [tool.model_dump(mode="json", by_alias=True, exclude_unset=True) for tool in read] == TOOLS


def test_every_schema_is_json_schema_for_an_object():
    for tool in TOOLS:
        for schema in _schemas(tool):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object", tool["name"]


def test_references_stay_within_their_schema():
    lost = [
        (tool["name"], part["$ref"])
        for tool in TOOLS
        for schema in _schemas(tool)
        for part in _objects(schema)
        if "$ref" in part and not _resolves(schema, part["$ref"])
    ]
    assert lost == []


def test_required_members_are_described_as_properties():
    unknown = [
        (tool["name"], name)
        for tool in TOOLS
        for schema in _schemas(tool)
        for part in _objects(schema)
        if isinstance(part.get("properties"), dict) and isinstance(part.get("required"), list)
        for name in part["required"]
        if name not in part["properties"]
    ]
    assert unknown == []


def test_defaults_and_examples_satisfy_their_own_schemas():
    wrong = [
        (tool["name"], complaint)
        for tool in TOOLS
        for schema in _schemas(tool)
        for part in _objects(schema)
        if isinstance(part.get("type"), str)
        for value in [*([part["default"]] if "default" in part else []), *part.get("examples", [])]
        for complaint in _complaints(part | {"$defs": schema.get("$defs", {})}, value)
    ]
    assert wrong == []


def test_header_annotations_are_valid_and_on_top_level_parameters():
    assert [tool["name"] for tool in TOOLS if find_invalid_x_mcp_header(tool["inputSchema"])] == []
    places = [place for tool in TOOLS for place in x_mcp_header_map(tool["inputSchema"])]
    assert len(places) >= 3
    assert {len(place) for place in places} == {1}


def test_every_tool_says_what_it_does_and_how_it_acts():
    assert [tool["name"] for tool in TOOLS if not tool.get("description", "").strip()] == []
    for tool in TOOLS:
        hints = tool["annotations"]
        writing = {"destructiveHint", "idempotentHint"} & hints.keys()
        assert len(writing) == (0 if hints["readOnlyHint"] else 2), tool["name"]


def test_no_two_descriptions_are_near_copies():
    words = {tool["name"]: set(re.findall(r"\w+", tool["description"].lower())) for tool in TOOLS}
    copies = [
        (one, other)
        for (one, its), (other, theirs) in combinations(words.items(), 2)
        if len(its & theirs) > 0.6 * max(len(its), len(theirs))
    ]
    assert copies == []


def test_definitions_are_as_uneven_as_those_of_real_servers():
    lengths = [len(tool["description"]) for tool in TOOLS]
    assert min(lengths) < 20
    assert max(lengths) > 900
    assert 3 * sum("outputSchema" in tool for tool in TOOLS) >= len(TOOLS)
    assert 0 < sum("title" not in tool for tool in TOOLS) < len(TOOLS) / 5
    assert any("icons" in tool for tool in TOOLS)
    assert any(not tool["description"].isascii() for tool in TOOLS)


def test_search_metadata_is_complete_and_leads_somewhere():
    names = {tool["name"] for tool in TOOLS}
    assert [theme for theme, tools in THEMES.items() if len({_published(tool)["group"] for tool in tools}) != 1] == []
    assert len({_published(tool)["group"] for tool in TOOLS}) == len(THEMES)
    related = [(tool["name"], other) for tool in TOOLS for other in _published(tool).get("related", [])]
    assert [(one, other) for one, other in related if other["name"] not in names - {one}] == []
    assert {other["relation"] for _, other in related} == {"explicit"}
    for member in ("tags", "aliases", "related", "examples"):
        assert any(member in _published(tool) for tool in TOOLS), member


def test_example_calls_satisfy_the_input_schema():
    wrong = [
        (tool["name"], example["title"], complaint)
        for tool in TOOLS
        for example in _published(tool).get("examples", [])
        for complaint in _complaints(tool["inputSchema"], example["arguments"])
    ]
    assert wrong == []


def test_icons_are_small_images_carried_within_the_definition():
    for icon in {icon["src"]: icon for tool in TOOLS for icon in tool.get("icons", [])}.values():
        image = base64.b64decode(icon["src"].removeprefix("data:image/svg+xml;base64,"), validate=True)
        assert icon["mimeType"] == "image/svg+xml"
        assert len(image) < 1000
        parts = [part.tag.rpartition("}")[2] for part in ElementTree.fromstring(image).iter()]  # noqa: S314 - our own
        assert parts[0] == "svg"
        assert set(parts) <= {"svg", "circle", "ellipse", "path", "rect"}


def test_nothing_points_at_a_remote_host_except_example_com():
    hosts = set(re.findall(r"[a-z][a-z0-9+]*://([^/\"\s`\\]+)", json.dumps(TOOLS)))
    assert {
        host for host in hosts - IDENTIFIER_HOSTS if not re.fullmatch(r"([a-z0-9-]+\.)*example\.com", host)
    } == set()
