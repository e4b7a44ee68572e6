"""A legacy MCP server without an SDK, good or bad: `raw.py BEHAVIOR [FOLDER]`. Standard library only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from jsonrpc import requests, send, send_unknown

BEHAVIOR = sys.argv[1]
TOOL: dict[str, Any] = {"name": "plain", "description": "A plain tool", "inputSchema": {"type": "object"}}
withheld: list[Any] = []
"""What is not answered yet, or not any more."""

if BEHAVIOR == "crashing":
    sys.exit("I always crash")
if BEHAVIOR != "named" and len(sys.argv) > 2:
    draft = Path(sys.argv[2]) / f"{os.getpid()}.draft"
    draft.write_text(str(os.getpid()))
    draft.replace(Path(sys.argv[2]) / "pid")  # tests wait until the file exists, and read it then
if BEHAVIOR == "stubborn":
    # It ignores that it is to stop, as does what it starts: a process in a session of its own, and a daemon, whose
    # parent has ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deaf = "import os, sys, time; sys.stdout.write(f'{os.getpid()} '); sys.stdout.flush(); os.close(1); time.sleep(999)"
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {deaf!r}], start_new_session=True)"
    with (Path(sys.argv[2]) / "family").open("w") as family:
        subprocess.Popen([sys.executable, "-c", deaf], stdout=family, start_new_session=True)
        subprocess.run([sys.executable, "-c", start], stdout=family, check=True)


def listing(params: dict[str, Any]) -> dict[str, Any]:
    if BEHAVIOR == "untidy":
        odd = [{"name": "headless"}, 7, {"name": "plain", "inputSchema": {"type": "object", "x": 1}}]
        long = TOOL | {"name": "a name with spaces / and much more than sixty-four characters in it"}
        return {"tools": [TOOL, *odd, long]}
    if BEHAVIOR == "endless":
        return {"tools": [TOOL | {"name": f"t{params.get('cursor', '')}"}], "nextCursor": "again"}
    if BEHAVIOR == "turning" and (Path(sys.argv[2]) / "turned").exists():
        return {"tools": "none"}
    if BEHAVIOR == "named":
        return {"tools": [TOOL | {"name": sys.argv[2]}]}
    if BEHAVIOR == "stated":
        return json.loads((Path(sys.argv[2]) / "tools.json").read_text())
    if BEHAVIOR in ("restless", "silent"):
        with (Path(sys.argv[2]) / "listed").open("a") as listed:
            listed.write(f"{time.monotonic()}\n")
    if BEHAVIOR == "restless":
        send({"method": "notifications/tools/list_changed"})
    if BEHAVIOR == "growing":
        grown = (Path(sys.argv[2]) / "grown").read_text().split() if (Path(sys.argv[2]) / "grown").exists() else []
        return {"tools": [TOOL, *(TOOL | {"name": name} for name in grown)]}
    return {"tools": [TOOL]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        is_changing = BEHAVIOR in ("growing", "turning", "leaving", "restless")
        offered: dict[str, Any] = {} if BEHAVIOR == "toolless" else {"tools": {"listChanged": is_changing}}
        if BEHAVIOR == "failing":
            offered["prompts"] = {}
        if BEHAVIOR in ("dawdling", "flooding"):
            offered["prompts"] = {"listChanged": True}
        info = {"name": "raw", "version": "0"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offered, "serverInfo": info}
    if method == "tools/list":
        return listing(params)
    if method == "prompts/list" and BEHAVIOR == "failing":
        withheld.append(method)
        return {"prompts": [{"name": "only"}] if len(withheld) == 1 else None}
    if method == "tools/call" and BEHAVIOR in {"mute", "stubborn"}:
        return None
    if method == "tools/call" and BEHAVIOR == "growing" and params.get("arguments"):
        # Others that were started with the same folder list the new tool as well, but send no notification.
        with (Path(sys.argv[2]) / "grown").open("a") as grown:
            grown.write(params["arguments"]["name"] + "\n")
        send({"method": "notifications/tools/list_changed"})
    if method == "tools/call":
        ask()
        report(params)
    if method == "tools/call" and BEHAVIOR == "turning":
        send({"method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": f"{method} by {os.getpid()}"}]}


def ask() -> None:
    """Ask without end, or take each question back."""
    while BEHAVIOR == "asking":
        send(*({"id": number, "method": "ping"} for number in range(100)))
    for number in range(300 if BEHAVIOR == "fickle" else 0):
        send({"id": number, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
        send({"method": "notifications/cancelled", "params": {"requestId": number}})


def flood() -> None:
    while True:
        send(*[{"method": "notifications/prompts/list_changed"}] * 20)


def report(params: dict[str, Any]) -> None:
    """Report progress that takes 10 MB to read, or changes without end."""
    if BEHAVIOR == "flooding":
        threading.Thread(target=flood, daemon=True).start()
    for number in range(300 if BEHAVIOR == "chatty" else 0):
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": number, "message": "x" * 32_768}
        send({"method": "notifications/progress", "params": progress})
    if BEHAVIOR == "chatty":
        (Path(sys.argv[2]) / "told").touch()


def dawdle(method: str, own: Any) -> bool:
    """List prompts, which change each time, the second time only after a call; return whether nothing is left to do."""
    if method == "prompts/list":
        send({"method": "notifications/prompts/list_changed"})
        withheld.append(own)
        if len(withheld) != 2:
            send({"id": own, "result": {"prompts": []}})
        else:
            (Path(sys.argv[2]) / "dawdles").touch()
    elif method == "tools/call":
        send({"id": own, "result": answer(method, {})}, {"id": withheld[1], "result": {"prompts": []}})
    return method in ("prompts/list", "tools/call")


def leave(method: str, own: Any) -> bool:
    """Answer a call as if the connection had ended, with other tools after it; return whether nothing is left to do."""
    if method == "tools/call":
        withheld.append(own)
        send({"method": "notifications/tools/list_changed"})
    elif method == "tools/list" and withheld:
        error = {"code": -32000, "message": "It leaves"}
        send({"id": withheld.pop(), "error": error}, {"id": own, "result": {"tools": [TOOL | {"name": "late"}]}})
    else:
        return False
    return True


def ask_late(method: str, own: Any) -> bool:
    """Answer no first call, and ask a question in the second; return whether nothing is left to do."""
    if method != "tools/call":
        return False
    if not withheld:
        withheld.append(own)
        (Path(sys.argv[2]) / "withheld").touch()
        return True
    form: dict[str, Any] = {"message": "Whose?", "requestedSchema": {"type": "object", "properties": {}}}
    send({"id": "question", "method": "elicitation/create", "params": form})
    answered = next(text for text in sys.stdin if json.loads(text).get("id") == "question")
    send({"id": own, "result": {"content": [{"type": "text", "text": answered}]}})
    return True


WITHHOLDING = {"dawdling": dawdle, "leaving": leave, "belated": ask_late}

if BEHAVIOR == "untidy":
    sys.stdout.write("this is no JSON\n")
if BEHAVIOR == "hanging":
    time.sleep(3600)
for own, asked, given in requests():
    if asked == "server/discover":
        send_unknown(own)
    elif BEHAVIOR == "refusing" and (error := given.get("arguments")):
        send(id=own, error=error)
    elif BEHAVIOR in WITHHOLDING and WITHHOLDING[BEHAVIOR](asked, own):
        continue
    elif (result := answer(asked, given)) is not None:
        send(id=own, result=result)
if BEHAVIOR == "stubborn":
    time.sleep(999)
