"""The schema's shapes as TypeScript, in the style of the official extensions.

    python -m tools_search_spec.typescript > schema.ts

`schema.json` is the source of `schema.ts`, and a test keeps them in sync. The output compiles on its own, because it
ends with the types of the base protocol that it uses. Constraints that TypeScript cannot express (bounds, integers) are
comments.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, schema

_Schema = Mapping[str, Any]

_HEAD: Final = f"""\
/**
 * Shapes of the tools/search extension, draft.
 * Extension identifier: {EXTENSION_ID} (provisional and unofficial)
 *
 * Generated from schema.json, which is the source. Do not edit.
 */
"""
_BASE: Final = "Base protocol"
_BASE_HEAD: Final = """\
/*
 * The rest repeats revision 2026-07-28 of the base protocol, as far as the shapes above need it.
 */
"""
_JSON_OBJECT: Final = "type JSONObject = { [key: string]: any };\n"
_SCALARS: Final = {"string": "string", "boolean": "boolean", "integer": "number", "number": "number"}
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WIDTH: Final = 100


def typescript() -> str:
    """Return the text of `schema.ts`."""
    definitions = schema()["$defs"]
    own = [f"{_comment(definitions[name], indent='')}export {declaration(name)}" for name in declared_names()]
    base = [f"export {declaration(name)}" for name, shape in definitions.items() if _is_base(shape)]
    return "\n".join([_HEAD, *own, _BASE_HEAD, *base, f"export {_JSON_OBJECT}"])


def declared_names() -> list[str]:
    """Return the names that the extension defines, in the order of the schema."""
    return [name for name, shape in schema()["$defs"].items() if not _is_base(shape)]


def declaration(name: str) -> str:
    """Return the declaration of one type without its leading comment and without `export`.

    Raises:
        KeyError: The schema has no definition of that name.
    """
    shape = schema()["$defs"][name]
    parents = [_reference(part) for part in shape.get("allOf", [])]
    if not parents and not shape.get("properties"):
        return f"type {name} = {_expression(shape, indent='')};\n"
    extends = f" extends {', '.join(parents)}" if parents else ""
    return f"interface {name}{extends} {_members(shape, indent='', is_open=_is_base(shape))}\n"


def _is_base(shape: _Schema) -> bool:
    return shape.get("$comment", "").startswith(_BASE)


def _members(shape: _Schema, *, indent: str, is_open: bool) -> str:
    """Return the members in braces. If `is_open`, objects in them allow other members, like the schemas of tools."""
    inner, required = indent + "  ", shape.get("required", [])
    lines = ""
    for name, member in shape["properties"].items():
        comment = _comment(member, indent=inner)
        key = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)
        kind = _expression(member, indent=inner, is_open=is_open)
        blank = "\n" if comment and lines else ""
        lines += f"{blank}{comment}{inner}{key}{'' if name in required else '?'}: {kind};\n"
    if is_open and indent:
        lines += f"{inner}[key: string]: unknown;\n"
    return "{\n" + lines + indent + "}"


def _reference(shape: _Schema) -> str:
    return shape["$ref"].rpartition("/")[2]


def _expression(shape: _Schema, *, indent: str, is_open: bool = False) -> str:
    if "$ref" in shape:
        return _reference(shape)
    if "const" in shape:
        return json.dumps(shape["const"])
    if "enum" in shape:
        return " | ".join(map(json.dumps, shape["enum"]))
    kind: str | list[str] = shape["type"]
    if isinstance(kind, list):
        return " | ".join(_SCALARS[each] for each in kind)
    if kind == "array":
        return f"{_expression(shape['items'], indent=indent)}[]"
    if kind == "object":
        return _members(shape, indent=indent, is_open=is_open) if shape.get("properties") else "JSONObject"
    return _SCALARS[kind]


def _comment(shape: _Schema, *, indent: str) -> str:
    lines = textwrap.wrap(shape.get("description", ""), _WIDTH - len(indent))
    tags = [f"@{tag} {shape[tag]}" for tag in ("minimum", "maximum") if tag in shape]
    if shape.get("type") == "number":
        tags.insert(0, "@TJS-type number")
    if tags:
        lines += ["", *tags] if lines else tags
    if not lines:
        return ""
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


if __name__ == "__main__":
    sys.stdout.write(typescript())
