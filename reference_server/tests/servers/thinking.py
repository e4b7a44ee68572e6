"""A legacy MCP server of one thread, which answers nothing while it works: `thinking.py FOLDER [deaf|frail]`.

A deaf one ignores requests that it does not know, `ping` too; a frail one ends. Its tool `work` takes the seconds in
its argument; `hang` never ends; `ask` asks its client a question and waits for the answer. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
IS_DEAF = "deaf" in sys.argv[2:]
IS_FRAIL = "frail" in sys.argv[2:]
draft = FOLDER / f"{os.getpid()}.draft"
draft.write_text(str(os.getpid()))
draft.replace(FOLDER / "pid")  # tests wait until the file exists, and read it then


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def work(name: str, arguments: dict[str, Any], token: Any) -> None:
    (FOLDER / "working").touch()
    if name == "hang":
        while True:
            time.sleep(1)
    if name == "ask":
        question: dict[str, Any] = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}}
        send(id="q", method="elicitation/create", params=question)
        while json.loads(sys.stdin.readline()).get("id") != "q":  # what else comes meanwhile is lost
            pass
    for step in range(arguments.get("steps", 1)):
        time.sleep(arguments.get("seconds", 0))
        if token is not None and arguments.get("steps", 1) > 1:
            send(method="notifications/progress", params={"progressToken": token, "progress": step})


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    params: dict[str, Any] = message.get("params", {})
    match message["method"]:
        case "initialize":
            told = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "thinking", "version": "0"}}
            send(id=message["id"], result={**told, "capabilities": {"tools": {}}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "hang", "ask")]
            send(id=message["id"], result={"tools": tools})
        case "tools/call":
            work(params["name"], params["arguments"], params.get("_meta", {}).get("progressToken"))
            send(id=message["id"], result={"content": [{"type": "text", "text": str(os.getpid())}]})
        case "ping" if IS_FRAIL:
            sys.exit("What is a ping?")
        case "ping" if not IS_DEAF:
            send(id=message["id"], result={})
        case method if not IS_DEAF or method == "server/discover":
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        case _:
            pass
