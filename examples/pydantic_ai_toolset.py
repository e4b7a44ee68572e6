"""A Pydantic AI toolset that finds tools on demand.

Run: `python examples/pydantic_ai_toolset.py mcp.json "what I need"`. Its model is a stand-in: pass yours to `Agent`.
"""

# pyright: basic, reportMissingImports=false
# Pydantic AI is no package of this project.

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import tools_search_client as client
from pydantic_ai import Agent, RunContext, ToolDefinition
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema
from tools_search_client.providers import adapted

ANY = SchemaValidator(core_schema.any_schema())  # servers validate arguments themselves


@dataclass
class SearchedTools(AbstractToolset[None]):
    """The tools of all servers, in one chat: those loaded from the start, and those that its model found in any run."""

    servers: client.Federation
    conversation: client.Conversation
    renamed: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By tool, the original names of arguments with names that providers refuse."""

    @property
    def id(self) -> str | None:
        """Return the id of this toolset."""
        return "tools-search"

    async def for_run(self, ctx: RunContext[None]) -> AbstractToolset[None]:
        """Record the tools that are now offered, and the user's text."""
        prompt = [ctx.prompt] if isinstance(ctx.prompt, str) else ctx.prompt or []
        await self.conversation.begin_turn(" ".join(part for part in prompt if isinstance(part, str)))
        return self

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Return the tools of the next request."""
        found: dict[str, ToolsetTool[None]] = {}
        for offered in self.conversation.offer().tools:  # a real host adds `notices` to its messages
            schema, self.renamed[offered.name] = adapted(offered.input_schema)
            tool = ToolDefinition(name=offered.name, description=offered.description, parameters_json_schema=schema)
            found[offered.name] = ToolsetTool(toolset=self, tool_def=tool, max_retries=1, args_validator=ANY)
        return found

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> Any:
        """Answer a search, or call a server. A real host asks its user first."""
        renamed = self.renamed.get(name, {})
        tool_args = {renamed.get(argument, argument): value for argument, value in tool_args.items()}
        step = await self.conversation.take(client.ToolCall(name, tool_args, ctx.tool_call_id))
        if isinstance(step, client.Reply):
            return step.text
        try:
            return client.result_text(await self.servers.call(step.tool.name, tool_args))
        except client.ToolsSearchClientError as error:
            return self.conversation.failed(step, error).text


def stand_in(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Search for the user's text, and report which tools are then available."""
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("search_tools", {"query": sys.argv[2]})])
    return ModelResponse(parts=[TextPart(" ".join(tool.name for tool in info.function_tools))])


async def main(file: str, text: str) -> None:
    """Answer one text from the user."""
    async with client.open_federation(client.load_configuration(Path(file))) as servers:
        agent = Agent(FunctionModel(stand_in), deps_type=type(None))
        chat = SearchedTools(servers, client.Conversation(servers))
        print((await agent.run(text, toolsets=[chat])).output)  # noqa: T201 - what the example is for


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    anyio.run(main, sys.argv[1], sys.argv[2])
