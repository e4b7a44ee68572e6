"""Someone watching what passes between a client and a server, from just above the transport."""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

import anyio
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
from tools_search_hosts.bounded_http import BoundedHttp
from tools_search_hosts.results import CALL, call_result

__all__ = ["Reading", "Streams", "WireObserver", "Writing", "exchanged", "mended", "watched"]

Item_co = TypeVar("Item_co", covariant=True)
Item_contra = TypeVar("Item_contra", contravariant=True)

_MOST_WAITING: Final = 1000
"""Calls whose answers are waited for at the same time."""


class WireObserver(Protocol):
    """Told of every JSON-RPC message, and of the end."""

    def sent(self, message: JSONRPCMessage) -> None:
        """Take note of a message to the server."""
        ...

    def received(self, message: JSONRPCMessage) -> None:
        """Take note of a message from the server."""
        ...

    def closed(self) -> None:
        """Take note that the server will send nothing more; may be told more than once."""
        ...


class Reading(Protocol[Item_co]):
    """The receiving half of a transport, as the SDK hands it over."""

    async def receive(self) -> Item_co: ...  # noqa: D102 - the data model of the SDK's streams
    async def aclose(self) -> None: ...  # noqa: D102
    def __aiter__(self) -> Reading[Item_co]: ...
    async def __anext__(self) -> Item_co: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None: ...


class Writing(Protocol[Item_contra]):
    """The sending half of a transport, as the SDK hands it over."""

    async def send(self, item: Item_contra, /) -> None: ...  # noqa: D102
    async def aclose(self) -> None: ...  # noqa: D102
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None: ...


Streams: TypeAlias = tuple[Reading[SessionMessage | Exception], Writing[SessionMessage]]


def exchanged(streams: Streams, bounded: BoundedHttp) -> Streams:
    """Return streams that behave like `streams`, with each stand-in exchanged for the message that it stands for."""
    reading, writing = streams
    return _ExchangedReading(reading, bounded), writing


def watched(streams: Streams, observer: WireObserver) -> Streams:
    """Return streams that behave like `streams` and tell `observer` what passes."""
    reading, writing = streams
    return _WatchedReading(reading, observer), _WatchedWriting(writing, observer)


def mended(streams: Streams) -> Streams:
    """Return streams that behave like `streams`, except for answers that the SDK would refuse as a whole.

    An advertisement that is no object never arrives: it counts as absent. Of a bad result of a tool arrives what can be
    kept, since the call may have had its effect.
    """
    reading, writing = streams
    asked = _Asked()
    return _MendedReading(reading, asked), _WatchedWriting(writing, asked)


class _Asked:
    """The calls that wait for their answers, and which revision each of them is made in."""

    def __init__(self) -> None:
        self._calls: OrderedDict[RequestId, str | None] = OrderedDict()
        self._agreed = ""

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method == CALL:
            meta: Any = (message.params or {}).get("_meta") or {}
            self._calls[coerce_request_id(message.id)] = meta.get(PROTOCOL_VERSION_META_KEY)
            if len(self._calls) > _MOST_WAITING:  # those that were given up without a word
                self._calls.popitem(last=False)

    def received(self, message: JSONRPCMessage) -> None:
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

    def closed(self) -> None: ...


def _drop_invalid_advertisement(result: dict[str, Any]) -> None:
    capabilities: Any = result.get("capabilities")
    for place in ("extensions", "experimental"):
        held: Any = capabilities.get(place) if isinstance(capabilities, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
        if isinstance(held, dict) and not isinstance(held.get(EXTENSION_ID, {}), dict):  # pyright: ignore[reportUnknownMemberType] - JSON
            del held[EXTENSION_ID]


class _PassedReading:
    def __init__(self, inner: Reading[SessionMessage | Exception]) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        """The sender's context variables, which the SDK carries from one end of its streams to the other."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _ExchangedReading(_PassedReading):
    def __init__(self, inner: Reading[SessionMessage | Exception], bounded: BoundedHttp) -> None:
        super().__init__(inner)
        self._bounded = bounded

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        return self._bounded.exchange(item) if isinstance(item, SessionMessage) else item


class _WatchedReading(_PassedReading):
    def __init__(self, inner: Reading[SessionMessage | Exception], observer: WireObserver) -> None:
        super().__init__(inner)
        self._observer = observer

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._observer.closed()
            raise
        if isinstance(item, SessionMessage):
            self._observer.received(item.message)
        return item


class _MendedReading(_PassedReading):
    def __init__(self, inner: Reading[SessionMessage | Exception], asked: _Asked) -> None:
        super().__init__(inner)
        self._asked = asked

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        if isinstance(item, SessionMessage):
            self._asked.received(item.message)
        return item


class _WatchedWriting:
    def __init__(self, inner: Writing[SessionMessage], observer: WireObserver) -> None:
        self._inner = inner
        self._observer = observer

    async def send(self, item: SessionMessage, /) -> None:
        self._observer.sent(item.message)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)
