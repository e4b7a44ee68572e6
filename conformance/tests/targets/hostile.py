"""A server that means harm: it answers as it should until its moment comes, and then in one hostile way.

    target.py hostile kinds
    target.py hostile KIND [--on METHOD] [--after COUNT] [--every COUNT] [--megabytes N] [--http]

Its moment is any request, unless `--on` names a method; `--after` lets so many such requests pass first, and of the
others it is one in `--every`. What floods, floods for ever unless it is `stderr`, which is N megabytes long. The kinds
are those below, of `hostile_answers.py` and of `hostile_listings.py`, and over HTTP those of `hostile_http.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from .faults import find_fault
from .hostile_answers import ALTERATIONS
from .hostile_listings import LISTINGS
from .miniature import Miniature

Json = dict[str, Any]
Answer = Callable[[Any], Iterator[bytes]]
"""From the id of a request to the bytes that are sent for it."""

MEGABYTE: Final = 1024 * 1024
CHUNK: Final = 65536
DRIP_SECONDS: Final = 0.05


def line(number: Any) -> Iterator[bytes]:
    while True:
        yield b"x" * CHUNK


def lines(number: Any) -> Iterator[bytes]:
    while True:
        yield b"\n" * CHUNK


def notifications(number: Any) -> Iterator[bytes]:
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
    while True:
        yield note * 1000


def drip(number: Any) -> Iterator[bytes]:
    while True:
        time.sleep(DRIP_SECONDS)
        yield b"x"


def mute(number: Any) -> Iterator[bytes]:
    yield b""


def hang(number: Any) -> Iterator[bytes]:
    """Read nothing any more."""
    signal.pause()
    yield b""


def crash(number: Any) -> Iterator[bytes]:
    os._exit(3)
    yield b""


def segfault(number: Any) -> Iterator[bytes]:
    os.kill(os.getpid(), signal.SIGSEGV)
    yield b""


def close_stdout(number: Any) -> Iterator[bytes]:
    """Live on without a stdout."""
    os.close(1)
    signal.pause()
    yield b""


def close_stdin(number: Any) -> Iterator[bytes]:
    """Live on without a stdin."""
    os.close(0)
    signal.pause()
    yield b""


def pings(number: Any) -> Iterator[bytes]:
    """Ask the client for ever, as it may be asked, under ids of every kind, and read no answer."""
    ids: tuple[Any, ...] = (1, "1", 10**300, 0.5, None, {"a": []}, "\ud800", True)
    ask = b"".join(json.dumps({"jsonrpc": "2.0", "id": each, "method": "ping"}).encode() + b"\n" for each in ids)
    while True:
        yield ask * 10


def grandchild(number: Any) -> Iterator[bytes]:
    """End, and leave a child behind that holds the streams."""
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    os._exit(4)
    yield b""


def daemon(number: Any) -> Iterator[bytes]:
    """End, and leave a child behind that has left the process group."""
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    os._exit(4)
    yield b""


def garbage(number: Any) -> Iterator[bytes]:
    yield b'\xff\xfenot json {\n[1,2]\n{"jsonrpc":"2.0"\n'


def others(number: Any) -> Iterator[bytes]:
    """Answer what somebody else has asked."""
    for identity in (number + 1000, f"{number}.", None, {"id": number}, [number]):
        yield result_of(identity, b"{}")


def result_of(number: Any, value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + json.dumps(number).encode() + b',"result":' + value + b"}\n"


def sends(value: Callable[[], bytes]) -> Answer:
    def answer(number: Any) -> Iterator[bytes]:
        yield result_of(number, value())

    return answer


def filled(size: int, unit: bytes, first: bytes, last: bytes) -> bytes:
    return first + unit * (size // len(unit)) + last


_RESULTS: Final[dict[str, Callable[[], bytes]]] = {
    "deep": lambda: b"[" * 100_000 + b"]" * 100_000,
    "arrays": lambda: filled(16 * MEGABYTE, b"[],", b"[", b"[]]"),
    "arrays-just-allowed": lambda: b'{"a":' + filled(590_000, b"[],", b"[", b"[]]}"),
    "tokens": lambda: filled(7 * MEGABYTE, b'"a",', b"[", b"1]"),
    "numbers": lambda: filled(7 * MEGABYTE, b"9" * 399 + b",", b'{"a":[', b"1]}"),
    "one-number": lambda: b'{"a":' + b"9" * (7 * MEGABYTE) + b"}",
    "fraction": lambda: b'{"a":0.' + b"9" * (7 * MEGABYTE) + b"}",
    "name": lambda: b'{"' + b"n" * (7 * MEGABYTE) + b'":1}',
    "members": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(199_000)) + b"}",
    "members-beyond": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(400_000)) + b"}",
    "twice": lambda: b'{"tools":[],"tools":[]}',
    "wide": lambda: b'{"a":"\xf0\x9f\x94\xa7' + b"x" * (7 * MEGABYTE) + b'"}',
    "escapes": lambda: filled(7 * MEGABYTE, b"\\u4e2d", b'{"a":"', b'"}'),
    "quotes": lambda: filled(7 * MEGABYTE, b'\\"', b'{"a":"', b'"}'),
    "surrogate": lambda: b'{"a":"\\ud800"}',
}
RESULTS: Final = {name: cache(made) for name, made in _RESULTS.items()}

ENDS: Final[dict[str, Answer]] = {kind.__name__: kind for kind in (crash, segfault, grandchild, daemon)}
KINDS: Final[dict[str, Answer]] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (line, lines, notifications, pings, drip, mute, hang, close_stdout, close_stdin, garbage, others)
} | {name: sends(value) for name, value in RESULTS.items()} | ENDS  # fmt: skip


class Hostile:
    """A well-behaved server until its moment comes."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        listing = LISTINGS.get(arguments.kind)
        catalog = os.environ.get("TOOLS_SEARCH_CATALOG")
        tools: list[Json] = (
            json.loads(Path(catalog).read_text(encoding="utf-8"))["tools"] if catalog and listing is None else []
        )
        self.proper = Miniature(tools, find_fault("none"))
        self.listing = listing
        self._on: str | None = arguments.on
        self._left: int = arguments.after
        self._every: int = arguments.every
        self._alter = ALTERATIONS.get(arguments.kind)
        self._session: Json = {}

    def is_its_moment(self, message: Json) -> bool:
        if not {"id", "method"} <= message.keys() or self._on not in (None, message["method"]):
            return False
        self._left -= 1
        return self._left < 0 and self._left % self._every == 0

    def altered(self, message: Json) -> bytes | None:
        """Return what is sent in place of the proper answer, if that is how it is hostile and its moment has come."""
        if self._alter is None or not self.is_its_moment(message):
            return None
        sent = self._alter(message, self.respond(message) or {})
        return sent if isinstance(sent, bytes) else json.dumps(sent).encode("ascii")

    def respond(self, message: Json) -> Json | None:
        """Answer as a server should, but for what it lists."""
        asked = message
        if self.listing is not None and message.get("method") == "tools/list":
            # The cursors are those of its own listing, which a proper server refuses.
            asked = {**message, "params": {k: v for k, v in message.get("params", {}).items() if k != "cursor"}}
        response = self.proper.respond(asked, self._session)
        if response is not None and self.listing is not None and message["method"] in {"tools/list", "tools/search"}:
            response["result"] = {**response.get("result", {}), **self.listing(message)}
        return response


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--on")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--http", action="store_true")
    arguments = parser.parse_args()
    if arguments.kind == "kinds":
        print_kinds()
        return
    if arguments.kind == "at-once":
        os._exit(7)
    if arguments.kind == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if arguments.kind == "stderr":
        for _ in range(arguments.megabytes):
            sys.stderr.buffer.write(b"e" * MEGABYTE)
    if arguments.http:
        from .hostile_http import serve_http  # it imports this module

        serve_http(Hostile(arguments), arguments.kind)
    else:
        serve_stdio(Hostile(arguments), arguments.kind)
    if arguments.kind == "stays":
        signal.pause()


def print_kinds() -> None:
    """Print the kinds that may turn hostile at any moment, by transport, as JSON."""
    from . import hostile_http  # it imports this module

    in_both = [*ALTERATIONS, *RESULTS, *ENDS]
    own = {"stdio": KINDS, "http": {**hostile_http.KINDS, "reset": None}}
    kinds = {over: list(dict.fromkeys([*in_both, *others])) for over, others in own.items()}
    sys.stdout.write(json.dumps(kinds))


def serve_stdio(server: Hostile, kind: str) -> None:
    out = sys.stdout.buffer
    for row in sys.stdin.buffer:
        message = json.loads(row)
        if kind in KINDS and server.is_its_moment(message):
            for chunk in KINDS[kind](message["id"]):
                out.write(chunk)
                out.flush()
            continue
        if (sent := server.altered(message)) is not None:
            out.write(sent + b"\n")
            out.flush()
        elif (response := server.respond(message)) is not None:
            out.write(json.dumps(response).encode("ascii") + b"\n")
            out.flush()
