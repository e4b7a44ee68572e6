"""A second process, which restores saved transcripts and prints the next request of each on a line."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp_types import Tool
from tools_search_client import Conversation, ListedSource, ToolDiscovery, providers


async def main() -> None:
    """Read tools and transcripts from standard input."""
    given: dict[str, Any] = json.load(sys.stdin)
    tools = [Tool.model_validate(tool) for tool in given["tools"]]
    for adapter_name, call_tool, text in given["saved"]:
        source = ListedSource.of({"shop": tools}, deferred={"shop"})
        conversation = Conversation(source, ToolDiscovery(enabled=True, max_search_results=1))
        adapter = getattr(providers, adapter_name)(conversation, "a-model", call_tool=call_tool)
        await adapter.restore(text)
        adapter.say("And on.")
        print(json.dumps(adapter.request()))  # noqa: T201 - what it is for


anyio.run(main)
