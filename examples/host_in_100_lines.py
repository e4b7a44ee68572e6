"""A complete host: any number of MCP servers, any model, tools loaded on demand.

Run: `python examples/host_in_100_lines.py mcp.json "what time is it"`. Its model is a stand-in: replace it with yours.
"""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anyio.to_thread
import tools_search_client as client


class Said(NamedTuple):
    """A model's answer: text, tool calls, or both."""

    text: str = ""
    calls: Sequence[client.ToolCall] = ()


Model: TypeAlias = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Awaitable[Said]]  # from messages and tools
Ask: TypeAlias = Callable[[str], Awaitable[bool]]


class Host:
    """One conversation of one user with one model. What a server says about its tools is not consent to call them."""

    def __init__(self, servers: client.Federation, model: Model, ask: Ask) -> None:
        self.servers, self.model, self.ask = servers, model, ask
        self.conversation = client.Conversation(servers)
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": client.SYSTEM_PROMPT_LINE}]

    async def turn(self, text: str) -> str:
        """Return what the model finally answers to the user."""
        begun = await self.conversation.begin_turn(text)
        sys.stderr.writelines(f"{server} is missing: {reason}\n" for server, reason in begun.failed.items())
        self.messages.append({"role": "user", "content": text})
        for _ in range(20):  # a model that never stops calling costs its user no more than this
            offer = self.conversation.offer()
            self.messages += [{"role": "user", "content": notice} for notice in offer.notices]
            said = await self.model(self.messages, [definition.to_json() for definition in offer.tools])
            self.messages.append({"role": "assistant", "content": said.text, "calls": said.calls})
            if not said.calls:
                return said.text
            for call in said.calls:
                self.messages.append({"role": "tool", "id": call.id, "content": await self.result_of(call)})
        return "Stopped after 20 requests to the model."

    async def result_of(self, call: client.ToolCall) -> str:
        """Return what the model reads as the result of its call."""
        step = await self.conversation.take(call)
        if isinstance(step, client.Reply):  # a search, or a mistake of the model: no server is called
            return step.text
        is_allowed = self.servers.configuration.allows(step.tool)
        if not (is_allowed or await self.ask(f"Call {step.tool.name} {call.arguments}?")):
            return self.conversation.refused(step).text
        try:
            # A real host also shows pictures and plays sound.
            return client.result_text(await self.servers.call(step.tool.name, call.arguments))
        except client.ToolsSearchClientError as error:
            return self.conversation.failed(step, error).text


@asynccontextmanager
async def open_host(configuration: client.Configuration, model: Model, ask: Ask) -> AsyncGenerator[Host]:
    """Provide a host on the configured servers until the block ends."""
    async with client.open_federation(configuration) as servers:
        yield Host(servers, model, ask)


async def stand_in(messages: list[dict[str, Any]], tools: list[dict[str, Any]], /) -> Said:
    """Search for the user's text and repeat the results, without any reasoning."""
    end = messages[-1]["content"]
    return Said(end) if messages[-1]["role"] == "tool" else Said("", [client.ToolCall("search_tools", {"query": end})])


async def ask_in_terminal(question: str, /) -> bool:
    """Return whether the user agrees."""
    return (await anyio.to_thread.run_sync(input, f"{question} [y/N] ")).strip().lower() in {"y", "yes"}


async def main(file: str, text: str) -> None:
    """Answer one text of the user."""
    async with open_host(client.load_configuration(Path(file)), stand_in, ask_in_terminal) as host:
        print(await host.turn(text))  # noqa: T201 - what the example is for


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    anyio.run(main, sys.argv[1], sys.argv[2])
