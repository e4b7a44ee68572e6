"""Messages between a client and a server, just above the transport: observed, and made fit for the SDK.

Of an answer that the SDK would refuse as a whole, the good part arrives. An advertisement that is no object never
arrives: it counts as absent. A bad result of a tool arrives without its bad parts, since the call may have had its
effect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
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

Streams: TypeAlias = tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]

_MOST_WAITING: Final = 1000
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


class Receiver(Protocol):
    """The receiving half of a transport, as far as it is used here."""

    async def receive(self) -> SessionMessage | Exception: ...  # noqa: D102 - the data model of the SDK's streams
    async def aclose(self) -> None: ...  # noqa: D102


class Sender(Protocol):
    """The sending half of a transport, as far as it is used here."""

    async def send(self, item: SessionMessage, /) -> None: ...  # noqa: D102
    async def aclose(self) -> None: ...  # noqa: D102


def wired(
    streams: tuple[Receiver, Sender],
    observer: WireObserver | None,
    *,
    on_close: Callable[[], None],
    exchange: Callable[[SessionMessage], SessionMessage] | None = None,
) -> Streams:
    """Return the streams of a transport as a client is to see them.

    Args:
        streams: As the transport opened them.
        observer: Sees each message as it passes on the wire.
        on_close: Called when the server will say nothing more, perhaps more than once.
        exchange: Returns the message that a received one stands for.
    """
    answers = _Answers()
    return _Received(streams[0], answers, observer, on_close, exchange), _Sent(streams[1], answers, observer)


class _Received(ObjectReceiveStream["SessionMessage | Exception"]):
    def __init__(
        self,
        inner: Receiver,
        answers: _Answers,
        observer: WireObserver | None,
        on_close: Callable[[], None],
        exchange: Callable[[SessionMessage], SessionMessage] | None,
    ) -> None:
        self._inner = inner
        self._answers = answers
        self._observer = observer
        self._on_close = on_close
        self._exchange = exchange

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which the SDK carries from one end of its streams to the other."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_close()
            if self._observer is not None:
                self._observer.closed()
            raise
        if isinstance(item, SessionMessage):
            if self._exchange is not None:
                item = self._exchange(item)
            if self._observer is not None:
                self._observer.received(item.message)
            self._answers.make_acceptable(item.message)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Sent(ObjectSendStream[SessionMessage]):
    def __init__(self, inner: Sender, answers: _Answers, observer: WireObserver | None) -> None:
        self._inner = inner
        self._answers = answers
        self._observer = observer

    async def send(self, item: SessionMessage) -> None:
        self._answers.expect(item.message)
        if self._observer is not None:
            self._observer.sent(item.message)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Answers:
    """The answers that are waited for: each call with the revision that it is made in."""

    def __init__(self) -> None:
        self._calls: OrderedDict[RequestId, str | None] = OrderedDict()
        self._agreed = ""

    def expect(self, message: JSONRPCMessage) -> None:
        """Remember a call that is sent."""
        if isinstance(message, JSONRPCRequest) and message.method == CALL:
            meta: Any = (message.params or {}).get("_meta") or {}
            self._calls[coerce_request_id(message.id)] = meta.get(PROTOCOL_VERSION_META_KEY)
            if len(self._calls) > _MOST_WAITING:  # those that were given up without a word
                self._calls.popitem(last=False)

    def make_acceptable(self, message: JSONRPCMessage) -> None:
        """Leave of an answer what the SDK accepts."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        key = coerce_request_id(message.id)
        if isinstance(message, JSONRPCError):
            self._calls.pop(key, None)
        elif key in self._calls:
            message.result = call_result(message.result, self._calls.pop(key) or self._agreed)
        else:
            self._agreed = str(message.result.get("protocolVersion", self._agreed))
            _drop_invalid_advertisement(message.result)


def _drop_invalid_advertisement(result: dict[str, Any]) -> None:
    capabilities: Any = result.get("capabilities")
    for place in ("extensions", "experimental"):
        held: Any = capabilities.get(place) if isinstance(capabilities, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
        if isinstance(held, dict) and not isinstance(held.get(EXTENSION_ID, {}), dict):  # pyright: ignore[reportUnknownMemberType] - JSON
            del held[EXTENSION_ID]
