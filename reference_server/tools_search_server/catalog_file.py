"""Catalogue files: `{"tools": [Tool, ...]}`, the definitions exactly as `tools/list` is to return them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, cast

from mcp_types import Tool
from pydantic import ValidationError

from tools_search_server.mendable import Mendable, read_json

__all__ = ["bundled_tools", "read_catalog"]


def read_catalog(file: Path) -> Sequence[Tool]:
    """Return the tools of a catalogue file in its order.

    Raises:
        Mendable: The file cannot be read, a definition is no MCP tool, or two have the same name.
    """
    document = read_json(file, "a catalogue file")
    definitions = cast("dict[str, Any]", document).get("tools") if isinstance(document, dict) else None
    if not isinstance(definitions, list):
        raise Mendable(file, "", "has no array `tools`", 'Write {"tools": [{"name": ..., "inputSchema": ...}]}.')
    tools = [_tool(file, place, definition) for place, definition in enumerate(cast("list[Any]", definitions))]
    _refuse_duplicates(file, tools)
    return tools


def bundled_tools() -> Sequence[Tool]:
    """Return the tools of the catalogue that comes with this package, file by file in name order.

    Raises:
        Mendable: A bundled file is damaged.
    """
    folder = resources.files("tools_search_server") / "catalog"
    with resources.as_file(folder) as directory:
        files = sorted(directory.glob("*.json"))
        return [tool for file in files for tool in read_catalog(file)]


def _tool(file: Path, index: int, definition: Any) -> Tool:
    try:
        tool = Tool.model_validate(definition, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([f"tools[{index}]", *map(str, first["loc"])])
        raise Mendable(file, place, f"is no MCP tool ({first['msg']})", "See `Tool` in the MCP schema.") from None
    if tool.input_schema.get("type") != "object":
        place = f"tools[{index}].inputSchema.type"
        raise Mendable(file, place, "is not `object`", 'Every MCP tool takes an object: write "type": "object".')
    return tool


def _refuse_duplicates(file: Path, tools: Sequence[Tool]) -> None:
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        if (earlier := first.setdefault(tool.name, index)) != index:
            wrong = f"repeats the name {tool.name!r} of tools[{earlier}]"
            raise Mendable(file, f"tools[{index}].name", wrong, "Names are unique within a catalogue.")
