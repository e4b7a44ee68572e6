"""A server of a large catalog of its own: many tools, or large definitions, in pages of any size.

    target.py large [--tools N] [--bytes N] [--page N] [--http]

It searches an index, so that an answer takes no longer than a few milliseconds.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from typing import Final

from .faults import find_fault
from .miniature import Json, Miniature, serve_stdio, terms

ACTIONS: Final = (
    "archive", "attach", "close", "copy", "create", "delete", "export", "import", "label", "list", "merge", "move",
)  # fmt: skip
THINGS: Final = (
    "account", "branch", "budget", "chart", "customer", "device", "folder", "invoice", "letter", "meeting", "page",
)  # fmt: skip
_WORDS: Final = 2000


def catalog(count: int, size: int) -> list[Json]:
    """Return `count` tools, each of which takes about `size` bytes of JSON."""
    chosen = random.Random(1)  # noqa: S311 - the same catalog each time
    words = ["".join(chosen.choices("bcdfghklmnprstvz", k=3)) + chosen.choice("aeiou") * 2 for _ in range(_WORDS)]
    tools: list[Json] = []
    for number in range(count):
        action, thing = ACTIONS[number % len(ACTIONS)], THINGS[number // len(ACTIONS) % len(THINGS)]
        about = " ".join(chosen.choices(words, k=8))
        properties: Json = {"id": {"type": "string", "description": f"Which {thing}"}}
        tool = {
            "name": f"{action}_{thing}_{number}",
            "description": f"{action.title()} a {thing}. {about}.",
            "inputSchema": {"type": "object", "properties": properties, "required": ["id"]},
        }
        for place in range((size - 300) // 130):
            properties[f"option{place}"] = {
                "type": ("string", "integer", "boolean")[place % 3],
                "description": f"{place}: {' '.join(chosen.choices(words, k=10))}",
            }
        tools.append(tool)
    return tools


class Large(Miniature):
    """The rules over an index."""

    def __init__(self, tools: list[Json], page: int) -> None:
        super().__init__(tools, find_fault("none"))
        self._page = page
        self._named = {tool["name"]: number for number, tool in enumerate(tools)}
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self._words):
            for word in words:
                self._holders[word].append(number)

    def listed(self, params: Json) -> Json:
        start = int(self.opened(params["cursor"], "")) if params.get("cursor") is not None else 0
        page: Json = {"tools": self.tools[start : start + self._page]}
        if start + self._page < len(self.tools):
            page["nextCursor"] = self.sealed(start + self._page, "")
        return page

    def ranked(self, query: str) -> list[tuple[float, int]]:
        wanted, scores = set(terms(query)), defaultdict[int, float](float)
        for term in sorted(wanted):
            for number in self._holders.get(term, ()):
                scores[number] += 1 / len(wanted)
        if (exact := self._named.get(self.exact(query))) is not None:
            scores[exact] = 2.0
        return sorted(((score, number) for number, score in scores.items()), key=lambda hit: (-hit[0], hit[1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--bytes", type=int, default=500)
    parser.add_argument("--page", type=int, default=20)
    parser.add_argument("--http", action="store_true")
    arguments = parser.parse_args()
    server = Large(catalog(arguments.tools, arguments.bytes), arguments.page)
    if arguments.http:
        from .miniature_http import serve_http  # stdio starts faster without

        serve_http(server)
    else:
        serve_stdio(server)
