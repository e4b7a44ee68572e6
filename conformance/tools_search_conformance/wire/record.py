"""Every exchange is kept: in memory while a check may cite it, on disk for whoever reads the verdict later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools_search_conformance.wire.codec import JsonObject, as_object, encode

__all__ = ["REDACTED", "Answer", "Exchange", "Recorder", "RpcError", "redact"]

REDACTED: Final = "[redacted]"
"""What the log shows in place of a secret."""

_SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"})
_BYTES_LOGGED: Final = 256 * 1024
_CURSORS_KEPT: Final = 1000


@dataclass(frozen=True, kw_only=True)
class RpcError:
    """The `error` member of a JSON-RPC response."""

    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back for one message, whatever it was."""

    message: JsonObject | None = None
    """The response with the request's id, or `None` where none came."""

    status: int | None = None
    """HTTP status; `None` on stdio."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers of the answer, names in lower case."""

    fault: str | None = None
    """Why there is no response, or what was wrong with the bytes around it."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and what came of it."""

    number: int
    cell: str
    check: str
    sent: JsonObject
    answer: Answer
    milliseconds: float
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers sent, without secrets."""

    @property
    def replied(self) -> bool:
        """Whether a response with the request's own id arrived."""
        return self.answer.message is not None

    @property
    def result(self) -> JsonObject | None:
        """The `result` object, if the request succeeded."""
        return as_object((self.answer.message or {}).get("result"))

    @property
    def error(self) -> RpcError | None:
        """The error, if the request was refused with one that can be read."""
        members = as_object((self.answer.message or {}).get("error")) or {}
        code, message = members.get("code"), members.get("message")
        if isinstance(code, bool) or not isinstance(code, int):
            return None
        return RpcError(code=code, message=message if isinstance(message, str) else "", data=members.get("data"))

    def describe(self) -> str:
        """Return in a few words what came back."""
        if self.error is not None:
            return f"error {self.error.code}"
        if self.result is not None:
            return "a result"
        if self.replied:
            return "a response with neither a result object nor a readable error"
        return f"no response ({self.answer.fault or 'silence'})"

    def to_json(self) -> JsonObject:
        """Return what the wire log and the reports show."""
        answer = self.answer
        return {
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
        self.taken: list[Exchange] = []
        """The exchanges of the current check."""
        self._issuing: dict[tuple[str, Any], Exchange] = {}
        self._secret = secret
        self._count = 0
        self._log = log.open("wb") if log else None

    def begin(self, check: str) -> None:
        """Start the account of another check."""
        self.check, self.taken = check, []

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
        self.taken.append(exchange)
        self._keep_cursor(exchange)
        self._write(exchange.to_json())
        return exchange

    def leading_to(self, exchange: Exchange) -> tuple[Exchange, ...]:
        """Return the exchange after those, first to last, whose cursors it took to come to it."""
        chain = [exchange]
        while (earlier := self._issuer_for(chain[0])) is not None and earlier not in chain:
            chain.insert(0, earlier)
        return tuple(chain)

    def _issuer_for(self, exchange: Exchange) -> Exchange | None:
        """Return what brought the cursor of an exchange; one under the same limit, if there is one, or else any."""
        if (cursor := _param(exchange, "cursor")) is None:
            return None
        any_limit = (issuer for (issued, _), issuer in reversed(self._issuing.items()) if issued == cursor)
        return self._issuing.get((cursor, str(_param(exchange, "limit")))) or next(any_limit, None)

    def _keep_cursor(self, exchange: Exchange) -> None:
        if isinstance(issued := (exchange.result or {}).get("nextCursor"), str):
            self._issuing[issued, str(_param(exchange, "limit"))] = exchange
            if len(self._issuing) > _CURSORS_KEPT:
                self._issuing.pop(next(iter(self._issuing)))

    def note(self, text: str) -> None:
        """Write what belongs to no exchange: a stray line, the end of a process."""
        self._write({"cell": self.cell, "check": self.check, "note": text})

    def _write(self, entry: JsonObject) -> None:
        if self._log is None:
            return
        line = encode(entry)
        if len(line) > _BYTES_LOGGED:
            line = encode({**entry, "answer": {"fault": f"{len(line)} bytes, not logged"}, "sent": _head(entry)})
        self._log.write(line + b"\n")

    def close(self) -> None:
        """End the log."""
        if self._log is not None:
            self._log.close()


def _param(exchange: Exchange, name: str) -> Any:
    return (as_object(exchange.sent.get("params")) or {}).get(name)


def _head(entry: JsonObject) -> JsonObject:
    sent: JsonObject = entry.get("sent") or {}
    return {"id": sent.get("id"), "method": sent.get("method")}
