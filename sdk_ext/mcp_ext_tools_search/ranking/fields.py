"""The searched texts of a tool's definition, and how much each kind of text counts.

Reading any definition terminates: the depth, number and length of its texts are limited, `$ref` is not followed and
values of the wrong type are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from mcp_types import Tool

from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata

MEMBERS: Final = ("name", "title", "description", "inputSchema", "annotations", "_meta")
"""Members of a definition that may match, in the order in which a hit lists them."""

STEPS: Final = 4
"""Steps per unit of weight. Weights are whole numbers of steps, so that sums are exact in any order."""

KINDS: Final[tuple[tuple[str, float], ...]] = (
    ("name", 2),
    ("title", 1),
    ("description", 1),
    ("description", 0.25),
    ("inputSchema", 0.25),
    ("annotations", 1),
    ("_meta", 2),
    ("_meta", 0.25),
)
"""Kinds of text: the member of a definition, and the weight of one occurrence of a word there."""

_NAME, _TITLE, _SENTENCE, _DESCRIPTION, _SCHEMA, _ANNOTATED, _LABELS, _CATEGORY = range(len(KINDS))

# Limits for reading a definition.
MAX_TEXT_LENGTH: Final = 20_000  # characters of a text: the rest is ignored
DEEPEST_SCHEMA: Final = 12  # levels of an input schema
MAX_SUBSCHEMAS: Final = 2_000  # schemas on one level
MAX_SCHEMA_TEXTS: Final = 1_000  # texts of an input schema, outermost first
MAX_LABELS: Final = 50  # aliases, and tags as many again

# A full stop ends a sentence only before white space: `v1.2` and `example.com` go on.
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f]|\n")
_SUBSCHEMAS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SUBSCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SUBSCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NESTING: Final = frozenset((*_SUBSCHEMAS, *_SUBSCHEMA_LISTS, *_NAMED_SUBSCHEMAS))
_LISTS: Final = (list, tuple)
_PUBLISHING: Final = (EXTENSION_ID, "fastmcp", "_fastmcp")


class Field(NamedTuple):
    """The texts of one kind in a definition."""

    texts: Sequence[str]
    kind: int  # place in `KINDS`, which has the next two
    member: str
    weight: float


def fields(tool: Tool) -> list[Field]:
    """Return the searched texts of `tool`."""
    description = (tool.description or "")[:MAX_TEXT_LENGTH].strip()
    end = found.end() if (found := _SENTENCE_END.search(description)) else len(description)
    read: list[tuple[int, Sequence[str]]] = [
        (_NAME, (tool.name,)),
        (_SENTENCE, (description[:end],)),
        (_DESCRIPTION, (description[end:],)),
        (_SCHEMA, _schema_texts(tool.input_schema)),
    ]
    if tool.title:
        read.append((_TITLE, (tool.title,)))
    elif tool.annotations and tool.annotations.title:
        read.append((_ANNOTATED, (tool.annotations.title,)))
    if tool.meta:
        read.append((_LABELS, _labels(tool.meta)))
        read.append((_CATEGORY, _texts((published_metadata(tool.meta).get("categoryDescription"),))))
    return [Field([text[:MAX_TEXT_LENGTH] for text in texts], kind, *KINDS[kind]) for kind, texts in read]


def _schema_texts(schema: object) -> list[str]:
    """Return parameter names, descriptions and enumerated values, outermost first."""
    texts: list[str] = []
    level = [schema]
    for _ in range(DEEPEST_SCHEMA):
        below: list[object] = []
        for node in level:
            if isinstance(node, dict) and len(texts) < MAX_SCHEMA_TEXTS:
                _read_schema(cast("dict[str, Any]", node), texts, below)
        if not below:
            break
        level = below[:MAX_SUBSCHEMAS]
    return texts[:MAX_SCHEMA_TEXTS]


def _read_schema(node: Mapping[str, Any], texts: list[str], below: list[object]) -> None:
    """Add the texts of one schema to `texts`, and the schemas right under it to `below` while there is room."""
    texts += [text for keyword in ("description", "const") if isinstance(text := node.get(keyword), str) and text]
    if "enum" in node:
        texts += _texts(node["enum"])
    if _NESTING.isdisjoint(node):
        return
    named = [_named(node[keyword]) for keyword in _NAMED_SUBSCHEMAS if keyword in node]
    for subschemas in named:
        texts += _texts(tuple(subschemas))
    if len(below) >= MAX_SUBSCHEMAS:
        return
    for subschemas in named:
        below += subschemas.values()
    for keyword in _SUBSCHEMA_LISTS:
        if keyword in node:
            below += _listed(node[keyword])
    below += [node[keyword] for keyword in _SUBSCHEMAS if keyword in node]


def _labels(meta: Mapping[str, Any]) -> list[str]:
    """Return the group, category, aliases and tags that are published with a tool, FastMCP's tags among them."""
    own = published_metadata(meta)
    labels = _texts((own.get("group"), own.get("category")))
    if "aliases" in own:
        labels += _texts(own["aliases"])[:MAX_LABELS]
    tags = [tag for key in _PUBLISHING if key in meta for tag in _texts(_named(meta[key]).get("tags"))]
    return labels + list(dict.fromkeys(tags))[:MAX_LABELS]


def _texts(values: object) -> list[str]:
    return [value for value in _listed(values) if isinstance(value, str) and value]


def _listed(values: object) -> Sequence[object]:
    return cast("Sequence[object]", values) if isinstance(values, _LISTS) else ()


def _named(subschemas: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", subschemas) if isinstance(subschemas, dict) else {}
