"""Miniatures that are partly broken, or show so little that no verdict on them can be a good one.

    target.py dodgers [--http] KIND [ERA]

A kind that breaks an era does so in `ERA` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path
from typing import Final

from .faults import Fault, Json, find_fault, member
from .miniature import LEGACY, META, MODERN, Miniature, serve_stdio
from .miniature_http import serve_http

_OPENINGS: Final = ("server/discover", "initialize")


class BrokenInOneEra(Miniature):
    """Answers some methods otherwise in one era."""

    era = MODERN
    methods: tuple[str, ...] = _OPENINGS

    def respond(self, message: Json, session: Json) -> Json | None:
        method = message.get("method")
        modern = f"{META}protocolVersion" in member(member(message, "params"), "_meta")
        if method not in self.methods or (MODERN if modern else LEGACY) != self.era:
            return super().respond(message, session)
        return self.otherwise(message)

    def otherwise(self, message: Json) -> Json | None:
        return None


class Silent(BrokenInOneEra):
    """Never opens a connection in one era."""


class Crashing(BrokenInOneEra):
    """Ends when a connection is opened in one era."""

    def otherwise(self, message: Json) -> Json | None:
        os._exit(3)


class Refusing(BrokenInOneEra):
    """Does not speak one era, and says so."""

    code = -32601

    def otherwise(self, message: Json) -> Json | None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": self.code, "message": "not here"}}


class Breaking(Refusing):
    """Breaks when a connection is opened in one era."""

    code = -32603


class ListBreaking(Breaking):
    """Cannot list its tools in one era."""

    methods = ("tools/list",)


class ListEmpty(BrokenInOneEra):
    """Lists no tools in one era."""

    methods = ("tools/list",)

    def otherwise(self, message: Json) -> Json | None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self.era == MODERN else {}
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [], **modern}}


class OtherMember(Miniature):
    """Calls the array of tools `results`."""

    def searched(self, params: Json) -> Json:
        page = super().searched(params)
        return {"results": page.pop("tools"), **page}


class NullTools(Miniature):
    """Has `null` in place of the array of tools."""

    def searched(self, params: Json) -> Json:
        return super().searched(params) | {"tools": None}


class OneMatch(Miniature):
    """Never finds more than one tool."""

    def ranked(self, query: str) -> list[tuple[float, int]]:
        return super().ranked(query)[:1]


class NamesAlone(Miniature):
    """Finds a tool by its exact name, and by nothing else."""

    def ranked(self, query: str) -> list[tuple[float, int]]:
        name = self.exact(query)
        return [(1.0, number) for number, tool in enumerate(self.tools) if tool["name"] == name]


class Prefixing(Miniature):
    """Finds tools by names that it does not list, as a careless gateway does."""

    def hit(self, number: int, score: float) -> Json:
        tool = super().hit(number, score)
        return {**tool, "name": f"gateway__{tool['name']}"}


class SometimesEmpty(Miniature):
    """Finds nothing at every third search."""

    count = 0

    def ranked(self, query: str) -> list[tuple[float, int]]:
        self.count += 1
        return super().ranked(query) if self.count % 3 else []


class Pinging(Miniature):
    """Sends `ping` before it lists its tools to a legacy client, and does not go on until that is answered."""

    def __init__(self, tools: list[Json], fault: Fault) -> None:
        super().__init__(tools, fault)
        self._answered = threading.Event()

    def respond(self, message: Json, session: Json) -> Json | None:
        if message.get("id") == "are you there?" and "result" in message:
            self._answered.set()
            return None
        modern = f"{META}protocolVersion" in member(member(message, "params"), "_meta")
        if message.get("method") == "tools/list" and not modern:
            ping = {"jsonrpc": "2.0", "id": "are you there?", "method": "ping"}
            sys.stdout.buffer.write(json.dumps(ping).encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
            if not self._answered.wait(timeout=60):
                os._exit(4)
        return super().respond(message, session)


KINDS: Final[dict[str, type[Miniature]]] = {
    "silent": Silent,
    "crashing": Crashing,
    "refusing": Refusing,
    "breaking": Breaking,
    "list-breaking": ListBreaking,
    "list-empty": ListEmpty,
    "results": OtherMember,
    "null": NullTools,
    "one-match": OneMatch,
    "names-alone": NamesAlone,
    "prefixing": Prefixing,
    "sometimes-empty": SometimesEmpty,
    "pinging": Pinging,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("era", nargs="?", default=MODERN, choices=(MODERN, LEGACY))
    arguments = parser.parse_args()
    tools = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))["tools"]
    server = KINDS[arguments.kind](tools, find_fault("none"))
    if isinstance(server, BrokenInOneEra):
        server.era = arguments.era
    (serve_http if arguments.http else serve_stdio)(server)
