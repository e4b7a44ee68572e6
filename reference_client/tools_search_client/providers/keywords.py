"""Where in a JSON Schema other schemas stand, and what a narrower dialect makes of its keywords."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from tools_search_client.providers.plain_json import compact
from tools_search_client.text import shorten

__all__ = ["DROPPED", "each_subschema", "kept", "subschema_at"]

Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

DROPPED: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
     "$vocabulary", "$comment"}
)  # fmt: skip
"""What names a schema rather than describing a value."""

_SCHEMA: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
     "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_MAP: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

_TOLD: Final = frozenset(
    {"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "uniqueItems", "not",
     "default"}
)  # fmt: skip
"""What a model should know of a value even where the provider does not take the keyword."""
_TOLD_CHARS: Final = 200


def each_subschema(schema: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return a schema in which `change` was made to every schema, the inner ones first; members of data stay.

    `true` among several schemas, which not every provider takes, becomes the empty schema, which means the same.
    """

    def changed(value: Any, *, or_else: Any) -> Any:
        return each_subschema(cast("dict[str, Any]", value), change) if isinstance(value, dict) else or_else

    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _LIST and isinstance(value, list):
            result[keyword] = [changed(one, or_else={}) for one in cast("list[Any]", value)]
        elif keyword in _MAP and isinstance(value, dict):
            result[keyword] = {name: changed(one, or_else={}) for name, one in cast("dict[str, Any]", value).items()}
        elif keyword in _SCHEMA:
            result[keyword] = changed(value, or_else=value)
        else:
            result[keyword] = value
    return change(result)


def subschema_at(root: dict[str, Any], reference: str) -> Any:
    """Return what a reference inside `root` leads to; `None` where that is no schema."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for step in unquote(reference[1:]).split("/")[1:] if reference != "#" else []:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = cast("dict[str, Any]", place).get(name)
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(cast("list[Any]", place)):
            place = cast("list[Any]", place)[int(name)]
        else:
            return None
    is_schema = isinstance(place, bool) or (isinstance(place, dict) and (reference == "#" or place is not root))
    return cast("Any", place) if is_schema else None


def kept(schema: dict[str, Any], keywords: Collection[str]) -> dict[str, Any]:
    """Return a schema with none but `keywords`; what can be said by one of them, or in words, is."""
    stated = dict(schema)
    if "const" in stated and "const" not in keywords:
        stated.setdefault("enum", [stated.pop("const")])
    if isinstance(stated.get("allOf"), list) and "allOf" not in keywords:
        for part in reversed(cast("list[Any]", stated.pop("allOf"))):
            stated = (cast("dict[str, Any]", part) | stated) if isinstance(part, dict) else stated
    if "$ref" in stated:
        return {keyword: stated[keyword] for keyword in ("$ref",) if keyword in keywords}
    if not _can_be_chosen(stated.get("enum")):
        stated.pop("enum", None)
    told = [f"{name}: {shorten(compact(stated[name]), _TOLD_CHARS)}" for name in stated if _is_told(name, keywords)]
    result = {keyword: value for keyword, value in stated.items() if keyword in keywords}
    if told:
        before = f"{result['description']} " if isinstance(result.get("description"), str) else ""
        result["description"] = f"{before}({'; '.join(told)})"
    return result


def _is_told(keyword: str, keywords: Collection[str]) -> bool:
    return keyword in _TOLD and keyword not in keywords


def _can_be_chosen(choices: object) -> bool:
    return isinstance(choices, list) and all(
        isinstance(one, str | int | float) and not isinstance(one, bool) for one in cast("list[Any]", choices)
    )
