"""Play the vectors of this folder with the reference client: `python reference_client/vectors/play.py [--write]`.

It prints what differs from the files, or writes what is `expected` into them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp_types import Tool
from tools_search_client import (
    Catalog,
    Conversation,
    Failure,
    FoundTool,
    Reply,
    ServerOffer,
    SourceAnswer,
    ToolCall,
    ToolDiscovery,
    ToolSource,
)
from tools_search_client.conversation.manifest import MAX_BYTES, manifest
from tools_search_hosts import qualified_name
from tools_search_hosts.toolsets import Toolset, read_rules

FOLDER = Path(__file__).parent
KINDS = ("names", "manifest", "search_tools", "conversation")
Json = dict[str, Any]


def found(server: str, tool: Json) -> FoundTool:
    """Return a tool of a vector."""
    return FoundTool(qualified_name(server, tool["name"]), server, Tool.model_validate(tool))


def offers(servers: list[Json], toolset: Toolset) -> tuple[ServerOffer, ...]:
    """Return the servers of a vector, of which those with `searched` tools are never listed."""
    shown: list[ServerOffer] = []
    for server in servers:
        rule = toolset.rule(server["name"])
        if rule is not None:
            own = tuple(found(server["name"], tool) for tool in server.get("tools", ()) if rule.shows(tool["name"]))
            stated = {key: server[key] for key in ("defer_loading", "size", "instructions") if key in server}
            stated |= {"failure": Failure("unavailable", server["failure"])} if "failure" in server else {}
            tools = None if "searched" in server else own
            shown.append(ServerOffer(server["name"], tools, topics=tuple(server.get("topics", ())), **stated))
    return tuple(shown)


class Source(ToolSource):
    """The servers of a vector: what a search finds is stated there."""

    def __init__(self, servers: list[Json]) -> None:
        self.servers = servers

    def _searched(self, names: Collection[str]) -> list[FoundTool]:
        chosen = [server for server in self.servers if server["name"] in names]
        return [found(server["name"], tool) for server in chosen for tool in server.get("searched", ())]

    async def survey(self, toolset: Toolset, /) -> Catalog:
        """Return what is offered."""
        return Catalog(offers(self.servers, toolset))

    async def search(self, _query: str, /, *, servers: Collection[str], limit: int) -> SourceAnswer:
        """Return the first of the tools that a search finds, for any query."""
        unknown = [word for server in self.servers if server["name"] in servers for word in server.get("unknown", ())]
        return SourceAnswer(tuple(self._searched(servers)[:limit]), unknown=tuple(unknown))

    async def browse(self, server: str, /) -> SourceAnswer:
        """Return all of them."""
        return SourceAnswer(tuple(self._searched([server])))

    async def look_up(self, name: str, /, *, servers: Collection[str]) -> SourceAnswer:
        """Return those of this name."""
        return SourceAnswer(tuple(tool for tool in self._searched(servers) if name in (tool.name, tool.tool.name)))


def chosen(stated: Mapping[str, Any] | None) -> Toolset:
    """Return the toolset that a step states: `true` for a server, a list of tools, or `{"exclude": [...]}`."""
    return Toolset("", None) if stated is None else Toolset("chosen", read_rules("toolset", stated, stated, []))


async def answered(conversation: Conversation, source: Source, step: Json) -> Json:
    """Return what one step of a conversation comes to."""
    said: Json = {}
    match step["do"]:
        case "begin_turn":
            begun = await conversation.begin_turn(toolset=chosen(step.get("toolset")))
            said = {
                "failed": {name: str(failure) for name, failure in begun.failed.items()},
                "changed": list(begun.changed),
            }
        case "servers":
            source.servers = step["servers"]
            said = {"changed": list(await conversation.refresh())}
        case "start_over":
            conversation.start_over()
        case _:
            answer = await conversation.take(ToolCall(step["name"], step["arguments"]))
            if isinstance(answer, Reply):
                said = {"text": answer.text, "is_error": answer.is_error, "loaded": list(answer.loaded)}
                said |= {} if answer.remarks is None else {"remarks": answer.remarks}
            else:
                said = {"forward": {"server": answer.tool.server, "tool": answer.tool.tool.name}}
                said["is_changed"] = answer.is_changed
    offer = conversation.offer()
    return (
        said
        | {"offer": {"prefix": offer.prefix, "notices": list(offer.notices)}}
        | {"tools": [{"name": tool.name, "description": tool.description} for tool in offer.tools]}
    )


async def play(kind: str, case: Json) -> Any:
    """Return what is expected of one case of the file `kind`.json."""
    if kind == "names":
        return qualified_name(case["server"], case["tool"])
    if kind == "manifest":
        return manifest(offers(case["servers"], chosen(None)), most_bytes=case.get("most_bytes", MAX_BYTES))
    source = Source(case["servers"])
    conversation = Conversation(source, ToolDiscovery(enabled=True, **case.get("tool_discovery", {})))
    if kind == "search_tools":
        await conversation.begin_turn()
        reply = await conversation.take(ToolCall("search_tools", case["arguments"]))
        if not isinstance(reply, Reply):
            raise TypeError("a search is no call of a server")
        return {
            "text": reply.text,
            "remarks": reply.remarks,
            "is_error": reply.is_error,
            "loaded": list(reply.loaded),
        }
    return [await answered(conversation, source, step) for step in case["steps"]]


async def main(*, writes: bool) -> int:
    """Compare or write every file, and return the number of cases that differ."""
    differing = 0
    for kind in KINDS:
        path = FOLDER / f"{kind}.json"
        document: Json = json.loads(path.read_text())
        for case in document["cases"]:
            expected = await play(kind, case)
            if case.get("expected") != expected:
                differing += 1
                print(f"{kind}: {case['name']}: {json.dumps(expected)}")  # noqa: T201 - what the program is for
            case["expected"] = expected
        if writes:
            path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return differing


if __name__ == "__main__":
    raise SystemExit(1 if anyio.run(lambda: main(writes="--write" in sys.argv)) and "--write" not in sys.argv else 0)
