"""HTTP bodies as they arrive: bytes in, the bytes of each message out, never more than a bound in memory."""

from __future__ import annotations

from tools_search_conformance.wire.codec import DEFAULT_LIMITS, Limits, MalformedError

__all__ = ["BodyReader", "EventReader"]


class BodyReader:
    """Reads a body that is one message."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Keep `chunk`; a body is whole only at its end.

        Raises:
            MalformedError: the body is beyond the bound of one message.
        """
        self._body += chunk
        if len(self._body) > self._limits.message_bytes:
            raise MalformedError(f"a body of more than {self._limits.message_bytes} bytes")
        return []

    def finish(self) -> list[bytes]:
        """Return the body, if it is not empty."""
        return [bytes(self._body)] if self._body.strip() else []


class EventReader:
    """Reads one event stream. Comments, ids, retry times and names of events carry no message and are passed over."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._rest = bytearray()
        self._after_cr = False
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that `chunk` completes.

        Raises:
            MalformedError: an event is beyond the bound of one message.
        """
        # A CR ends its line at once; an LF that follows belongs to it, in the next chunk too.
        text = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        *ends, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            lines.append(bytes(self._rest + end))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._limits.message_bytes:
            raise MalformedError(f"an event of more than {self._limits.message_bytes} bytes")
        return [data for line in lines if (data := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data, self._held = b"\n".join(self._data), [], 0
            return data or None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(value) + 1
            if self._held > self._limits.message_bytes:
                raise MalformedError(f"an event of more than {self._limits.message_bytes} bytes")
        return None

    def finish(self) -> list[bytes]:
        """Return nothing: an event that no empty line ends is no event."""
        return []
