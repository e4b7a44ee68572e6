"""The methods of offering tools to compare: listing everything, this project's modes, and peers' own code.

Peers are imported on demand, because each is optional (`pip install '.[benchmark]'`).
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Reply, ToolCall
from tools_search_client.conversation.sources import ListedSource
from tools_search_client.federation.configuration import ToolDiscovery

from benchmarks.context.catalog import Catalog, definition
from benchmarks.context.measure import MAX_SEARCHES, Replay, Request, StandIn, Way, answered, called, system, user

_SEARCH: Final = "search_tools"


@asynccontextmanager
async def everything_listed(catalog: Catalog, _limit: int | None) -> AsyncGenerator[Replay]:
    """Send everything."""
    tools = [definition(name, catalog.tools[key]) for name, key in catalog.prefixed.items()]

    async def replay(model: StandIn) -> None:
        if model.search_for(Request(tools, [user(model.task.text)], frozenset(catalog.tools), 0)) is not None:
            raise LookupError("a tool that is needed is not in the catalog")

    yield replay


@asynccontextmanager
async def _conversation(
    catalog: Catalog, limit: int | None, *, discovery: ToolDiscovery, delegate: bool = False
) -> AsyncGenerator[Replay]:
    """Use the reference client's conversations in one of its modes."""
    source = ListedSource.of(catalog.servers)
    if delegate:
        source.offers = tuple(replace(offer, delegate="turn") for offer in source.offers)
    if limit is not None:
        discovery = replace(discovery, max_search_results=limit)

    async def replay(model: StandIn) -> None:
        conversation = Conversation(source, discovery)
        messages = [user(model.task.text)]
        await conversation.begin_turn(model.task.text)
        searches = int(delegate)
        while True:
            offer = conversation.offer()
            messages += map(user, offer.notices)
            found = [tool.tool for tool in offer.tools if tool.tool is not None]
            available = frozenset((tool.server, tool.tool.name) for tool in found)
            text = model.search_for(Request([tool.to_json() for tool in offer.tools], messages, available, searches))
            if text is None:
                return
            reply = await conversation.take(ToolCall(_SEARCH, {"query": text}))
            if not isinstance(reply, Reply):
                raise TypeError("a search is answered by the conversation itself")
            messages = [*messages, called(_SEARCH, {"query": text}), answered(reply.text)]
            searches += 1

    yield replay


@asynccontextmanager
async def _fastmcp(
    catalog: Catalog, limit: int | None, *, transform: str, arguments: Callable[[str], dict[str, str]]
) -> AsyncGenerator[Replay]:
    """Search with a transform of FastMCP's server."""
    framework: Any = import_module("fastmcp")
    transforms: Any = import_module("fastmcp.server.transforms.search")
    server = framework.FastMCP("catalog")
    make_tool = import_module("fastmcp.tools").Tool
    for name, key in catalog.prefixed.items():
        tool = catalog.tools[key]
        server.add_tool(make_tool(name=name, description=tool.description, parameters=tool.input_schema))
    server.add_transform(getattr(transforms, transform)(**_option("max_results", limit)))

    async def replay(model: StandIn) -> None:
        messages = [user(model.task.text)]
        found: set[str] = set()
        searches = 0
        while True:
            available = frozenset(catalog.prefixed[name] for name in found)
            text = model.search_for(Request(tools, messages, available, searches))
            if text is None:
                return
            result = await client.call_tool(_SEARCH, arguments(text))
            answer = "".join(block.text for block in result.content)
            found |= {hit["name"] for hit in json.loads(answer or "[]")}
            messages = [*messages, called(_SEARCH, arguments(text)), answered(answer)]
            searches += 1

    async with framework.Client(server) as client:
        tools = [definition(tool.name, tool) for tool in await client.list_tools()]
        yield replay


def _option(name: str, limit: int | None) -> dict[str, int]:
    return {} if limit is None else {name: limit}


def _any_word(text: str) -> dict[str, str]:
    """Return a pattern of at most the 1,000 characters that the transform accepts; matches are not ranked."""
    words = dict.fromkeys(re.findall(r"\w{4,}", text.casefold()))
    pattern = "|".join(words) or re.escape(text)
    return {"pattern": pattern if len(pattern) <= 1_000 else pattern[:1_000].rpartition("|")[0]}


@asynccontextmanager
async def casual_mcp(catalog: Catalog, limit: int | None) -> AsyncGenerator[Replay]:
    """Defer every server; tools come from its cache, because there is nothing to connect to."""
    # It leaves out tools without a description or with a parameter of several types, with a warning for each.
    logging.getLogger("casual_mcp").addHandler(logging.NullHandler())
    llm: Any = import_module("casual_llm")
    models: Any = import_module("casual_mcp.models.config")
    servers: Any = import_module("casual_mcp.models.mcp_server_config")
    discovery: Any = import_module("casual_mcp.models.tool_discovery_config")
    framework: Any = import_module("fastmcp")
    options = _option("max_search_results", limit)
    config = models.Config(
        models={},
        servers={name: servers.StdioServerConfig(command="true") for name in catalog.servers},
        tool_discovery=discovery.ToolDiscoveryConfig(enabled=True, defer_all=True, **options),
    )
    chat = import_module("casual_mcp.mcp_tool_chat").McpToolChat.from_config(config)
    # It opens a connection for every conversation.
    chat.mcp_client = framework.Client(framework.FastMCP("nothing"))
    chat.tool_cache = import_module("casual_mcp.tool_cache").ToolCache(chat.mcp_client, ttl_seconds=1e9)
    # It expects names without a prefix if there is only one server.
    keys = {key[1]: key for key in catalog.tools} if len(catalog.servers) == 1 else catalog.prefixed
    await chat.tool_cache.prime([catalog.tools[key].model_copy(update={"name": name}) for name, key in keys.items()])

    def message_of(message: Any) -> dict[str, Any]:
        if message.role == "assistant":
            call = message.tool_calls[0].function
            return called(call.name, json.loads(call.arguments))
        return {"system": system, "user": user, "tool": answered}[message.role](message.content)

    async def replay(model: StandIn) -> None:
        async def respond(messages: list[Any], options: Any = None) -> Any:
            tools = options.tools
            request = Request(
                [
                    {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
                    for tool in tools
                ],
                [*map(message_of, messages)],
                frozenset(keys[tool.name] for tool in tools if tool.name in keys),
                sum(message.role == "tool" for message in messages),
            )
            text = model.search_for(request)
            if text is None:
                return llm.AssistantMessage(content="done")
            function = llm.AssistantToolCallFunction(name="search-tools", arguments=json.dumps({"query": text}))
            call = llm.AssistantToolCall(id="1", type="function", function=function)
            return llm.AssistantMessage(content=None, tool_calls=[call])

        scripted = llm.Model(client=None, name="stand-in")
        scripted.chat = respond
        with warnings.catch_warnings():
            # It uses names that its version of FastMCP has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", message="Accessing `Tool")
            await chat.chat([llm.UserMessage(content=model.task.text)], model=scripted)

    yield replay


@asynccontextmanager
async def pydantic_ai(catalog: Catalog, limit: int | None) -> AsyncGenerator[Replay]:
    """Defer every tool."""
    framework: Any = import_module("pydantic_ai")
    toolsets: Any = import_module("pydantic_ai.toolsets")
    capabilities: Any = import_module("pydantic_ai.capabilities")
    function: Any = import_module("pydantic_ai.models.function")
    messages: Any = import_module("pydantic_ai.messages")
    definitions = [
        framework.ToolDefinition(name=name, description=tool.description, parameters_json_schema=tool.input_schema)
        for name, key in catalog.prefixed.items()
        for tool in (catalog.tools[key],)
    ]
    deferred = toolsets.DeferredLoadingToolset(toolsets.ExternalToolset(definitions))

    def message_of(part: Any) -> dict[str, Any]:
        match part.part_kind:
            case "tool-call":
                return called(part.tool_name, part.args_as_dict())
            case "tool-return":
                return answered(part.model_response_str())
            case "retry-prompt":
                return answered(part.model_response())
            case _:
                return user(part.content)

    async def replay(model: StandIn) -> None:
        def respond(history: list[Any], info: Any) -> Any:
            parts = [part for message in history for part in message.parts]
            tools = [
                {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
                for tool in info.function_tools
            ]
            available = frozenset(catalog.prefixed[tool["name"]] for tool in tools if tool["name"] in catalog.prefixed)
            # A search without a Latin letter or digit is answered by a request to retry.
            searches = sum(part.part_kind in {"tool-return", "retry-prompt"} for part in parts)
            text = model.search_for(Request(tools, [*map(message_of, parts)], available, searches))
            said = messages.TextPart("done") if text is None else messages.ToolCallPart(_SEARCH, {"queries": [text]})
            return messages.ModelResponse(parts=[said])

        # A provider without its own search, so that it gets the framework's search.
        provider = function.FunctionModel(respond, profile={"supported_native_tools": frozenset()})
        await agent.run(model.task.text, model=provider)

    search = capabilities.ToolSearch(**_option("max_results", limit))
    agent = framework.Agent(toolsets=[deferred], capabilities=[search], retries=MAX_SEARCHES)
    yield replay


LISTED: Final = "everything listed"
OURS: Final = "ours, model-driven"
DELEGATED: Final = "ours, delegated"
DEFERRED: Final = ToolDiscovery(enabled=True, defer_all=True)
WAYS: Final[Mapping[str, Way]] = {
    LISTED: everything_listed,
    OURS: partial(_conversation, discovery=DEFERRED),
    DELEGATED: partial(_conversation, discovery=DEFERRED, delegate=True),
    # Defers only if the tools exceed the default share of the default context window.
    "ours, automatic": partial(_conversation, discovery=ToolDiscovery(enabled=True, auto=True)),
    "Pydantic AI": pydantic_ai,
    "casual-mcp": casual_mcp,
    "FastMCP, BM25": partial(_fastmcp, transform="BM25SearchTransform", arguments=lambda text: {"query": text}),
    "FastMCP, regex": partial(_fastmcp, transform="RegexSearchTransform", arguments=_any_word),
}
PACKAGES: Final[Mapping[str, str]] = {
    "Pydantic AI": "pydantic_ai",
    "casual-mcp": "casual_mcp",
    "FastMCP, BM25": "fastmcp",
    "FastMCP, regex": "fastmcp",
}
"""The packages that some methods need."""
