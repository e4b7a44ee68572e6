"""Peers: running scripted servers, each for one client connection over either transport.

A peer answers according to its script and records every exchange. Its memory is limited: a client that floods it gets
errors instead of answers, and is no longer recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import anyio
from tools_search_spec import EXTENSION_ID, PRIMITIVES, Primitive

from tools_search_conformance.clients.disguise import request_as_of_tools, result_as_of
from tools_search_conformance.clients.http_connection import CONNECTION_ERRORS, HttpConnection
from tools_search_conformance.clients.script import OWN_ID, RefusalError, Reply, Script
from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.target.properties import EXAMPLES
from tools_search_conformance.wire.codec import JsonObject, Limits, as_object, encode
from tools_search_conformance.wire.eras import META_PREFIX, MODERN, Era
from tools_search_conformance.wire.record import Answer, Exchange, Recorder

MESSAGE_LIMITS: Final = Limits(message_bytes=256 * 1024, values=10_000)
"""Limits on a client's message; many can be in progress at once."""

_STATUS: Final = {-32601: 404, -32602: 400, -32600: 400, -32700: 400, -32020: 400, -32021: 400}

# Limits on the record of one client connection.
_MAX_EXCHANGES: Final = 5 * EXAMPLES["deep"]
"""More than any check needs on one connection, even with generated pages for each generated case."""
_MAX_NOTES: Final = 1000
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 4 * 1024 * 1024
_MAX_SUBSCRIBERS: Final = 100
_MAX_LISTENS: Final = 100

_TOO_OFTEN: Final = RefusalError(-32603, "the peer was asked too often").reply

Send = Callable[[JsonObject], Awaitable[None]]


def declared_in(exchange: Exchange, *places: str) -> JsonObject | None:
    """Return the client's declaration of the extension in a modern request or a legacy `initialize`.

    Looks in `places` of the capabilities, by default `extensions` and then `experimental`; a non-object counts as
    absent.
    """
    held, key = as_object(exchange.sent.get("params")) or {}, "capabilities"
    if exchange.sent.get("method") != "initialize":
        held, key = as_object(held.get("_meta")) or {}, f"{META_PREFIX}clientCapabilities"
    capabilities = as_object(held.get(key)) or {}
    for place in places or ("extensions", "experimental"):
        declared = as_object((as_object(capabilities.get(place)) or {}).get(EXTENSION_ID))
        if declared is not None:
            return declared
    return None


class Peer:
    """Serves a script to a client and keeps every exchange."""

    def __init__(self, era: Era, script: Script, recorder: Recorder, primitive: Primitive = TOOLS) -> None:
        """Take a script, which is written for tools, and the primitive to apply it to."""
        self.era: Era = era
        self.script = script
        self.primitive = primitive
        self.exchanges: list[Exchange] = []
        """The client's requests so far, with their answers."""
        self.subscribed = anyio.Event()
        """Set when the client listens, so that it will receive notifications."""
        self.closed = anyio.Event()
        """Set when the check is done with the peer."""
        self.waiting: list[JsonObject] = []
        """The requests whose answers are held back, in order; they stay here after they are answered."""
        self.abandoned: list[JsonObject] = []
        """Those whose response streams the client closed before the answer."""
        self.cancelled: list[Any] = []
        """The `requestId` of each `notifications/cancelled`, in order."""
        self.header_fields: set[tuple[str, str]] = set()
        """The header fields of all HTTP requests, even those that are not exchanges; secrets are not hidden."""
        self.sessions: dict[int, str] = {}
        """The session of each exchange, by its number: each connection on stdio, or `Mcp-Session-Id` over HTTP."""
        self._held: list[tuple[str, bytes]] = []
        """The session and the id of each of the requests that are `waiting`."""
        self._opened = 0
        self._recorder = recorder
        self._notes = 0
        self._listens = 0
        self._header_bytes = 0
        self._subscribers: list[tuple[Send, JsonObject]] = []
        self._activity = anyio.Event()

    def requests(self, method: str) -> list[Exchange]:
        """Return a method's exchanges, in order."""
        return [exchange for exchange in self.exchanges if exchange.sent.get("method") == method]

    @property
    def searches(self) -> list[Exchange]:
        """The client's searches, with one exchange per page."""
        return self.requests(self.primitive.method)

    @property
    def listings(self) -> list[Exchange]:
        """The list pages that the client requested."""
        return self.requests(self.primitive.list_method)

    def note_headers(self, fields: Iterable[tuple[str, str]]) -> None:
        """Record an HTTP request's header fields, if there is room."""
        new = {*fields} - self.header_fields
        self._header_bytes += sum(len(name) + len(value) for name, value in new)
        if self._header_bytes <= _MAX_HEADER_BYTES:
            self.header_fields |= new

    def holds(self, query: str) -> bool:
        """Return whether a search for `query` has arrived and its answer is, or was, held back."""
        return any((as_object(message.get("params")) or {}).get("query") == query for message in self.waiting)

    @property
    def ids_apart(self) -> bool:
        """Whether all requests whose answers are, or were, held back have different ids in their session.

        Several modern clients at one address have no sessions, but each of them discovers.
        """
        most = max(1, len(self.requests("server/discover")))
        return all(count <= (1 if session else most) for (session, _), count in Counter(self._held).items())

    def new_session(self) -> str:
        """Return the name of another session of the client."""
        self._opened += 1
        return f"judged-{self._opened}"

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what the client has sent meets `condition`."""
        while not condition():
            await self._activity.wait()

    def listens(self, message: JsonObject) -> bool:
        """Return whether a message is the modern request for a stream of notifications."""
        return self.era == MODERN and message.get("method") == "subscriptions/listen" and "id" in message

    async def receive(
        self,
        message: JsonObject,
        headers: Mapping[str, str] | None = None,
        stream: HttpConnection | None = None,
        session: str = "",
    ) -> Reply | None:
        """Return the reply to a client's message in a session; `None` for a notification or a response.

        If the client closes its `stream`, a held-back reply becomes one that closes the connection.
        """
        if "method" not in message or "id" not in message:
            self._note("from", message)
            if message.get("method") == "notifications/cancelled" and len(self.cancelled) < _MAX_NOTES:
                self.cancelled.append((as_object(message.get("params")) or {}).get("requestId"))
                self._wake()
            return None
        began = perf_counter()
        reply = self._reply(message) if self._has_room else _TOO_OFTEN
        if reply.held is not None and not reply.held.is_set():
            self._held.append((session, encode(message["id"])))
            reply = await self._hold(message, reply, reply.held, stream)
        if reply.seconds:
            await anyio.sleep(reply.seconds)
        if self._has_room:
            answer = self._recorded(message, reply, over_http=headers is not None)
            spent = (perf_counter() - began) * 1000
            self.exchanges.append(exchange := self._recorder.add(message, headers or {}, answer, spent))
            self.sessions[exchange.number] = session
            self._wake()
        return reply

    def _reply(self, message: JsonObject) -> Reply:
        # A server that advertises search for one list also serves search for tools, and for others with the same
        # setting.
        served = [each for each in PRIMITIVES if each is TOOLS or each.setting == self.primitive.setting]
        about = (each for each in served if message["method"] in (each.method, each.list_method))
        if (primitive := next(about, self.primitive)) is TOOLS:
            return self.script.reply(self.era, message)
        reply = self.script.reply(self.era, request_as_of_tools(message, primitive))
        return reply if reply.result is None else replace(reply, result=result_as_of(reply.result, primitive))

    def response(self, message: JsonObject, reply: Reply) -> JsonObject:
        """Return the JSON-RPC response that carries a reply to `message`."""
        outcome = {"error": reply.error} if reply.error is not None else {"result": reply.result}
        return {"jsonrpc": "2.0", "id": message["id"], **outcome}

    def before(self, message: JsonObject, reply: Reply) -> list[JsonObject]:
        """Return the messages that come before a reply to `message`."""
        return [{**each, "id": message["id"]} if each.get("id") == OWN_ID else each for each in reply.before]

    def status(self, reply: Reply) -> int:
        """Return the HTTP status for a reply in this era."""
        if reply.status is not None and self.era == MODERN:
            return reply.status
        code: int = (reply.error or {}).get("code", 0)
        return _STATUS.get(code, 200) if self.era == MODERN else 200

    def subscribe(
        self, send: Send, request: JsonObject | None = None, headers: Mapping[str, str] | None = None
    ) -> JsonObject:
        """Send notifications through `send`, and return the message that acknowledges a modern `request` for them."""
        meta = {} if request is None else {"_meta": {f"{META_PREFIX}subscriptionId": request["id"]}}
        asked = as_object((as_object((request or {}).get("params")) or {}).get("notifications")) or {}
        change = f"{self.primitive.notification.split('/')[1]}ListChanged"
        if not asked or asked.get(change) is True:  # a legacy client cannot choose
            self._subscribers = [*self._subscribers, (send, meta)][-_MAX_SUBSCRIBERS:]
            self.subscribed.set()
        granted: JsonObject = {"notifications": {change: True}, **meta}
        acknowledged: JsonObject = {
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": granted
        }  # fmt: skip
        if request is not None and self._listens < _MAX_LISTENS:
            self._listens += 1
            answer = Answer(message=acknowledged, status=None if headers is None else 200)
            self._recorder.add(request, headers or {}, answer, 0)
        return acknowledged

    def unsubscribe(self, send: Send) -> None:
        """Stop sending notifications through `send`."""
        self._subscribers = [each for each in self._subscribers if each[0] != send]

    async def notify_change(self, **params: Any) -> None:
        """Send a list change notification to each client that listens, with `params` added to the usual ones."""
        notification: JsonObject = {"jsonrpc": "2.0", "method": self.primitive.notification}
        self._note("to", notification)
        for send, meta in list(self._subscribers):
            there = {**params, **meta}
            if "_meta" in there:
                there["_meta"] = {**params.get("_meta", {}), **meta.get("_meta", {})}
            with suppress(*CONNECTION_ERRORS):  # it has disconnected meanwhile
                await send({**notification, "params": there} if there else notification)

    async def _hold(self, message: JsonObject, reply: Reply, held: anyio.Event, stream: HttpConnection | None) -> Reply:
        """Return `reply` once it is released, or a reply that closes the connection if the client disconnects first."""
        if stream is not None:
            await stream.start_stream()
        self.waiting.append(message)
        self._wake()
        async with anyio.create_task_group() as tasks:

            async def end_after(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                tasks.cancel_scope.cancel()

            for wait in (held.wait, self.closed.wait, *([stream.until_closed] if stream is not None else [])):
                tasks.start_soon(end_after, wait)
        if held.is_set():
            return reply
        if not self.closed.is_set():
            self.abandoned.append(message)
            self._wake()
        return replace(reply, hangs_up=True)

    def _recorded(self, message: JsonObject, reply: Reply, *, over_http: bool) -> Answer:
        if message in self.abandoned:
            return Answer(fault="none: the client closed the stream")
        if reply.silent or reply.hangs_up:
            return Answer(fault="none, as the script has it")
        status = self.status(reply) if over_http else None
        if reply.text is not None:
            return Answer(status=status, text=reply.text.encode(), fault="no JSON, as the script has it")
        return Answer(message=self.response(message, reply), status=status)

    @property
    def _has_room(self) -> bool:
        return len(self.exchanges) < _MAX_EXCHANGES and self._recorder.held < _MAX_BYTES

    def _wake(self) -> None:
        self._activity.set()
        self._activity = anyio.Event()

    def _note(self, direction: str, message: JsonObject) -> None:
        self._notes += 1
        if self._notes <= _MAX_NOTES:
            self._recorder.note(f"{direction} the client: {encode(message)[:500].decode(errors='replace')}")
