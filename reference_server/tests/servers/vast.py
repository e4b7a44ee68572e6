"""A legacy MCP server that searches its own tools, without an SDK: `vast.py FOLDER`. Standard library only.

How it behaves stands in the file `behavior` in the folder, which it reads before each answer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from jsonrpc import requests, send, send_unknown

ID = "io.github.tools-search/tools-search"
FOLDER = Path(sys.argv[1])
WORDS = ("weather", "invoice", "photo", "ticket")


def tool(number: int) -> dict[str, Any]:
    word = WORDS[number % len(WORDS)]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return {"name": f"{word}_{number}", "description": f"Looks after one {word} page", "inputSchema": schema}


TOOLS = [tool(number) for number in range(40)] + [tool(40) | {"name": "name with spaces"}]


def behavior() -> str:
    file = FOLDER / "behavior"
    return file.read_text() if file.exists() else "good"


def cut(tools: list[dict[str, Any]], params: dict[str, Any], size: int) -> dict[str, Any]:
    start = int(params.get("cursor", 0))
    more = {"nextCursor": str(start + size)} if start + size < len(tools) else {}
    return {"tools": tools[start : start + size], **more}


def found(params: dict[str, Any]) -> dict[str, Any]:
    words = params["query"].casefold().replace("_", " ").split()
    ranked = sorted(TOOLS, key=lambda tool: (tool["name"] != params["query"], tool["name"]))
    hits = [
        tool for tool in ranked if all(word in f"{tool['name']} {tool['description']}".casefold() for word in words)
    ]
    told = {"_meta": {ID: {"score": 0.5, "matched": ["name", 7], "group": "things"}}}
    return cut([hit | told for hit in hits], params, min(params.get("limit", 10), 4))


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        size = {} if behavior() == "unsized" else {"catalogSize": len(TOOLS)}
        tools = {"tools": {"listChanged": True}, "experimental": {ID: {"maxLimit": 4, **size}}}
        info = {"name": "vast", "version": "0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": tools, "serverInfo": info}
    if method in ("tools/list", "tools/search") and behavior() == "hung":
        return None
    if method in ("tools/list", "tools/search") and behavior() == "lying":
        odd = [7, {"name": "headless"}, TOOLS[0], TOOLS[0] | {"description": "again"}]
        return {"tools": odd, "nextCursor": "again", "total": 4}
    if method in ("tools/list", "tools/search") and behavior() == "slow":
        time.sleep(0.8)
    if method == "tools/search":
        return found(params)
    if method == "tools/list":
        return cut(TOOLS, params, 15)
    return {"content": [{"type": "text", "text": json.dumps(params)}]}


for own, asked, params in requests():
    if asked == "server/discover":
        send_unknown(own)
        continue
    if asked == "tools/call" and behavior() == "changing":
        send(method="notifications/tools/list_changed")
    if (result := answer(asked, params)) is not None:
        send(id=own, result=result)
