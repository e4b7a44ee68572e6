"""What the scripted peer answers: the protocol of a server in one era, as far as a client of the extension needs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, METHOD

from tools_search_conformance.clients.script import SETTINGS, Refusal, Reply, Script
from tools_search_conformance.target.shape import integer
from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.eras import LEGACY, LEGACY_REVISIONS, MODERN, Era

__all__ = ["META_PREFIX", "ScriptedServer"]

META_PREFIX: Final = "io.modelcontextprotocol/"
"""What the protocol's own members of `_meta` begin with."""

_STAMPS: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_DIGITS: Final = 9
"""How long a number in a cursor of a listing may be."""


class ScriptedServer:
    """Replies to requests by a script. It keeps nothing of what it was asked.

    Args:
        era: Whose requests there are.
        script: Says what the server offers and finds.
    """

    def __init__(self, era: Era, script: Script) -> None:
        self._era: Era = era
        self._script = script

    def reply(self, message: JsonObject) -> Reply:
        """Return the reply to a request, stamped as its era demands."""
        method, params = message["method"], as_object(message.get("params")) or {}
        answers: dict[str, Callable[[JsonObject], Reply]] = {
            "server/discover": self._discovered,
            "initialize": self._initialized,
            "ping": lambda _: Reply(result={}),
            "tools/list": self._listed,
            "tools/call": self._called,
            METHOD: self._searched,
        }
        opens = {"server/discover": MODERN, "initialize": LEGACY, "ping": LEGACY}
        try:
            if not isinstance(method, str) or method not in answers or opens.get(method, self._era) != self._era:
                raise Refusal(-32601, "Method not found")
            if (self._script.gone or self._script.mute) and method in {METHOD, "tools/list"}:
                return Reply(lost=self._script.gone, silent=self._script.mute)
            reply = answers[method](params)
        except Refusal as refusal:
            return refusal.reply
        if self._era == MODERN and reply.result is not None and not reply.plain:
            stamps = {"resultType": "complete"} if method == "tools/call" else _STAMPS
            return replace(reply, result={**stamps, **reply.result})
        return reply

    def _capabilities(self) -> JsonObject:
        places = self._script.advertised
        if places is None:
            places = dict.fromkeys(("extensions", "experimental")[: 1 if self._era == MODERN else 2], SETTINGS)
        capabilities: JsonObject = {place: {EXTENSION_ID: held} for place, held in places.items()}
        if self._script.neighbours:
            capabilities["extensions"] = {**self._script.neighbours, **capabilities.get("extensions", {})}
        return {"tools": {"listChanged": True}, **capabilities}

    def _discovered(self, _: JsonObject) -> Reply:
        server = {f"{META_PREFIX}serverInfo": {"name": self._script.name, "version": "1"}}
        return Reply(
            result={"supportedVersions": [MODERN], "capabilities": self._capabilities(), "_meta": server},
        )

    def _initialized(self, params: JsonObject) -> Reply:
        wanted = params.get("protocolVersion")
        return Reply(
            result={
                "protocolVersion": wanted if str(wanted) in LEGACY_REVISIONS else LEGACY,
                "capabilities": self._capabilities(),
                "serverInfo": {"name": self._script.name, "version": "1"},
            }
        )

    def _listed(self, params: JsonObject) -> Reply:
        if self._script.list_fails:
            raise Refusal(-32603, "Internal error")
        start, size, tools = 0, self._script.list_page, list(self._script.listed)
        if "cursor" not in params and self._script.list_starts_empty:
            return Reply(result={"tools": [], "nextCursor": "listed 0"})
        if "cursor" in params:
            cursor = str(params["cursor"]).removeprefix("listed ")
            if not cursor.isdecimal() or len(cursor) > _DIGITS:
                raise Refusal(-32602, "invalid cursor")
            start = int(cursor)
        page: JsonObject = {"tools": tools[start : start + size]}
        return Reply(result=page | ({"nextCursor": f"listed {start + size}"} if start + size < len(tools) else {}))

    def _called(self, params: JsonObject) -> Reply:
        echo: JsonObject = {"name": params.get("name"), "arguments": params.get("arguments") or {}}
        return Reply(result={"content": [{"type": "text", "text": json.dumps(echo)}]})

    def _searched(self, params: JsonObject) -> Reply:
        # A `null`, a `limit` that is none, and a query that is not repeated, are each for one check to find; the others
        # go on as if all was well.
        params = {name: value for name, value in params.items() if value is not None}
        blank = not isinstance(params.get("query"), str) or not params["query"].strip(WHITE_SPACE)
        if "cursor" in params and blank:
            params["query"], blank = "not repeated", False
        if (integer(params.get("limit")) or 0) < 1:
            params.pop("limit", None)
        cursor = params.get("cursor", "")
        if blank:
            raise Refusal(-32602, "invalid query", {"field": "query", "reason": "no string, or blank"})
        if not isinstance(cursor, str):
            raise Refusal(-32602, "invalid cursor", {"field": "cursor", "reason": "no string"})
        return self._script.search(params)
