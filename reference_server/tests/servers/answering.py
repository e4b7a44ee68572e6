"""An MCP server without an SDK with scripted answers: `answering.py modern|legacy [LISTS]`.

The result of a call is its argument `result`; of a prompt and a completion, the JSON in their argument; of a resource,
the JSON in its URI. LISTS are pages, in JSON, by the method that asks for them, in place of the ordinary ones.
Standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jsonrpc import send, send_unknown

IS_MODERN = sys.argv[1] == "modern"

capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "say:{result}", "name": "say"}]},
    "prompts/list": {"prompts": [{"name": "say", "arguments": [{"name": "result"}]}]},
}
LISTS.update(json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
waiting: list[Any] = []
"""Requests that wait for the answer of the client."""


def answer(request: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": "answering", "version": "0"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        case "ping":
            return {}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities} | fresh()
        case "tools/call" if (question := params["arguments"].get("ask")) is not None and not IS_MODERN:
            waiting.append(request["id"])
            send(id=f"q{request['id']}", **question)
            return None
        case "tools/call":
            told = {"content": [{"type": "text", "text": json.dumps(params.get("inputResponses"))}]} | fresh()
            return told if "inputResponses" in params else params["arguments"]["result"]
        case "resources/read":
            return json.loads(params["uri"].removeprefix("say:"))
        case "prompts/get":
            return json.loads(params["arguments"]["result"])
        case "completion/complete":
            return json.loads(params["argument"]["value"])
        case _:
            return fresh() | LISTS[method]


def fresh() -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if IS_MODERN else {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if "method" not in message:
        told = json.dumps(message.get("result") or message["error"])
        send(id=waiting.pop(), result={"content": [{"type": "text", "text": told}]})
    elif message["method"] == ("initialize" if IS_MODERN else "server/discover"):
        send_unknown(message["id"])
    elif (result := answer(message, message["method"], message.get("params", {}))) is not None:
        send(id=message["id"], result=result)
