"""An MCP server without an SDK that has resources and prompts, as a file says: `archive.py FILE.json`.

The file is read again for each request. Its members, all optional:

    legacy      whether it speaks the protocol of 2025
    tools, resources, resourceTemplates, prompts
                what it lists
    page        how many of these it lists in a page; all by default
    count       how many resources it lists in place of these, made when they are asked for, in pages
    together    how many requests to read a resource it waits for, to answer them together; 1 by default
    texts       what resources say, by URI; `null` reads as a blob
    updated     the resources whose updates `announce` announces to those that have subscribed, in place of new lists
    settings    what it advertises of its searches
    found       the answers of its searches, by method: definitions in any order, whatever the query
    faults      by method, method and cursor (`prompts/list 2`), or URI that is read: `endless`, `exit`, `mute`, the
                code of an error, or the answer itself

The requests that it gets stand in `FILE.json.log`, a line for each. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from jsonrpc import send, send_unknown

FILE = Path(sys.argv[1])
EXTENSION = "io.github.tools-search/tools-search"
MEMBERS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "resources/search": "resources",
    "resources/templates/search": "resourceTemplates",
    "prompts/search": "prompts",
}
PAGE = 5_000
ANNOUNCE = {"name": "announce", "description": "Announces new lists", "inputSchema": {"type": "object"}}
PIECE = "all work and no play " * 5_000


def capabilities(spec: dict[str, Any]) -> dict[str, Any]:
    announces = {"listChanged": not spec.get("quiet")}
    resources = announces | ({"subscribe": True} if "updated" in spec else {})
    offered: dict[str, Any] = {"tools": announces, "resources": resources, "prompts": announces}
    if (settings := spec.get("settings")) is not None:
        offered["extensions"] = {EXTENSION: settings}
        offered["experimental"] = {EXTENSION: settings}
    return offered


def misbehave(fault: Any, request: Any) -> None:
    match fault:
        case int(code):
            send(id=request, error={"code": code, "message": "no"})
        case dict():
            send(id=request, **fault)
        case "exit":
            sys.exit(3)
        case "endless":
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request}, "result": {{"contents": [{{"text": "')
            while True:
                sys.stdout.write(PIECE)
        case _:
            pass


def numbered(count: int, start: int) -> dict[str, Any]:
    end = min(start + PAGE, count)
    listed = [{"uri": f"many:{number}", "name": f"number {number}"} for number in range(start, end)]
    return {"resources": listed, **({"nextCursor": str(end)} if end < count else {})}


def answer(spec: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    hints = {"ttlMs": 0, "cacheScope": "public"}
    match method:
        case "initialize":
            info = {"name": "archive", "version": "0"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": capabilities(spec), "serverInfo": info}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities(spec), **hints}
        case "resources/subscribe":
            SUBSCRIBED.add(params["uri"])
            return {}
        case "resources/unsubscribe":
            SUBSCRIBED.discard(params["uri"])
            return {}
        case "resources/read":
            text = spec.get("texts", {}).get(params["uri"], "")
            content = {"uri": params["uri"], **({"blob": "AAAA"} if text is None else {"text": text})}
            return {"contents": [content], **hints}
        case _ if method in MEMBERS:
            member = MEMBERS[method]
            if method == "resources/list" and "count" in spec:
                return numbered(spec["count"], int(params.get("cursor", 0))) | hints
            if method.endswith("/search"):
                return {member: spec.get("found", {}).get(method, []), **hints}
            listed = spec.get(member, [ANNOUNCE] if member == "tools" else [])
            start = int(params.get("cursor", 0))
            end = start + spec.get("page", len(listed))
            return {member: listed[start:end], **({"nextCursor": str(end)} if end < len(listed) else {}), **hints}
        case _:
            return {}


def announce(spec: dict[str, Any]) -> None:
    for uri in spec.get("updated", ()):
        for stream, wanted in STREAMS.items():
            if uri in wanted.get("resourceSubscriptions", ()):
                meta = {"io.modelcontextprotocol/subscriptionId": stream}
                send(method="notifications/resources/updated", params={"uri": uri, "_meta": meta})
        if spec.get("legacy") and uri in SUBSCRIBED:
            send(method="notifications/resources/updated", params={"uri": uri})
    if "updated" in spec:
        return
    for stream in STREAMS:
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": stream}}
        for kind in ("tools", "resources", "prompts"):
            send(method=f"notifications/{kind}/list_changed", params=meta)
    if spec.get("legacy"):
        for kind in ("tools", "resources", "prompts"):
            send(method=f"notifications/{kind}/list_changed")


def take(message: dict[str, Any]) -> None:
    spec = json.loads(FILE.read_text())
    method, params = message.get("method", ""), message.get("params", {})
    with FILE.with_suffix(".json.log").open("a") as log:
        log.write(f"{method} {params.get('uri') or params.get('query') or ''}\n".replace("notifications/", "! "))
    if "id" not in message:
        return
    faults = spec.get("faults", {})
    faulty = [key for key in (f"{method} {params.get('cursor')}", method, params.get("uri")) if key in faults]
    if method == ("server/discover" if spec.get("legacy") else "initialize"):
        send_unknown(message["id"])
    elif method == "subscriptions/listen":
        subscription = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        acknowledged = {"notifications": params["notifications"], "_meta": subscription}
        send(method="notifications/subscriptions/acknowledged", params=acknowledged)
        STREAMS[message["id"]] = params["notifications"]
    elif faulty:
        misbehave(faults[faulty[0]], message["id"])
    elif method == "tools/call":
        announce(spec)
        send(id=message["id"], result={"resultType": "complete", "content": []})
    else:
        result = answer(spec, method, params)
        full = {"id": message["id"], "result": result if spec.get("legacy") else {"resultType": "complete", **result}}
        if method != "resources/read":
            send(full)
            return
        READ.append(full)
        if len(READ) >= spec.get("together", 1):
            send(*READ)
            READ.clear()


STREAMS: dict[Any, dict[str, Any]] = {}
SUBSCRIBED: set[str] = set()
READ: list[dict[str, Any]] = []
for line in sys.stdin:
    take(json.loads(line))
