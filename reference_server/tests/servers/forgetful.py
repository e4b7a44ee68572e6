"""A modern MCP server whose subscriptions do not last: `forgetful.py refuse|end|falter`.

One that falters ends the first, fails at the second, and holds the third.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL: dict[str, Any] = {"name": "first", "description": "A tool", "inputSchema": {"type": "object"}}
ID = "io.modelcontextprotocol/subscriptionId"
listened = 0


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result(request: dict[str, Any], **members: Any) -> None:
    send(id=request["id"], result={"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **members})


for line in sys.stdin:
    request = json.loads(line)
    match request["method"]:
        case "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            result(request, supportedVersions=["2026-07-28"], capabilities=capabilities)
        case "tools/list":
            result(request, tools=[TOOL | {"name": f"seen_by_{listened}"}])
        case "subscriptions/listen" if sys.argv[1] == "refuse":
            send(id=request["id"], error={"code": -32601, "message": "Method not found"})
        case "subscriptions/listen":
            listened += 1
            if sys.argv[1] == "falter" and listened == 2:
                send(id=request["id"], error={"code": -32603, "message": "Bad gateway"})
                continue
            meta = {ID: request["id"]}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            send(method="notifications/subscriptions/acknowledged", params=params)
            if sys.argv[1] != "falter" or listened == 1:
                send(method="notifications/cancelled", params={"requestId": request["id"]})
        case _:
            pass
