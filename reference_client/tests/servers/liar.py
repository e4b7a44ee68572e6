"""An MCP server over stdio, by hand and without an SDK, that breaks one rule when it is told to.

It speaks one era, has six tools, and writes each request's method to a log, so that tests see what a client sent and
what it did not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ID = "io.github.tools-search/tools-search"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


def tool(word: str, **extra: Any) -> dict[str, Any]:
    return {"name": f"make_{word}", "description": f"Make a {word} thing", "inputSchema": {"type": "object"}} | extra


FLAWED: list[Any] = [
    {"name": "make_flawed", "description": "Make an alpha thing", "inputSchema": {}},
    {"description": "Make an alpha thing", "inputSchema": {"type": "object"}},
    5,
]
"""Definitions that no revision of the protocol allows."""


class Liar:
    def __init__(self, era: str, fault: str, log: Path, tools: int, place: str, size: int | None) -> None:
        self.era, self.fault, self.log, self.place, self.size = era, fault, log, place, size
        self.tools = [tool(word) for word in WORDS[:tools]]
        self.count = self.searches = 0
        self.listening: Any = None

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            with self.log.open("a") as log:
                log.write(message["method"] + "\n")
            if "id" in message:
                answer = self.answer(message["id"], message["method"], message.get("params") or {})
                if answer is not None:
                    self.send({"jsonrpc": "2.0", "id": message["id"]} | answer)

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def answer(self, request_id: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        known = {
            "server/discover": self.discover,
            "initialize": self.initialize,
            "tools/list": self.list,
            "tools/search": self.search,
            "tools/call": self.call,
            "subscriptions/listen": self.listen,
        }
        of_the_other_era = "server/discover" if self.era == "legacy" else "initialize"
        if method not in known or method == of_the_other_era:
            return {"error": {"code": -32601, "message": "Method not found"}}
        if method == "subscriptions/listen":
            if self.fault == "no-subscriptions":
                return {"error": {"code": -32601, "message": "Method not found"}}
            self.listening = request_id
        if (method, self.fault) == ("tools/list", "list-hangs"):
            return None
        return known[method](params)

    def capabilities(self) -> dict[str, Any]:
        tools = {"tools": {"listChanged": True}}
        settings: Any = {"catalogSize": self.size or len(self.tools)} if self.fault != "uncounted" else {}
        if self.fault == "advertises-true":
            settings = True
        return tools if self.place == "nowhere" else tools | {self.place: {ID: settings}}

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.fault == "mute":
            sys.stdin.read()
        info = {"name": "liar", "version": "1"}
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": self.capabilities(), "serverInfo": info}}

    def discover(self, params: dict[str, Any]) -> dict[str, Any]:
        result = {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities()}
        return {"result": result | {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}}

    def complete(self, result: dict[str, Any], ttl: int = 0) -> dict[str, Any]:
        modern = {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}
        if self.fault == "malformed-hints":
            modern |= {"ttlMs": "soon", "cacheScope": "everyone"}
        return {"result": result | (modern if self.era == "modern" else {})}

    def list(self, params: dict[str, Any]) -> dict[str, Any] | None:
        self.count += 1
        match self.fault:
            case "list-loops":
                return self.complete({"tools": [], "nextCursor": "again"})
            case "list-refused":
                return {"error": {"code": -32603, "message": "no list today"}}
            case "list-shapeless":
                return self.complete({"tools": "none"})
            case "dressed-up":
                return self.complete({"tools": [tool("a", description="\x1b[2J\u202eevil\nsecond line\x07")]})
            case "list-flawed" | "flawed":
                return self.complete({"tools": [*self.tools[:1], *FLAWED, *self.tools[1:]]})
            case "list-invalid-page":
                return self.complete({"tools": [*self.tools, *FLAWED], "nextCursor": 5})
            case "list-pages":
                return self.page(params)
            case "list-kept":
                return self.complete({"tools": self.tools}, ttl=60_000)
            case "list-grows":
                return self.complete({"tools": [tool(f"n{n}") for n in range(self.count)]})
            case _:
                return self.complete({"tools": self.tools})

    def search(self, params: dict[str, Any]) -> dict[str, Any] | None:
        self.count += 1
        fault, _, stated = self.fault.partition(":")
        code, _, times = stated.partition(":")  # `refuses:-32603`, or `refuses:-32603:2` for the first two searches
        self.searches += 1
        if fault == "refuses" and self.searches <= float(times or "inf"):
            return {"error": {"code": int(code), "message": "\x1b[31mno"}}
        if fault == "busy" and self.searches <= float(times or "inf"):  # `busy:MILLISECONDS`, as often as `refuses`
            return {"error": {"code": -32603, "message": "too busy", "data": {"retryAfterMs": int(code)}}}
        if self.fault in ("pages", "expires", "expires-always"):
            return self.expiring(params)
        if self.fault == "dies":
            sys.stderr.write("out of cheese\n")
            sys.exit(3)
        if self.fault == "hangs" or (self.fault == "hangs-once" and self.count == 1):
            return None
        if self.fault == "gated":
            self.log.with_suffix(".gate").read_bytes()  # a named pipe, which a test opens when it likes
        return self.complete(self.result(params.get("limit", 10)), ttl=60_000 if self.fault == "kept" else 0)

    def result(self, limit: int) -> dict[str, Any]:
        match self.fault:
            case "shapeless":
                return {"tools": {"name": "make_alpha"}}
            case "flawed":
                return {"tools": [*self.tools[:1], FLAWED[1]]}
            case "loops":
                return {"tools": [], "nextCursor": "again"}
            case "overfull":
                return {"tools": self.tools * 3}
            case "duplicates":
                return {"tools": ([self.tools[0]] * 2 + self.tools[1:])[:limit]}
            case "huge":
                return {"tools": [tool("huge", description="x" * 3_000_000)]}
            case "read-only":
                return {"tools": [tool("alpha", annotations={"readOnlyHint": True})]}
            case "grouped":
                return {"tools": [tool(word, _meta={ID: {"group": "letters"}}) for word in WORDS[:limit]]}
            case "malformed-hit":
                return {"tools": [tool("alpha", _meta={ID: {"score": "best"}})]}
            case _:
                return {"tools": self.tools[:limit]}

    def page(self, params: dict[str, Any]) -> dict[str, Any]:
        at = int(params.get("cursor", 0))
        result: dict[str, Any] = {"tools": self.tools[at : at + 2]}
        return self.complete(result | ({"nextCursor": str(at + 2)} if at + 2 < len(self.tools) else {}))

    def expiring(self, params: dict[str, Any]) -> dict[str, Any]:
        if "cursor" in params and (self.fault == "expires-always" or (self.fault == "expires" and self.count == 2)):
            return {"error": {"code": -32602, "message": "expired"}}
        return self.page(params)

    def call(self, params: dict[str, Any]) -> dict[str, Any] | None:
        match self.fault:
            case "call-dies":
                sys.exit(3)
            case "call-hangs":
                return None
            case "call-refused":
                return {"error": {"code": -32000, "message": "no\nError: all is well"}}
            case "call-dressed-up":
                return self.complete({"content": [{"type": "text", "text": "\x1b]0;owned\x07\u202emade of it"}]})
            case "image":
                image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
                return self.complete({"content": [image]})
            case "structured":
                return self.complete({"content": [], "structuredContent": {"sum": 5}})
            case "unstructured":
                return self.complete({"content": [], "structuredContent": {"sum": "many"}})
            case _:
                self.announce()
                failed = params["arguments"].get("fail", False) if params.get("arguments") else False
                told = {"name": params["name"], "arguments": params.get("arguments")}
                meta: dict[str, Any] = params.get("_meta") or {}
                note = meta.get("example.com/note")
                text = json.dumps(told | ({"note": note} if note else {}))
                return self.complete({"content": [{"type": "text", "text": text}], "isError": failed})

    def listen(self, params: dict[str, Any]) -> None:
        stamp = {"io.modelcontextprotocol/subscriptionId": self.listening}
        granted = {"notifications": params["notifications"], "_meta": stamp}
        self.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted})
        if self.fault == "hangs-up":
            self.send({"jsonrpc": "2.0", "id": self.listening, "error": {"code": -32603, "message": "enough"}})

    def announce(self) -> None:
        """Say that the tools changed: on a subscription, or just so."""
        change: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        if self.era == "modern":
            if self.listening is None:
                return
            change["params"] = {"_meta": {"io.modelcontextprotocol/subscriptionId": self.listening}}
        self.send(change)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--era", default="modern")
    options.add_argument("--fault", default="none")
    options.add_argument("--log", type=Path, required=True)
    options.add_argument("--tools", type=int, default=6)
    options.add_argument("--place", default="extensions")
    options.add_argument("--size", type=int, help="the number of tools that it claims to have")
    chosen = options.parse_args()
    chosen.log.with_suffix(".pid").write_text(str(os.getpid()))
    liar = Liar(chosen.era, chosen.fault, chosen.log, chosen.tools, chosen.place, chosen.size)
    if chosen.fault == "unstructured":
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        liar.tools = [tool("alpha", outputSchema=schema)]
    liar.run()
