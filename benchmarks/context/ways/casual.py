"""casual-mcp's tool discovery: its own chat loop, with a model that is the stand-in."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.context.catalog import Catalog
from benchmarks.context.requests import Request, answered, called, system, user
from benchmarks.context.stand_in import StandIn
from benchmarks.context.ways.interface import Replay

__all__ = ["casual_mcp"]

_SEARCH = "search-tools"


@asynccontextmanager
async def casual_mcp(catalog: Catalog, limit: int | None) -> AsyncGenerator[Replay]:
    """Defer every server; tools come from its cache, since there is nothing to connect to."""
    # It leaves out tools without a description or with a parameter of several types, and warns of each.
    logging.getLogger("casual_mcp").addHandler(logging.NullHandler())
    llm: Any = import_module("casual_llm")
    chat = await _chat(catalog, limit)

    async def replay(model: StandIn) -> None:
        async def respond(messages: list[Any], options: Any = None) -> Any:
            text = model.search_for(_request(catalog, messages, options.tools))
            if text is None:
                return llm.AssistantMessage(content="done")
            function = llm.AssistantToolCallFunction(name=_SEARCH, arguments=json.dumps({"query": text}))
            return llm.AssistantMessage(
                content=None, tool_calls=[llm.AssistantToolCall(id="1", type="function", function=function)]
            )

        scripted = llm.Model(client=None, name="stand-in")
        scripted.chat = respond
        with warnings.catch_warnings():
            # It reads definitions by names that its version of FastMCP has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", message="Accessing `Tool")
            await chat.chat([llm.UserMessage(content=model.task.text)], model=scripted)

    yield replay


async def _chat(catalog: Catalog, limit: int | None) -> Any:
    models: Any = import_module("casual_mcp.models.config")
    servers: Any = import_module("casual_mcp.models.mcp_server_config")
    discovery: Any = import_module("casual_mcp.models.tool_discovery_config")
    framework: Any = import_module("fastmcp")
    options = {} if limit is None else {"max_search_results": limit}
    config = models.Config(
        models={},
        servers={name: servers.StdioServerConfig(command="true") for name in catalog.servers},
        tool_discovery=discovery.ToolDiscoveryConfig(enabled=True, defer_all=True, **options),
    )
    chat = import_module("casual_mcp.mcp_tool_chat").McpToolChat.from_config(config)
    # It opens a connection for every conversation.
    chat.mcp_client = framework.Client(framework.FastMCP("nothing"))
    chat.tool_cache = import_module("casual_mcp.tool_cache").ToolCache(chat.mcp_client, ttl_seconds=1e9)
    await chat.tool_cache.prime(
        [catalog.tools[key].model_copy(update={"name": name}) for name, key in _names(catalog).items()]
    )
    return chat


def _names(catalog: Catalog) -> dict[str, tuple[str, str]]:
    """Return names as casual-mcp expects them: without a prefix where there is only one server."""
    if len(catalog.servers) == 1:
        return {key[1]: key for key in catalog.tools}
    return dict(catalog.prefixed)


def _request(catalog: Catalog, messages: list[Any], tools: list[Any]) -> Request:
    keys = _names(catalog)
    return Request(
        [{"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in tools],
        [_message(message) for message in messages],
        frozenset(keys[tool.name] for tool in tools if tool.name in keys),
        sum(message.role == "tool" for message in messages),
    )


def _message(message: Any) -> dict[str, Any]:
    if message.role == "assistant":
        call = message.tool_calls[0].function
        return called(call.name, json.loads(call.arguments))
    return {"system": system, "user": user, "tool": answered}[message.role](message.content)
