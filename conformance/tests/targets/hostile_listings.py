"""Hostile listings: too long, too large, or with names that a terminal or a page may interpret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]
Listing = Callable[[Json], Json]
"""From a request for tools to the members of its result."""

OBJECT: Final[Json] = {"type": "object"}
MANY: Final = 100_000
PAGE: Final = 10_000
BOMB: Final[Json] = {
    "$ref": "http://127.0.0.1:9/remote.json",
    "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 9} for n in range(9)},
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "b": {"$ref": "file:///etc/passwd"}},
}
MARKED: Final = (
    "\x1b]0;owned\x07\x1b[2J",
    "<script>alert(1)</script>",
    "]]><failure/>&lt;",
    "\u202egnp.exe",
    "\x00\x08\x7f",
    "| a | `b` [c](javascript:d) ![e](http://127.0.0.1:9/f)",
    "::error::\r\n::set-output name=a::b",
    "\ufeff\ufffe\U000e0041",
)


def cursor_of(message: Json) -> int:
    return int(message.get("params", {}).get("cursor", "0"))


def named(name: str, **members: Any) -> Json:
    return {"name": name, "inputSchema": OBJECT, **members}


def cursors(message: Json) -> Json:
    """Never come to an end."""
    place = cursor_of(message)
    return {"tools": [named(f"tool{place}")], "nextCursor": str(place + 1)}


def many(message: Json) -> Json:
    place = cursor_of(message)
    tools = [named(f"tool{n}") for n in range(place, place + PAGE)]
    return {"tools": tools} | ({"nextCursor": str(place + PAGE)} if place + PAGE < MANY else {})


def many_at_once(message: Json) -> Json:
    return {"tools": [{"name": f"tool{n}", "inputSchema": {}} for n in range(MANY // 5)]}


def large(message: Json) -> Json:
    return {"tools": [named("large", description="word " * 800_000)]}


def beyond(message: Json) -> Json:
    return {"tools": [named("beyond", description="word " * 2_500_000)]}


def bombs(message: Json) -> Json:
    return {"tools": [{"name": f"bomb{n}", "inputSchema": BOMB, "outputSchema": BOMB} for n in range(20)]}


def marked(message: Json) -> Json:
    """Name tools so that a terminal, a browser or a parser may obey; no search finds any."""
    searching = message["method"] == "tools/search"
    return {"tools": [] if searching else [named(name, title=name, description=name) for name in MARKED]}


LISTINGS: Final[dict[str, Listing]] = {
    kind.__name__.replace("_", "-"): kind for kind in (cursors, many, many_at_once, large, beyond, bombs, marked)
}
