"""A gateway whose list changes all the time, and is right at each moment.

    target.py changing [--seconds S | --messages N] [--toggle | --flicker] [--fault NAME] [--http]

Every so many seconds, or messages in place of time, other tools are away: a third of them by chance, or, with
`--toggle`, the same ones every other time. With `--flicker`, it serves the catalog file, and one description is new
each time. Cursors hold until the next change.
"""

from __future__ import annotations

import argparse
import random
import threading
import time

from .faults import find_fault, served_catalog
from .large import catalog
from .miniature import Json, Miniature, serve_stdio


class Changing(Miniature):
    """The rules over the tools that are there now."""

    def __init__(
        self,
        tools: list[Json],
        fault: str,
        seconds: float,
        *,
        messages: int = 0,
        toggle: bool = False,
        flicker: bool = False,
    ) -> None:
        super().__init__(tools, find_fault(fault))
        self._all: list[tuple[Json, set[str]]] = list(zip(self.tools, self._words, strict=True))
        self._seconds, self._messages, self._toggle, self._flicker = seconds, messages, toggle, flicker
        self._answered = 0
        self._turn: int = -1
        self._one_at_a_time = threading.Lock()

    def respond(self, message: Json, session: Json) -> Json | None:
        with self._one_at_a_time:
            self._change()
            return super().respond(message, session)

    def _change(self) -> None:
        self._answered += 1
        turn = self._answered // self._messages if self._messages else int(time.monotonic() / self._seconds)
        if turn != self._turn:
            self._turn = turn
            if self._flicker:
                self.tools = [{**self.tools[0], "description": f"The description number {turn}."}, *self.tools[1:]]
                return
            chance = random.Random(turn % 2 if self._toggle else turn)  # noqa: S311 - which tools are away
            there = [each for each in self._all if chance.random() > 1 / 3]
            self.tools, self._words = [tool for tool, _ in there], [words for _, words in there]

    def sealed(self, offset: int, purpose: str) -> str:
        return super().sealed(offset, f"{self._turn} {purpose}")

    def opened(self, cursor: str, purpose: str) -> str:
        return super().opened(cursor, f"{self._turn} {purpose}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--toggle", action="store_true")
    parser.add_argument("--flicker", action="store_true")
    parser.add_argument("--fault", default="none")
    parser.add_argument("--http", action="store_true")
    arguments = parser.parse_args()
    pace = {name: getattr(arguments, name) for name in ("messages", "toggle", "flicker")}
    tools = served_catalog()["tools"] if arguments.flicker else catalog(40, 500)
    server = Changing(tools, arguments.fault, arguments.seconds, **pace)
    if arguments.http:
        from .miniature_http import serve_http  # stdio starts faster without

        serve_http(server)
    else:
        serve_stdio(server)
