"""A hostile driver, or a driver with a hostile client: well-behaved until its moment comes.

    target.py hostile_driver kinds
    target.py hostile_driver KIND [--on OPERATION] [--after COUNT] [--every COUNT]

Its moment is any operation, unless `--on` names one; `--after` lets so many of them pass first, and of the others it is
one in `--every`. The kinds of `hostile.py`, of `hostile_answers.py` and those below are ways to answer; the kinds of
`hostile_client.py` attack the peer first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from . import hostile
from .client_library import Client, Federation
from .hostile_answers import ALTERATIONS
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
        super().__init__(Client, Federation, ["stdio", "http", "federation"], [])
        self._kind: str = arguments.kind
        self._on: str | None = arguments.on
        self._left: int = arguments.after
        self._every: int = arguments.every
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
            if its_moment and self._target and self._kind in ATTACKS:
                ATTACKS[self._kind](self._target)
            outcome = self.outcome(request)
            altered = its_moment and self._kind in ALTERATIONS
            out.write(self._altered(request, outcome) if altered else answer(request["id"], outcome))
            out.flush()
            if request["op"] == "bye":
                return

    def _is_its_moment(self, op: str) -> bool:
        if self._on is not None and op != self._on:
            return False
        self._left -= 1
        return self._left < 0 and self._left % self._every == 0

    def _altered(self, request: Json, outcome: Json) -> bytes:
        """Return what a server that is hostile in this way would answer, as far as a driver can answer so."""
        proper = {"id": request["id"], **{name.replace("ok", "result"): value for name, value in outcome.items()}}
        sent = ALTERATIONS[self._kind]({**request, "method": request["op"]}, proper)
        written = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        return written.replace(b'"result"', b'"ok"', 1) + b"\n"

    def do_connect(self, request: Json) -> Any:
        self._target = request["target"]
        return super().do_connect(request)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--on")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.kind == "kinds":
        sys.stdout.write(json.dumps({"answers": [*KINDS, *ALTERATIONS], "attacks": [*ATTACKS]}))
    else:
        HostileDriver(arguments).run()
