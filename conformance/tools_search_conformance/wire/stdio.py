"""stdio without an SDK: one JSON-RPC message per line, in both directions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance.wire.codec import (
    DEFAULT_LIMITS,
    JsonObject,
    Limits,
    MalformedError,
    NotAMessageError,
    decode_message,
    encode_as_is,
    id_key,
    id_text,
)
from tools_search_conformance.wire.display import abridged
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.process import TargetProcess
from tools_search_conformance.wire.record import BYTES_LOGGED, NO_MESSAGE, Answer, others

_MAX_KEPT: Final = 1000
"""Maximum number of complaints, and of stray responses, to keep."""
_MAX_PONGS: Final = 100


@dataclass
class _Waiting:
    """A request awaiting its response."""

    number: Any
    notified: int
    """Number of notifications sent before it."""
    done: anyio.Event = field(default_factory=anyio.Event)
    message: JsonObject | None = None
    text: bytes = b""
    ruined: str | None = None
    """Why no readable response will come."""


class StdioTransport:
    """Communicates with a process over its stdin and stdout."""

    name: TransportName = "stdio"

    def __init__(
        self,
        process: TargetProcess,
        *,
        tasks: TaskGroup,
        limits: Limits = DEFAULT_LIMITS,
        note: Callable[[str], None] = lambda _: None,
        leave: Callable[[TargetProcess], Awaitable[None]] = TargetProcess.end,
    ) -> None:
        """Start reading in `tasks`; `note` gets every line that answers no request, and `leave` ends the process."""
        self.ended: str | None = None
        self.url = None
        self.malformed: list[str] = []
        self.noise: list[str] = []
        self.strays: list[JsonObject] = []
        self._process = process
        self._tasks = tasks
        self._limits = limits
        self._note = note
        self._leave = leave
        self._waiting: dict[bytes, _Waiting] = {}
        self._notified = 0
        self._settled = 0
        """Number of notifications sent before the last answered request; the target had time to process those."""
        self._taken = 0
        self._lines = 0
        self._pongs = 0
        """Number of ping answers that the target has not read yet."""
        self._begun: JsonObject | None = None
        """The request whose beginning was written along with the previous one."""
        self._rest = b""
        """The rest of its line, and what follows it."""
        self._writing = anyio.Lock(fast_acquire=True)
        self._drained = anyio.Event()
        tasks.start_soon(self._read)

    async def request(
        self,
        message: JsonObject,
        headers: Mapping[str, str],
        seconds: float,
        *,
        before: Sequence[JsonObject] = (),
        begins: tuple[JsonObject, bytes] | None = None,
    ) -> Answer:
        """Write a line and wait for the response with the same id of the same type; other requests can be in progress.

        Notifications in `before` are part of the same write. So is the first part of the request that it `begins`, up
        to the middle of some of its bytes. The next request must be that one, and completes it.
        """
        self._notified += len(before)
        key, waiting = id_key(message["id"]), _Waiting(message["id"], self._notified)
        strays, noise = len(self.strays), len(self.noise)
        self._waiting[key] = waiting
        try:
            with anyio.move_on_after(seconds) as patience:
                if (fault := await self._write(message, before=before, begins=begins)) is not None:
                    return Answer(fault=fault)
                await waiting.done.wait()
        finally:
            self._waiting.pop(key, None)
        if patience.cancelled_caught and self._process.returncode is not None:
            self._finish(self._process.how_it_ended())  # a child process keeps its stdout open
        elif patience.cancelled_caught:
            no_message = self.malformed[-1:] or self.noise[noise:]
            came = f", but {no_message[0][:150]}" if no_message else others(self.strays[strays:])
            return Answer(fault=f"no response within {seconds:g} s{came}")
        fault = None if waiting.message else waiting.ruined or self.ended
        return Answer(message=waiting.message, text=waiting.text, fault=fault)

    async def notify(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """Write one line."""
        self._notified += 1
        with anyio.move_on_after(seconds):
            return Answer(fault=await self._write(message))
        return Answer(fault=f"the target did not read for {seconds:g} s")

    @property
    def logged(self) -> str | None:
        """The end of the target's stderr."""
        return self._process.logged

    async def hang_up(self, seconds: float) -> bool:
        """Close the target's stdin, keep reading, and return whether it exits within `seconds` seconds."""
        ended = await self._process.close_stdin(seconds)
        if ended:
            with anyio.move_on_after(seconds):
                await self._drained.wait()
        return ended

    async def aclose(self) -> None:
        """Close the target's stdin and end its process group by calling `leave`."""
        self._finish("the connection was closed")
        await self._leave(self._process)

    async def _write(
        self,
        message: JsonObject,
        *,
        before: Sequence[JsonObject] = (),
        begins: tuple[JsonObject, bytes] | None = None,
    ) -> str | None:
        if self.ended is None:
            try:
                async with self._writing:
                    data = self._rest + (b"" if message is self._begun else _lines(*before, message))
                    if self._rest and "result" in message:  # a ping's answer waits until the line is complete
                        self._rest = data
                        return None
                    self._begun, self._rest = None, b""
                    if begins is not None:
                        self._begun, amid = begins
                        line = _lines(self._begun)
                        cut = line.index(amid) + len(amid) // 2
                        data, self._rest = data + line[:cut], line[cut:]
                    await self._process.write(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._process.settle()
                self._finish(self._process.how_it_ended())
        return self.ended

    async def _read(self) -> None:
        stdout, limits = BufferedByteReceiveStream(self._process.stdout), self._limits
        fault, left = None, limits.total_bytes
        try:
            while fault is None:
                line = await stdout.receive_until(b"\n", min(limits.message_bytes, left))
                self._taken += len(line) + 1
                self._lines += 1
                self._take(line.removesuffix(b"\r"))
                left = limits.total_bytes - self._taken
                if self._lines > limits.messages:
                    fault = f"more than {limits.messages} lines"
        except anyio.DelimiterNotFound:
            total = f"more than {limits.total_bytes} bytes"
            fault = total if left < limits.message_bytes else f"a line of more than {limits.message_bytes} bytes"
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._drained.set()
            await self._process.settle()
        self._finish(fault or self._process.how_it_ended())
        if fault is not None:
            await self._process.end(politely=False)

    def _take(self, line: bytes) -> None:
        shown, message = line[:200].decode("utf-8", errors="replace"), None
        try:
            message = decode_message(line, self._limits)
        except MalformedError as error:
            complaint = f"a line {NO_MESSAGE} ({error}): {shown}"
            begun = line.lstrip().startswith(b"{") and not isinstance(error, NotAMessageError)
            if len(held := self.malformed if begun else self.noise) < _MAX_KEPT:
                held.append(complaint)
            self._note(complaint)
            if not begun:
                self._give_up_hidden_response(line)
            return
        if (waiting := self._answered_by(message)) is not None:
            waiting.message, waiting.text = message, line if len(line) < BYTES_LOGGED else b""
            waiting.done.set()
            self._taken = self._lines = 0
            return
        if (
            message.get("method") == "ping" and "id" in message
        ):  # a legacy server can close the connection if pings are not answered
            if self._pongs < _MAX_PONGS:
                self._pongs += 1
                self._tasks.start_soon(self._answer_ping, message["id"])
        elif "method" not in message and len(self.strays) < _MAX_KEPT:
            self.strays.append(abridged(message))
        self._note(f"message that answers no request: {shown}")

    async def _answer_ping(self, number: object) -> None:
        await self._write({"jsonrpc": "2.0", "id": number, "result": {}})
        self._pongs -= 1

    def _answered_by(self, message: JsonObject) -> _Waiting | None:
        """Return the request that a response answers: the one with its id, or the only possible one.

        For a target that always uses the wrong id, this reports the id instead of a timeout after each request.
        """
        if "method" in message:
            return None
        number = message.get("id")
        if (waiting := self._waiting.pop(id_key(number), None)) is None:
            if number is None:
                refusal = "error" in message and self._settled == self._notified
                meant = [*self._waiting.values()] if refusal else []
            else:
                meant = [other for other in self._waiting.values() if id_text(other.number) == id_text(number)]
            if len(meant) != 1:
                return None
            waiting = self._waiting.pop(id_key(meant[0].number))
        self._settled = max(self._settled, waiting.notified)
        return waiting

    def _give_up_hidden_response(self, line: bytes) -> None:
        """Stop waiting for a response that follows other text on its line, such as a banner without a line ending."""
        start = line.find(b'{"')
        try:
            waiting = self._answered_by(decode_message(line[max(start, 0) :], self._limits))
        except MalformedError:
            return
        if waiting is not None:
            text = line[:start][:150].decode("utf-8", errors="replace")
            waiting.ruined = f"the line of the response begins with text {NO_MESSAGE}: {text!r}"
            waiting.done.set()

    def _finish(self, reason: str) -> None:
        self.ended = self.ended or reason
        for waiting in self._waiting.values():
            waiting.done.set()


def _lines(*messages: JsonObject) -> bytes:
    return b"".join(encode_as_is(message) + b"\n" for message in messages)
