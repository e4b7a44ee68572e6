"""The schema of a tool's arguments as a model provider takes it.

Providers refuse a whole request because of one schema, so each has to be acceptable whatever its server wrote. What a
provider does not take is taken out, and told in words where a model should know it; the server checks what it gets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tools_search_client.errors import InvalidAnswerError
from tools_search_client.providers.keywords import DROPPED, each_subschema, kept, subschema_at
from tools_search_client.providers.plain_json import as_list, as_object, compact, copied
from tools_search_client.text import shorten

__all__ = ["Parameters", "adapted"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_IN_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_NAME: Final = 64
_AT_ROOT: Final = ("oneOf", "anyOf", "allOf", "not", "enum", "const")
"""What OpenAI or Anthropic refuse at the root of a schema."""
_TOLD_CHARS: Final = 1_000
_MOST_REFERENCES: Final = 20


@dataclass(frozen=True, slots=True)
class Parameters:
    """The arguments of a tool, as a provider is told of them."""

    schema: dict[str, Any]

    renamed: Mapping[str, str]
    """The names of arguments that had to be altered, each with the original one."""

    def original(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments under the names that the tool's server knows."""
        return {self.renamed.get(name, name): value for name, value in arguments.items()}


def adapted(
    schema: Mapping[str, Any], *, keywords: Collection[str] | None = None, has_plain_names: bool = False
) -> Parameters:
    """Return the schema in a form that providers take.

    Its root is an object with properties and without alternatives, every name of an argument has at most 64 letters,
    digits, `_`, `.` and `-`, every reference leads somewhere inside, and the whole is valid by JSON Schema 2020-12.

    Args:
        schema: As the tool's server stated it.
        keywords: The only ones that the provider takes; `None` means any.
        has_plain_names: Whether the name of an argument has to begin like a word, and to have no `.` and no `-`.
    """
    valid = _PLAIN_NAME if has_plain_names else _NAME
    try:
        root = _object_at_root(each_subschema(copied(schema), _without_identity))
        root, renamed = _renamed(root, valid)
        if keywords is not None:
            root = each_subschema(root, lambda one: kept(one, keywords))
        root = each_subschema(root, _resolvable_in(root))
        if not _is_valid(compact(root)):
            root, renamed = _renamed(_names_only(schema), valid)
    except (RecursionError, InvalidAnswerError):
        root, renamed = _renamed(_names_only(schema), valid)
    return Parameters(root, renamed)


@lru_cache(maxsize=500)
def _is_valid(serialized: str) -> bool:
    """Tell whether a schema is one by JSON Schema 2020-12: that takes milliseconds, and conversations share tools."""
    try:
        Draft202012Validator.check_schema(json.loads(serialized))
    except SchemaError:
        return False
    return True


def _without_identity(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without what would change the meaning of its references."""
    return {keyword: value for keyword, value in schema.items() if keyword not in DROPPED}


def _object_at_root(schema: dict[str, Any]) -> dict[str, Any]:
    root = _followed(schema, schema)
    told: list[str] = []
    properties = as_object(root.get("properties"))
    required = _names(root.get("required"))
    for keyword in _AT_ROOT:
        stated = root.pop(keyword, None)
        if stated is None:
            continue
        branches = [_followed(as_object(one), root) for one in as_list(stated)]
        if keyword in ("oneOf", "anyOf", "allOf"):
            for branch in branches:
                for name, member in as_object(branch.get("properties")).items():
                    properties.setdefault(name, member)
        if keyword == "allOf":
            required += [name for branch in branches for name in _names(branch.get("required"))]
        told.append(f"{keyword}: {shorten(compact(stated), _TOLD_CHARS)}")
    root |= {"type": "object", "properties": properties}
    root.pop("required", None)
    if required:
        root["required"] = list(dict.fromkeys(required))
    if told:
        stated = root.get("description")
        before = f"{stated} " if isinstance(stated, str) else ""
        root["description"] = f"{before}The arguments together must also satisfy {'; '.join(told)}"
    return root


def _followed(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to in the place of the reference."""
    merged = dict(schema)
    for _ in range(_MOST_REFERENCES):
        reference = merged.pop("$ref", None)
        target = subschema_at(root, reference) if isinstance(reference, str) else None
        if not isinstance(target, dict):
            break
        merged = cast("dict[str, Any]", target) | merged
    merged.pop("$ref", None)
    return merged


def _renamed(root: dict[str, Any], valid: re.Pattern[str]) -> tuple[dict[str, Any], dict[str, str]]:
    properties = as_object(root.get("properties"))
    taken = {name for name in properties if valid.fullmatch(name)}
    new = {name: name for name in taken}
    for name in properties:
        if name not in new:
            new[name] = _free(name, taken)
            taken.add(new[name])
    altered = {new[name]: name for name in properties if new[name] != name}
    if not altered:
        return root, {}
    result = root | {"properties": {new[name]: member for name, member in properties.items()}}
    if "required" in result:
        result["required"] = [new.get(name, name) for name in _names(result["required"])]
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies", "if", "then", "else", "patternProperties"):
        result.pop(keyword, None)  # they speak of the original names
    return result, altered


def _free(name: str, taken: Collection[str]) -> str:
    spelled = _NOT_IN_PLAIN_NAME.sub("_", name)
    stem = spelled if _PLAIN_NAME.match(spelled) else f"_{spelled}"
    candidate, number = stem[:_LONGEST_NAME], 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = stem[: _LONGEST_NAME - len(suffix)] + suffix, number + 1
    return candidate


def _resolvable_in(root: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def resolvable(schema: dict[str, Any]) -> dict[str, Any]:
        reference = schema.get("$ref")
        if reference is None or (isinstance(reference, str) and subschema_at(root, reference) is not None):
            return schema
        return {keyword: value for keyword, value in schema.items() if keyword != "$ref"}

    return resolvable


def _names_only(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be said of a schema that is no schema: the names of the arguments and what they are for."""
    properties: dict[str, Any] = {}
    for name, member in as_object(schema.get("properties")).items():
        stated = as_object(member).get("description")
        properties[copied(name)] = {"description": copied(stated)} if isinstance(stated, str) else {}
    return {"type": "object", "properties": properties}


def _names(value: object) -> list[str]:
    return [name for name in as_list(value) if isinstance(name, str)]
