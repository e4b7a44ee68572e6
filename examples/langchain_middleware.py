"""A LangChain middleware that finds tools on demand.

Run: `python examples/langchain_middleware.py mcp.json "what I need"`. Its model is a stand-in: replace it
with yours.
"""

# pyright: basic, reportMissingImports=false
# LangChain is no package of this project.

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import tools_search_client as client
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from tools_search_client.providers import adapted


class SearchedTools(AgentMiddleware):
    """Gives a model, in one chat, tools of all servers: those loaded from the start, and those that it found."""

    def __init__(self, servers: client.Federation, conversation: client.Conversation) -> None:
        super().__init__()
        self.servers, self.conversation = servers, conversation
        self.renamed: dict[str, Mapping[str, str]] = {}  # by tool, the original names of arguments

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """Record the tools that are now offered, and the user's text."""
        await self.conversation.begin_turn(state["messages"][-1].text)  # without the data of pictures

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        """Send the current tools. A real host also adds `notices` to its messages."""
        tools: list[Any] = []
        for offered in self.conversation.offer().tools:
            schema, self.renamed[offered.name] = adapted(offered.input_schema)  # providers refuse some schemas
            tools.append({"type": "function", "function": offered.to_json() | {"parameters": schema}})
        return await handler(request.override(tools=tools))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Answer a search, or call a server. A real host asks its user first."""
        call = request.tool_call
        renamed = self.renamed.get(call["name"], {})
        arguments = {renamed.get(argument, argument): value for argument, value in call["args"].items()}
        step = await self.conversation.take(client.ToolCall(call["name"], arguments, call["id"]))
        if isinstance(step, client.Forward):
            try:
                text = client.result_text(await self.servers.call(step.tool.name, arguments))
            except client.ToolsSearchClientError as error:
                text = self.conversation.failed(step, error).text
        else:
            text = step.text
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"])


class StandIn(GenericFakeChatModel):
    """A model that searches for the user's text, and prints the names of its tools at each request."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Record the tools."""
        print(*(tool["function"]["name"] for tool in tools))  # noqa: T201 - what the example is for
        return self


async def main(file: str, text: str) -> None:
    """Answer one text from the user."""
    search = AIMessage("", tool_calls=[ToolCall(name="search_tools", args={"query": text}, id="1")])
    model = StandIn(messages=iter([search, AIMessage("done")]))
    async with client.open_federation(client.load_configuration(Path(file))) as servers:
        agent = create_agent(model, [], middleware=[SearchedTools(servers, client.Conversation(servers))])
        answer = await agent.ainvoke({"messages": [HumanMessage(text)]})
    print(answer["messages"][-2].content)  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    anyio.run(main, sys.argv[1], sys.argv[2])
