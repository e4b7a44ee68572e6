"""A server with one tool that knows no search: `target.py plain_server [modern|both] [promises]`.

With `modern` or `both` it advertises the search in those eras after all, and answers it with nothing. With `promises`
it names the legacy revision and then does not speak it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
Json = dict[str, Any]


def respond(message: Json, offered: str, promises: bool) -> Json:
    method, modern = message["method"], "_meta" in message.get("params", {})
    held: Json = {"extensions": {EXTENSION_ID: {}}} if offered == "both" or (offered == "modern" and modern) else {}
    if method == "server/discover":
        versions = ["2026-07-28", "2025-11-25"] if promises else ["2026-07-28"]
        return {"result": {"supportedVersions": versions, "capabilities": {"tools": {}, **held}}}
    if method == "initialize" and not promises:
        capabilities: Json = {"tools": {}, **held}
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}}
    if method == "tools/list":
        tools = [{"name": "x", "inputSchema": {"type": "object"}}]
        if offered == "modern":
            tools = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))["tools"]
        return {"result": {"tools": tools}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = respond(message, (*sys.argv[1:], "")[0], "promises" in sys.argv)
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
            sys.stdout.flush()
