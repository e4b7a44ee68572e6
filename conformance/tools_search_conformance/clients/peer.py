"""The scripted peer: one server for one connection of the client, whatever the transport. It records all it hears."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, Protocol

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.clients.script import Refusal, Reply, Script
from tools_search_conformance.clients.scripted_server import META_PREFIX, ScriptedServer
from tools_search_conformance.wire.codec import JsonObject, Limits, as_object, encode
from tools_search_conformance.wire.eras import LEGACY, MODERN, Era
from tools_search_conformance.wire.record import Answer, Exchange, Recorder

__all__ = ["CHANGED", "HEARD", "LISTEN", "Peer", "params_of", "status_of"]

LISTEN: Final = "subscriptions/listen"
"""The modern request whose answer is a stream of notifications."""

CHANGED: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
"""What a server sends when its tools have changed."""

CANCELLED: Final = "notifications/cancelled"
"""What a client sends to cancel a request, except over a modern HTTP connection."""

HEARD: Final = Limits(message_bytes=256 * 1024, values=10_000)
"""What one message of a client may be; many may be under way at once."""

_STATUS: Final = {-32601: 404, -32602: 400, -32600: 400, -32700: 400, -32020: 400, -32021: 400}
_MOST_EXCHANGES: Final = 1000
_MOST_NOTES: Final = 1000
_MOST_HELD: Final = 64 * 1024 * 1024
_MOST_OUTLETS: Final = 100
_MOST_LISTENS: Final = 100
"""What one client may have recorded of it on one connection; beyond that it is answered with errors, or not at all."""

_TOO_OFTEN: Final = Refusal(-32603, "the peer was asked too often").reply

Send = Callable[[JsonObject], Awaitable[None]]


def params_of(exchange: Exchange) -> JsonObject:
    """Return the params of the client's request; none where it has none."""
    return as_object(exchange.sent.get("params")) or {}


def status_of(era: Era, reply: Reply) -> int:
    """Return the HTTP status that a server of that era gives a reply."""
    code = (reply.error or {}).get("code")
    return _STATUS.get(code or 0, 200) if era == MODERN else 200


class ResponseStream(Protocol):
    """Where a transport has a stream for each response."""

    async def open(self) -> None:
        """Begin the response."""
        ...

    async def until_closed(self) -> None:
        """Return when the client has closed it."""
        ...


class Peer:
    """Serves one script to one client and keeps every exchange."""

    def __init__(self, era: Era, script: Script, recorder: Recorder) -> None:
        self.era: Era = era
        self.script = script
        self.exchanges: list[Exchange] = []
        """What the client asked so far, and what it was told."""
        self.listens: list[Exchange] = []
        """The modern requests for notifications, each with the message that acknowledged it."""
        self.heeded = anyio.Event()
        """Set when the client listens, so that a notification reaches it."""
        self.closed = anyio.Event()
        """Set when the check has no more use for the peer."""
        self.waiting: list[JsonObject] = []
        """The requests whose answers are held back, in their order; they stay here when they are answered."""
        self.abandoned: list[JsonObject] = []
        """Those of them whose response stream the client closed before the answer."""
        self.cancelled: list[Any] = []
        """The `requestId` of each `notifications/cancelled`, in their order."""
        self._server = ScriptedServer(era, script)
        self._recorder = recorder
        self._notes = 0
        self._outlets: list[tuple[Send, JsonObject]] = []
        self._news = anyio.Event()

    def asked(self, *methods: str) -> list[Exchange]:
        """Return the exchanges of these methods, in their order."""
        return [exchange for exchange in self.exchanges if exchange.sent.get("method") in methods]

    @property
    def searches(self) -> list[Exchange]:
        """The searches that were asked for."""
        return self.asked(METHOD)

    @property
    def listings(self) -> list[Exchange]:
        """The pages of `tools/list` that were asked for."""
        return self.asked("tools/list")

    @property
    def opening(self) -> Exchange | None:
        """The exchange that opened the connection in this era; a modern client may do without `server/discover`."""
        opened = self.asked("initialize") if self.era == LEGACY else self.asked("server/discover") or self.exchanges
        return next((exchange for exchange in opened if exchange.result is not None), None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition`, of what the client has sent so far, holds."""
        while not condition():
            await self._news.wait()

    async def hear(
        self,
        message: JsonObject,
        headers: Mapping[str, str] | None = None,
        stream: ResponseStream | None = None,
    ) -> Reply | None:
        """Return the reply to one message of the client; `None` to what is no request.

        A reply that is held back is lost when the client closes its `stream`.
        """
        if "method" not in message or "id" not in message:
            self._note("from", message)
            if message.get("method") == CANCELLED and len(self.cancelled) < _MOST_NOTES:
                self.cancelled.append((as_object(message.get("params")) or {}).get("requestId"))
                self._tell()
            return None
        began = perf_counter()
        reply = self._server.reply(message) if self._has_room() else _TOO_OFTEN
        if reply.held is not None and not reply.held.is_set():
            reply = await self._hold(message, reply, reply.held, stream)
        if reply.seconds:
            await anyio.sleep(reply.seconds)
        self._keep(message, headers, reply, began)
        return reply

    def message(self, sent: JsonObject, reply: Reply) -> JsonObject:
        """Return the JSON-RPC response that carries a reply to `sent`."""
        outcome = {"error": reply.error} if reply.error is not None else {"result": reply.result}
        return {"jsonrpc": "2.0", "id": sent["id"], **outcome}

    def subscribe(
        self, send: Send, request: JsonObject | None = None, headers: Mapping[str, str] | None = None
    ) -> JsonObject:
        """Have notifications sent by `send`, and return the message that acknowledges a modern `request` for them."""
        meta = {} if request is None else {"_meta": {f"{META_PREFIX}subscriptionId": request["id"]}}
        self._outlets = [*self._outlets, (send, meta)][-_MOST_OUTLETS:]
        self.heeded.set()
        granted: JsonObject = {"notifications": {"toolsListChanged": True}, **meta}
        acknowledged: JsonObject = {
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted
        }  # fmt: skip
        if request is not None and len(self.listens) < _MOST_LISTENS:
            answer = Answer(message=acknowledged, status=None if headers is None else 200)
            self.listens.append(self._recorder.add(request, headers or {}, answer, 0))
        return acknowledged

    def unsubscribe(self, send: Send) -> None:
        """Forget an outlet that was closed."""
        self._outlets = [(known, meta) for known, meta in self._outlets if known != send]

    async def notify(self, notification: JsonObject) -> None:
        """Send a notification to a client that listens."""
        self._note("to", notification)
        for send, meta in list(self._outlets):
            await send({**notification, "params": meta} if meta else notification)

    async def _hold(self, message: JsonObject, reply: Reply, held: anyio.Event, stream: ResponseStream | None) -> Reply:
        """Return `reply` when it is let go, or a lost one where the client has left before."""
        outcome = replace(reply, lost=True)

        async def wait_for_release() -> None:
            nonlocal outcome
            await held.wait()
            outcome = reply
            tasks.cancel_scope.cancel()

        async def wait_for_the_end(end: Callable[[], Awaitable[None]]) -> None:
            await end()
            tasks.cancel_scope.cancel()

        if stream is not None:
            await stream.open()
        self.waiting.append(message)
        self._tell()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_release)
            tasks.start_soon(wait_for_the_end, self.closed.wait)
            if stream is not None:
                tasks.start_soon(wait_for_the_end, stream.until_closed)
        if outcome.lost and not self.closed.is_set():
            self.abandoned.append(message)
            self._tell()
        return outcome

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def _keep(self, message: JsonObject, headers: Mapping[str, str] | None, reply: Reply, began: float) -> None:
        whole = reply.raw is None and not reply.silent and not reply.lost
        answer = Answer(
            message=self.message(message, reply) if whole else None,
            status=None if headers is None or not whole else status_of(self.era, reply),
            fault=None
            if whole
            else "bytes that are no message"
            if reply.raw is not None
            else "none: the client closed the stream"
            if message in self.abandoned
            else "none, as the script has it",
        )
        if self._has_room():
            spent = (perf_counter() - began) * 1000
            self.exchanges.append(self._recorder.add(message, headers or {}, answer, spent))
            self._tell()

    def _has_room(self) -> bool:
        return len(self.exchanges) < _MOST_EXCHANGES and self._recorder.held < _MOST_HELD

    def _note(self, direction: str, message: JsonObject) -> None:
        self._notes += 1
        if self._notes <= _MOST_NOTES:
            self._recorder.note(f"{direction} the client: {encode(message)[:500].decode(errors='replace')}")
