"""The methods. Each runs one conversation with a simulated model, from a cold start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from mcp_ext_tools_search.types import METHOD

from benchmarks.context.catalog import ToolKey
from benchmarks.context.measure import Request, StandIn, answered, called, system, user
from benchmarks.method.gateway import Gateway
from benchmarks.processes import Wire

Way: TypeAlias = Callable[[Gateway, StandIn, int], None]
"""Runs a conversation in which every search has this limit."""

BASE: Final = "`tools/search`, delegated"

_MAX_CHARACTERS: Final = 1_024
_SEARCH: Final[Mapping[str, Any]] = {
    "name": "search_tools",
    "description": "Find more tools by what they do. They are then in your list of tools.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What is needed, in a few words"}},
        "required": ["query"],
    },
}
"""The host's own tool, whose calls no server sees."""


def _listed(gateway: Gateway, model: StandIn, _limit: int) -> None:
    """Send every definition to the model."""
    wire = gateway.plain
    messages = _opening(wire, model)
    tools = wire.listed()
    request = Request([*map(_definition, tools)], messages, _keys(gateway, tools), 0)
    if model.search_for(request) is not None:
        raise LookupError("a tool that is needed is not in the list")


def _by_method(gateway: Gateway, model: StandIn, limit: int, *, is_delegated: bool) -> None:
    """Search by request: with the user's text before asking the model, or when the model searches."""
    wire = gateway.plain
    messages = _opening(wire, model)
    found: dict[str, dict[str, Any]] = {}

    def search(text: str) -> Sequence[str]:
        page = wire.ask(METHOD, {"query": text[:_MAX_CHARACTERS], "limit": limit})
        new = {tool["name"]: tool for tool in page["tools"] if tool["name"] not in found}
        found.update(new)
        return [*new]

    if is_delegated:
        search(model.task.text)
    searches = int(is_delegated)
    while True:
        tools = [_SEARCH, *map(_definition, found.values())]
        text = model.search_for(Request(tools, messages, _keys(gateway, found.values()), searches))
        if text is None:
            return
        answer = f"New in your list: {', '.join(search(text)) or 'nothing'}"
        messages = [*messages, called("search_tools", {"query": text}), answered(answer)]
        searches += 1


def _by_tool(gateway: Gateway, model: StandIn, limit: int, *, level: str) -> None:
    """Search with the server's tool; if `level` is not `full`, get the schemas before a call."""
    wire = gateway.meta_tools
    messages = _opening(wire, model)
    tools = [*map(_definition, wire.listed())]
    found: dict[str, ToolKey] = {}

    def call(name: str, arguments: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        nonlocal messages
        [content] = wire.ask("tools/call", {"name": name, "arguments": arguments})["content"]
        messages = [*messages, called(name, arguments), answered(content["text"])]
        return json.loads(content["text"])["tools"]

    def request(searches: int) -> Request:
        return Request(tools, messages, frozenset(found.values()), searches)

    searches = 0
    while (text := model.search_for(request(searches))) is not None:
        query = {"query": text[:_MAX_CHARACTERS], "max_results": limit, "detail_level": level}
        found |= {hit["name"]: gateway.keys[hit["name"]] for hit in call("search_tools", query)}
        searches += 1
    wanted = [name for name, key in found.items() if key in model.task.needed]
    if level != "full" and wanted:  # it asks in the request in which it would otherwise have called
        call("describe_tools", {"names": wanted})
        model.requests.append(request(searches))


def _opening(wire: Wire, model: StandIn) -> list[dict[str, Any]]:
    """Return the first turn's messages."""
    instructions = wire.ask("server/discover", {}).get("instructions")
    return [*([system(instructions)] if instructions else []), user(model.task.text)]


def _definition(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": tool["name"], "description": tool.get("description", ""), "parameters": tool["inputSchema"]}


def _keys(gateway: Gateway, tools: Iterable[Mapping[str, Any]]) -> frozenset[ToolKey]:
    return frozenset(gateway.keys[tool["name"]] for tool in tools)


WAYS: Final[Mapping[str, Way]] = {
    "everything listed": _listed,
    BASE: partial(_by_method, is_delegated=True),
    "`tools/search`, model-driven": partial(_by_method, is_delegated=False),
    "search tool, then describe": partial(_by_tool, level="brief"),
    "search tool, whole definitions": partial(_by_tool, level="full"),
}
