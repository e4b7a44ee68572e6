"""Four small servers, and conversations about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from mcp_types import Tool
from tools_search_client import Conversation, Forward, ListedSource, Reply, ToolCall, ToolDiscovery
from tools_search_client.found import FoundTool
from tools_search_hosts.toolsets import Rule, Toolset


def tool(name: str, description: str = "", required: Sequence[str] = (), **parameters: str) -> Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in parameters.items()},
    }
    if required:
        schema["required"] = list(required)
    return Tool(name=name, description=description or None, input_schema=schema)


PAGE = tool(
    "create_page",
    "Create a new Notion page with properties and content",
    ["parent_id", "title"],
    parent_id="string",
    title="string",
    content="string",
    properties="object",
)
COMMENT = tool("create_comment", "Add a comment to a Notion page", ["page_id", "text"], page_id="string", text="string")

SERVERS: Mapping[str, Sequence[Tool]] = {
    "files": [tool("read_file", "Read a file from the disk."), tool("write_file", "Write a file to the disk.")],
    "weather": [
        tool("get_current_weather", "Tell current conditions. Of one place.", ["city"], city="string"),
        tool("get_forecast", "Tell the forecast for some days.", city="string"),
        tool("get_alerts", "Tell of severe weather."),
    ],
    "home-automation": [
        tool("get_lights", "Tell which lights are on."),
        tool("set_lights", "Switch lights on or off."),
        tool("set_thermostat", "Choose the temperature of a room."),
        tool("lock_door", "Lock a door."),
    ],
    "notion": [
        tool("search", "Search pages and databases."),
        PAGE,
        tool("update_page", "Change a page."),
        tool("create_database", "Create a database."),
        COMMENT,
        *(
            tool(f"archive_{thing}", f"Put a {thing} into the archive.")
            for thing in ["block", "user", "file", "team", "view"]
        ),
        *(tool(f"restore_{thing}", f"Bring a {thing} back.") for thing in ["block", "user", "file", "team", "view"]),
    ],
}


class Talk:
    """A conversation over servers that were listed, with what tests ask of it again and again."""

    def __init__(self, servers: Mapping[str, Sequence[Tool]], deferred: Collection[str], **options: Any) -> None:
        discovery: dict[str, Any] = {"enabled": True, **options.pop("discovery", {})}
        self.source = ListedSource.of(servers, deferred=deferred)
        self.deferred = deferred
        self.state = Conversation(self.source, ToolDiscovery(**discovery), **options)

    def offers(self, servers: Mapping[str, Sequence[Tool]]) -> None:
        """Let the servers offer something else from now on."""
        self.source.offers = ListedSource.of(servers, deferred=self.deferred).offers

    @property
    def names(self) -> list[str]:
        return [definition.name for definition in self.state.offer().tools]

    @property
    def description(self) -> str:
        """The description of `search_tools`."""
        return next(tool.description for tool in self.state.offer().tools if tool.name == "search_tools")

    async def call(self, name: str, /, **arguments: Any) -> Reply | Forward:
        return await self.state.take(ToolCall(name, arguments, "call-1"))

    async def reply(self, name: str, /, **arguments: Any) -> Reply:
        answered = await self.call(name, **arguments)
        assert isinstance(answered, Reply)
        return answered

    async def search(self, **arguments: Any) -> Reply:
        return await self.reply("search_tools", **arguments)


Start = Callable[..., Talk]


@pytest.fixture
def start() -> Start:
    """Return a starter of conversations: all servers but `files` are deferred unless something else is said."""

    def begin(
        servers: Mapping[str, Sequence[Tool]] = SERVERS,
        deferred: Collection[str] = ("weather", "home-automation", "notion"),
        **options: Any,
    ) -> Talk:
        return Talk(servers, deferred, **options)

    return begin


@pytest.fixture
def servers() -> dict[str, list[Tool]]:
    """The servers, to be altered."""
    return {name: list(tools) for name, tools in SERVERS.items()}


@pytest.fixture
def make_tool() -> Callable[..., Tool]:
    """Return a maker of definitions: `make_tool(name, description, required, parameter="type")`."""
    return tool


@pytest.fixture
def toolset() -> Callable[..., Toolset]:
    """Return a maker of toolsets: `True`, a list of names, or the names that are left out as a set, by server."""

    def make(**rules: Any) -> Toolset:
        stated = {server.replace("_", "-"): rule for server, rule in rules.items()}
        return Toolset("some", {server: _rule(rule) for server, rule in stated.items()})

    def _rule(rule: Any) -> Rule:
        if rule is True:
            return Rule(excludes=True)
        return Rule(frozenset(rule), excludes=isinstance(rule, set))

    return make


@pytest.fixture
def own_names() -> Callable[[Sequence[FoundTool]], list[str]]:
    return lambda tools: [tool.name for tool in tools]
