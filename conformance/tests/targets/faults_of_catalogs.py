"""Faults that show on catalogs nobody would write by hand: odd ones, and vast ones."""

from __future__ import annotations

import json
import re
import struct
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from .faults import SEARCH, Fault, Json, member, without, wrong_items


def _wrong_schema(change: Callable[[Json], Json]) -> type[Fault]:
    """Return the fault that changes every object inside the input schemas of found tools."""

    def through(value: Any) -> Any:
        if isinstance(value, list):
            return [through(item) for item in value]  # pyright: ignore[reportUnknownVariableType] - JSON
        if isinstance(value, dict):
            return change({key: through(held) for key, held in value.items()})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
        return value

    return wrong_items(lambda tool: {**tool, "inputSchema": through(tool["inputSchema"])})


reference_siblings_left_out = _wrong_schema(lambda schema: {"$ref": schema["$ref"]} if "$ref" in schema else schema)
nested_unknown_members_left_out = _wrong_schema(
    lambda schema: {k: v for k, v in schema.items() if k[:2] != "x-" or k == "x-mcp-header"},
)
prototype_names_left_out = _wrong_schema(
    lambda schema: without(schema, "__proto__", "constructor", "toString"),
)
numbers_of_32_bits = _wrong_schema(
    lambda schema: {k: v % 2**32 if type(v) is int else v for k, v in schema.items()},
)
conditions_left_out = _wrong_schema(lambda schema: without(schema, "if", "then", "else"))
constants_that_are_falsy_left_out = _wrong_schema(
    lambda schema: {name: value for name, value in schema.items() if name != "const" or value}
)
alternatives_as_any_of = _wrong_schema(
    lambda schema: {"anyOf" if name == "oneOf" else name: value for name, value in schema.items()}
)
numbered_members_as_lists = _wrong_schema(
    lambda schema: list(schema.values()) if schema and [*schema] == [str(n) for n in range(len(schema))] else schema  # pyright: ignore[reportArgumentType] - wrong on purpose
)
fractions_of_single_precision = _wrong_schema(
    lambda schema: {
        name: struct.unpack("f", struct.pack("f", value))[0] if isinstance(value, float) else value
        for name, value in schema.items()
    }
)
texts_read_as_values = _wrong_schema(
    lambda schema: {
        name: [True if each == "true" else each for each in value] if name == "enum" else value
        for name, value in schema.items()
    }
)
long_enumerations_cut = _wrong_schema(lambda schema: {k: v[:100] if k == "enum" else v for k, v in schema.items()})
unknown_annotations_left_out = wrong_items(
    lambda tool: (
        {**tool, "annotations": without(tool["annotations"], "com.example/unknown")} if "annotations" in tool else tool
    )
)
empty_icons_left_out = wrong_items(lambda tool: tool if tool.get("icons") != [] else without(tool, "icons"))
icons_normalized = wrong_items(
    lambda tool: (
        {**tool, "icons": [{**icon, "src": urlsplit(str(icon["src"])).geturl()} for icon in tool["icons"]]}
        if "icons" in tool
        else tool
    )
)
reserved_metadata_left_out = wrong_items(
    lambda tool: (
        {**tool, "_meta": {k: v for k, v in tool["_meta"].items() if not k.startswith("io.modelcontextprotocol/")}}
        if "_meta" in tool
        else tool
    )
)
execution_left_out = wrong_items(lambda tool: without(tool, "execution"))
dialects_of_results_left_out = wrong_items(
    lambda tool: {**tool, "outputSchema": without(tool["outputSchema"], "$schema")} if "outputSchema" in tool else tool
)
true_schemas_opened = _wrong_schema(
    lambda schema: {name: {} if name == "any" and value is True else value for name, value in schema.items()}
)
names_composed = _wrong_schema(lambda schema: {unicodedata.normalize("NFC", k): v for k, v in schema.items()})


def _descriptions_without(pattern: str) -> type[Fault]:
    """Return the fault that leaves out what matches a pattern in descriptions."""
    return wrong_items(
        lambda tool: (
            {**tool, "description": re.sub(pattern, "", tool["description"])} if "description" in tool else tool
        )
    )


marks_left_out = _descriptions_without("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
placeholders_left_out = _descriptions_without(r"[$]?\{+x\}+")
empty_lines_left_out = _descriptions_without("\n(?=\n)")
emphasis_left_out = _descriptions_without(r"\*\*")
typographic_marks_left_out = _descriptions_without("[\u201c\u201d\u2026]")
variation_selectors_left_out = _descriptions_without("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
private_use_characters_left_out = _descriptions_without("[\ue000-\uf8ff]")
noncharacters_left_out = _descriptions_without("[\ufdd0-\ufdef\uffff]")
c1_controls_left_out = _descriptions_without("[\u0080-\u009f]")


def _cut(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {key: _cut(held, levels - 1) for key, held in value.items()} if levels else {}  # pyright: ignore[reportUnknownVariableType] - JSON
    return value


deep_schemas_cut = wrong_items(lambda tool: {**tool, "inputSchema": _cut(tool["inputSchema"], 12)})


class _Forgetful(Fault, ABC):
    """Never finds some of the tools that it listed."""

    def __init__(self) -> None:
        self.listed: dict[str, None] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        tools: list[Json] = member(outcome, "result").get("tools", [])
        if method == "tools/list":
            self.listed.update(dict.fromkeys(tool["name"] for tool in tools))
        elif method == SEARCH and "result" in outcome:
            kept = self.kept(list(self.listed))
            outcome["result"]["tools"] = [tool for tool in tools if tool["name"] in kept or not self.listed]
        return outcome

    @abstractmethod
    def kept(self, listed: list[str]) -> set[str]: ...


class NamesFolded(_Forgetful):
    """Takes names that differ only by their case for one."""

    def kept(self, listed: list[str]) -> set[str]:
        return set({name.lower(): name for name in reversed(listed)}.values())


class IndexOfAThousand(_Forgetful):
    """Finds among the first thousand tools only."""

    def kept(self, listed: list[str]) -> set[str]:
        return set(listed[:1000])


class ComposedEverywhere(Fault):
    """Serves other schemas than the catalog file has, the same ones in listings and searches."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        for tool in member(outcome, "result").get("tools", []):
            tool["inputSchema"] = json.loads(
                unicodedata.normalize("NFC", json.dumps(tool["inputSchema"], ensure_ascii=False))
            )
        return outcome
