"""What of a tool's definition is searched, and how much each part of it counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, cast

from mcp_types import Tool

from mcp_ext_tools_search.types import EXTENSION_ID

__all__ = ["MEMBERS", "Field", "fields"]

MEMBERS: Final = ("name", "title", "description", "inputSchema", "annotations", "_meta")
"""Members of a definition that may match, in the order in which a hit tells them."""

LONGEST_TEXT: Final = 20_000
"""Characters of one text that are read: what comes later can neither help a tool nor hurt its neighbours."""

DEEPEST_SCHEMA: Final = 12
"""Levels of an input schema that are read."""

MOST_SUBSCHEMAS: Final = 2_000
"""Schemas that are read on one level."""

MOST_SCHEMA_TEXTS: Final = 1_000
"""Texts of an input schema that are read, outermost first."""

MOST_LABELS: Final = 50
"""Aliases of a tool that are read, and tags as many again."""

# A full stop ends a sentence only before white space: `v1.2` and `example.com` go on.
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f]|\n")
_SUBSCHEMAS: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SUBSCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_FASTMCP: Final = ("fastmcp", "_fastmcp")
_NAMED_SUBSCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


@dataclass(frozen=True, slots=True)
class Field:
    """One text of a definition."""

    member: str
    """The member of `Tool` that holds it, one of `MEMBERS`."""

    text: str
    weight: float
    """What one occurrence of a word counts here; a multiple of 1/8, so that sums are exact in any order."""


def fields(tool: Tool) -> Iterator[Field]:
    """Return the texts of `tool` that are searched.

    However the definition is made, this ends: depth, number and length of the texts are bounded, `$ref` is not followed
    and whatever is not a text where a text belongs is passed over.
    """
    yield _field("name", tool.name, 2)
    if tool.title:
        yield _field("title", tool.title, 1)
    elif tool.annotations and tool.annotations.title:
        yield _field("annotations", tool.annotations.title, 1)
    first, rest = _first_sentence((tool.description or "")[:LONGEST_TEXT])
    yield _field("description", first, 1)
    yield _field("description", rest, 0.25)
    for text in islice(_schema_texts(tool.input_schema), MOST_SCHEMA_TEXTS):
        yield _field("inputSchema", text, 0.25)
    for label in _labels(tool.meta or {}):
        yield _field("_meta", label, 1)
    for text in _texts([_named((tool.meta or {}).get(EXTENSION_ID)).get("categoryDescription")]):
        yield _field("_meta", text, 0.25)


def _field(member: str, text: str, weight: float) -> Field:
    return Field(member, text[:LONGEST_TEXT], weight)


def _first_sentence(description: str) -> tuple[str, str]:
    description = description.strip()
    end = _SENTENCE_END.search(description)
    return (description[: end.end()], description[end.end() :]) if end else (description, "")


def _schema_texts(schema: object) -> Iterator[str]:
    """Return parameter names, descriptions and enumerated values, outermost first."""
    level = [schema]
    for _ in range(DEEPEST_SCHEMA):
        nodes = [cast("Mapping[str, Any]", node) for node in level if isinstance(node, Mapping)]
        for node in nodes:
            yield from _own_texts(node)
        level = list(islice(chain.from_iterable(map(_subschemas, nodes)), MOST_SUBSCHEMAS))


def _own_texts(node: Mapping[str, Any]) -> Iterator[str]:
    yield from _texts((node.get("description"), node.get("const")))
    yield from _texts(node.get("enum"))
    for keyword in _NAMED_SUBSCHEMAS:
        yield from _texts(tuple(_named(node.get(keyword))))


def _subschemas(node: Mapping[str, Any]) -> Iterator[object]:
    for keyword in _NAMED_SUBSCHEMAS:
        yield from _named(node.get(keyword)).values()
    for keyword in _SUBSCHEMA_LISTS:
        yield from _listed(node.get(keyword))
    for keyword in _SUBSCHEMAS:
        yield node.get(keyword)


def _labels(meta: Mapping[str, Any]) -> Iterator[str]:
    """Return the group, category, aliases and tags that are published with a tool, FastMCP's tags among them."""
    own = _named(meta.get(EXTENSION_ID))
    yield from _texts([own.get("group"), own.get("category")])
    yield from islice(_texts(own.get("aliases")), MOST_LABELS)
    tags = chain.from_iterable(_texts(_named(meta.get(key)).get("tags")) for key in (EXTENSION_ID, *_FASTMCP))
    yield from islice(dict.fromkeys(tags), MOST_LABELS)


def _texts(values: object) -> Iterator[str]:
    return (value for value in _listed(values) if isinstance(value, str) and value)


def _listed(values: object) -> Sequence[object]:
    return cast("Sequence[object]", values) if isinstance(values, list | tuple) else ()


def _named(subschemas: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", subschemas) if isinstance(subschemas, Mapping) else {}
