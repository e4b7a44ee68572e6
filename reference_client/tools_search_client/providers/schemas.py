"""Rewrites tools' JSON Schemas into the dialect that a model provider accepts.

Providers reject a whole request because of one schema, so each must be acceptable no matter what its server wrote. An
unsupported keyword is removed, and added to the description if the model should know it. The server still validates the
arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from tools_search_hosts.json_values import as_list, as_object

from tools_search_client.errors import InvalidAnswerError
from tools_search_client.json_values import compact_json, copied
from tools_search_client.text import shorten

Schema: TypeAlias = dict[str, Any]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_IN_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_MAX_NAME: Final = 64
_MAX_REFERENCES: Final = 20
"""Maximum length of a chain of references; a longer one counts as a loop."""
_MAX_OBJECTS: Final = 4_000
"""Maximum objects in a schema to validate, which takes most of a second; the largest in this repository has 103."""
_QUOTED_CHARS: Final = 200
_QUOTED_ROOT_CHARS: Final = 1_000

_IDENTITY: Final = (
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
    "$vocabulary", "$comment",
)  # fmt: skip
"""Keywords that identify a schema instead of describing a value, and would change what its references mean."""
_HAVE_SCHEMA: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
     "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
_HAVE_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_HAVE_MAP: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_WORTH_WORDS: Final = frozenset(
    {"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "uniqueItems", "not",
     "default"}
)  # fmt: skip
"""Keywords that a model should know about even if the provider does not accept them."""
_REFUSED_AT_ROOT: Final = ("oneOf", "anyOf", "allOf", "not", "enum", "const")
"""Keywords that OpenAI or Anthropic rejects at the root."""
_WITH_NAMES: Final = (
    "dependentRequired", "dependentSchemas", "dependencies", "if", "then", "else", "patternProperties",
)  # fmt: skip
"""Root keywords that refer to the arguments' original names."""


def adapted(
    schema: Mapping[str, Any], *, keywords: Collection[str] | None = None, plain_names: bool = False
) -> tuple[Schema, Mapping[str, str]]:
    """Return the schema in a form that providers accept, and the original name of each renamed argument.

    The root is an object with properties and without alternatives. Argument names have at most 64 letters, digits, `_`,
    `.` and `-`. Every reference resolves within the schema, and the whole is valid under JSON Schema 2020-12.

    Args:
        schema: The schema as stated by the tool's server.
        keywords: The keywords that the provider accepts; `None` means all.
        plain_names: Whether argument names must start with a letter or `_`, and contain no `.` or `-`.
    """
    valid = _PLAIN_NAME if plain_names else _NAME
    try:
        root = _object_at_root(_each_subschema(copied(schema), _plain))
        root, renamed = _renamed(root, valid)
        if keywords is not None:
            root = _each_subschema(root, lambda subschema: _in_dialect(subschema, keywords))
        whole = root

        def with_references_inside(subschema: Schema) -> Schema:
            reference = subschema.get("$ref", "#")
            leads_somewhere = isinstance(reference, str) and _subschema_at(whole, reference) is not None
            return subschema if leads_somewhere else _without(subschema, "$ref")

        root = _each_subschema(root, with_references_inside)
        if _is_valid(compact_json(root)):
            return root, renamed
    except (RecursionError, InvalidAnswerError):
        pass
    # From an invalid schema, keep the arguments' names and descriptions.
    properties: Schema = {}
    for name, member in as_object(schema.get("properties")).items():
        stated = as_object(member).get("description")
        properties[copied(name)] = {"description": copied(stated)} if isinstance(stated, str) else {}
    return _renamed({"type": "object", "properties": properties}, valid)


@lru_cache(maxsize=500)
def _is_valid(serialized: str) -> bool:
    """Whether a schema is valid under JSON Schema 2020-12; cached, because checking takes milliseconds.

    A schema that would take too long to check counts as invalid.
    """
    if serialized.count("{") > _MAX_OBJECTS:
        return False
    try:
        Draft202012Validator.check_schema(json.loads(serialized))
    except SchemaError:
        return False
    return True


def _each_subschema(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Apply `change` to every subschema, innermost first; data is left unchanged.

    `true` in a collection of schemas, which not every provider accepts, becomes the equivalent empty schema.
    """

    def changed(value: Any, *, or_else: Any) -> Any:
        return _each_subschema(cast("Schema", value), change) if isinstance(value, dict) else or_else

    result: Schema = {}
    for keyword, value in schema.items():
        if keyword in _HAVE_LIST and isinstance(value, list):
            result[keyword] = [changed(subschema, or_else={}) for subschema in cast("list[Any]", value)]
        elif keyword in _HAVE_MAP and isinstance(value, dict):
            result[keyword] = {
                name: changed(subschema, or_else={}) for name, subschema in cast("Schema", value).items()
            }
        else:
            result[keyword] = changed(value, or_else=value) if keyword in _HAVE_SCHEMA else value
    return change(result)


def _plain(schema: Schema) -> Schema:
    """Return a schema without identifying keywords, and with only unique strings in lists of names.

    In lists with other members, jsonschema compares each member with every other.
    """
    plain = _without(schema, *_IDENTITY)

    def names(value: object) -> object:
        stated = _strings(value)
        return list(dict.fromkeys(stated)) if isinstance(value, list) else value

    for keyword in ("type", "required"):
        if keyword in plain:
            plain[keyword] = names(plain[keyword])
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(plain.get(keyword), dict):
            plain[keyword] = {name: names(value) for name, value in plain[keyword].items()}
    return plain


def _subschema_at(root: Schema, reference: str) -> Schema | bool | None:
    """Resolve a reference within `root`; return `None` if it does not resolve to a schema."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = cast("Schema", place).get(name)
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(cast("list[Any]", place)):
            place = cast("list[Any]", place)[int(name)]
        else:
            return None
    is_schema = isinstance(place, bool) or (isinstance(place, dict) and (reference == "#" or place is not root))
    return cast("Schema | bool", place) if is_schema else None


def _object_at_root(schema: Schema) -> Schema:
    """Return an object schema; alternatives at the root are merged into it and described in words."""
    root = _followed(schema, schema)
    properties = dict(as_object(root.get("properties")))
    required = _strings(root.pop("required", None))
    in_words: list[str] = []
    for keyword in _REFUSED_AT_ROOT:
        stated = root.pop(keyword, None)
        if stated is None:
            continue
        in_words.append(f"{keyword}: {shorten(compact_json(stated), _QUOTED_ROOT_CHARS)}")
        for branch in [_followed(as_object(alternative), root) for alternative in as_list(stated)]:
            if keyword in ("oneOf", "anyOf", "allOf"):
                properties |= _without(as_object(branch.get("properties")), *properties)
            if keyword == "allOf":
                required += _strings(branch.get("required"))
    root |= {"type": "object", "properties": properties}
    if required:
        root["required"] = list(dict.fromkeys(required))
    if in_words:
        _describe(root, f"The arguments together must also satisfy {'; '.join(in_words)}")
    return root


def _followed(schema: Schema, root: Schema) -> Schema:
    """Return a schema with its reference replaced by the target."""
    merged = dict(schema)
    for _ in range(_MAX_REFERENCES):
        reference = merged.pop("$ref", None)
        target = _subschema_at(root, reference) if isinstance(reference, str) else None
        if not isinstance(target, dict):
            break
        merged = target | merged
    return _without(merged, "$ref")


def _renamed(root: Schema, valid: re.Pattern[str]) -> tuple[Schema, dict[str, str]]:
    """Return a schema with valid argument names, and the original name of each renamed argument."""
    properties = as_object(root.get("properties"))
    new = {name: name for name in properties if valid.fullmatch(name)}
    taken = set(new)
    numbers: dict[str, int] = {}
    for name in [name for name in properties if name not in new]:
        spelled = _NOT_IN_PLAIN_NAME.sub("_", name)
        stem = spelled if _PLAIN_NAME.match(spelled) else f"_{spelled}"
        stem = stem[:_MAX_NAME]
        # From the last number on: a server can send thousands of names with one stem.
        new[name], number = stem, numbers.get(stem, 2)
        while new[name] in taken:
            suffix = f"_{number}"
            new[name], number = stem[: _MAX_NAME - len(suffix)] + suffix, number + 1
        taken.add(new[name])
        numbers[stem] = number
    renamed = {new[name]: name for name in properties if new[name] != name}
    if not renamed:
        return root, {}
    result = _without(root, *_WITH_NAMES) | {"properties": {new[name]: schema for name, schema in properties.items()}}
    if "required" in result:
        result["required"] = [new.get(name, name) for name in _strings(result["required"])]
    return result, renamed


def _in_dialect(schema: Schema, keywords: Collection[str]) -> Schema:
    """Return a schema with only `keywords`; others are expressed with them, or in words, if possible."""
    stated = dict(schema)
    if "const" in stated and "const" not in keywords:
        stated.setdefault("enum", [stated.pop("const")])
    if isinstance(stated.get("allOf"), list) and "allOf" not in keywords:
        for part in reversed(as_list(stated.pop("allOf"))):
            stated = as_object(part) | stated
    if "$ref" in stated:
        return {keyword: stated[keyword] for keyword in ("$ref",) if keyword in keywords}
    choices: Any = stated.get("enum")
    if not isinstance(choices, list) or any(
        type(choice) not in (str, int, float) for choice in cast("list[Any]", choices)
    ):
        stated.pop("enum", None)
    in_words = [
        f"{name}: {shorten(compact_json(value), _QUOTED_CHARS)}"
        for name, value in stated.items()
        if name in _WORTH_WORDS and name not in keywords
    ]
    result = {keyword: value for keyword, value in stated.items() if keyword in keywords}
    if in_words:
        _describe(result, f"({'; '.join(in_words)})")
    return result


def _describe(schema: Schema, words: str) -> None:
    stated = schema.get("description")
    schema["description"] = f"{stated} {words}" if isinstance(stated, str) else words


def _without(schema: Schema, *left_out: str) -> Schema:
    return {keyword: value for keyword, value in schema.items() if keyword not in left_out}


def _strings(value: object) -> list[str]:
    return [name for name in as_list(value) if isinstance(name, str)]
