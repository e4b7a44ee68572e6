"""The record of every exchange: in memory while a check may cite it, on disk for readers of the verdict."""

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
"""HTTP statuses by which a proxy, or a server before it reads a message, refuses a request because of load."""
BYTES_LOGGED: Final = 256 * 1024
"""How long a line of the log may be."""
REDACTED: Final = "[redacted]"
"""Shown in the log in place of a secret."""

_MEMBERS: Final = tuple(primitive.member for primitive in PRIMITIVES)
"""The members of results that hold definitions."""
_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"})
_LOG_BYTES: Final = 128 * 1024 * 1024
_CODE: Final = re.compile(r"-?[0-9]{1,9}")
_MAX_ISSUERS: Final = 1000
_MAX_ISSUER_BYTES: Final = 16 * 1024 * 1024
_MOST_SHARED_BYTES: Final = 48 * 1024 * 1024
_PLAIN: Final = 2
"""The newest format of `marshal` by which equal values have equal bytes; it is several times as fast as JSON."""
_LEAST_BYTES: Final = 64
"""Values of fewer are not worth their entry."""
_LARGE: Final = 8 * 1024
"""Bytes of an object that is compressed."""
_LINE_ENDS: Final = (b"\n", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""What some reader of lines takes for the end of one."""


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
    text: bytes = b""
    """The text of the response as it was sent, for the log; empty where it is too long for that, or not known."""
    fault: str | None = None
    """Why there is no response, or the fault of the bytes around it."""
    waited: float = 0.0
    """Seconds between the times that the message was sent, as a rate limit refused it."""

    @property
    def is_rate_limited(self) -> bool:
        """Whether HTTP status 429 or 503 stands for a response, as of a proxy that does not know JSON-RPC."""
        return self.message is None and self.status in RATE_LIMITED


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
    """Why parts of it were dropped."""

    @property
    def method(self) -> str:
        """The method that was sent."""
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
        """The params of the request without `_meta`, in which every modern one identifies its client."""
        params = as_object(self.sent.get("params")) or {}
        return {name: value for name, value in params.items() if name != "_meta"}

    @property
    def error(self) -> RpcError | None:
        """The error, if the request was refused with one that can be read."""
        members = as_object((self.answer.message or {}).get("error")) or {}
        code, message = integer(members.get("code")), members.get("message")
        if code is None and _CODE.fullmatch(text := str(members.get("code"))):
            code = int(text)  # the check of a response's shape reports it, and no other
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
        message, headers = abridged(self.answer.message), abridged(dict(self.answer.headers))
        return replace(
            self,
            sent=abridged(self.sent),
            headers=abridged(dict(self.headers)),
            answer=replace(self.answer, message=message, headers=headers),
            abridged="very large: texts, arrays and objects are cut",
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


class SharedDefinitions:
    """The definitions that one cell's target has sent so far, kept once up to a bound, and large ones compressed.

    A server sends the same definitions in every listing and in every page of a search. Each is looked up by a digest of
    its bytes, and replaced by the equal one that came first. No one may change what it returns.
    """

    def __init__(self) -> None:
        self.held = 0
        """About how many bytes they take."""
        self._known: dict[bytes, Any] = {}

    def make_room(self) -> None:
        """Forget all of them where there is no room for more, as of a server whose definitions are new each time."""
        if self.held > _MOST_SHARED_BYTES:
            self._known.clear()
            self.held = 0

    def share(self, items: list[Any]) -> tuple[list[Any], int, int]:
        """Return known items for these, about how many bytes they take by themselves, and how many their text."""
        shared, own, length = list[Any](), 0, 0
        for item in items:
            if (members := as_object(item)) is None:
                shared.append(item)
                own += memory(item)
                continue
            # A search adds metadata to a definition, for each query other ones.
            rest = {name: value for name, value in members.items() if name != "_meta"}
            size = len(text := marshal.dumps(rest, _PLAIN))
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
        """Return an item whose members are known ones, and about how many bytes it takes by itself."""
        kept, own = dict[str, Any](), 0
        for name, value in members.items():
            if name == "_meta":
                kept[name], more = value, memory(value)
            else:
                kept[name], more = self._once(marshal.dumps(value, _PLAIN), value)
            own += more
        return kept, own

    def _once(self, text: bytes, value: Any) -> tuple[Any, int]:
        """Return the value that was the first with this text, and about how many bytes it takes by itself."""
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
        self._ended = set[str]()
        self.largest = Counter[str]()
        """By method, about how many bytes one answer took, at most, before its definitions were shared."""
        self._held = 0
        self._definitions = SharedDefinitions()
        self._issuers: deque[tuple[Exchange, int]] = deque()
        """The last exchanges that brought a cursor, and their sizes: they show how a later one was come to."""
        self._issuer_bytes = 0
        self._issued = set[int]()
        """The hashes of all methods and queries with the cursors that they brought."""
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
        self._definitions.make_room()

    def note_death(self, ended: str, last: Exchange, *, of: str | None) -> None:
        """Keep how a process ended, known by its address if it has one: once, in the check that finds it out first."""
        if of is None or of not in self._ended:
            self.deaths.append((ended, last))
            self._ended |= {of} if of else set()

    def add(self, sent: JsonObject, headers: Mapping[str, str], answer: Answer, milliseconds: float) -> Exchange:
        """Record one exchange and return it; definitions that were sent before are replaced by those."""
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
        """About how many bytes the exchanges take that somebody still holds, and the definitions that they share."""
        return self._held + self._definitions.held

    @property
    def milliseconds(self) -> float:
        """How long the target takes to answer, on average so far."""
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
        """Return whether a search for the query by this method has brought the cursor."""
        return hash((method, query, cursor)) in self._issued

    def note(self, text: str) -> None:
        """Write a line that belongs to no exchange: stray output, the end of a process."""
        self._write({"cell": self.cell, "check": self.check, "note": text})

    def _write(self, entry: JsonObject, text: bytes = b"", size: int = 0, length: int = 0) -> None:
        if self._log is None or self._room <= 0:
            return
        line = b""
        # A value that is huge in memory is not encoded only to measure it.
        if size <= 16 * BYTES_LOGGED and length <= 2 * BYTES_LOGGED:
            message = entry["answer"].pop("message") if "answer" in entry else None
            line = encode(entry)
            if "answer" in entry:  # most of it: a response that was sent as one line is logged as it was sent
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
        """End the log; later output of a process that is about to end is dropped."""
        if self._log is not None:
            self._log.close()
            self._log = None


def _cursor_of(exchange: Exchange) -> str | None:
    cursor = (exchange.result or {}).get("nextCursor")
    return cursor if isinstance(cursor, str) else None
