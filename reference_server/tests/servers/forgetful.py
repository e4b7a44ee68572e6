"""A modern MCP server whose subscriptions do not last: `forgetful.py refuse|end|falter`.

One that falters ends the first, fails at the second, and holds the third.
"""

from __future__ import annotations

import sys
from typing import Any

from jsonrpc import requests, send, send_unknown

TOOL: dict[str, Any] = {"name": "first", "description": "A tool", "inputSchema": {"type": "object"}}
ID = "io.modelcontextprotocol/subscriptionId"
listened = 0


for own, method, _ in requests():
    fresh: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    match method:
        case "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            send(id=own, result=fresh | {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        case "tools/list":
            send(id=own, result=fresh | {"tools": [TOOL | {"name": f"seen_by_{listened}"}]})
        case "subscriptions/listen" if sys.argv[1] == "refuse":
            send_unknown(own)
        case "subscriptions/listen":
            listened += 1
            if sys.argv[1] == "falter" and listened == 2:
                send(id=own, error={"code": -32603, "message": "Bad gateway"})
                continue
            meta = {ID: own}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            send(method="notifications/subscriptions/acknowledged", params=params)
            if sys.argv[1] != "falter" or listened == 1:
                send(method="notifications/cancelled", params={"requestId": own})
        case _:
            pass
