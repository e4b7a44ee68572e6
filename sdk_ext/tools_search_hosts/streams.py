"""The streams between a client and its transport, with something done to each message on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream


class ConvertedStream(ObjectReceiveStream[Any], ObjectSendStream[Any]):
    """One direction of a transport.

    Args:
        stream: The transport's stream.
        convert: Returns the message to pass on.
        on_sent: Called with each message, as it was, once it is sent.
        on_end: Called when no more messages can be received, possibly more than once.
    """

    def __init__(
        self,
        stream: Any,
        convert: Callable[[Any], Any],
        on_sent: Callable[[Any], None] = lambda _: None,
        *,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._convert = convert
        self._on_sent = on_sent
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        """The context variables of the last message's sender, which the SDK passes along its streams."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        try:
            item = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise
        return self._convert(item)

    async def send(self, item: Any) -> None:
        """Send a message."""
        await self._stream.send(self._convert(item))
        self._on_sent(item)

    async def aclose(self) -> None:
        """Close the transport's stream."""
        await self._stream.aclose()
