"""An MCP server of a configuration: `server.py DEFINITION`. Standard library only, so that many start at once.

Its tool `change` adds a tool, a prompt and a resource with notifications, `crash` ends it without an answer, `fail` and
`refuse` answer with a result that is an error and with an error. All others answer with what they were asked.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

METHODS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def change(definition: dict[str, Any]) -> str:
    """Add to each list, notify, and return by what name."""
    name = f"added_{sum(tool['name'].startswith('added_') for tool in definition['tools'])}"
    definition["tools"].append({"name": name, "description": f"Was {name}", "inputSchema": {"type": "object"}})
    send({"method": "notifications/tools/list_changed"})
    if definition["has_more"]:
        definition["prompts"].append({"name": name})
        definition["resources"].append({"uri": f"note://{name}", "name": name})
        send({"method": "notifications/prompts/list_changed"})
        send({"method": "notifications/resources/list_changed"})
        for resource in definition["resources"]:
            send({"method": "notifications/resources/updated", "params": {"uri": resource["uri"]}})
    return name


def called(definition: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call, or raise what is to be sent as an error."""
    name = params["name"]
    if name == "crash":
        os._exit(3)
    if name == "refuse":
        raise KeyError(f"refused {definition['name']}")
    text = change(definition) if name == "change" else json.dumps([definition["name"], params], sort_keys=True)
    return {"content": [{"type": "text", "text": text}], "isError": name == "fail"}


def answer(definition: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        changing = {"listChanged": True}
        more = {"prompts": changing, "resources": {**changing, "subscribe": True}, "completions": {}}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": changing, **(more if definition["has_more"] else {})},
            "serverInfo": {"name": definition["name"], "version": "1", "description": definition["description"]},
            "instructions": definition["instructions"],
        }
    if method in METHODS:
        return {METHODS[method]: definition[METHODS[method]]}
    if method == "resources/templates/list":
        return {"resourceTemplates": definition["templates"]}
    if method == "tools/call":
        return called(definition, params)
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(params)}}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"{definition['name']} {params['uri']}"}]}
    if method == "completion/complete":
        return {"completion": {"values": [definition["name"], json.dumps(params["argument"])]}}
    if method in ("ping", "resources/subscribe", "resources/unsubscribe"):
        return {}
    raise LookupError(method)


def main() -> None:
    """Serve until the end of input."""
    definition = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if definition["is_down"]:
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        try:
            send({"id": message["id"], "result": answer(definition, message["method"], message.get("params", {}))})
        except LookupError as error:
            code = -32050 if isinstance(error, KeyError) else -32601
            send({"id": message["id"], "error": {"code": code, "message": str(error), "data": [str(error)]}})


main()
