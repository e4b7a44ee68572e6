"""Observes messages just above the transport, and repairs the ones that the SDK would reject.

If the SDK would reject a whole answer, its valid part is delivered. An advertisement that is not an object is removed
and counts as absent. A tool result is delivered without its invalid parts, because the call might have taken effect.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

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
from tools_search_hosts.streams import ConvertedStream

Streams: TypeAlias = tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]

_logger = logging.getLogger(__name__)

_MAX_WAITING: Final = 1000
"""Maximum number of calls to track while they await their answers."""


@runtime_checkable
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
    _calls: OrderedDict[RequestId, str | None] = field(default_factory=OrderedDict[RequestId, str | None])
    """The calls that await answers, each with its protocol revision."""
    _agreed: str = ""

    def through(self, streams: tuple[Any, Any]) -> Streams:  # the SDK's transports have streams of several types
        """Wrap a transport's streams for the client."""
        incoming = ConvertedStream(streams[0], self._received, on_end=self._note_closed)
        return incoming, ConvertedStream(streams[1], self._sent)

    def _sent(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method == CALL:
            meta: Any = (message.params or {}).get("_meta") or {}
            self._calls[coerce_request_id(message.id)] = meta.get(PROTOCOL_VERSION_META_KEY)
            if len(self._calls) > _MAX_WAITING:  # drop calls that were given up and never answered
                self._calls.popitem(last=False)
        self._observe(lambda observer: observer.sent(message))
        return item

    def _received(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            item = self.exchange(item)
            self._note_received(item.message)
        return item

    def _note_received(self, message: JSONRPCMessage) -> None:
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

    def _note_closed(self) -> None:
        self.on_close()
        self._observe(lambda observer: observer.closed())
