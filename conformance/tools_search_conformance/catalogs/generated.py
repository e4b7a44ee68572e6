"""Generated catalogs: odd, vast, with one tool or none, but always ones that every fixture can serve.

Names follow the base protocol's recommendation: 1 to 128 ASCII letters, digits, `_`, `-` and `.`. Numbers stay within
the range that every JSON library preserves.
"""

from __future__ import annotations

import string
import zlib
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tools_search_spec import EXTENSION_ID

from tools_search_conformance.wire.codec import JsonObject

VAST: Final = 2000
"""Number of tools in the largest catalogs."""

FEWER: Final = "quarry"
"""A word that many, but far from all, tools in the largest catalogs have."""

LAST: Final = "terminus"
"""The last word of a long description."""

CAPITALS: Final = ("\u03a3\u038e\u039b\u039b\u039f\u0393\u039f\u03a3", "ПОИСК", "\U00010414\U00010407\U0001041d")
"""Words in capitals in several scripts, one of them beyond 16 bits. A tool of the odd catalogs has them in lower case,
where Greek has a special letter at the end of a word.
"""

_EVERY: Final = 8

_NAME: Final = string.ascii_letters + string.digits + "_-."
_LONGEST_NAME: Final = 128
_WORDS: Final = (
    "shared", "common", "record", "ledger", "Straße", "İstanbul", "cafe\u0301", "caf\u00e9", "data-set", "v2", "1,000",
    "検索", "工具", "发票", "도구", "أداة", "فاتورة", "כלי", "ταξινόμηση", "Поиск", "เครื่องมือ", "उपकरण", "🧑\u200d🔧",
)  # fmt: skip
_BETWEEN: Final = (" ", ", ", "\n", "\t", "\u00a0", " \u200f", "\u200e ", "\u061c ", " \u202b", "\u202c ", "\u2067")
_RIGHT_TO_LEFT: Final = "\u200f\u05db\u05dc\u05d9\u200f \u061c\u0623\u062f\u0627\u0629\u202c shared"
_ALTERED: Final = "“it\u2019s”… **`x`** \\d {{x}} ${x} %s \u0085\u009b\u2764\ufe0f\u845b\U000e0100\ue000\ufdd0\uffff"
"""What some programs replace, expand or strip: typography, markup, placeholders, C1 controls, variation selectors,
private use characters, and noncharacters.
"""
_VALUES: Final[list[Any]] = [None, True, 0, -7, 0.25, "", "e\u0301", _RIGHT_TO_LEFT, [], {}, [1, [None]]]
_SUPPRESSED: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
_PROPERTY_NAMES: Final = ("id", "$kind", "a b", "größe", "gro\u0308ße", "名前", "שם", "x.y/z~1", "ID", "type", "items")
_VOCABULARY: Final[JsonObject] = {
    "$id": "https://EXAMPLE.com/%7Eschemas/every",
    "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": True},
    "$comment": "",
    "type": ["string", "null", "object", "array", "integer"],
    "title": "",
    "default": "",
    "examples": [],
    "enum": ["b", "a", None, "", 1, 0.123456789012, 1e20, [], {}, "true", "null", "007", "1e3", "2026-01-31"],
    "const": False,
    "multipleOf": 0.1,
    "minimum": -2.718281828459045,
    "exclusiveMinimum": 0,
    "maximum": 1e20,
    "minLength": 0,
    "pattern": "^\\d+$",
    "format": "date-time",
    "contentEncoding": "base64",
    "contentMediaType": "application/json",
    "contentSchema": {"type": "object"},
    "items": True,
    "prefixItems": [{}],
    "contains": {"const": 0},
    "minContains": 0,
    "maxContains": 3,
    "uniqueItems": False,
    "unevaluatedItems": False,
    "properties": {"a": {"const": None}, "A": {"const": ""}, "a-b": {"default": []}, "a_b": {"default": {}}, "_c": {}},
    "patternProperties": {"^x-": {"writeOnly": False}},
    "additionalProperties": {"nullable": True},
    "propertyNames": {"pattern": "^[a-z]+$"},
    "minProperties": 0,
    "unevaluatedProperties": False,
    "required": ["b", "a"],
    "dependentRequired": {"a": []},
    "dependentSchemas": {"a": {"deprecated": False}},
    "allOf": [{}],
    "anyOf": [True],
    "oneOf": [{"$dynamicRef": "#node"}],
    "not": {},
    "if": {"readOnly": True},
    "then": True,
    "else": False,
    "definitions": {"node": {"$dynamicAnchor": "node"}},
    "$defs": {"0": {"type": "null"}, "1": True},
}
"""A schema with every keyword, with values that some encoders leave out or reorder, or that become lists in PHP."""
_DEEP: Final[JsonObject] = reduce(lambda schema, _: {"not": schema}, range(20), {"const": "the end"})
_BLANK: Final[JsonObject] = {
    "name": "blank",
    "title": "",
    "description": "",
    "inputSchema": {
        "type": "object",
        "description": "",
        "properties": {"verbose": {"type": "boolean", "default": False}, "count": {"minimum": 0, "default": 0}},
    },
    "annotations": {"title": "", "com.example/unknown": None},
    "icons": [{"src": f"HTTPS://EXAMPLE.com/./{theme}.svg?#", "theme": theme, "x-y": 1} for theme in ("light", "dark")],
    "execution": {"taskSupport": "forbidden"},
    "_meta": {"plain": {"count": 0}, "ui": {"visibility": ["model", "app"]}},
}
"""A tool of what some encoders leave out or normalize: empty texts, zero and `false`, a second icon and its URL, a key
without a prefix, and members that only some revisions know.
"""

_RICH: Final[JsonObject] = {
    "name": "rich",
    "title": 'Less < more & "most" \u2028\u2029 &amp; <b>bold</b>',
    "description": f"shared {' '.join(f'word{n} of a long text,' for n in range(200))} end\u0000\u0001\u007f {LAST}\n",
    "inputSchema": {
        "type": "object",
        "properties": {
            "constructor": {"type": "string", "description": "<em>&</em>" * 300},
            "__proto__": {"type": "object", "properties": {}},
            "toString": {"enum": [f"value {number}" for number in range(120)]},
            "": {"default": ["twice", "twice", "b", "a"], "maximum": 4_294_967_297, "multipleOf": 0.0000125},
            "at": {"format": "date-time", "examples": ["2026-01-31T23:30:00.500+02:00", "2026-01-31T23:30:00Z"]},
            "deep": _DEEP,
            "every": _VOCABULARY,
            "007": {"type": ["string"]},
            "v1.2": {"type": "string"},
        },
        "required": [],
    },
    "outputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "description": "what comes out",
        "properties": {},
        "required": [],
    },
    "annotations": {},
    "icons": [],
    "_meta": {
        EXTENSION_ID: {"group": "of what is rich"},
        "com.example/empty": {},
        "com.example/list": [],
        "com.example/false": False,
        "com.example/null": None,
        "io.github.tools-search/tools-search.kept": {"group": "beside"},
        "io.modelcontextprotocol/kept": "reserved",
        "com.example/nested": {EXTENSION_ID: {"group": "inside"}},
    },
}
"""A tool with content that is easily lost in transit: unusual characters, names and numbers; empty, long and deep
values.
"""


def _texts(most: int) -> st.SearchStrategy[str]:
    part = st.tuples(st.sampled_from(_WORDS), st.sampled_from(_BETWEEN)).map("".join)
    return st.lists(part, min_size=1, max_size=most).map("".join)


def _extras() -> st.SearchStrategy[JsonObject]:
    """Return nested objects of unknown members, with every kind of value."""
    value: st.SearchStrategy[Any] = st.sampled_from(_VALUES)
    return st.dictionaries(
        st.sampled_from(["x-a", "x-b", "vendor", "null"]), value | st.fixed_dictionaries({"x-c": value})
    )


_LEAVES: Final[tuple[JsonObject, ...]] = (
    {"type": "string", "format": "date", "x-hint": {"order": 1, "unit": None}},
    {"type": ["integer", "null"], "minimum": -1, "default": None},
    {"enum": ["A", "a", None, 1.5, {"b": []}]},
    {"const": "e\u0301"},
    {"$ref": "#/$defs/node"},
    {"$ref": "#/$defs/node", "description": "with a sibling", "x-sibling": {"$ref": "no reference"}},
    {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"$ref": "#/$defs/deep/properties/leaf"}]},
    {"type": "array", "prefixItems": [{"type": "number"}], "items": False},
)
_DEFS: Final[JsonObject] = {
    "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "x-kept": {"deep": {"er": None}}},
    "deep": {"$anchor": "deep", "properties": {"leaf": {"type": "boolean", "$comment": "\u202aנ\u202c"}, "any": True}},
}


def _schemas() -> st.SearchStrategy[JsonObject]:
    properties = st.dictionaries(st.sampled_from(_PROPERTY_NAMES), st.sampled_from(_LEAVES), max_size=4)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": properties, "$defs": st.just(_DEFS)},
        optional={
            "additionalProperties": st.sampled_from([True, False, {"$ref": "#/$defs/node"}]),
            "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
            "dependentRequired": st.just({"id": ["a b"]}),
            "patternProperties": st.just({"^x-": {"type": "string"}}),
            "x-form": _extras(),
        },
    )


def _tools() -> st.SearchStrategy[JsonObject]:
    annotations = {"title": _texts(2), "readOnlyHint": st.booleans(), "destructiveHint": st.booleans()}
    icon = {"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48", "any"]}
    return st.fixed_dictionaries(
        {"name": st.text(_NAME, min_size=1, max_size=30), "description": _texts(10), "inputSchema": _schemas()},
        optional={
            "title": _texts(3),
            "outputSchema": st.fixed_dictionaries({"type": st.just("object"), "x-form": _extras()}),
            "annotations": st.fixed_dictionaries({}, optional=annotations),
            "icons": st.just([icon]),
            "_meta": st.fixed_dictionaries({"com.example/kept": _extras()}),
            "x-unknown": _extras(),
        },
    )


def _with_rarities(drawn: list[JsonObject]) -> list[JsonObject]:
    """Return a catalog of about twenty tools in which every rarity occurs."""
    one, other, *rest = drawn
    wide = {f"property_{number}": {"type": "string", "description": "shared " * 20} for number in range(150)}
    referring = {"type": "object", "properties": dict(zip(_PROPERTY_NAMES, _LEAVES, strict=False)), "$defs": _DEFS}
    rare = [
        {**one, "name": "CaseMatters.Name"},
        {**other, "name": "casematters.name"},
        {**one, "name": (str(other["name"]) + "-._9" * _LONGEST_NAME)[:_LONGEST_NAME]},
        {**one, "name": "LONG" + "-long.name" * 12},
        {**other, "name": "long" + "-long.name" * 12},
        {**other, "name": "LONG" + "-long.name" * 11 + "-long_name"},
        {**one, "name": "7-7", "description": "7 and 7"},
        {**other, "name": "7"},
        {**one, "name": "-._"},
        {**other, "name": "the"},
        {"name": "wide", "description": "shared common record", "inputSchema": {"type": "object", "properties": wide}},
        {
            "name": "refers",
            "description": "\nshared <b>&</b> 'common'\r\nand\rmore  \nand  more\n\n\nlines " + _ALTERED,
            "annotations": {"title": "Refers to another"},
            "inputSchema": referring,
        },
        _RICH,
        _BLANK,
        {"name": "shared", "inputSchema": {"type": "object"}},
        {"name": "shared_common", "title": "shared", "description": "shared", "inputSchema": {"type": "object"}},
        {"name": "shared-common", "description": "shared", "inputSchema": {"type": "object"}},
        {"name": "right_to_left", "description": _RIGHT_TO_LEFT, "inputSchema": {"type": "object"}},
        {"name": "scripts", "description": " ".join(CAPITALS).lower(), "inputSchema": {"type": "object"}},
        {"name": "bare", "inputSchema": {"type": "object"}},
    ]
    by_name: dict[str, JsonObject] = {}
    for number, tool in enumerate([*rest, *rare, one, other]):
        name = str(tool["name"])
        name = f"{name[: _LONGEST_NAME - 5]}.{number}" if name in by_name else name
        by_name[name] = {**tool, "name": name}
    return list(by_name.values())


def _small_tools(drawn: tuple[Sequence[JsonObject], str]) -> list[JsonObject]:
    """Return a catalog of `VAST` small tools made from a few; neighbors' names differ in case."""
    tools, stem = drawn
    schema = {"type": "object", "properties": {"id": {"$ref": "#/$defs/id"}}, "$defs": {"id": {"type": "string"}}}

    def numbered(number: int) -> JsonObject:
        tool, name = tools[number % len(tools)], f"{stem}_{number // 2}"
        spelled = "".join(string.ascii_lowercase[int(digit)] for digit in f"{number:04}") + "ling"
        description = f"{tool['description']} shared {spelled}" + f" {FEWER}" * (number % _EVERY == 0)
        return {"name": name.upper() if number % 2 else name, "description": description, "inputSchema": schema}

    return [numbered(number) for number in range(VAST)]


_KINDS: Final[dict[str, st.SearchStrategy[list[JsonObject]]]] = {
    "odd": st.lists(_tools(), min_size=8, max_size=12).map(_with_rarities),
    "vast": st.tuples(
        st.lists(_tools(), min_size=3, max_size=3), st.text(string.ascii_lowercase, min_size=1, max_size=8)
    ).map(_small_tools),
    "single": _tools().map(lambda tool: [tool]),
    "empty": st.just([]),
}


def kinds(count: int) -> list[str]:
    """Return the kinds of a run's first `count` catalogs: one of each, then odd ones."""
    return [*_KINDS, *["odd"] * count][:count]


def catalog(kind: str, name: str) -> JsonObject:
    """Return the catalog of a kind that is generated from `name`, which serves as the seed."""
    drawn: list[list[JsonObject]] = []

    @seed(zlib.crc32(name.encode()))
    @settings(max_examples=2, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=_SUPPRESSED)
    @given(_KINDS[kind])
    def keep(tools: list[JsonObject]) -> None:
        drawn.append(tools)

    keep()
    found: list[Any] = drawn[-1]  # the first one is the simplest
    return {"tools": found}
