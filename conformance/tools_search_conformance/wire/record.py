"""The record of every exchange: in memory while a check may cite it, on disk for readers of the verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from weakref import finalize

from tools_search_conformance.wire.codec import JsonObject, as_object, encode, encode_plain, integer
from tools_search_conformance.wire.display import abridged, memory

REDACTED: Final = "[redacted]"
"""Shown in the log in place of a secret."""

_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"})
_BYTES_LOGGED: Final = 256 * 1024
_MOST_ENCODED: Final = 16 * _BYTES_LOGGED
_LOG_BYTES: Final = 128 * 1024 * 1024
"""The size at which the wire log of a cell ends."""
_CODE: Final = re.compile(r"-?[0-9]{1,9}")
_CURSORS_KEPT: Final = 1000
_ISSUING_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RpcError:
    """The `error` member of a JSON-RPC response."""

    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one message, or the lack of one."""

    message: JsonObject | None = None
    """The response with the request's id, or `None` where none came."""

    status: int | None = None
    """HTTP status; `None` on stdio."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers of the answer, names in lower case."""

    fault: str | None = None
    """Why there is no response, or the fault of the bytes around it."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer."""

    number: int
    cell: str
    check: str
    sent: JsonObject
    answer: Answer
    milliseconds: float
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers sent, without secrets."""
    abridged: str | None = None
    """Why not everything of it is there any more."""

    @property
    def replied(self) -> bool:
        """Whether a response with the request's own id arrived."""
        return self.answer.message is not None

    @property
    def result(self) -> JsonObject | None:
        """The `result` object, if the request succeeded."""
        return as_object((self.answer.message or {}).get("result"))

    @property
    def params(self) -> JsonObject:
        """The params of the request without `_meta`, in which every modern one identifies its client."""
        params = as_object(self.sent.get("params")) or {}
        return {name: value for name, value in params.items() if name != "_meta"}

    @property
    def error(self) -> RpcError | None:
        """The error, if the request was refused with one that can be read."""
        members = as_object((self.answer.message or {}).get("error")) or {}
        code, message = integer(members.get("code")), members.get("message")
        if code is None and _CODE.fullmatch(text := str(members.get("code"))):
            code = int(text)  # which is for the check of a response's shape to find, and for no other
        if code is None:
            return None
        return RpcError(code=code, message=message if isinstance(message, str) else "", data=members.get("data"))

    def describe(self) -> str:
        """Return the answer in a few words."""
        if self.error is not None:
            return f"error {self.error.code}"
        if self.result is not None:
            return "a result"
        if self.replied:
            return "a response with neither a result object nor a readable error"
        return f"no response ({self.answer.fault or 'silence'})"

    def in_brief(self) -> Exchange:
        """Return the exchange as far as it can be kept and shown, however large it is."""
        answer = replace(
            self.answer, message=abridged(self.answer.message), headers=abridged(dict(self.answer.headers))
        )
        why = "very large: texts, arrays and objects are cut"
        return replace(
            self, sent=abridged(self.sent), headers=abridged(dict(self.headers)), answer=answer, abridged=why
        )

    def to_json(self) -> JsonObject:
        """Return the exchange as the wire log and the reports show it."""
        answer = self.answer
        return ({"abridged": self.abridged} if self.abridged else {}) | {
            "number": self.number,
            "cell": self.cell,
            "check": self.check,
            "milliseconds": self.milliseconds,
            "headers": dict(self.headers),
            "sent": self.sent,
            "answer": {
                "status": answer.status,
                "headers": dict(answer.headers),
                "message": answer.message,
                "fault": answer.fault,
            },
        }


def others(strays: Sequence[JsonObject]) -> str:
    """Return the ids of responses to other requests that came during a silence, as words to add to it."""
    ids = ", ".join(json.dumps(stray.get("id"), ensure_ascii=False)[:80] for stray in strays[:3])
    return f", but one with the id {ids}" if ids else ""


def redact(headers: Mapping[str, str], secret: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return `headers` with the values of secret ones hidden; `secret` adds names, in lower case."""
    hidden = _SECRET_HEADERS | secret
    return {name: REDACTED if name.lower() in hidden else value for name, value in headers.items()}


class Recorder:
    """Numbers the exchanges of one cell and writes each to the wire log as it happens."""

    def __init__(self, cell: str, log: Path | None = None, *, secret: frozenset[str] = frozenset()) -> None:
        self.cell = cell
        self.check = "smoke"
        """The check on whose account exchanges are recorded now."""
        self.taken: list[int] = []
        """Numbers of the exchanges of the current check."""
        self.last: Exchange | None = None
        """The last one of them."""
        self.judged: list[int] = []
        """Numbers of the exchanges that expectations of the current check were tested against."""
        self.deaths: list[tuple[str, Exchange]] = []
        """How the target ended by itself during the current check, and the exchange that was the last one."""
        self.held = 0
        """About how many bytes the exchanges take that somebody still holds."""
        self._issuing: dict[tuple[str, Any], tuple[Exchange, int]] = {}
        self._issuing_bytes = 0
        self._keepers: list[list[Exchange]] = []
        self._answered = 0
        self._waited = 0.0
        self._secret = secret
        self._count = 0
        self._log = log.open("wb") if log else None
        self._room = _LOG_BYTES

    def begin(self, check: str) -> None:
        """Start the account of another check."""
        self.check, self.taken, self.last = check, [], None
        self.judged, self.deaths = [], []

    def add(self, sent: JsonObject, headers: Mapping[str, str], answer: Answer, milliseconds: float) -> Exchange:
        """Record one exchange and return it."""
        self._count += 1
        exchange = Exchange(
            number=self._count,
            cell=self.cell,
            check=self.check,
            sent=sent,
            headers=redact(headers, self._secret),
            answer=Answer(
                message=answer.message,
                status=answer.status,
                headers=redact(answer.headers, self._secret),
                fault=answer.fault,
            ),
            milliseconds=round(milliseconds, 1),
        )
        self.taken.append(exchange.number)
        self.last = exchange
        if exchange.replied:
            self._answered += 1
            self._waited += exchange.milliseconds
        for kept in self._keepers:
            kept.append(exchange)
        size = memory([sent, answer.message, dict(answer.headers)])
        self.held += size
        finalize(exchange, self._release, size).atexit = False
        self._keep_cursor(exchange, size)
        self._write(exchange.to_json(), size)
        return exchange

    @property
    def milliseconds(self) -> float:
        """How long the target takes to answer, on the average so far."""
        return self._waited / self._answered if self._answered else 0

    @contextmanager
    def keeping(self) -> Generator[list[Exchange]]:
        """Have a list that grows by each exchange from here on; without it, they are not held."""
        kept: list[Exchange] = []
        self._keepers.append(kept)
        try:
            yield kept
        finally:
            self._keepers = [each for each in self._keepers if each is not kept]

    def leading_to(self, exchange: Exchange) -> tuple[Exchange, ...]:
        """Return the exchange after those, first to last, whose cursors it took to come to it."""
        chain = [exchange]
        while (earlier := self._issuer_for(chain[0])) is not None and earlier not in chain:
            chain.insert(0, earlier)
        return tuple(chain)

    def _issuer_for(self, exchange: Exchange) -> Exchange | None:
        """Return the exchange that issued the cursor of another, preferably one under the same limit."""
        if (cursor := _param(exchange, "cursor")) is None:
            return None
        any_limit = (issuer for (issued, _), (issuer, _) in reversed(self._issuing.items()) if issued == cursor)
        same_limit, _ = self._issuing.get((cursor, str(_param(exchange, "limit"))), (None, 0))
        return same_limit or next(any_limit, None)

    def _keep_cursor(self, exchange: Exchange, size: int) -> None:
        if not isinstance(issued := (exchange.result or {}).get("nextCursor"), str):
            return
        key = issued, str(_param(exchange, "limit"))
        self._forget(key)
        self._issuing[key] = exchange, size
        self._issuing_bytes += size
        while len(self._issuing) > _CURSORS_KEPT or self._issuing_bytes > _ISSUING_BYTES:
            self._forget(next(iter(self._issuing)))

    def _forget(self, key: tuple[str, Any]) -> None:
        _, size = self._issuing.pop(key, (None, 0))
        self._issuing_bytes -= size

    def note(self, text: str) -> None:
        """Write a line that belongs to no exchange: stray output, the end of a process."""
        self._write({"cell": self.cell, "check": self.check, "note": text})

    def _release(self, size: int) -> None:
        self.held -= size

    def _write(self, entry: JsonObject, size: int = 0) -> None:
        if self._log is None or self._room <= 0:
            return
        # A value that is huge in memory is not encoded only to measure it.
        line = _line(entry) if size <= _MOST_ENCODED else b""
        if not line or len(line) > _BYTES_LOGGED:
            length = f"{len(line)} bytes" if line else f"some {size} bytes"
            line = encode({**entry, "answer": {"fault": f"{length}, not logged"}, "sent": _head(entry)})
        self._room -= len(line) + 1
        if self._room <= 0:
            line = encode({"cell": self.cell, "check": self.check, "note": f"this log ends after {_LOG_BYTES} bytes"})
        self._log.write(line + b"\n")

    def close(self) -> None:
        """End the log; later output of a process that is about to end is dropped."""
        if self._log is not None:
            self._log.close()
            self._log = None


def _line(entry: JsonObject) -> bytes:
    """Return an entry as JSON; the answer, which is most of it, was decoded and spells no number in its own way."""
    ours = encode({name: value for name, value in entry.items() if name != "answer"})
    return ours[:-1] + b',"answer":' + encode_plain(entry["answer"]) + b"}" if "answer" in entry else ours


def _param(exchange: Exchange, name: str) -> Any:
    return (as_object(exchange.sent.get("params")) or {}).get(name)


def _head(entry: JsonObject) -> JsonObject:
    sent: JsonObject = entry.get("sent") or {}
    return abridged({"id": sent.get("id"), "method": sent.get("method")})
