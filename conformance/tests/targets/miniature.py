"""A whole server that offers `tools/search`, on nothing but the standard library: the draft read a second time.

    target.py miniature [--http] [--tools-alone] [--fault NAME] [--variant NAME]

It serves the catalog that TOOLS_SEARCH_CATALOG names, in both eras, on stdio or on a free port of the loopback. With
a fault it breaks exactly one rule; a variant breaks none, and does otherwise what the draft leaves free.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import math
import os
import secrets
import sys
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .faults import Fault, RefusalError, asked, find_fault, member

if TYPE_CHECKING:
    from .miniature_lists import Other

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
META: Final = "io.modelcontextprotocol/"
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
LIST_PAGE: Final = 20
DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 50

Json = dict[str, Any]


def terms(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = [c if unicodedata.category(c)[0] == "L" or unicodedata.category(c) == "Nd" else " " for c in folded]
    return "".join(kept).split()


def invalid(field: str, reason: str) -> RefusalError:
    return RefusalError(-32602, f"invalid {field}: {reason}", {"field": field, "reason": reason})


def legacy(tool: Json) -> Json:
    """Return a definition as legacy clients can take it: without an output schema that is no object's."""
    fit = member(tool, "outputSchema").get("type", "") == "object"
    return tool if fit else {name: value for name, value in tool.items() if name != "outputSchema"}


class Miniature:
    """The rules, without any transport: of tools, and where there are other lists of those as well."""

    method = "tools/search"
    list_method = "tools/list"
    member = "tools"
    key = "name"
    max_limit = MAX_LIMIT

    def __init__(self, tools: list[Json], fault: Fault, others: Sequence[Other] = ()) -> None:
        self.tools = tools
        self.fault = fault
        self._others = {method: other for other in others for method in (other.method, other.list_method)}
        self._key = os.environ.get("TOOLS_SEARCH_CURSOR_KEY", "").encode() or secrets.token_bytes(32)
        self._words = [
            set(terms(" ".join(str(tool.get(m, "")) for m in ("name", "title", "description")))) for tool in tools
        ]

    @property
    def settings(self) -> Json:
        own: Json = {"catalogSize": len(self.tools), "maxLimit": self.max_limit, "topics": ["fixtures"]}
        for other in self._others.values():
            own.setdefault(other.setting, other.settings)
        return own

    @property
    def capabilities(self) -> Json:
        """What is declared besides the extension."""
        return {"tools": {}, **{other.setting: {} for other in self._others.values()}}

    def respond(self, message: Json, session: Json) -> Json | None:
        """Answer one message; `session` holds what a legacy client declared."""
        if "method" not in message:
            return None
        if "id" not in message:
            return self.fault.unasked(message)
        asked.set(message)
        method, params = message["method"], member(message, "params")
        meta = member(params, "_meta")
        era = MODERN if f"{META}protocolVersion" in meta else LEGACY
        capabilities: Json = session.get("capabilities") or {}
        try:
            seen = self.fault.request(method, params, era)
            meta = member(seen, "_meta")
            if era == MODERN:
                capabilities = self.capabilities_of(meta)
            outcome: Json = {"result": self.serve(method, seen, era, capabilities, session)}
        except RefusalError as refusal:
            outcome = {"error": {"code": refusal.code, "message": refusal.message, "data": refusal.data}}
        return {
            "jsonrpc": "2.0",
            "id": self.fault.id(message["id"]),
            **self.fault.response(method, params, era, outcome),
        }

    def capabilities_of(self, meta: Json) -> Json:
        """Return what a modern request declares, or refuse what it says of itself."""
        if (version := meta[f"{META}protocolVersion"]) != MODERN:
            versions = {"supported": [MODERN, LEGACY], "requested": version}
            raise RefusalError(-32022, "Unsupported protocol version", versions)
        if f"{META}clientCapabilities" not in meta:
            raise invalid("_meta", "clientCapabilities are missing")
        return member(meta, f"{META}clientCapabilities")

    def serve(self, method: str, params: Json, era: str, capabilities: Json, session: Json) -> Json:
        if method == "server/discover":
            return self.discovered(era)
        if method == "initialize":
            session["capabilities"] = member(params, "capabilities")
            held = {EXTENSION_ID: self.settings}
            capabilities = {**self.capabilities, "extensions": held, "experimental": held}
            return {
                "protocolVersion": LEGACY,
                "capabilities": capabilities,
                "serverInfo": {"name": "mini", "version": "1"},
            }
        served = {"tools/list": self.listed, "tools/call": self.called, "tools/search": self.searched}
        for other in self._others.values():
            served |= {other.method: other.searched, other.list_method: other.listed, other.use_method: other.used}
        if method not in served:
            raise RefusalError(-32601, "Method not found", method)
        searches = method.endswith("/search")
        if searches and era == MODERN:
            self.gate(method, capabilities)
        result = served[method](params)
        if era == LEGACY and "tools" in result:
            result["tools"] = [legacy(tool) for tool in result["tools"]]
        if era == MODERN:
            cached = searches or method.endswith(("/list", "/read"))
            result = {**result, "resultType": "complete", **({"ttlMs": 1000, "cacheScope": "public"} if cached else {})}
        return result

    def discovered(self, era: str) -> Json:
        capabilities = {**self.capabilities, "extensions": {EXTENSION_ID: self.settings}}
        caching = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}
        return {"supportedVersions": [MODERN, LEGACY], "capabilities": capabilities, **caching}

    def line(self, response: Json) -> bytes:
        """Return a response as it goes on the wire."""
        return json.dumps(response).encode("ascii")

    def streams(self, era: str) -> bool:
        """Return whether answers over HTTP are event streams in this era."""
        return era == LEGACY

    def gate(self, method: str, capabilities: Json) -> None:
        extensions: Any = capabilities.get("extensions")
        declared = extensions.get(EXTENSION_ID) if isinstance(extensions, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
        if not isinstance(self.fault.declaration_to(method, declared), dict):
            raise RefusalError(-32021, "declare it", {"requiredCapabilities": {"extensions": {EXTENSION_ID: {}}}})

    def listed(self, params: Json) -> Json:
        start = 0
        if (cursor := params.get("cursor")) is not None:
            start = int(self.opened(cursor, ""))
        page: Json = {self.member: self.tools[start : start + LIST_PAGE]}
        if start + LIST_PAGE < len(self.tools):
            page["nextCursor"] = self.sealed(start + LIST_PAGE, "")  # which is no query
        return page

    def called(self, params: Json) -> Json:
        tool = next((tool for tool in self.tools if tool["name"] == params.get("name")), None)
        if tool is None:
            raise RefusalError(-32602, "unknown tool", None)
        echo = {"name": tool["name"], "arguments": member(params, "arguments")}
        result: Json = {"content": [{"type": "text", "text": json.dumps(echo)}]}
        return result | ({"structuredContent": echo} if "outputSchema" in tool else {})

    def searched(self, params: Json) -> Json:
        query, limit = self.query_of(params), self.limit_of(params)
        ranked, bound = self.ranked(query), self.fault.bound_to(self.method, query)
        start = 0
        if "cursor" in params:
            if not isinstance(params["cursor"], str):
                raise invalid("cursor", "no string")
            start = int(self.opened(params["cursor"], bound))
        page: Json = {self.member: [self.hit(number, score) for score, number in ranked[start : start + limit]]}
        if start + limit < len(ranked):
            page["nextCursor"] = self.sealed(start + limit, bound)
        return page

    def query_of(self, params: Json) -> str:
        if not isinstance(query := params.get("query"), str):
            raise invalid("query", "a string is needed")
        if not query.strip(WHITE_SPACE):
            raise invalid("query", "nothing but white space")
        if len(query) > 1024:
            raise invalid("query", "more than 1024 characters")
        return query

    def limit_of(self, params: Json) -> int:
        limit: Any = params.get("limit", DEFAULT_LIMIT)
        if (
            isinstance(limit, bool)
            or not isinstance(limit, int | float)
            or not math.isfinite(limit)
            or limit != int(limit)
        ):
            raise invalid("limit", "an integer is needed")
        if limit < 1:
            raise invalid("limit", "at least 1 is needed")
        return min(int(limit), self.max_limit)

    def exact(self, query: str) -> str:
        """Return the key of the item that comes first, if any item has it."""
        return query if any(tool[self.key] == query for tool in self.tools) else query.strip(WHITE_SPACE)

    def ranked(self, query: str) -> list[tuple[float, int]]:
        wanted, name = set(terms(query)), self.exact(query)
        scores = [
            2.0 if tool[self.key] == name else len(wanted & words) / (len(wanted) or 1)
            for tool, words in zip(self.tools, self._words, strict=True)
        ]
        return sorted(((score, n) for n, score in enumerate(scores) if score > 0), key=lambda hit: (-hit[0], hit[1]))

    def hit(self, number: int, score: float) -> Json:
        tool = self.tools[number]
        meta = dict(member(tool, "_meta"))
        meta[EXTENSION_ID] = {**meta.get(EXTENSION_ID, {}), "score": min(1.0, score), "matched": ["name"]}
        return {**tool, "_meta": meta}

    def sealed(self, offset: int, purpose: str) -> str:
        return base64.urlsafe_b64encode(f"{offset}:{self._mark(str(offset), purpose)}".encode()).decode()

    def opened(self, cursor: str, purpose: str) -> str:
        try:
            token = base64.urlsafe_b64decode(cursor)
            offset, _, mark = token.decode("ascii").partition(":")
        except ValueError as error:
            raise invalid("cursor", "not issued here") from error
        is_own_spelling = base64.urlsafe_b64encode(token).decode() == cursor  # base64 has several of the same bytes
        if not (is_own_spelling and hmac.compare_digest(mark, self._mark(offset, purpose))):
            raise invalid("cursor", "not issued here")
        return offset

    def _mark(self, offset: str, purpose: str) -> str:
        return hmac.new(self._key, json.dumps([offset, self.method, purpose]).encode(), hashlib.sha256).hexdigest()


def serve_stdio(server: Miniature) -> None:
    """Answer each line in a new thread, until stdin ends and all is answered."""
    session: Json = {}
    writing = threading.Lock()

    def answer(message: Json) -> None:
        if (response := server.respond(message, session)) is not None:
            line = server.fault.bytes(message, server.line(response)) + b"\n"
            with writing:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

    threads: list[threading.Thread] = []
    for line in server.fault.lines(sys.stdin.buffer):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        threads = [thread for thread in threads if thread.is_alive()]
        threads.append(threading.Thread(target=answer, args=(message,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    server.fault.input_closed()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--tools-alone", action="store_true", help="leave out the other lists of the catalog")
    parser.add_argument("--fault", default="none")
    parser.add_argument("--variant", default="none")
    arguments = parser.parse_args()
    if not (catalog := os.environ.get("TOOLS_SEARCH_CATALOG")):
        parser.error("TOOLS_SEARCH_CATALOG has to name the catalog to serve")
    file = Path(catalog)
    server: Miniature
    if arguments.variant == "none":
        from .miniature_features import Fixture  # it imports this module

        server = Fixture(file, find_fault(arguments.fault), tools_alone=arguments.tools_alone)
    else:
        from .variants import find_variant  # so does this one

        tools = json.loads(file.read_text(encoding="utf-8"))["tools"]
        server = find_variant(arguments.variant)(tools, find_fault(arguments.fault))
    if arguments.http:
        from .miniature_http import serve_http  # stdio starts faster without

        serve_http(server)
    else:
        serve_stdio(server)
