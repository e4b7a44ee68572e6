"""Messages between a client and a server, just above the transport: observed, and made fit for the SDK.

Of an answer that the SDK would refuse as a whole, the good part arrives. An advertisement that is no object never
arrives: it counts as absent. A bad result of a tool arrives without its bad parts, since the call may have had its
effect.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from tools_search_hosts.results import CALL, call_result

from tools_search_client.json_values import as_object

Streams: TypeAlias = tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]

_logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1000
"""Calls whose answers are waited for at the same time."""


class WireObserver(Protocol):
    """Sees every JSON-RPC message, and the end."""

    def sent(self, message: JSONRPCMessage) -> None:
        """Take note of a message to the server."""
        ...

    def received(self, message: JSONRPCMessage) -> None:
        """Take note of a message from the server."""
        ...

    def closed(self) -> None:
        """Take note that the server will send nothing more; may be called more than once."""
        ...


@dataclass(eq=False)
class Wire:
    """The messages of one connection on their way."""

    observer: WireObserver | None
    """Sees each message as it passes on the wire."""
    on_close: Callable[[], None]
    """Called when the server will say nothing more, perhaps more than once."""
    exchange: Callable[[SessionMessage], SessionMessage] = lambda item: item
    """Returns the message that a received one stands for."""
    on_send: Callable[[SessionMessage], object] = lambda _: None
    """Takes note of a message to the server, for the transport below."""
    _calls: OrderedDict[RequestId, str | None] = field(default_factory=OrderedDict[RequestId, str | None])
    """The calls whose answers are waited for, each with the revision that it is made in."""
    _agreed: str = ""

    def through(self, streams: tuple[Any, Any]) -> Streams:  # the SDK's transports have streams of several types
        """Return the streams of a transport as a client is to see them."""
        return _Receiving(streams[0], self), _Sending(streams[1], self)

    def note_sent(self, message: JSONRPCMessage) -> None:
        """Take note of a message to the server."""
        if isinstance(message, JSONRPCRequest) and message.method == CALL:
            meta: Any = (message.params or {}).get("_meta") or {}
            self._calls[coerce_request_id(message.id)] = meta.get(PROTOCOL_VERSION_META_KEY)
            if len(self._calls) > _MAX_WAITING:  # those that were given up without a word
                self._calls.popitem(last=False)
        self._observe(lambda observer: observer.sent(message))

    def note_received(self, message: JSONRPCMessage) -> None:
        """Take note of a message from the server, and leave of an answer what the SDK accepts."""
        self._observe(lambda observer: observer.received(message))
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        key = coerce_request_id(message.id)
        if isinstance(message, JSONRPCError):
            self._calls.pop(key, None)
        elif key in self._calls:
            message.result = call_result(message.result, self._calls.pop(key) or self._agreed)
        else:
            self._agreed = str(message.result.get("protocolVersion", self._agreed))
            capabilities = as_object(message.result.get("capabilities"))
            for held in (capabilities.get("extensions"), capabilities.get("experimental")):
                if isinstance(held, dict) and not isinstance(held.get(EXTENSION_ID, {}), dict):  # pyright: ignore[reportUnknownMemberType] - JSON
                    del held[EXTENSION_ID]

    def _observe(self, note: Callable[[WireObserver], None]) -> None:
        if self.observer is not None:
            try:
                note(self.observer)
            except Exception:  # the host's own: what it cannot take note of passes all the same
                _logger.exception("the observer of the host failed")

    def note_closed(self) -> None:
        """Take note that the server will send nothing more."""
        self.on_close()
        self._observe(lambda observer: observer.closed())


@dataclass(eq=False)
class _Receiving(ObjectReceiveStream["SessionMessage | Exception"]):
    inner: Any
    wire: Wire

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which the SDK carries from one end of its streams to the other."""
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self.inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.wire.note_closed()
            raise
        if isinstance(item, SessionMessage):
            item = self.wire.exchange(item)
            self.wire.note_received(item.message)
        return item

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(eq=False)
class _Sending(ObjectSendStream[SessionMessage]):
    inner: Any
    wire: Wire

    async def send(self, item: SessionMessage) -> None:
        self.wire.note_sent(item.message)
        self.wire.on_send(item)
        await self.inner.send(item)

    async def aclose(self) -> None:
        await self.inner.aclose()
