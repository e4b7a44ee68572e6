"""Observes messages just above the transport, and repairs the ones that the SDK would reject.

If the SDK would reject a whole answer, its valid part is delivered. An advertisement that is not an object is removed
and counts as absent. A tool result is delivered without its invalid parts, because the call might have taken effect.
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
from tools_search_hosts.json_values import as_object
from tools_search_hosts.results import CALL, call_result

Streams: TypeAlias = tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]

_logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1000
"""Maximum number of calls to track while they await their answers."""


class WireObserver(Protocol):
    """Observes every JSON-RPC message, and the end of the connection."""

    def sent(self, message: JSONRPCMessage) -> None:
        """Called with each message to the server."""
        ...

    def received(self, message: JSONRPCMessage) -> None:
        """Called with each message from the server."""
        ...

    def closed(self) -> None:
        """Called when the server will send nothing more, possibly more than once."""
        ...


@dataclass(eq=False)
class Wire:
    """Processes a connection's messages between the client and the transport."""

    observer: WireObserver | None
    """Observes each message as it is on the wire."""
    on_close: Callable[[], None]
    """Called when the server will send nothing more, possibly more than once."""
    exchange: Callable[[SessionMessage], SessionMessage] = lambda item: item
    """Maps each received message to the one to process."""
    on_send: Callable[[SessionMessage], object] = lambda _: None
    """Called with each message to the server, for the transport."""
    _calls: OrderedDict[RequestId, str | None] = field(default_factory=OrderedDict[RequestId, str | None])
    """The calls that await answers, each with its protocol revision."""
    _agreed: str = ""

    def through(self, streams: tuple[Any, Any]) -> Streams:  # the SDK's transports have streams of several types
        """Wrap a transport's streams for the client."""
        return _Receiving(streams[0], self), _Sending(streams[1], self)

    def note_sent(self, message: JSONRPCMessage) -> None:
        """Process a message to the server."""
        if isinstance(message, JSONRPCRequest) and message.method == CALL:
            meta: Any = (message.params or {}).get("_meta") or {}
            self._calls[coerce_request_id(message.id)] = meta.get(PROTOCOL_VERSION_META_KEY)
            if len(self._calls) > _MAX_WAITING:  # drop calls that were abandoned without a cancellation
                self._calls.popitem(last=False)
        self._observe(lambda observer: observer.sent(message))

    def note_received(self, message: JSONRPCMessage) -> None:
        """Process a message from the server, keeping only the parts of an answer that the SDK accepts."""
        self._observe(lambda observer: observer.received(message))
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        key = coerce_request_id(message.id)
        if isinstance(message, JSONRPCError):
            self._calls.pop(key, None)
        elif key in self._calls:
            message.result = call_result(message.result, self._calls.pop(key) or self._agreed)
        else:
            # Only the answers to `initialize` and `server/discover` have these members.
            self._agreed = str(message.result.get("protocolVersion", self._agreed))
            capabilities = as_object(message.result.get("capabilities"))
            for held in (capabilities.get("extensions"), capabilities.get("experimental")):
                if isinstance(held, dict) and not isinstance(held.get(EXTENSION_ID, {}), dict):  # pyright: ignore[reportUnknownMemberType] - JSON
                    del held[EXTENSION_ID]

    def _observe(self, note: Callable[[WireObserver], None]) -> None:
        if self.observer is not None:
            try:
                note(self.observer)
            except Exception:  # an error in the host's observer must not stop the message
                _logger.exception("the host's observer failed")

    def note_closed(self) -> None:
        """Process the end of the server's messages."""
        self.on_close()
        self._observe(lambda observer: observer.closed())


@dataclass(eq=False)
class _Receiving(ObjectReceiveStream["SessionMessage | Exception"]):
    inner: Any
    wire: Wire

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which the SDK passes along its streams."""
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
