"""The ways of offering tools that are compared: everything listed, this project's modes, and peers with their own code.

Peers are imported on demand: each is optional (`pip install '.[benchmark]'`).
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Definition, Reply, ToolCall
from tools_search_client.conversation.sources import ListedSource
from tools_search_client.federation.configuration import ToolDiscovery

from benchmarks.context.catalog import Catalog, ToolKey, definition
from benchmarks.context.measure import Replay, Request, StandIn, Way, answered, called, system, user


@asynccontextmanager
async def everything_listed(catalog: Catalog, _limit: int | None) -> AsyncGenerator[Replay]:
    """Send everything."""
    tools = [definition(name, catalog.tools[key]) for name, key in catalog.prefixed.items()]
    available = frozenset(catalog.tools)

    async def replay(model: StandIn) -> None:
        if model.search_for(Request(tools, [user(model.task.text)], available, 0)) is not None:
            raise LookupError("a tool that is needed is not in the catalog")

    yield replay


_SEARCH = "search_tools"


def model_driven(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer every server; the model searches."""
    return _conversing(catalog, _bounded(ToolDiscovery(enabled=True, defer_all=True), limit))


def delegated(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer every server, and search with the user's text before the model is called."""
    return _conversing(catalog, _bounded(ToolDiscovery(enabled=True, defer_all=True), limit), delegate=True)


def automatic(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer only what is more than the default share of the default context window."""
    return _conversing(catalog, _bounded(ToolDiscovery(enabled=True, auto=True), limit))


@asynccontextmanager
async def _conversing(catalog: Catalog, discovery: ToolDiscovery, *, delegate: bool = False) -> AsyncGenerator[Replay]:
    source = ListedSource.of(catalog.servers)
    if delegate:
        source.offers = tuple(replace(offer, delegate="turn") for offer in source.offers)

    async def replay(model: StandIn) -> None:
        conversation = Conversation(source, discovery)
        messages = [user(model.task.text)]
        await conversation.begin_turn(model.task.text)
        searches = int(delegate)
        while (text := model.search_for(_conversation_request(conversation, messages, searches))) is not None:
            reply = await conversation.take(ToolCall(_SEARCH, {"query": text}))
            if not isinstance(reply, Reply):
                raise TypeError("a search is answered by the conversation itself")
            messages = [*messages, called(_SEARCH, {"query": text}), answered(reply.text)]
            searches += 1

    yield replay


def _conversation_request(conversation: Conversation, messages: list[dict[str, object]], searches: int) -> Request:
    offer = conversation.offer()
    messages += map(user, offer.notices)
    return Request([one.to_json() for one in offer.tools], messages, _available(offer.tools), searches)


def _available(definitions: Sequence[Definition]) -> frozenset[ToolKey]:
    return frozenset((one.tool.server, one.tool.tool.name) for one in definitions if one.tool is not None)


def _bounded(discovery: ToolDiscovery, limit: int | None) -> ToolDiscovery:
    return discovery if limit is None else replace(discovery, max_search_results=limit)


def fastmcp_bm25(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Search by `BM25SearchTransform`, with the text as it is."""
    return _fastmcp(catalog, "BM25SearchTransform", limit, lambda text: {"query": text})


def fastmcp_regex(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Search by `RegexSearchTransform`, with a pattern for any word of the text: the first tools match, unranked."""
    return _fastmcp(catalog, "RegexSearchTransform", limit, lambda text: {"pattern": _any_word(text)})


@asynccontextmanager
async def _fastmcp(
    catalog: Catalog, transform: str, limit: int | None, arguments: Callable[[str], dict[str, str]]
) -> AsyncGenerator[Replay]:
    framework: Any = import_module("fastmcp")
    transforms: Any = import_module("fastmcp.server.transforms.search")
    options = {} if limit is None else {"max_results": limit}
    server = framework.FastMCP("catalog")
    make_tool = import_module("fastmcp.tools").Tool
    for name, key in catalog.prefixed.items():
        tool = catalog.tools[key]
        server.add_tool(make_tool(name=name, description=tool.description, parameters=tool.input_schema))
    server.add_transform(getattr(transforms, transform)(**options))

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
            found |= {one["name"] for one in json.loads(answer or "[]")}
            messages = [*messages, called(_SEARCH, arguments(text)), answered(answer)]
            searches += 1

    async with framework.Client(server) as client:
        tools = [definition(tool.name, tool) for tool in await client.list_tools()]
        yield replay


def _any_word(text: str) -> str:
    """Return a pattern of at most the 1,000 characters that the transform takes."""
    words = dict.fromkeys(re.findall(r"\w{4,}", text.casefold()))
    pattern = "|".join(words) or re.escape(text)
    return pattern if len(pattern) <= 1_000 else pattern[:1_000].rpartition("|")[0]


_CASUAL_SEARCH = "search-tools"


@asynccontextmanager
async def casual_mcp(catalog: Catalog, limit: int | None) -> AsyncGenerator[Replay]:
    """Defer every server; tools come from its cache, since there is nothing to connect to."""
    # It leaves out tools without a description or with a parameter of several types, and warns of each.
    logging.getLogger("casual_mcp").addHandler(logging.NullHandler())
    llm: Any = import_module("casual_llm")
    chat = await _casual_chat(catalog, limit)

    async def replay(model: StandIn) -> None:
        async def respond(messages: list[Any], options: Any = None) -> Any:
            text = model.search_for(_casual_request(catalog, messages, options.tools))
            if text is None:
                return llm.AssistantMessage(content="done")
            function = llm.AssistantToolCallFunction(name=_CASUAL_SEARCH, arguments=json.dumps({"query": text}))
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


async def _casual_chat(catalog: Catalog, limit: int | None) -> Any:
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
        [catalog.tools[key].model_copy(update={"name": name}) for name, key in _casual_names(catalog).items()]
    )
    return chat


def _casual_names(catalog: Catalog) -> dict[str, tuple[str, str]]:
    """Return names as casual-mcp expects them: without a prefix where there is only one server."""
    if len(catalog.servers) == 1:
        return {key[1]: key for key in catalog.tools}
    return dict(catalog.prefixed)


def _casual_request(catalog: Catalog, messages: list[Any], tools: list[Any]) -> Request:
    keys = _casual_names(catalog)
    return Request(
        [{"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in tools],
        [_casual_message(message) for message in messages],
        frozenset(keys[tool.name] for tool in tools if tool.name in keys),
        sum(message.role == "tool" for message in messages),
    )


def _casual_message(message: Any) -> dict[str, Any]:
    if message.role == "assistant":
        call = message.tool_calls[0].function
        return called(call.name, json.loads(call.arguments))
    return {"system": system, "user": user, "tool": answered}[message.role](message.content)


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
        toolsets.ExternalToolset([_pydantic_definition(framework, catalog, name) for name in catalog.prefixed])
    )

    async def replay(model: StandIn) -> None:
        def respond(history: list[Any], info: Any) -> Any:
            text = model.search_for(_pydantic_request(catalog, history, info))
            said = messages.TextPart("done") if text is None else messages.ToolCallPart(_SEARCH, {"queries": [text]})
            return messages.ModelResponse(parts=[said])

        # A provider without a search of its own, to which the search of the framework is offered.
        provider = function.FunctionModel(respond, profile={"supported_native_tools": frozenset()})
        await agent.run(model.task.text, model=provider)

    agent = framework.Agent(toolsets=[deferred], capabilities=[capabilities.ToolSearch(**options)])
    yield replay


def _pydantic_definition(framework: Any, catalog: Catalog, name: str) -> Any:
    tool = catalog.tools[catalog.prefixed[name]]
    return framework.ToolDefinition(name=name, description=tool.description, parameters_json_schema=tool.input_schema)


def _pydantic_request(catalog: Catalog, history: list[Any], info: Any) -> Request:
    parts = [part for message in history for part in message.parts]
    return Request(
        [
            {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
            for tool in info.function_tools
        ],
        [_pydantic_message(part) for part in parts],
        frozenset(catalog.prefixed[tool.name] for tool in info.function_tools if tool.name in catalog.prefixed),
        sum(part.part_kind == "tool-return" for part in parts),
    )


def _pydantic_message(part: Any) -> dict[str, Any]:
    match part.part_kind:
        case "tool-call":
            return called(part.tool_name, part.args_as_dict())
        case "tool-return":
            return answered(part.model_response_str())
        case _:
            return user(part.content)


LISTED: Final = "everything listed"
OURS: Final = "ours, model-driven"
WAYS: Final[Mapping[str, Way]] = {
    LISTED: everything_listed,
    OURS: model_driven,
    "ours, delegated": delegated,
    "ours, automatic": automatic,
    "Pydantic AI": pydantic_ai,
    "casual-mcp": casual_mcp,
    "FastMCP, BM25": fastmcp_bm25,
    "FastMCP, regex": fastmcp_regex,
}
PACKAGES: Final[Mapping[str, str]] = {
    "Pydantic AI": "pydantic_ai",
    "casual-mcp": "casual_mcp",
    "FastMCP, BM25": "fastmcp",
    "FastMCP, regex": "fastmcp",
}
"""What has to be importable for some of them."""
