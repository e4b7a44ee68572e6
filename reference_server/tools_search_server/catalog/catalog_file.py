"""Catalog files: `{"tools": [Tool, ...]}`, with the definitions exactly as `tools/list` returns them.

More members are optional:

* `{"answers": {"tool name": CallToolResult, ...}}`: fixed answers of tools.
* `{"resources": [Resource, ...], "resourceTemplates": [ResourceTemplate, ...], "prompts": [Prompt, ...]}`: items that
  are offered and searched in addition to tools.
* `{"contents": {"URI": "text", ...}}`: the content of resources, listed or not.
* `{"hidden": {"token": ["name", ...]}}`: items that are hidden from HTTP callers with a bearer token: tools and prompts
  by name, resources by URI, templates by URI template. This is a feature for the conformance fixture and no protection,
  since the file contains the tokens.
* `{"unreadable": {"token": ["URI", ...]}}`: resources that such a caller can list but not read.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from mcp_types import CallToolResult, Prompt, Resource, ResourceTemplate, Tool
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import from_json
from tools_search_hosts import ConfigurationError
from tools_search_hosts.validation import validation_problem

_KEYS: Final[Mapping[str, str]] = {"resources": "uri", "resource_templates": "uri_template", "prompts": "name"}
"""The member that is unique in each list."""


class CatalogFile(BaseModel):
    """The contents of a catalog file."""

    tools: list[Tool]

    answers: dict[str, CallToolResult] = {}
    """Fixed answers of some tools, by name."""

    resources: list[Resource] = []

    resource_templates: Annotated[list[ResourceTemplate], Field(alias="resourceTemplates")] = []

    prompts: list[Prompt] = []

    contents: dict[str, str] = {}
    """The text of some resources, by URI."""

    hidden: dict[str, list[str]] = {}
    """The names or URIs of items that are hidden from some callers, by bearer token."""

    unreadable: dict[str, list[str]] = {}
    """The URIs of resources that some callers may not read, by bearer token."""

    @field_validator("resources", "resource_templates", "prompts")
    @classmethod
    def _are_distinct(cls, items: list[BaseModel], info: ValidationInfo) -> list[BaseModel]:
        keys = Counter(getattr(item, _KEYS[str(info.field_name)]) for item in items)
        repeated = [key for key, count in keys.items() if count > 1]
        if repeated:
            raise ValueError(f"{repeated[0]!r} occurs more than once")
        return items

    @field_validator("tools")
    @classmethod
    def _can_be_listed(cls, tools: list[Tool]) -> list[Tool]:
        places: dict[str, int] = {}
        for place, tool in enumerate(tools):
            if tool.input_schema.get("type") != "object":
                advice = 'every MCP tool takes an object, so write "type": "object"'
                raise ValueError(f"tools.{place}.inputSchema.type is not `object`: {advice}")
            if (first := places.setdefault(tool.name, place)) != place:
                raise ValueError(f"tools.{place} repeats the name {tool.name!r} of tools.{first}")
        return tools


def read_catalog(file: str | PathLike[str]) -> CatalogFile:
    """Return the contents of a catalog file, with the tools in file order.

    Raises:
        ConfigurationError: The file cannot be read, a definition is not an MCP tool, two have the same name, an
            answer is not a tool call result, or `hidden` or `unreadable` does not contain lists of names.
    """
    try:
        return CatalogFile.model_validate(parsed(Path(file).read_text(encoding="utf-8-sig")), by_name=False)
    except OSError as error:
        problem = f"cannot be read ({error.strerror}). Name a catalog file that exists."
    except UnicodeDecodeError:
        problem = "is not UTF-8 text. Save it as UTF-8."
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        problem = f"is not JSON, at {place} ({error.msg}). JSON has no comments or trailing commas."
    except RecursionError:
        problem = "is nested too deeply. Is it a catalog file?"
    except ValidationError as error:
        advice = 'Write {"tools": [Tool, ...]}, each as in the MCP schema.'
        problem = f"{validation_problem(error.errors(include_url=False)[0])}. {advice}"
    except ValueError:  # an integer of thousands of digits
        problem = (
            "contains NaN, an infinity, half a surrogate pair, or a number that is too long. Is it a catalog file?"
        )
    raise ConfigurationError(str(file), [problem])


def parsed(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is not JSON, or contains what no message can: NaN, an infinity, or half a surrogate pair.
        RecursionError: It is nested more deeply than clients read.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    def finite(number: str) -> float:
        return exact if math.isfinite(exact := float(number)) else refuse(number)

    value = json.loads(text, parse_constant=refuse, parse_float=finite)
    try:
        from_json(f"[[[{text}]]]")  # as in a page of `tools/list`
    except ValueError as error:
        if "recursion" in str(error):
            raise RecursionError(str(error)) from None
        raise
    return value


def bundled_catalog() -> CatalogFile:
    """Return the tools of the bundled catalog, file by file in name order.

    Raises:
        ConfigurationError: A bundled file is damaged.
    """
    with resources.as_file(resources.files("tools_search_server.catalog") / "data") as folder:
        files = sorted(folder.glob("*.json"))
        return CatalogFile(tools=[tool for file in files for tool in read_catalog(file).tools])
