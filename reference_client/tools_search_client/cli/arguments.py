"""Parse the arguments of a call from the command line, and format a tool's parameters for display."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from tools_search_hosts.json_values import as_list, as_object
from tools_search_hosts.toolsets import closest

from tools_search_client.errors import LocalError
from tools_search_client.text import one_line, printable_json, shorten

if TYPE_CHECKING:
    from tools_search_client.found import FoundTool

_ASSIGNMENT: Final = re.compile(r"(?P<name>[^=]+?)(?P<json>:?)=(?P<value>.*)", re.DOTALL)
_OTHER_ARGUMENTS: Final = frozenset(
    ("additionalProperties", "patternProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf", "if")
)
"""Schema keywords that allow or forbid arguments other than the `properties`."""

_DEPTH: Final = 4
_CHOICES: Final = 8
_CHARS: Final = 60
_LINE: Final = 77


class InvalidArgumentsError(LocalError):
    """The arguments do not match the tool's schema. Nothing was sent."""


def read_arguments(words: Sequence[str]) -> list[tuple[str | None, Any]]:
    """Parse command-line words into (name, value) pairs; the name is `None` for an object of several arguments.

    A value typed as plain text is a `_Text`, which `fitting` converts to the type the tool expects.

    Raises:
        click.UsageError: A word has an unknown form, or a file cannot be read.
    """
    return [_read(word) for word in words]


def by_name(typed: Sequence[tuple[str | None, Any]]) -> dict[str, Any]:
    """Return the values by name. If a name is repeated, the last value wins."""
    arguments: dict[str, Any] = {}
    for name, value in typed:
        arguments |= value if name is None else {name: value}
    return arguments


class _Text(str):
    """A value typed as `name=value`: text, or JSON if the tool does not accept text there."""


def fitting(typed: Sequence[tuple[str | None, Any]], tool: FoundTool) -> dict[str, Any]:
    """Return the arguments for calling `tool`.

    Raises:
        InvalidArgumentsError: They do not match the tool's schema; the message lists every parameter.
    """
    # Imported here, so that other commands start without loading a schema validator.
    from tools_search_hosts.arguments import complaints

    schema = tool.tool.input_schema
    arguments = by_name(typed)
    for name, value in arguments.items():
        if isinstance(value, _Text):
            arguments[name] = _as_taken(str(value), as_object(as_object(schema.get("properties")).get(name)))
    problems = [f"  - {one_line(problem)}" for problem in (*_misspelled(typed, schema), *complaints(schema, arguments))]
    if problems:
        rows = [
            "  " + shorten(f"{name} ({', '.join(filter(None, (kind, need)))}) {description}", _LINE)
            for name, kind, need, description in parameters(tool)
        ]
        takes = ["It takes:", *rows] if rows else ["It takes no arguments."]
        raise InvalidArgumentsError("\n".join([f"{one_line(tool.name)} was not called:", *problems, *takes]))
    return arguments


def _misspelled(typed: Sequence[tuple[str | None, Any]], schema: Mapping[str, Any]) -> list[str]:
    """Return a problem for each name that the tool does not declare, because servers silently ignore these.

    Return none if the schema allows or forbids other arguments itself, or declares parameters elsewhere.
    """
    known = as_object(schema.get("properties"))
    if not known or not schema.keys().isdisjoint(_OTHER_ARGUMENTS):
        return []
    unknown = dict.fromkeys(name for name, _ in typed if name is not None and name not in known)
    advice = "in a JSON object, it is sent all the same"
    return [f"{name}: it has no such parameter; {closest(name, known)}; {advice}" for name in unknown]


def parameters(tool: FoundTool) -> list[tuple[str, str, str, str]]:
    """Return each parameter's name, type, "required" or default, and description."""
    schema = tool.tool.input_schema
    rows: list[tuple[str, str, str, str]] = []
    for name, stated in as_object(schema.get("properties")).items():
        own = as_object(stated)
        need = "required" if name in as_list(schema.get("required")) else ""
        if own.get("default") is not None and not need:
            need = f"default {shorten(printable_json(own['default']), _CHARS)}"
        description = own.get("description", own.get("title", ""))
        rows.append((name, type_of(own), need, description if isinstance(description, str) else ""))
    return rows


def type_of(schema: Any, depth: int = _DEPTH) -> str:
    """Summarize a schema's type in a few words, such as `array of integer` or `"a" or "b"`."""
    members = as_object(schema)
    if values := as_list(members.get("enum", [members["const"]] if "const" in members else None)):
        shown = [shorten(printable_json(value), _CHARS) for value in values]
        return " or ".join(shown[:_CHOICES]) + (" or …" if len(shown) > _CHOICES else "")
    if depth and (choices := _choices(members)):
        return " or ".join(dict.fromkeys(type_of(choice, depth - 1) for choice in choices[:_CHOICES]))
    kinds = _kinds(members)
    if depth and kinds == ["array"] and "items" in members:
        return f"array of {type_of(members['items'], depth - 1)}"
    return " or ".join(kinds) or "any"


def _read(word: str) -> tuple[str | None, Any]:
    if word == "-":
        if not sys.stdin:
            raise click.UsageError("cannot read the arguments: standard input is closed")
        return None, _json_object(sys.stdin.read(), "standard input")
    if word.startswith("@"):
        try:
            return None, _json_object(Path(word[1:]).read_text(encoding="utf-8"), word[1:])
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise click.UsageError(f"cannot read {word[1:]}: {reason}") from error
    if word.lstrip().startswith("{"):
        return None, _json_object(word, "the argument")
    assignment = _ASSIGNMENT.fullmatch(word)
    if assignment is None:
        raise click.UsageError(f"{word!r} is not an argument: use name=text, name:=JSON, @FILE or a JSON object")
    name, value = assignment["name"], assignment["value"]
    return name, _json(value, name) if assignment["json"] else _Text(value)


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{place} is not JSON ({error})") from error


def _json_object(text: str, place: str) -> dict[str, Any]:
    value = _json(text, place)
    if not isinstance(value, dict):
        raise click.UsageError(f'{place} must be a JSON object, such as {{"path": "a.txt"}}')
    return cast("dict[str, Any]", value)


def _as_taken(text: str, schema: Mapping[str, Any]) -> Any:
    """Return a value typed as text, parsed as JSON if the parameter does not accept text."""
    kinds = [kind for choice in (schema, *_choices(schema)) for kind in _kinds(choice)]
    if not kinds or "string" in kinds:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # validation will reject it


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    return as_list(schema.get("anyOf", schema.get("oneOf")))


def _kinds(schema: Any) -> list[str]:
    stated = as_object(schema).get("type")
    return [stated] if isinstance(stated, str) else [str(kind) for kind in as_list(stated)]
