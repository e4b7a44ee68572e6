"""Pydantic AI's tool search: an agent with a deferred toolset, and a model that is the stand-in.

Measured is its own search, as it runs for a provider that has none. Where a provider takes additions to the tools at
the end of the input, Pydantic AI keeps the whole prefix; that cannot be seen here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.context.catalog import Catalog
from benchmarks.context.requests import Request, answered, called, user
from benchmarks.context.stand_in import StandIn
from benchmarks.context.ways.interface import Replay

__all__ = ["pydantic_ai"]

_SEARCH = "search_tools"


@asynccontextmanager
async def pydantic_ai(catalog: Catalog, limit: int | None) -> AsyncGenerator[Replay]:
    """Defer every tool."""
    framework: Any = import_module("pydantic_ai")
    toolsets: Any = import_module("pydantic_ai.toolsets")
    capabilities: Any = import_module("pydantic_ai.capabilities")
    function: Any = import_module("pydantic_ai.models.function")
    messages: Any = import_module("pydantic_ai.messages")
    options = {} if limit is None else {"max_results": limit}
    deferred = toolsets.DeferredLoadingToolset(
        toolsets.ExternalToolset([_definition(framework, catalog, name) for name in catalog.prefixed])
    )

    async def replay(model: StandIn) -> None:
        def respond(history: list[Any], info: Any) -> Any:
            text = model.search_for(_request(catalog, history, info))
            said = messages.TextPart("done") if text is None else messages.ToolCallPart(_SEARCH, {"queries": [text]})
            return messages.ModelResponse(parts=[said])

        # A provider without a search of its own, to which the search of the framework is offered.
        provider = function.FunctionModel(respond, profile={"supported_native_tools": frozenset()})
        await agent.run(model.task.text, model=provider)

    agent = framework.Agent(toolsets=[deferred], capabilities=[capabilities.ToolSearch(**options)])
    yield replay


def _definition(framework: Any, catalog: Catalog, name: str) -> Any:
    tool = catalog.tools[catalog.prefixed[name]]
    return framework.ToolDefinition(name=name, description=tool.description, parameters_json_schema=tool.input_schema)


def _request(catalog: Catalog, history: list[Any], info: Any) -> Request:
    parts = [part for message in history for part in message.parts]
    return Request(
        [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
            for tool in info.function_tools
        ],
        [_message(part) for part in parts],
        frozenset(catalog.prefixed[tool.name] for tool in info.function_tools if tool.name in catalog.prefixed),
        sum(part.part_kind == "tool-return" for part in parts),
    )


def _message(part: Any) -> dict[str, Any]:
    match part.part_kind:
        case "tool-call":
            return called(part.tool_name, part.args_as_dict())
        case "tool-return":
            return answered(part.model_response_str())
        case _:
            return user(part.content)
