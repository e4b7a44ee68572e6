"""A connection to a target in one era: adds that era's envelope and headers to requests, and records everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from time import perf_counter
from typing import Any, Final

import anyio

from tools_search_conformance.wire.codec import JsonObject, as_array, encode
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.eras import (
    DECLARED,
    LEGACY,
    LEGACY_REVISIONS,
    MODERN,
    Era,
    envelope,
    handshake,
    modern_headers,
)
from tools_search_conformance.wire.http import HttpTransport
from tools_search_conformance.wire.record import REDACTED, Answer, Exchange, Recorder
from tools_search_conformance.wire.stdio import StdioTransport

Transport = StdioTransport | HttpTransport
"""Sends messages to a target and returns its answers; does not raise for anything that the target does."""

_METHOD_NOT_FOUND: Final = -32601
_OF_NO_REQUEST: Final = "none"
"""An id that no request has."""
_INTERNAL_ERROR: Final = -32603
_UNSUPPORTED_VERSION: Final = -32022
_REFUSED_STATUSES: Final = frozenset({400, 404, 405})
"""HTTP statuses with which servers of one era answer requests of the other."""
_UNAUTHORIZED: Final = frozenset({401, 403})
_RESOURCE_METADATA: Final = re.compile(r'resource_metadata="?([^",\s]*)')
_VISIBLE: Final = re.compile("[!-~]+")
"""A valid session id: visible ASCII characters."""


class RefusedError(Exception):
    """The target did not open a connection in this era; `exchange` has its answer to the opening request.

    `is_refusal` is true if the answer means that the era is not supported. Silence, a crash or an internal error do not
    mean that.
    """

    def __init__(self, reason: str, exchange: Exchange, *, is_refusal: bool) -> None:
        super().__init__(reason)
        self.exchange = exchange
        self.is_refusal = is_refusal


@dataclass(eq=False)
class Connection:
    """Sends requests over a transport in one era. Call `open` before anything else."""

    transport: Transport
    era: Era
    _recorder: Recorder
    capabilities: Mapping[str, Any] = field(default_factory=lambda: DECLARED)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers for every message."""
    revision: str = LEGACY
    """The revision to request in a legacy handshake."""
    server: JsonObject = field(default_factory=dict[str, Any], init=False)
    """The result of `server/discover` or `initialize`."""
    opening: Exchange | None = field(default=None, init=False)
    """The exchange that returned it."""
    _ids: Iterator[int] = field(default_factory=lambda: count(1), init=False)
    _session: dict[str, str] = field(default_factory=dict[str, str], init=False)

    async def open(self, seconds: float) -> Exchange:
        """Discover the server, or initialize the session; raises `RefusedError` if it does not support this era."""
        modern = self.era == MODERN
        params = {} if modern else handshake(self.capabilities, self.revision)
        method = "server/discover" if modern else "initialize"
        exchange = await self.request(method, params, seconds=seconds)
        if exchange.result is None:
            reason = f"{method} got {exchange.describe()}{_remedy(exchange)}"
            raise RefusedError(reason, exchange, is_refusal=_is_refusal(exchange))
        named = exchange.result.get("supportedVersions")
        if modern and MODERN not in (as_array(named) or []):
            shown = "" if named is None else f": {plain(encode(named).decode(), most=100)}"
            reason = f"server/discover does not name {MODERN} among its supportedVersions{shown}"
            raise RefusedError(reason, exchange, is_refusal=bool(as_array(named)))
        settled = exchange.result.get("protocolVersion")
        if not modern and not (isinstance(settled, str) and settled in LEGACY_REVISIONS):
            reason = "initialize settled on a revision that is not of the handshake era"
            raise RefusedError(reason, exchange, is_refusal=isinstance(settled, str))
        if not modern and "mcp-session-id" in exchange.answer.headers and not self._session:
            reason = "initialize returned a session id that is not visible ASCII"
            raise RefusedError(reason, exchange, is_refusal=False)
        self.server, self.opening = exchange.result, exchange
        if not modern:
            initialized = self._message("notifications/initialized", None)
            await self.transport.notify(initialized, self._headers("", {}), seconds)
        return exchange

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        seconds: float,
        capabilities: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        meta: Mapping[str, Any] | None = None,
        with_id: str | int | None = None,
    ) -> Exchange:
        """Send a request and return the exchange.

        For this request, `capabilities` replaces the declared capabilities (modern era only), `headers` replaces HTTP
        headers, and `meta` replaces members of the modern `_meta`; a value of `None` removes a header or member.
        Without `with_id`, the request gets the next number as its id.
        """
        number = self.next_id() if with_id is None else with_id
        message = self._message(method, params, capabilities, meta, id=number)
        named = self._headers(method, message.get("params") or {}) | dict(headers or {})
        sent_headers = {name: value for name, value in named.items() if value is not None}
        return await self._send(message, sent_headers, seconds)

    async def notify(self, method: str, params: Mapping[str, Any], *, seconds: float) -> Exchange:
        """Send a notification, and return the exchange, which has no response."""
        message = self._message(method, params)
        headers, began = self._headers(method, message["params"]), perf_counter()
        answer = await self.transport.notify(message, headers, seconds)
        return self._keep(message, headers, replace(answer, fault=answer.fault or "a notification has none"), began)

    def next_id(self) -> int:
        """Return an id for a request in advance, so that the request can be cancelled while in progress."""
        return next(self._ids)

    async def cancel(self, number: int | str, seconds: float) -> None:
        """Send a notification that cancels the request with the id `number`."""
        message = self._message("notifications/cancelled", {"requestId": number, "reason": "no longer wanted"})
        await self.transport.notify(message, self._headers(message["method"], message["params"]), seconds)

    async def resend(self, message: JsonObject, headers: Mapping[str, str], *, seconds: float) -> Exchange:
        """Resend another connection's message in this connection's session; secrets were not recorded."""
        kept = {name: value for name, value in headers.items() if value != REDACTED}
        return await self._send(message, kept | self._session, seconds)

    async def request_in_pieces(
        self, method: str, requests: Mapping[str, Mapping[str, Any]], amid: str, *, seconds: float
    ) -> list[Exchange]:
        """Send requests, given as params by id, until one is not answered; return the exchanges.

        Over HTTP, each request is sent in two parts, divided inside the text `amid` that each contains, in the legacy
        era after a notification. On stdio, the first write starts with a notification. Each write except the last ends
        inside that text of the next request, whose rest follows after the answer to the one before.
        """
        before = [self._message("notifications/cancelled", {"requestId": _OF_NO_REQUEST})]
        if self.transport.name == "http" and self.era != MODERN:
            await self.cancel(_OF_NO_REQUEST, seconds)
        messages = [self._message(method, params, id=number) for number, params in requests.items()]
        exchanges: list[Exchange] = []
        for message, following in zip_longest(messages, messages[1:]):
            began, headers = perf_counter(), dict[str, str]()
            if isinstance(self.transport, StdioTransport):
                begins = None if following is None else (following, amid.encode())
                answer = await self.transport.request(message, headers, seconds, before=before, begins=begins)
            else:
                headers = self._headers(method, message["params"])
                answer = await self.transport.request(message, headers, seconds, amid=amid)
            exchanges.append(self._keep(message, headers, answer, began))
            if answer.message is None:
                break
            before = []
        return exchanges

    async def aclose(self) -> None:
        """End the session, if there is one, and the connection."""
        if self._session and isinstance(self.transport, HttpTransport):
            headers = dict(self.headers) | self._session | {"MCP-Protocol-Version": LEGACY}
            await self.transport.leave(headers, seconds=1)
        await self.transport.aclose()

    def _message(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        **number: str | int,
    ) -> JsonObject:
        """Return a request, whose `id` is its `number`, or a notification, which has none."""
        message: JsonObject = {"jsonrpc": "2.0", **number, "method": method}
        if self.era != MODERN:
            return message if params is None else {**message, "params": dict(params)}
        client = envelope(self.capabilities if capabilities is None else capabilities) | dict(meta or {})
        own, named = dict(params or {}), {name: value for name, value in client.items() if value is not None}
        return {**message, "params": {**own, "_meta": {**own.get("_meta", {}), **named}}}

    async def _send(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Exchange:
        began = perf_counter()
        try:
            answer = await self.transport.request(message, headers, seconds)
        except anyio.get_cancelled_exc_class():
            self._keep(message, headers, Answer(fault="waited for no longer"), began)
            raise
        if answer.message is None:
            answer = replace(answer, fault=answer.fault or self.transport.ended or "silence")
        return self._keep(message, headers, answer, began)

    def _keep(self, message: JsonObject, headers: Mapping[str, str], answer: Answer, began: float) -> Exchange:
        session = answer.headers.get("mcp-session-id")
        if session is not None and self.era == LEGACY and _VISIBLE.fullmatch(session):
            self._session = {"Mcp-Session-Id": session}
        shown = headers if self.transport.name == "http" else dict[str, str]()
        return self._recorder.add(message, shown, answer, (perf_counter() - began - answer.waited) * 1000)

    def _headers(self, method: str, params: JsonObject) -> dict[str, str]:
        if self.era == MODERN:
            return dict(self.headers) | modern_headers(method, params)
        if method == "initialize":
            return dict(self.headers)
        revision = str(self.server.get("protocolVersion", LEGACY))
        return dict(self.headers) | self._session | {"MCP-Protocol-Version": revision}


def _remedy(exchange: Exchange) -> str:
    """Return a hint about the answer to an opening request, to append to a message."""
    if exchange.answer.status in _UNAUTHORIZED:
        given = "authorization" in map(str.lower, exchange.headers)
        named = _RESOURCE_METADATA.search(exchange.answer.headers.get("www-authenticate", ""))
        names = f"; its resource_metadata is {plain(named[1], most=300)}" if named else ""
        wants = "it does not take the token that it was given" if given else "it wants a token"
        return f", with HTTP status {exchange.answer.status}: {wants}, --header 'Authorization: Bearer …'{names}"
    if (exchange.answer.fault or "").startswith("no response within"):
        return "; --start-timeout SECONDS waits longer"
    return ""


def _is_refusal(exchange: Exchange) -> bool:
    """Return whether the answer to an opening request means that the target does not support the era.

    Older servers answer `server/discover` with any error, so the base protocol's fallback does not depend on a code; an
    internal error still means that something broke. A server that does not know `initialize` says so.
    """
    if exchange.answer.status in _REFUSED_STATUSES:
        return True
    if exchange.sent["method"] == "server/discover":
        return exchange.error_code not in {None, _INTERNAL_ERROR}
    return exchange.error_code in {_METHOD_NOT_FOUND, _UNSUPPORTED_VERSION}
