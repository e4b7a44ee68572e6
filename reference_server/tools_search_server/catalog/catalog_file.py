"""Catalog files: `{"tools": [Tool, ...]}`, with the definitions exactly as `tools/list` returns them.

Two more members are optional:

* `{"answers": {"tool name": CallToolResult, ...}}`: fixed answers of tools.
* `{"hidden": {"token": ["tool name", ...]}}`: tools that are hidden from HTTP callers with a bearer token. This is a
  feature of the conformance fixture and no protection, since the tokens stand in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

from mcp_types import CallToolResult, Tool
from pydantic import BaseModel, TypeAdapter, ValidationError
from tools_search_hosts import ConfigurationError

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class CatalogFile:
    """The contents of a catalog file."""

    tools: Sequence[Tool]

    answers: Mapping[str, CallToolResult] = field(default_factory=dict[str, CallToolResult])
    """Fixed answers of some tools, by name."""

    hidden: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names of the tools that are hidden from some callers, by bearer token."""


def read_catalog(file: Path) -> CatalogFile:
    """Return the contents of a catalog file, the tools in its order.

    Raises:
        ConfigurationError: The file cannot be read, a definition is not an MCP tool, two have the same name, an
            answer is not a result of a call, or `hidden` does not hold lists of names.
    """
    document = _read_json(file)
    members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    definitions = members.get("tools")
    if not isinstance(definitions, list):
        raise _unusable(file, 'has no array `tools`. Write {"tools": [{"name": ..., "inputSchema": ...}]}.')
    tools: dict[str, Tool] = {}
    for index, definition in enumerate(cast("list[Any]", definitions)):
        place = f"tools[{index}]"
        tool = _validated(file, Tool, definition, place, "MCP tool")
        if tool.input_schema.get("type") != "object":
            advice = 'Every MCP tool takes an object: write "type": "object".'
            raise _unusable(file, f"`{place}.inputSchema.type` is not `object`. {advice}")
        if tool.name in tools:
            wrong = f"repeats the name {tool.name!r} of tools[{[*tools].index(tool.name)}]"
            raise _unusable(file, f"`{place}.name` {wrong}. Names are unique within a catalog.")
        tools[tool.name] = tool
    answers = members.get("answers", {})
    if not isinstance(answers, dict):
        raise _unusable(file, '`answers` is not an object. Write {"tool name": {"content": [...]}}.')
    read_answers = {
        name: _validated(file, CallToolResult, answer, f"answers.{name}", "result of a call")
        for name, answer in cast("dict[str, Any]", answers).items()
    }
    try:
        hidden = TypeAdapter(dict[str, frozenset[str]]).validate_python(members.get("hidden", {}))
    except ValidationError as error:
        place = ".".join(["hidden", *map(str, error.errors()[0]["loc"])])
        raise _unusable(file, f'`{place}` is invalid. Write {{"token": ["tool name", ...]}}.') from None
    return CatalogFile([*tools.values()], read_answers, hidden)


def bundled_catalog() -> CatalogFile:
    """Return the tools of the bundled catalog, file by file in name order.

    Raises:
        ConfigurationError: A bundled file is damaged.
    """
    with resources.as_file(resources.files("tools_search_server.catalog") / "data") as folder:
        files = sorted(folder.glob("*.json"))
        return CatalogFile([tool for file in files for tool in read_catalog(file).tools])


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _unusable(file, f"cannot be read ({error.strerror}). Name a catalog file that exists.") from None
    except UnicodeDecodeError:
        raise _unusable(file, "is not UTF-8 text. Save it as UTF-8.") from None
    except json.JSONDecodeError as error:
        if not error.doc.strip():
            raise _unusable(file, "is empty. Name a catalog file.") from None
        place = f"line {error.lineno} column {error.colno}"
        problem = f"is not JSON, at {place} ({error.msg}). Comments and trailing commas are no JSON."
        raise _unusable(file, problem) from None
    except RecursionError:
        raise _unusable(file, "is nested too deeply. Name a catalog file.") from None


def _validated(file: Path, model: type[_Model], value: Any, place: str, kind: str) -> _Model:
    try:
        return model.model_validate(value, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([place, *map(str, first["loc"])])
        problem = f"`{place}` is no {kind} ({first['msg']}). See `{model.__name__}` in the MCP schema."
        raise _unusable(file, problem) from None


def _unusable(file: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(str(file), [problem])
