"""A hostile driver, or a driver with a hostile client: well-behaved until its moment comes.

    target.py hostile_driver KIND [--on OPERATION] [--after COUNT]

Its moment is any operation, unless `--on` names one; `--after` lets so many of them pass first. The kinds of
`hostile.py` and the kinds below are ways to answer; the kinds of `hostile_client.py` attack the peer first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from . import hostile
from .client_library import Client, Federation
from .hostile_client import ATTACKS
from .miniature_client import Driver
from .miniature_transports import Json


def answer(number: int, value: Json) -> bytes:
    return json.dumps({"id": number, **value}).encode() + b"\n"


def early(number: int) -> Iterator[bytes]:
    """Answer this operation and, before it was asked for, the next one."""
    yield answer(number, {"ok": {"tools": []}}) + answer(number + 1, {"ok": {}})


def twice(number: int) -> Iterator[bytes]:
    yield answer(number, {"ok": {"tools": []}}) * 2


def large(number: int) -> Iterator[bytes]:
    yield answer(number, {"ok": {"tools": [{"name": "x" * 3_500_000}]}})


def many(number: int) -> Iterator[bytes]:
    yield answer(number, {"ok": {"tools": [{"name": "x"}] * 60_000}})


KINDS: Final = hostile.KINDS | {kind.__name__: kind for kind in (early, twice, large, many)}


class HostileDriver(Driver):
    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(Client, Federation, ["stdio", "http", "federation"])
        self._kind: str = arguments.kind
        self._on: str | None = arguments.on
        self._left: int = arguments.after
        self._target: Json = {}

    def run(self) -> None:
        out = sys.stdout.buffer
        for row in sys.stdin:
            request = json.loads(row)
            its_moment = self._is_its_moment(request["op"])
            if its_moment and self._kind in KINDS:
                for chunk in KINDS[self._kind](request["id"]):
                    out.write(chunk)
                    out.flush()
                continue
            if its_moment and self._target:
                ATTACKS[self._kind](self._target)
            out.write(answer(request["id"], self.outcome(request)))
            out.flush()
            if request["op"] == "bye":
                return

    def _is_its_moment(self, op: str) -> bool:
        if self._on is not None and op != self._on:
            return False
        self._left -= 1
        return self._left < 0

    def do_connect(self, request: Json) -> Any:
        self._target = request["target"]
        return super().do_connect(request)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--on")
    parser.add_argument("--after", type=int, default=0)
    HostileDriver(parser.parse_args()).run()
