"""An MCP server without an SDK that offers more than tools: `library.py modern|legacy NAME [mute]`.

A mute one never answers requests for lists other than tools, about subscriptions to resources of the scheme `mute:`,
and to end a subscription. Standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from jsonrpc import send, send_unknown

IS_MODERN = sys.argv[1] == "modern"
NAME = sys.argv[2]
IS_MUTE = "mute" in sys.argv[3:]
META = "io.modelcontextprotocol/"
PAGE = 2

capabilities: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}
shared: dict[str, Any] = {"uri": "file:///shared.txt", "name": "shared", "_meta": {"com.example/mine": NAME}}
resources = [shared, *({"uri": f"memo:{NAME}:{number}", "name": f"{number}"} for number in (1, 2, 3))]
templates = [{"uriTemplate": f"note://{NAME}/{{topic}}", "name": "notes"}]
prompts = [{"name": "greet", "arguments": [{"name": "who", "required": True}]}, {"name": "sum up", "title": "Sum up"}]
tools = [
    {"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "change", "die", "link", "questions", "seen")
]
subscribed: set[str] = set()
streams: dict[Any, dict[str, Any]] = {}
waiting: dict[str, Any] = {}
seen: list[str] = []


def text(said: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said if isinstance(said, str) else json.dumps(said)}]}


def paged(member: str, entries: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
    start = int(params.get("cursor", 0))
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(entries) else {}
    return {member: entries[start : start + PAGE], "ttlMs": 0, "cacheScope": "public", **more}


def read(params: dict[str, Any]) -> dict[str, Any] | None:
    uri = params["uri"]
    if any(resource["uri"] == uri for resource in resources) or uri.startswith(f"note://{NAME}/"):
        contents = [{"uri": uri, "text": f"{uri} of {NAME}", "mimeType": "text/plain"}]
        return {"contents": contents, "ttlMs": 0, "cacheScope": "public", "_meta": {"com.example/read": True}}
    return None


def prompt(params: dict[str, Any]) -> dict[str, Any]:
    who = params.get("arguments", {}).get("who", "you")
    link = {"type": "resource_link", "uri": "file:///shared.txt", "name": "shared"}
    return {
        "description": f"from {NAME}",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"{params['name']} {who}"}},
            {"role": "user", "content": link},
        ],
    }


def complete(params: dict[str, Any]) -> dict[str, Any]:
    ref = params["ref"]
    said = [f"{ref.get('name') or ref.get('uri')}:{params['argument']['value']}", json.dumps(params.get("context"))]
    return {"completion": {"values": said, "hasMore": False}}


def linking() -> dict[str, Any]:
    unlisted = f"note://{NAME}/unlisted"
    return {
        "content": [
            {"type": "resource_link", "uri": unlisted, "name": "unlisted"},
            {"type": "resource", "resource": {"uri": "file:///shared.txt", "text": "inside"}},
            {"type": "resource_link", "uri": "https://example.com/a", "name": "web"},
        ]
    }


def announce(what: str) -> None:
    if what in ("resources", "prompts", "tools"):
        method, params, wanted = f"notifications/{what}/list_changed", dict[str, Any](), f"{what}ListChanged"
    else:
        method, params, wanted = "notifications/resources/updated", {"uri": what}, what
    if not IS_MODERN:  # and careless: it notifies of resources without subscribers
        send(method=method, params=params)
        return
    for stream, chosen in streams.items():
        if chosen.get(wanted) or what in chosen.get("resourceSubscriptions", []):
            send(method=method, params=params | {"_meta": {f"{META}subscriptionId": stream}})


def change(arguments: dict[str, Any]) -> dict[str, Any]:
    for what in arguments["what"]:
        if what == "resources":
            resources.append({"uri": f"memo:{NAME}:{len(resources)}", "name": "new"})
        announce(what)
    return text("changed")


QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "elicitation": (
        "elicitation/create",
        {"mode": "form", "message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}},
    ),
    "url": (
        "elicitation/create",
        {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "e1"},
    ),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}], "maxTokens": 5},
    ),
    "roots": ("roots/list", {}),
}


def ask(request: dict[str, Any], params: dict[str, Any]) -> dict[str, Any] | None:
    """Ask in as many rounds as wanted, and return the answers in the end."""
    kind, rounds = params["arguments"]["kind"], params["arguments"].get("rounds", 1)
    method, question = QUESTIONS[kind]
    if not IS_MODERN:
        waiting[f"q{len(waiting)}"] = request["id"]
        send(id=f"q{len(waiting) - 1}", method=method, params=question)
        return None
    state = json.loads(params.get("requestState", "[]"))
    answers = params.get("inputResponses")
    state += [answers["one"]] if answers else []
    if len(state) == rounds:
        return text(state)
    questions = {"one": {"method": method, "params": question}}
    return {"resultType": "input_required", "inputRequests": questions, "requestState": json.dumps(state)}


LISTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "tools/list": ("tools", tools),
    "resources/list": ("resources", resources),
    "resources/templates/list": ("resourceTemplates", templates),
    "prompts/list": ("prompts", prompts),
}


def answer(request: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": NAME, "version": "0"}
            seen.append(json.dumps(params["capabilities"]))
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        case "server/discover":
            supported = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            return {**supported, "ttlMs": 0, "cacheScope": "public"}
        case _ if method in LISTS:
            return paged(*LISTS[method], params)
        case "prompts/get":
            return prompt(params)
        case "completion/complete":
            return complete(params)
        case "ping":
            return {}
        case "resources/subscribe":
            subscribed.add(params["uri"])
            return {}
        case "resources/unsubscribe":
            subscribed.discard(params["uri"])
            return {}
        case _:
            return call(request, params)


def call(request: dict[str, Any], params: dict[str, Any]) -> dict[str, Any] | None:
    match params["name"]:
        case "die":
            sys.exit(3)
        case "link":
            return linking()
        case "change":
            return change(params["arguments"])
        case "ask":
            return ask(request, params)
        case "seen":
            wanted = {uri for chosen in streams.values() for uri in chosen.get("resourceSubscriptions", [])}
            return text(sorted(subscribed | wanted))
        case _:
            return text(seen)


def take(message: dict[str, Any]) -> None:
    if "method" not in message:
        send(method="notifications/elicitation/complete", params={"elicitationId": "e1"})
        send(id=waiting.pop(message["id"]), result=text(message.get("result") or message["error"]))
        return
    method, params = message["method"], message.get("params", {})
    if method == "notifications/cancelled":
        streams.pop(params["requestId"], None)
    is_about_lists = method in LISTS and method != "tools/list"
    is_left_open = method == "resources/unsubscribe" or (
        method == "resources/subscribe" and params["uri"].startswith("mute:")
    )
    if "id" not in message or (IS_MUTE and (is_about_lists or is_left_open)):
        return
    if method == ("initialize" if IS_MODERN else "server/discover"):
        send_unknown(message["id"])
    elif method == "subscriptions/listen":
        streams[message["id"]] = params["notifications"]
        meta = {f"{META}subscriptionId": message["id"]}
        acknowledged = {"notifications": params["notifications"], "_meta": meta}
        send(method="notifications/subscriptions/acknowledged", params=acknowledged)
    elif method == "resources/read":
        if (result := read(params)) is None:
            code = -32602 if IS_MODERN else -32002
            send(
                id=message["id"], error={"code": code, "message": "Resource not found", "data": {"uri": params["uri"]}}
            )
        else:
            send(id=message["id"], result={"resultType": "complete", **result})
    elif (result := answer(message, method, params)) is not None:
        send(id=message["id"], result={"resultType": "complete", **result} if IS_MODERN else result)


for line in sys.stdin:
    take(json.loads(line))
