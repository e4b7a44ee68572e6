"""stdio without an SDK: one JSON-RPC message a line, in both directions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import anyio
from anyio.abc import TaskGroup

from tools_search_conformance.wire.codec import (
    DEFAULT_LIMITS,
    JsonObject,
    Limits,
    MalformedError,
    NotAMessageError,
    decode_message,
    encode,
    id_key,
    id_text,
)
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.process import TargetProcess
from tools_search_conformance.wire.record import Answer, others


@dataclass
class _Waiting:
    """A request whose response has not come."""

    number: Any
    """Its id."""
    notified: int
    """How many notifications had been sent before it."""
    done: anyio.Event = field(default_factory=anyio.Event)
    message: JsonObject | None = None
    ruined: str | None = None
    """Why no other response is to be expected, though none could be read."""


_KEPT: Final = 10_000
"""How many complaints are kept; each is short."""

Kept = TypeVar("Kept")


def _keep(item: Kept, held: list[Kept]) -> None:
    if len(held) < _KEPT:
        held.append(item)


class StdioTransport:
    """Speaks with a process over its stdin and stdout."""

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
        """Start to read in `tasks`; `note` gets every line that answers no request, and `leave` ends the process."""
        self.ended: str | None = None
        self.malformed: list[str] = []
        self.noise: list[str] = []
        self.strays: list[JsonObject] = []
        self._process = process
        self._limits = limits
        self._note = note
        self._leave = leave
        self._waiting: dict[bytes, _Waiting] = {}
        self._notified = 0
        self._settled = 0
        """How many notifications were sent before the last request that is answered: they had their time."""
        self._taken = 0
        self._lines = 0
        self._writing = anyio.Lock()
        self._drained = anyio.Event()
        tasks.start_soon(self._read)

    async def request(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """Write one line and wait for the response with the same id, of the same type; others may be on their way."""
        key, waiting = id_key(message["id"]), _Waiting(message["id"], self._notified)
        strays, noise = len(self.strays), len(self.noise)
        self._waiting[key] = waiting
        try:
            with anyio.move_on_after(seconds) as patience:
                if (fault := await self._write(message)) is not None:
                    return Answer(fault=fault)
                await waiting.done.wait()
        finally:
            self._waiting.pop(key, None)
        if patience.cancelled_caught and self._process.returncode is not None:
            self._finish(self._process.how_it_ended())  # something that it started holds its stdout open
        elif patience.cancelled_caught:
            no_message = self.malformed[-1:] or self.noise[noise:]
            came = f", but {no_message[0][:150]}" if no_message else others(self.strays[strays:])
            return Answer(fault=f"no response within {seconds:g} s{came}")
        return Answer(message=waiting.message, fault=None if waiting.message else waiting.ruined or self.ended)

    async def notify(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """Write one line."""
        self._notified += 1
        with anyio.move_on_after(seconds):
            return Answer(fault=await self._write(message))
        return Answer(fault=f"the target did not read for {seconds:g} s")

    async def hang_up(self, seconds: float) -> bool:
        """Close the target's stdin, read on, and return whether it ended by itself within `seconds` seconds."""
        ended = await self._process.close_stdin(seconds)
        if ended:
            with anyio.move_on_after(seconds):
                await self._drained.wait()
        return ended

    async def aclose(self) -> None:
        """Close the target's stdin and end its process group, as `leave` does."""
        self._finish("the connection was closed")
        await self._leave(self._process)

    async def _write(self, message: JsonObject) -> str | None:
        if self.ended is None:
            try:
                async with self._writing:
                    await self._process.write(encode(message) + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._process.settle()
                self._finish(self._process.how_it_ended())
        return self.ended

    async def _read(self) -> None:
        buffer = bytearray()
        try:
            async for chunk in self._process.stdout:
                self._taken += len(chunk)
                if (fault := self._take_chunk(buffer, chunk)) is not None:
                    self._finish(fault)
                    await self._process.end(politely=False)
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        self._drained.set()
        await self._process.settle()
        self._finish(self._process.how_it_ended())

    def _take_chunk(self, buffer: bytearray, chunk: bytes) -> str | None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._lines += 1
            self._take(bytes(buffer + end).removesuffix(b"\r"))
            buffer.clear()
        buffer += rest
        if len(buffer) > self._limits.message_bytes:
            return f"a line of more than {self._limits.message_bytes} bytes"
        if self._taken > self._limits.total_bytes:
            return f"more than {self._limits.total_bytes} bytes"
        return f"more than {self._limits.messages} lines" if self._lines > self._limits.messages else None

    def _take(self, line: bytes) -> None:
        try:
            message = decode_message(line, self._limits)
        except MalformedError as error:
            complaint = f"a line that is no message ({error}): {line[:200].decode('utf-8', errors='replace')}"
            begun = line.lstrip().startswith(b"{") and not isinstance(error, NotAMessageError)
            _keep(complaint, self.malformed if begun else self.noise)
            self._note(complaint)
            if not begun:
                self._give_up_hidden_response(line)
            return
        waiting = None if "method" in message else self._answered_by(message)
        if waiting is None:
            if "method" not in message:
                _keep(message, self.strays)
            self._note(f"message that answers no request: {line[:200].decode('utf-8', errors='replace')}")
            return
        waiting.message = message
        waiting.done.set()
        self._taken = self._lines = 0

    def _answered_by(self, response: JsonObject) -> _Waiting | None:
        """Return the request that a response answers: the one with its id, or the only one that it can be meant for.

        The wrong id is then shown, rather than silence after each request to a target that always has it wrong.
        """
        number = response.get("id")
        if (waiting := self._waiting.pop(id_key(number), None)) is None:
            if number is None:
                refusal = "error" in response and self._settled == self._notified
                meant = [*self._waiting.values()] if refusal else []
            else:
                meant = [other for other in self._waiting.values() if id_text(other.number) == id_text(number)]
            if len(meant) != 1:
                return None
            waiting = self._waiting.pop(id_key(meant[0].number))
        self._settled = max(self._settled, waiting.notified)
        return waiting

    def _give_up_hidden_response(self, line: bytes) -> None:
        """End the wait for a response that follows other text on its line, such as a banner without an end of line."""
        start = line.find(b'{"')
        try:
            message = decode_message(line[max(start, 0) :], self._limits)
        except MalformedError:
            return
        waiting = None if "method" in message else self._answered_by(message)
        if waiting is not None:
            text = line[:start][:150].decode("utf-8", errors="replace")
            waiting.ruined = f"the line of the response begins with what is no message: {text!r}"
            waiting.done.set()

    def _finish(self, reason: str) -> None:
        self.ended = self.ended or reason
        for waiting in self._waiting.values():
            waiting.done.set()
