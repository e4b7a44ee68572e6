"""JSON-RPC over standard input and output, for the servers in this folder. Standard library only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def send(*messages: dict[str, Any], **message: Any) -> None:
    """Write messages in one piece: whole ones, or one by its members."""
    lines = [json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages or [message]]
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def send_unknown(request: Any) -> None:
    """Answer a request whose method the server does not know."""
    send(id=request, error={"code": -32601, "message": "Method not found"})


def requests() -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Yield the id, the method and the params of each request, without notifications and answers."""
    for message in map(json.loads, sys.stdin):
        if "id" in message and "method" in message:
            yield message["id"], message["method"], message.get("params", {})
