"""Drivers that are none: each answers, or does not, in one wrong way.

    target.py null_drivers KIND

The kinds of `AFTER` introduce themselves properly, and are only then no drivers.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

Json = dict[str, Any]

AFTER: Final[dict[str, Json]] = {
    "deaf": {"unsupported": True},
    "fails": {"error": {"message": "no"}},
    "boasts": {"ok": {"tools": [{"name": "archive_ledger"}], "result": {}, "failed": []}},
    "shapeless": {"ok": {"tools": "many"}},
    "both": {"ok": {}, "error": {"message": "and also"}},
}


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def respond(kind: str, request: Json) -> None:
    op = request["op"]
    proper: Json = {"hello": {"ok": {"sdk": "null", "version": "0", "features": ["stdio", "http"]}}}
    introduced = kind in AFTER or kind.startswith("later-")
    if introduced and op.startswith("frobnicate"):
        outcome: Json = {"unsupported": True}
    elif introduced and op in proper:
        outcome = proper[op]
    elif kind in AFTER:
        outcome = AFTER[kind]
    else:
        misbehave(kind.removeprefix("later-"), request)
        return
    write(json.dumps({"id": request["id"], **outcome}).encode() + b"\n")


def misbehave(kind: str, request: Json) -> None:
    match kind:
        case "mute":
            pass
        case "yes":
            write(json.dumps({"id": request["id"], "ok": {}}).encode() + b"\n")
        case "garbage":
            write(b"\xff\xfenot json {\n")
        case "deep":
            write(b'{"id":1,"ok":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
        case "other-id":
            write(b'{"id": 12345, "unsupported": true}\n')
        case "crash":
            sys.stderr.write("about to crash\n")
            sys.stderr.flush()
            os._exit(3)
        case _:
            while True:
                write(b"x" * 65536)


def main() -> None:
    for line in sys.stdin:
        respond(sys.argv[1], json.loads(line))
