"""A server of the soak over stdio, in one era, without an SDK: `stdio_server UPSTREAMS TOOLS NAME`."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Final

from benchmarks.soak.world import Plan, World, answer

_PAGE: Final = 20
_MODERN: Final = "2026-07-28"


def main() -> None:
    """Answer what standard input asks until it ends."""
    upstreams, tools, name = sys.argv[1:]
    plan = next(plan for plan in World(int(upstreams), int(tools)).plans if plan.name == name)
    waiting: dict[object, threading.Timer] = {}
    writing = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        params: dict[str, Any] = message.get("params", {})
        if message.get("method") == "notifications/cancelled":
            if (timer := waiting.pop(params.get("requestId"), None)) is not None:
                timer.cancel()
        elif "id" in message:
            reply = {"id": message["id"], **_reply(plan, message["method"], params)}
            if seconds := float(params.get("arguments", {}).get("seconds", 0)):
                timer = waiting[message["id"]] = threading.Timer(seconds, send, [reply])
                timer.daemon = True
                timer.start()
            else:
                send(reply)


def _reply(plan: Plan, method: str, params: dict[str, Any]) -> dict[str, Any]:
    modern = plan.era == "modern"
    result: dict[str, Any] | None = None
    match method:
        case "server/discover" if modern:
            result = {"supportedVersions": [_MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}
        case "initialize" if not modern:
            info = {"name": plan.name, "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            start = int(params.get("cursor", 0))
            page = list(plan.tools.values())[start : start + _PAGE]
            more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(plan.tools) else {}
            result = {"tools": page, **more} | ({"ttlMs": 0, "cacheScope": "public"} if modern else {})
        case "tools/call":
            result = answer(plan, params["name"], params.get("arguments", {}), os.getpid())
        case "ping":
            result = {}
        case _:
            pass
    if result is None:
        return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": result | ({"resultType": "complete"} if modern else {})}


if __name__ == "__main__":
    main()
