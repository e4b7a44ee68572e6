"""Writes the schema's shapes as TypeScript, in the style of the official extensions.

    python -m tools_search_spec.typescript > schema.ts

`schema.json` is the source; `schema.ts` stands beside it and a test holds the two together. Definitions that repeat the
base protocol are imported, not declared. What TypeScript cannot say (bounds, integers) stands in the comments.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, schema

__all__ = ["declaration", "declared_names", "typescript"]

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
_SCALARS: Final = {"string": "string", "boolean": "boolean", "integer": "number", "number": "number"}
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WIDTH: Final = 100


def typescript() -> str:
    """Return the text of `schema.ts`."""
    definitions = schema()["$defs"]
    bodies = [f"{_comment(definitions[name], indent='')}export {declaration(name)}" for name in declared_names()]
    imported = ",\n  ".join(_imported_names("\n".join(bodies)))
    imports = f'import type {{\n  {imported},\n}} from "./spec.types.js"; // base protocol, revision 2026-07-28\n'
    return "\n".join([_HEAD, imports, *bodies])


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
        return f"type {name} = JSONObject;\n"
    extends = f" extends {', '.join(parents)}" if parents else ""
    return f"interface {name}{extends} {_members(shape, indent='')}\n"


def _is_base(shape: _Schema) -> bool:
    return shape.get("$comment", "").startswith(_BASE)


def _imported_names(declarations: str) -> list[str]:
    base = [name for name, shape in schema()["$defs"].items() if _is_base(shape)]
    code = re.sub(r"/\*.*?\*/", "", declarations, flags=re.DOTALL)
    return sorted(name for name in [*base, "JSONObject"] if re.search(rf"\b{name}\b", code))


def _members(shape: _Schema, *, indent: str) -> str:
    inner = indent + "  "
    required = shape.get("required", [])
    blocks = [
        f"{_comment(member, indent=inner)}{inner}{_key(name)}{'' if name in required else '?'}: "
        f"{_expression(member, indent=inner)};\n"
        for name, member in shape["properties"].items()
    ]
    return "{\n" + "".join(_separated(blocks)) + indent + "}"


def _separated(blocks: list[str]) -> Iterator[str]:
    """Put a blank line before each member that carries a comment, but for the first."""
    for position, block in enumerate(blocks):
        yield f"\n{block}" if position and block.lstrip().startswith("/**") else block


def _key(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


def _reference(shape: _Schema) -> str:
    return shape["$ref"].rpartition("/")[2]


def _expression(shape: _Schema, *, indent: str) -> str:
    if "$ref" in shape:
        return _reference(shape)
    if "const" in shape:
        return json.dumps(shape["const"])
    if shape["type"] == "array":
        return f"{_expression(shape['items'], indent=indent)}[]"
    if shape["type"] == "object":
        return _members(shape, indent=indent) if shape.get("properties") else "JSONObject"
    return _SCALARS[shape["type"]]


def _comment(shape: _Schema, *, indent: str) -> str:
    lines = textwrap.wrap(shape.get("description", ""), _WIDTH - len(indent))
    tags = [f"@{tag} {shape[tag]}" for tag in ("minimum", "maximum") if tag in shape]
    if shape.get("type") == "number":
        tags.insert(0, "@TJS-type number")
    if tags:
        lines += ["", *tags]
    if not lines:
        return ""
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


if __name__ == "__main__":
    sys.stdout.write(typescript())
