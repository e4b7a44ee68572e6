"""A server of a fleet over stdio, in one era, without an SDK: `fleet_stdio.py SIZE TOOLS NAME`."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Final

from fleet import Fleet, Upstream, answer

_PAGE: Final = 20
_MODERN: Final = "2026-07-28"


def main() -> None:
    """Answer what standard input asks until it ends."""
    size, tools, name = sys.argv[1:]
    upstream = next(server for server in Fleet(int(size), int(tools)).upstreams if server.name == name)
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
            reply = {"id": message["id"], **_reply(upstream, message["method"], params)}
            if seconds := float(params.get("arguments", {}).get("seconds", 0)):
                timer = waiting[message["id"]] = threading.Timer(seconds, send, [reply])
                timer.daemon = True
                timer.start()
            else:
                send(reply)


def _reply(upstream: Upstream, method: str, params: dict[str, Any]) -> dict[str, Any]:
    modern = upstream.era == "modern"
    result: dict[str, Any] | None = None
    match method:
        case "server/discover" if modern:
            result = {"supportedVersions": [_MODERN], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}
        case "initialize" if not modern:
            info = {"name": upstream.name, "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            start = int(params.get("cursor", 0))
            page = list(upstream.tools.values())[start : start + _PAGE]
            more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(upstream.tools) else {}
            result = {"tools": page, **more} | ({"ttlMs": 0, "cacheScope": "public"} if modern else {})
        case "tools/call":
            result = answer(upstream, params["name"], params.get("arguments", {}), os.getpid())
        case "ping":
            result = {}
        case _:
            pass
    if result is None:
        return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": result | ({"resultType": "complete"} if modern else {})}


if __name__ == "__main__":
    main()
