"""A host that exits after each user turn, and continues the conversation in a new process.

Run it repeatedly: `python examples/host_that_restarts.py mcp.json conversation.json "what time is it"`. Its model
is a stand-in that speaks chat completions: replace it with yours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import tools_search_client as client
from tools_search_client.providers import ChatCompletions


async def stand_in(request: dict[str, Any]) -> dict[str, Any]:
    """Search for the user's text, and repeat the results."""
    last = request["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": last["content"]}
    if last["role"] != "tool":
        search = {"name": "search_tools", "arguments": json.dumps({"query": last["content"]})}
        message = {"role": "assistant", "tool_calls": [{"type": "function", "function": search}]}
    return {"choices": [{"message": message}]}


async def turn(configuration: client.Configuration, saved: bytes | None, text: str) -> tuple[str, str]:
    """Return the model's final answer to the user, and the conversation to save."""
    async with client.open_federation(configuration) as servers:
        conversation = client.Conversation(servers)
        adapter = ChatCompletions(conversation, "a-model", system=client.SYSTEM_PROMPT_LINE)
        if saved is not None:
            await adapter.restore(saved)
        await conversation.begin_turn(text)
        adapter.say(text)
        while (said := adapter.read(await stand_in(adapter.request()))).calls:
            for call in said.calls:
                step = await conversation.take(call)
                if isinstance(step, client.Forward):  # a real host asks its user, and calls the tool
                    step = conversation.refused(step)
                adapter.answer(call, step)
        adapter.compact(keep_turns=20)  # a real host does so when the model's window is nearly full
        return said.text, adapter.save()


def main(configuration: str, file: str, text: str) -> None:
    """Answer one text from the user, and keep the conversation in a file."""
    kept = Path(file)
    saved = kept.read_bytes() if kept.exists() else None
    answer, going_on = anyio.run(turn, client.load_configuration(Path(configuration)), saved, text)
    new = kept.with_suffix(".new")
    new.write_text(going_on)
    new.replace(kept)  # whole or not at all, wherever the process ends
    print(answer)  # noqa: T201 - what the example is for


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    main(*sys.argv[1:])
