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

from jsonrpc import requests, send, send_unknown

FOLDER = Path(sys.argv[1])
IS_DEAF = "deaf" in sys.argv[2:]
IS_FRAIL = "frail" in sys.argv[2:]
draft = FOLDER / f"{os.getpid()}.draft"
draft.write_text(str(os.getpid()))
draft.replace(FOLDER / "pid")  # tests wait until the file exists, and read it then


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


for own, asked, params in requests():
    match asked:
        case "initialize":
            told = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "thinking", "version": "0"}}
            send(id=own, result={**told, "capabilities": {"tools": {}}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "hang", "ask")]
            send(id=own, result={"tools": tools})
        case "tools/call":
            work(params["name"], params["arguments"], params.get("_meta", {}).get("progressToken"))
            send(id=own, result={"content": [{"type": "text", "text": str(os.getpid())}]})
        case "ping" if IS_FRAIL:
            sys.exit("What is a ping?")
        case "ping" if not IS_DEAF:
            send(id=own, result={})
        case method if not IS_DEAF or method == "server/discover":
            send_unknown(own)
        case _:
            pass
