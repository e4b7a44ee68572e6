"""The meta-tools: their names, definitions and arguments, and the options of the modes that offer them.

The definitions are few and short, since a host shows all of them to its model. The tools also accept the spellings of
arguments that models and other gateways use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Tool
from tools_search_hosts.json_values import is_object

from tools_search_server.base.defaults import LIST_AT_MOST

LEVELS: Final = ("minimal", "brief", "full")

PREFIX_RULE: Final = "at most 24 letters, digits, `_` and `-`, a letter first, without `__`"
_PREFIX: Final = re.compile(r"(?!.*__)([A-Za-z][A-Za-z0-9_-]{0,23})?\Z")

_ALIASES: Final[Mapping[str, str]] = {"invoke_tool": "call_tool", "list_categories": "list_tool_categories"}
"""Names that other gateways use. They are accepted but not listed."""

_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "call_tool": {"toolName": "name", "tool_name": "name", "args": "arguments"},
    "get_related_tools": {"toolName": "name", "tool_name": "name"},
}
"""Parameter names that other gateways use."""

_READ_ONLY: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_DOES_ANYTHING: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}

_TEXTS: Final[Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_NAME: Final[Any] = {"type": "string", "description": "Name of a found tool"}
_LEVEL: Final[Any] = {
    "enum": list(LEVELS),
    "description": "minimal: names; brief: what each does; full: schemas too",
}
_COUNT: Final[Any] = {"type": "integer", "minimum": 1}
_FILTERS: Final[Any] = {
    "category": {"type": "string", "description": "Only tools of this category"},
    "server": {"type": "string", "description": "Only tools of this server"},
    "tags": _TEXTS | {"description": "Only tools with these tags"},
    "match_mode": {"enum": ["any", "all"], "description": "How many of the tags; default any"},
}
_PAGE: Final[Any] = {"page": _COUNT, "page_size": _COUNT | {"description": "Default 50, at most 100"}}

_SEARCH: Final[Any] = {"query": {"type": "string", "description": "What is needed, in a few words"}}

META_TOOLS: Final[Mapping[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {
    "search_tools": (
        "Find tools by what they do, best first. Most tools are not listed: search before saying that there is none.",
        _SEARCH | _FILTERS | {"detail_level": _LEVEL, "max_results": _COUNT | {"description": "Default 10"}},
        ("query",),
    ),
    "list_tool_categories": ("List the categories of tools, with counts.", {}, ()),
    "list_tools": ("List tools by pages.", {**_FILTERS, "detail_level": _LEVEL, **_PAGE}, ()),
    "find_by_tags": (
        "Find the tools that have any or all of some tags.",
        {"tags": _TEXTS, "match_mode": {"enum": ["any", "all"]}, "detail_level": _LEVEL, **_PAGE},
        ("tags",),
    ),
    "get_related_tools": (
        "List tools that go together with one, closest relation first.",
        {"name": _NAME, "max_results": _COUNT | {"description": "Default 5"}},
        ("name",),
    ),
    "describe_tools": (
        "Return the complete definitions of tools: look at the input schema before a call.",
        {"names": _TEXTS | {"maxItems": 20}},
        ("names",),
    ),
    "call_tool": (
        "Call a found tool.",
        {"name": _NAME, "arguments": {"type": "object", "description": "As its input schema says"}},
        ("name",),
    ),
}
"""Description, parameters and required parameters of each meta-tool."""

_ADDING: Final = (
    "Find tools by what they do, best first, and add them to the list of tools, from which they can then be called. "
    "Most tools are not listed: search before saying that there is none."
)


class ToolFailureError(Exception):
    """A call that cannot be answered. Its document says what is wrong and how a model can correct it."""

    def __init__(self, error: str, suggestions: Sequence[str] = (), **more: Any) -> None:
        super().__init__(error)
        self.document: dict[str, Any] = {"error": error, **({"suggestions": [*suggestions]} if suggestions else {})}
        self.document |= more


@dataclass(frozen=True)
class CompatOptions:
    """Settings of the compatibility modes that the command line offers."""

    modes: tuple[str, ...]
    prefix: str
    """Prefix for the names of the tools that the modes add. With it, they never collide with an upstream's tools, whose
    public names contain `__` or end in a digest.
    """
    most_tools: int
    """Maximum number of found tools in a session's list."""
    list_at_most: int = LIST_AT_MOST
    """Maximum number of tools for which `auto` lists all of them to a caller."""

    def named(self, plain: str) -> str:
        """Return the prefixed name of a meta-tool."""
        return f"{self.prefix}{plain}"

    def plain(self, offered: str) -> str | None:
        """Return the unprefixed name of the meta-tool that `offered` refers to, or `None`."""
        name = offered.removeprefix(self.prefix) if offered.startswith(self.prefix) else ""
        name = _ALIASES.get(name, name)
        return name if name in META_TOOLS else None


def is_prefix(text: str) -> bool:
    """Return whether a text follows `PREFIX_RULE`."""
    return _PREFIX.match(text) is not None


def meta_tools(options: CompatOptions) -> list[Tool]:
    """Return the tools of the `meta-tools` mode."""
    return [_tool(options, name, *about) for name, about in META_TOOLS.items()]


def search_tool(options: CompatOptions) -> Tool:
    """Return the search tool of the `list-changed` mode."""
    _, parameters, required = META_TOOLS["search_tools"]
    shown = {name: schema for name, schema in parameters.items() if name != "detail_level"}
    shown["max_results"] = _COUNT | {"description": "Default 20"}
    return _tool(options, "search_tools", _ADDING, shown, required)


def _tool(options: CompatOptions, name: str, description: str, parameters: Any, required: tuple[str, ...]) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": parameters}
    schema |= {"required": list(required)} if required else {}
    hints = _DOES_ANYTHING if name == "call_tool" else _READ_ONLY
    return Tool.model_validate(
        {"name": options.named(name), "description": description, "inputSchema": schema, "annotations": hints}
    )


def checked_arguments(tool: Tool, plain: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a meta-tool, normalized to its definition.

    Raises:
        ToolFailureError: The arguments do not match the definition.
    """
    from tools_search_hosts.arguments import complaints  # deferred: importing jsonschema is slow

    spellings = _SPELLINGS.get(plain, {})
    given = {spellings.get(name, name): value for name, value in arguments.items()}
    if plain == "call_tool" and (inner := given.pop("arguments", None)) is not None:  # null means that there are none
        given["arguments"] = _object_in(inner) if isinstance(inner, str) else inner
    if wrong := complaints(tool.input_schema, given):
        known = {"parameters": list(tool.input_schema["properties"])}
        raise ToolFailureError(f"These arguments do not fit {tool.name}.", problems=wrong, **known)
    return given


def _object_in(text: str) -> Any:
    """Return the object that a text contains, or else the text. Models sometimes send an inner object as text."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if is_object(value) else text
