"""Answers of a hostile server that are messages, or nearly so: the proper one, altered.

Each kind makes of a request and the answer that it deserves what is sent in its place, a JSON value or its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, cycle
from typing import Any, Final

Json = dict[str, Any]
Alteration = Callable[[Json, Json], Any]

MEGABYTE: Final = 1024 * 1024
EXTENSION_ID: Final = "io.github.tools-search/tools-search"


def with_id(number: Any) -> Alteration:
    return lambda request, proper: {**proper, "id": number}


def error(value: Any) -> Alteration:
    return lambda request, proper: {"jsonrpc": "2.0", "id": request["id"], "error": value}


def coded(code: Any, **members: Any) -> Alteration:
    return error({"code": code, "message": "no", **members})


def result(value: Any) -> Alteration:
    return lambda request, proper: {"jsonrpc": "2.0", "id": request["id"], "result": value}


def members(**given: Any) -> Alteration:
    """Add these members to a proper result."""

    def alter(request: Json, proper: Json) -> Json:
        return {**proper, "result": {**proper["result"], **given}} if "result" in proper else proper

    return alter


def tools(change: Callable[[list[Any]], Any]) -> Alteration:
    """Change the tools of a proper result."""

    def alter(request: Json, proper: Json) -> Json:
        page: Json = proper.get("result", {})
        return {**proper, "result": {**page, "tools": change(page["tools"])}} if "tools" in page else proper

    return alter


def each(change: Callable[[Json], Any]) -> Alteration:
    return tools(lambda listed: [change(tool) for tool in listed])


def spelled(value: str) -> Alteration:
    """Send a proper result with a member that no JSON writer would write."""

    def alter(request: Json, proper: Json) -> bytes:
        return json.dumps({**proper, "x": "<here>"}).replace('"<here>"', value).encode("utf-8", "surrogatepass")

    return alter


def encoded(encoding: str) -> Alteration:
    return lambda request, proper: json.dumps({**proper, "é": "ü"}, ensure_ascii=False).encode(encoding)


def both(request: Json, proper: Json) -> Json:
    return {"result": {"tools": []}, "error": {"code": -32602, "message": "both"}, **proper}


def pages_for_ever() -> Alteration:
    cursors = count()
    return lambda request, proper: members(nextCursor=f"page {next(cursors)}")(request, proper)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


SAID: Final[dict[str, Any]] = {
    "capabilities": {"extensions": {EXTENSION_ID: {"maxLimit": -1, "catalogSize": 10**300, "topics": [[], {}, 7]}}},
    "protocolVersion": {"year": 2025},
    "supportedVersions": [["2026-07-28"], {}, None, 7],
    "serverInfo": [],
    "ttlMs": 1e308,
    "cacheScope": {},
    "resultType": [],
    "_meta": 7,
}

STEADY: Final[dict[str, Alteration]] = {
    "refuse": coded(-32603),
    "refuse-all": coded(-32602, data={"field": [], "reason": {}}),
    "not-found": coded(-32601),
    "busy": coded(-32603, data={"retryAfterMs": 0}),
    "busy-long": coded(-32603, data={"retryAfterMs": 10**300}),
    "busy-odd": coded(-32603, data={"retryAfterMs": -1.5}),
    "empty": result({}),
    "echo": lambda request, proper: request,
    "id-text": lambda request, proper: {**proper, "id": str(request["id"])},
    "id-large": with_id(10**300),
    "id-fraction": with_id(0.5),
    "id-object": with_id({"id": 1}),
    "id-true": with_id(True),
    "id-missing": lambda request, proper: {name: value for name, value in proper.items() if name != "id"},
    "error-text": error("no"),
    "error-list": error([-32602, "no"]),
    "error-null": error(None),
    "error-empty": error({}),
    "error-and-null": lambda request, proper: {"error": None, **proper},
    "code-fraction": coded(-32602.5),
    "code-whole": coded(-32602.0),
    "code-large": coded(1e308),
    "code-text": coded("-32602"),
    "code-words": coded("INVALID"),
    "code-true": coded(True),
    "code-object": coded({"code": -32602}),
    "code-infinite": lambda request, proper: json.dumps(coded(float("inf"))(request, proper)).encode(),
    "code-beyond": lambda request, proper: json.dumps(coded(7)(request, proper)).replace("7", "1e400").encode(),
    "message-object": error({"code": -32602, "message": {"text": "no"}}),
    "data-huge": coded(-32602, data="x" * (7 * MEGABYTE)),
    "data-deep": coded(-32602, data=nested(190)),
    "both": both,
    "neither": lambda request, proper: {"jsonrpc": "2.0", "id": request["id"]},
    "batch": lambda request, proper: [proper],
    "batch-long": lambda request, proper: [proper] * 1000,
    "version": lambda request, proper: {**proper, "jsonrpc": 2.0},
    "not-a-number": spelled("NaN"),
    "infinity": spelled("-Infinity"),
    "beyond-doubles": spelled("1e400"),
    "surrogates": spelled('"\\ud800"'),
    "surrogate-bytes": spelled('"\ud800"'),
    "named-twice": spelled('1,"id":7'),
    "utf-16": encoded("utf-16"),
    "latin-1": encoded("latin-1"),
    "byte-order-mark": encoded("utf-8-sig"),
    "result-list": result([]),
    "result-text": result("tools"),
    "result-null": result(None),
    "result-odd": members(**SAID),
    "result-nested": members(nested=nested(150), ttlMs=10**300),
    "tools-null": tools(lambda listed: None),
    "tools-object": tools(lambda listed: {"tools": listed}),
    "tools-text": tools(lambda listed: "tools"),
    "tools-mixed": tools(lambda listed: [*listed, None, 7, [], "tool"]),
    "tools-none": tools(lambda listed: []),
    "tools-reversed": tools(lambda listed: listed[::-1]),
    "tools-doubled": tools(lambda listed: listed * 2),
    "tools-many": tools(lambda listed: [{"name": f"n{n}", "inputSchema": {}} for n in range(20_000)]),
    "tools-unlisted": tools(lambda listed: [{"name": f"other{n}", "inputSchema": {}} for n in range(3)]),
    "names-numbers": each(lambda tool: {**tool, "name": 7}),
    "names-null": each(lambda tool: {**tool, "name": None}),
    "names-objects": each(lambda tool: {**tool, "name": {"name": tool["name"]}}),
    "names-empty": each(lambda tool: {**tool, "name": ""}),
    "names-alike": each(lambda tool: {**tool, "name": "same"}),
    "names-long": tools(lambda listed: [{**tool, "name": tool["name"] + "n" * MEGABYTE} for tool in listed[:5]]),
    "names-control": each(lambda tool: {**tool, "name": f"\x00\u202e{tool['name']}\x1b[2J"}),
    "names-prefixed": each(lambda tool: {**tool, "name": f"gateway__{tool['name']}"}),
    "definitions-odd": each(lambda tool: {"name": tool["name"], "description": 7, "title": [], "_meta": "x"}),
    "schemas-odd": each(lambda tool: {**tool, "inputSchema": [7], "outputSchema": "x", "annotations": 1}),
    "scores-odd": each(lambda tool: {**tool, "_meta": {EXTENSION_ID: {"score": "best", "matched": {"a": 1}}}}),
    "hits-odd": each(lambda tool: {**tool, "_meta": {EXTENSION_ID: [1]}}),
    "cursor-number": members(nextCursor=7),
    "cursor-object": members(nextCursor={"offset": 10}),
    "cursor-empty": members(nextCursor=""),
    "cursor-same": members(nextCursor="again"),
    "cursor-long": members(nextCursor="c" * MEGABYTE),
    "cursor-control": members(nextCursor="\x00\u202e\x1b"),
    "cursor-new": pages_for_ever(),
}
"""The same each time, by the name of the kind."""


def mixed() -> Alteration:
    """Answer each request in another one of all these ways."""
    kinds = cycle(STEADY.values())
    return lambda request, proper: next(kinds)(request, proper)


def unadvertised(request: Json, proper: Json) -> Json:
    """Advertise nothing, and be too busy for any search."""
    if request["method"] == "tools/search":
        return STEADY["busy"](request, proper)
    return members(capabilities={"tools": {}})(request, proper)


def by_turns(*names: str) -> Alteration:
    """Answer properly, then in each of these ways, and so on."""
    kinds = cycle([lambda request, proper: proper, *(STEADY[name] for name in names)])
    return lambda request, proper: next(kinds)(request, proper)


ALTERATIONS: Final[dict[str, Alteration]] = {
    **STEADY,
    "unadvertised": unadvertised,
    "mixed": mixed(),
    "varies": by_turns("tools-none", "tools-reversed", "tools-doubled"),
    "varies-in-kind": by_turns("refuse", "empty", "refuse-all"),
}
"""What is sent in place of the proper answer, by the name of its kind."""
