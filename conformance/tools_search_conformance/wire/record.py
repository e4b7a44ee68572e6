"""Records every exchange: in memory while a check can cite it, and on disk for readers of the verdict."""

from __future__ import annotations

import json
import marshal
import re
from collections import Counter, deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from weakref import finalize

from tools_search_spec import PRIMITIVES

from tools_search_conformance.wire.codec import JsonObject, Packed, as_array, as_object, encode, integer
from tools_search_conformance.wire.display import abridged, memory

RATE_LIMITED: Final = frozenset({429, 503})
"""HTTP statuses with which a proxy, or a server before reading the message, refuses a request due to load."""
BYTES_LOGGED: Final = 256 * 1024
"""Maximum length of a log line."""
REDACTED: Final = "[redacted]"
"""Replaces secrets in the log."""

_MEMBERS: Final = tuple(primitive.member for primitive in PRIMITIVES)
"""The members of results that contain definitions."""
_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"})
_LOG_BYTES: Final = 128 * 1024 * 1024
_CODE: Final = re.compile(r"-?[0-9]{1,9}")
_MAX_ISSUERS: Final = 1000
_MAX_ISSUER_BYTES: Final = 16 * 1024 * 1024
_MOST_SHARED_BYTES: Final = 48 * 1024 * 1024
_PLAIN: Final = 2
"""The newest `marshal` format in which equal values have equal bytes; several times as fast as JSON."""
_LEAST_BYTES: Final = 64
"""Smaller values are not worth an entry."""
_LARGE: Final = 8 * 1024
"""Objects with at least this many bytes are compressed."""
_LINE_ENDS: Final = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""Characters that some readers treat as line endings."""


@dataclass(frozen=True, kw_only=True)
class RpcError:
    """The `error` member of a JSON-RPC response."""

    code: int
    message: str
    data: Any = None


NO_MESSAGE: Final = "that is not a message"
"""In `Answer.fault`, and so in messages, what is said of output that no reader of messages accepts."""
OTHER_ID: Final = ", but one with the id"
"""In `Answer.fault`, and so in messages, what the ids of responses to other requests follow."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a message, or the lack of one."""

    message: JsonObject | None = None
    """The response with the request's id, or `None` if none arrived."""
    status: int | None = None
    """HTTP status; `None` on stdio."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The answer's HTTP headers, with lower-case names."""
    text: bytes = b""
    """The response's text as sent, for the log; empty if too long or unknown."""
    fault: str | None = None
    """Why there is no response, or what is wrong with the bytes around it."""
    waited: float = 0.0
    """Seconds between attempts to send the message, because a rate limit refused it."""

    @property
    def has_other_id(self) -> bool:
        """Whether a response with the id of another request came instead."""
        return self.message is None and OTHER_ID in (self.fault or "")

    @property
    def is_rate_limited(self) -> bool:
        """Whether there is HTTP status 429 or 503 instead of a response, such as from a proxy without JSON-RPC."""
        return self.message is None and self.status in RATE_LIMITED


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and its answer."""

    number: int
    cell: str
    check: str
    sent: JsonObject
    answer: Answer
    milliseconds: float
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The HTTP headers sent, without secrets."""
    abridged: str | None = None
    """Why parts of it were dropped."""

    @property
    def method(self) -> str:
        """The request's method."""
        return str(self.sent.get("method"))

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
        """The request's params without `_meta`, in which every modern request identifies its client."""
        params = as_object(self.sent.get("params")) or {}
        return {name: value for name, value in params.items() if name != "_meta"}

    @property
    def error(self) -> RpcError | None:
        """The error, if the request was refused with a readable one."""
        members = as_object((self.answer.message or {}).get("error")) or {}
        code, message = integer(members.get("code")), members.get("message")
        if code is None and _CODE.fullmatch(text := str(members.get("code"))):
            code = int(text)  # only the check of a response's shape reports it
        if code is None:
            return None
        return RpcError(code=code, message=message if isinstance(message, str) else "", data=members.get("data"))

    @property
    def error_code(self) -> int | None:
        """The error's code, if the request was refused with a readable error."""
        return self.error and self.error.code

    def describe(self) -> str:
        """Return a short description of the answer."""
        if self.error_code is not None:
            return f"error {self.error_code}"
        if self.result is not None:
            return "a result"
        if self.replied:
            return "a response with neither a result object nor a readable error"
        return f"no response ({self.answer.fault or 'silence'})"

    def in_brief(self) -> Exchange:
        """Return the exchange, shortened if it is too large to keep and show."""
        message, headers = abridged(self.answer.message), abridged(dict(self.answer.headers))
        return replace(
            self,
            sent=abridged(self.sent),
            headers=abridged(dict(self.headers)),
            answer=replace(self.answer, message=message, headers=headers),
            abridged="very large: texts, arrays and objects are cut",
        )

    def to_json(self) -> JsonObject:
        """Return the exchange's form for the wire log and the reports."""
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
    """Return a suffix for a message with the ids of responses to other requests that arrived meanwhile."""
    ids = ", ".join(json.dumps(stray.get("id"), ensure_ascii=False)[:80] for stray in strays[:3])
    return f"{OTHER_ID} {ids}" if ids else ""


def redact(headers: Mapping[str, str], secret: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return `headers` with secret values hidden; `secret` adds header names, in lower case."""
    hidden = _SECRET_HEADERS | secret
    return {name: REDACTED if name.lower() in hidden else value for name, value in headers.items()}


class SharedDefinitions:
    """Deduplicates the definitions that a cell's target sends, up to a limit, and compresses large ones.

    A server sends the same definitions in every listing and on every page of a search. Each is looked up by a digest of
    its bytes, and replaced with the equal one that came first. Callers must not modify the returned values.
    """

    def __init__(self) -> None:
        self.held = 0
        """Their approximate size in bytes."""
        self._known: dict[bytes, Any] = {}

    def make_room(self) -> None:
        """Discard all of them if there is no room for more, such as for a server whose definitions always change."""
        if self.held > _MOST_SHARED_BYTES:
            self._known.clear()
            self.held = 0

    def share(self, items: list[Any]) -> tuple[list[Any], int, int]:
        """Return shared items for these, their approximate own size in bytes, and the size of their text."""
        shared, own, length = list[Any](), 0, 0
        for item in items:
            if (members := as_object(item)) is None:
                shared.append(item)
                own += memory(item)
                continue
            # A search adds metadata to a definition, which differs for each query.
            rest = {name: value for name, value in members.items() if name != "_meta"}
            text = marshal.dumps(rest, _PLAIN)
            size = len(text)
            if size > _LARGE:
                kept, more = self._by_member(members)
            else:
                kept, more = self._once(text, rest)
                if "_meta" in members:
                    kept = {name: kept.get(name, value) for name, value in members.items()}
                    more += memory([members["_meta"], *members])
            shared.append(kept)
            own += more
            length += size
        return shared, own, length

    def _by_member(self, members: JsonObject) -> tuple[JsonObject, int]:
        """Return an item with shared members, and its approximate own size in bytes."""
        kept, own = dict[str, Any](), 0
        for name, value in members.items():
            if name == "_meta":
                kept[name], more = value, memory(value)
            else:
                kept[name], more = self._once(marshal.dumps(value, _PLAIN), value)
            own += more
        return kept, own

    def _once(self, text: bytes, value: Any) -> tuple[Any, int]:
        """Return the first value with this text, and its approximate own size in bytes."""
        if len(text) < _LEAST_BYTES:
            return value, memory(value)
        key = blake2b(text, digest_size=16).digest()
        if key in self._known:
            return self._known[key], 0
        if len(text) > _LARGE and isinstance(value, dict):
            value = Packed(json.dumps(value), abridged(value))
        size = memory(value) + (value.packed_bytes if isinstance(value, Packed) else 0)
        if self.held + size > _MOST_SHARED_BYTES:
            self.held = max(self.held, _MOST_SHARED_BYTES + 1)
            return value, size
        self._known[key] = value
        self.held += size
        return value, 0


class Recorder:
    """Numbers a cell's exchanges and writes each to the wire log as it happens."""

    def __init__(self, cell: str, log: Path | None = None, *, secret: frozenset[str] = frozenset()) -> None:
        self.cell = cell
        self.check = "smoke"
        """The check for which exchanges are currently recorded."""
        self.in_every_cell = True
        """Whether that check applies over each transport and in each era."""
        self.taken: list[int] = []
        """The numbers of the current check's exchanges."""
        self.last: Exchange | None = None
        """The last one of them."""
        self.judged: list[int] = []
        """The numbers of the exchanges against which the current check's expectations were tested."""
        self.deaths: list[tuple[str, Exchange]] = []
        """How the target exited during the current check, and the last exchange before that."""
        self._ended = set[str]()
        self.largest = Counter[str]()
        """The approximate maximum size in bytes of an answer, by method, before its definitions were shared."""
        self._held = 0
        self._definitions = SharedDefinitions()
        self._issuers: deque[tuple[Exchange, int]] = deque()
        """The last exchanges that returned a cursor, and their sizes; they show how a later exchange was reached."""
        self._issuer_bytes = 0
        self._issued = set[int]()
        """Hashes of all methods and queries with the cursors they returned."""
        self._followed = set[int]()
        """The same with the cursors that got a result."""
        self._keepers: list[list[Exchange]] = []
        self._answered = 0
        self._waited = 0.0
        self._secret = secret
        self._count = 0
        self._log = log.open("wb") if log else None
        self._room = _LOG_BYTES

    def begin(self, check: str, *, in_every_cell: bool = True) -> None:
        """Start recording for another check."""
        self.check, self.in_every_cell, self.taken, self.last = check, in_every_cell, [], None
        self.judged, self.deaths = [], []
        self._definitions.make_room()

    def note_death(self, ended: str, last: Exchange, *, of: str | None) -> None:
        """Record how a process ended (identified by its address, if any) once, in the check that notices it first."""
        if of is None or of not in self._ended:
            self.deaths.append((ended, last))
            self._ended |= {of} if of else set()

    def add(self, sent: JsonObject, headers: Mapping[str, str], answer: Answer, milliseconds: float) -> Exchange:
        """Record an exchange and return it, with definitions that were sent before replaced by the shared ones."""
        self._count += 1
        around, own, length = answer.message, 0, 0
        result = as_object((around or {}).get("result")) or {}
        member = next((name for name in _MEMBERS if as_array(result.get(name)) is not None), "")
        items = shared = as_array(result.get(member))
        if items is not None:
            shared, own, length = self._definitions.share(items)
            around = {**(around or {}), "result": {**result, member: None}}
        exchange = Exchange(
            number=self._count,
            cell=self.cell,
            check=self.check,
            sent=sent,
            headers=redact(headers, self._secret),
            answer=replace(answer, text=b"", headers=redact(answer.headers, self._secret)),
            milliseconds=round(milliseconds, 1),
        )
        self.taken.append(exchange.number)
        self.last = exchange
        if exchange.replied:
            self._answered += 1
            self._waited += exchange.milliseconds
        for kept in self._keepers:
            kept.append(exchange)
        size = memory([sent, around, dict(headers), dict(answer.headers)]) + own
        self.largest[exchange.method] = max(self.largest[exchange.method], length or size)
        self._held += size
        finalize(exchange, self._release, size).atexit = False
        if (cursor := _cursor_of(exchange)) is not None:
            self._issued.add(hash((exchange.method, str(exchange.params.get("query")), cursor)))
            self._issuers.append((exchange, size))
            self._issuer_bytes += size
        if exchange.result is not None and (used := exchange.params.get("cursor")) is not None:
            self._followed.add(hash((exchange.method, str(exchange.params.get("query")), str(used))))
        while len(self._issuers) > _MAX_ISSUERS or self._issuer_bytes > _MAX_ISSUER_BYTES:
            self._issuer_bytes -= self._issuers.popleft()[1]
        self._write(exchange.to_json(), answer.text, size, length)
        if items is not None and shared is not None:
            items[:] = shared
        return exchange

    def _release(self, size: int) -> None:
        self._held -= size

    @property
    def held(self) -> int:
        """The approximate size in bytes of the exchanges still in use and their shared definitions."""
        return self._held + self._definitions.held

    @property
    def milliseconds(self) -> float:
        """The target's average response time so far."""
        return self._waited / self._answered if self._answered else 0

    @contextmanager
    def keeping(self) -> Generator[list[Exchange]]:
        """Yield a list to which each further exchange is added; otherwise exchanges are not kept."""
        kept: list[Exchange] = []
        self._keepers.append(kept)
        try:
            yield kept
        finally:
            self._keepers = [each for each in self._keepers if each is not kept]

    def leading_to(self, exchange: Exchange) -> tuple[Exchange, ...]:
        """Return the exchanges whose cursors led to an exchange, in order, followed by that exchange."""
        chain = [exchange]
        while (cursor := chain[0].params.get("cursor")) is not None:
            issuers = [issuer for issuer, _ in self._issuers if _cursor_of(issuer) == cursor]
            limit = str(chain[0].params.get("limit"))
            same_limit = [issuer for issuer in issuers if str(issuer.params.get("limit")) == limit]
            earlier = (same_limit or issuers or chain)[-1]
            if any(earlier is each for each in chain):
                break
            chain.insert(0, earlier)
        return tuple(chain)

    def has_issued(self, method: str, query: str, cursor: str) -> bool:
        """Return whether a search for the query with this method returned the cursor."""
        return hash((method, query, cursor)) in self._issued

    def has_followed(self, method: str, query: str, cursor: str) -> bool:
        """Return whether a search for the query with this method and cursor got a result."""
        return hash((method, query, cursor)) in self._followed

    def note(self, text: str) -> None:
        """Log a line that belongs to no exchange, such as stray output or the end of a process."""
        self._write({"cell": self.cell, "check": self.check, "note": text})

    def _write(self, entry: JsonObject, text: bytes = b"", size: int = 0, length: int = 0) -> None:
        if self._log is None or self._room <= 0:
            return
        line = b""
        # Do not encode a huge value just to measure it.
        if size <= 16 * BYTES_LOGGED and length <= 2 * BYTES_LOGGED:
            message = entry["answer"].pop("message") if "answer" in entry else None
            line = encode(entry)
            if "answer" in entry:  # most of it: a response that was sent as one line is logged as sent
                if not text or any(end in text for end in _LINE_ENDS):
                    text = encode(message)
                line = line[:-2] + b',"message":' + text + b"}}"
        if not line or len(line) > BYTES_LOGGED:
            extent = f"{len(line)} bytes" if line else f"some {max(size, length)} bytes"
            sent = as_object(entry.get("sent")) or {}
            head = abridged({"id": sent.get("id"), "method": sent.get("method")})
            line = encode({**entry, "answer": {"fault": f"{extent}, not logged"}, "sent": head})
        self._room -= len(line) + 1
        if self._room <= 0:
            line = encode({"cell": self.cell, "check": self.check, "note": f"this log ends after {_LOG_BYTES} bytes"})
        self._log.write(line + b"\n")

    def close(self) -> None:
        """End the log; later output from exiting processes is dropped."""
        if self._log is not None:
            self._log.close()
            self._log = None


def _cursor_of(exchange: Exchange) -> str | None:
    cursor = (exchange.result or {}).get("nextCursor")
    return cursor if isinstance(cursor, str) else None
