"""The catalogs that a fixture must serve: named ones, and small ones made from a few words."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tools_search_spec import PRIMITIVES, Primitive

from tools_search_conformance.wire.codec import JsonObject

NAMES: Final = ("core", "empty", "large", "single")
"""`core`: 48 tools with distinctive words, nested schemas and several scripts; 37 resources with contents, 29 templates
and 28 prompts. `empty`: no tools and no prompts, and a resource without a template. `large`: 130 tools that share a
word, more than the 127 up to which some languages compare counts by identity or hold them in a byte, and 110 of each
other kind that do. `single`: one tool from `core`.
"""

COMMON: Final = "meadow"
"""A word in every item from `made_item`."""

WORDS: Final = (
    "anvil", "beacon", "chisel", "dynamo", "easel", "furnace", "gimbal", "hacksaw", "inkwell", "javelin",
)  # fmt: skip
"""Words for such items, one each."""


def write(name: str, folder: Path) -> Path:
    """Write the catalog `name` to `folder`, unless it is already there, and return its path."""
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_bytes((files(__name__) / f"{name}.json").read_bytes())
    return path


def items(name: str, member: str) -> list[JsonObject]:
    """Return the tools in the catalog `name`, or its items under another member."""
    return _read(name).get(member, [])


def tools(name: str) -> list[JsonObject]:
    """Return the tools in the catalog `name`."""
    return items(name, "tools")


@cache
def _read(name: str) -> Mapping[str, Any]:
    return json.loads((files(__name__) / f"{name}.json").read_bytes())


def place(name: str, document: Mapping[str, Any], folder: Path) -> None:
    """Write `document` as the catalog `name` in `folder`, atomically: a reader gets the old or the new one.

    An unchanged file is not rewritten, so that no change is detected.
    """
    path, new = folder / f"{name}.json", folder / f"{name}.new"
    text = json.dumps(document, ensure_ascii=False).encode()
    before = path.stat().st_mtime if path.exists() else None
    if before is None or path.read_bytes() != text:
        new.write_bytes(text)
        if before is not None:
            later = max(time.time(), before + 1)  # many programs compare modification times in whole seconds
            os.utime(new, (later, later))
        new.replace(path)


def name_of(word: str) -> str:
    """Return the name of the tool for `word`."""
    return f"{COMMON}_{word}"


def key_of(primitive: Primitive, word: str) -> str:
    """Return the key of the item for `word`."""
    return {
        "uri": f"made://{COMMON}/{word}",
        "uriTemplate": f"made://{COMMON}/{word}/{{page}}",
    }.get(primitive.key, name_of(word))


def made_item(primitive: Primitive, word: str, **more: Any) -> JsonObject:
    """Return the item for `word`, with the additional members in `more`."""
    own = {"name": name_of(word), "description": f"Looks after the {word} of the {COMMON}."}
    schema = {"inputSchema": {"type": "object"}} if primitive is PRIMITIVES[0] else {}
    return {primitive.key: key_of(primitive, word), **own, **schema, **more}


def made_tool(word: str, **more: Any) -> JsonObject:
    """Return the tool for `word`."""
    return made_item(PRIMITIVES[0], word, **more)


def document(tools: Sequence[JsonObject], **more: Any) -> JsonObject:
    """Return a catalog file's content."""
    return {"tools": list(tools), **more}


def document_of(make: Callable[[Primitive], Sequence[JsonObject]], **more: Any) -> JsonObject:
    """Return a catalog file's content, with the items from `make` in each list."""
    return {**{primitive.member: list(make(primitive)) for primitive in PRIMITIVES}, **more}
