"""One connection to one target, in one era: requests get the envelope and headers of that era, and all is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import Any, TypeVar

import anyio

from tools_search_conformance.wire.codec import JsonObject, as_array
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

Value = TypeVar("Value")

Transport = StdioTransport | HttpTransport
"""Carries messages to one target and brings back what it answers; neither raises for what a target does."""


def _present(members: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in members.items() if value is not None}


class RefusedError(Exception):
    """The target does not speak this era; `exchange` shows its answer."""

    def __init__(self, reason: str, exchange: Exchange) -> None:
        super().__init__(reason)
        self.exchange = exchange


class Connection:
    """Requests over a transport in one era. Open it with `open` before anything else."""

    def __init__(
        self,
        transport: Transport,
        era: Era,
        recorder: Recorder,
        *,
        capabilities: Mapping[str, Any] = DECLARED,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Speak over `transport`; every message carries `headers` where it has any."""
        self.transport = transport
        self.era: Era = era
        self.capabilities = capabilities
        self.server: JsonObject = {}
        """The result of `server/discover` or `initialize`."""
        self.opening: Exchange | None = None
        """The exchange that brought it."""
        self._recorder = recorder
        self._ids = count(1)
        self._session: dict[str, str] = {}
        self._own_headers = dict(headers or {})

    async def open(self, seconds: float) -> Exchange:
        """Discover the server, or initialize the session.

        Raises:
            RefusedError: it does not answer, or not in this era.
        """
        exchange = await (self._discover(seconds) if self.era == MODERN else self._initialize(seconds))
        self.server, self.opening = exchange.result or {}, exchange
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

        `capabilities` replaces what this connection declares, for one modern request; `headers` replaces HTTP headers
        and `meta` the members of `_meta` of every modern request, and both leave out a member given as `None`. Without
        `with_id` the request is numbered.
        """
        declared = self.capabilities if capabilities is None else capabilities
        message: JsonObject = {"jsonrpc": "2.0", "id": self.next_id() if with_id is None else with_id}
        message |= self._content(method, params, envelope(declared) | dict(meta or {}))
        sent_headers = self._headers(method, message.get("params") or {}) | dict(headers or {})
        return await self._send(message, _present(sent_headers), seconds)

    async def notify(self, method: str, params: Mapping[str, Any], *, seconds: float) -> Exchange:
        """Send what a request would be with an id, and return the exchange, which has no response."""
        message: JsonObject = {"jsonrpc": "2.0"} | self._content(method, params, envelope(self.capabilities))
        headers = _present(self._headers(method, message["params"]))
        began = perf_counter()
        answer = await self.transport.notify(message, headers, seconds)
        unanswered = replace(answer, fault=answer.fault or "a notification has none")
        return self._keep(message, headers, unanswered, began)

    def next_id(self) -> int:
        """Return an id for one request, known before it is sent so that the request can be cancelled meanwhile."""
        return next(self._ids)

    async def cancel(self, number: int, seconds: float) -> None:
        """Send the notification that cancels the request with the id `number`."""
        method = "notifications/cancelled"
        params: JsonObject = {"requestId": number, "reason": "no longer wanted"}
        if self.era == MODERN:
            params["_meta"] = envelope(self.capabilities)
        message: JsonObject = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.transport.notify(message, self._headers(method, params), seconds)

    async def resend(self, message: JsonObject, headers: Mapping[str, str], *, seconds: float) -> Exchange:
        """Send a message as another connection sent it, with the session of this one; secrets were not recorded."""
        kept = {name: value for name, value in headers.items() if value != REDACTED}
        return await self._send(message, kept | self._session, seconds)

    async def aclose(self) -> None:
        """End the session, if there is one, and the connection."""
        if self._session and isinstance(self.transport, HttpTransport):
            headers = self._own_headers | self._session | {"MCP-Protocol-Version": LEGACY}
            await self.transport.leave(headers, seconds=1)
        await self.transport.aclose()

    def _content(self, method: str, params: Mapping[str, Any] | None, said: Mapping[str, Any]) -> JsonObject:
        if self.era != MODERN:
            return {"method": method} if params is None else {"method": method, "params": dict(params)}
        own = dict(params or {})
        return {"method": method, "params": {**own, "_meta": {**own.get("_meta", {}), **_present(said)}}}

    async def _send(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Exchange:
        began = perf_counter()
        try:
            answer = await self.transport.request(message, headers, seconds)
        except anyio.get_cancelled_exc_class():
            self._keep(message, headers, Answer(fault="waited for no longer"), began)
            raise
        if answer.message is None:
            answer = Answer(
                status=answer.status, headers=answer.headers, fault=answer.fault or self.transport.ended or "silence"
            )
        return self._keep(message, headers, answer, began)

    def _keep(self, message: JsonObject, headers: Mapping[str, str], answer: Answer, began: float) -> Exchange:
        if (session := answer.headers.get("mcp-session-id")) is not None and self.era == LEGACY:
            self._session = {"Mcp-Session-Id": session}
        shown = headers if self.transport.name == "http" else dict[str, str]()
        return self._recorder.add(message, shown, answer, (perf_counter() - began) * 1000)

    def _headers(self, method: str, params: JsonObject) -> dict[str, str]:
        if self.era == MODERN:
            return self._own_headers | modern_headers(method, params)
        if method == "initialize":
            return dict(self._own_headers)
        revision = str(self.server.get("protocolVersion", LEGACY))
        return self._own_headers | self._session | {"MCP-Protocol-Version": revision}

    async def _discover(self, seconds: float) -> Exchange:
        exchange = await self.request("server/discover", {}, seconds=seconds)
        versions = (exchange.result or {}).get("supportedVersions")
        if exchange.result is None:
            raise RefusedError(f"server/discover was answered by {exchange.describe()}", exchange)
        if MODERN not in (as_array(versions) or []):
            raise RefusedError(f"server/discover does not name {MODERN} among its supportedVersions", exchange)
        return exchange

    async def _initialize(self, seconds: float) -> Exchange:
        exchange = await self.request("initialize", handshake(self.capabilities), seconds=seconds)
        if exchange.result is None:
            raise RefusedError(f"initialize was answered by {exchange.describe()}", exchange)
        if exchange.result.get("protocolVersion") not in LEGACY_REVISIONS:
            raise RefusedError("initialize settled on a revision that is not of the handshake era", exchange)
        self.server = exchange.result
        notification: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.transport.notify(notification, self._headers("", {}), seconds)
        return exchange
