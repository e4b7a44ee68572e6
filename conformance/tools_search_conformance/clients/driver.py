"""A driver's process: one JSON object a line, one operation at a time, each within its time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance.clients.contract import CONTRACT_VERSION, DriverError, Told, read_answer
from tools_search_conformance.report.plain import plain
from tools_search_conformance.wire.codec import JsonObject, Limits, MalformedError, as_object, decode, encode
from tools_search_conformance.wire.process import TargetError, TargetProcess

__all__ = ["AnyDriver", "Driver"]

_LIMITS: Final = Limits(message_bytes=4 * 1024 * 1024, values=200_000)
_NOTED: Final = 2000


class AnyDriver(Protocol):
    """Whoever has the client do something."""

    seconds: float
    """How long one operation may take."""
    ended: str | None
    """Why nothing more can be asked, or `None` while something can."""
    hello: JsonObject
    """What the driver says of itself."""

    @property
    def features(self) -> frozenset[str]:
        """What it can do beside the operations of each driver."""
        ...

    async def ask(self, op: str, **members: Any) -> Told:
        """Have one operation done and return what is said of it.

        Raises:
            DriverError: it can no longer be asked.
        """
        ...

    async def aclose(self) -> None:
        """Let it go."""
        ...


class Driver:
    """Speaks with one driver. `start` gives only one that can be trusted."""

    def __init__(self, process: TargetProcess, *, seconds: float, note: Callable[[str], None]) -> None:
        self.seconds = seconds
        """How long one operation may take."""
        self.ended: str | None = None
        """Why nothing more can be asked, or `None` while something can."""
        self.hello: JsonObject = {}
        """What the driver says of itself."""
        self.note = note
        """Learns of every line, in both directions."""
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._ids = count(1)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        tasks: TaskGroup,
        env: Mapping[str, str],
        cwd: str | None,
        seconds: float,
        start_seconds: float,
        note: Callable[[str], None],
    ) -> Driver:
        """Start `argv` and make sure that it answers by the contract, operations that nobody knows included.

        Raises:
            DriverError: it cannot be started, or does not.
        """
        try:
            process = await TargetProcess.start(argv, tasks=tasks, env=env, cwd=cwd)
        except TargetError as error:
            raise DriverError(str(error)) from error
        driver = cls(process, seconds=start_seconds, note=note)
        try:
            await driver._introduce()
        except BaseException:
            await driver.aclose()
            raise
        driver.seconds = seconds
        return driver

    @property
    def features(self) -> frozenset[str]:
        """What the driver says it can do beside the operations of each driver."""
        return frozenset(map(str, self.hello.get("features", ())))

    async def ask(self, op: str, **members: Any) -> Told:
        """Have one operation done and return what the driver says of it.

        Raises:
            DriverError: it ended, said nothing in time, or nothing that the contract knows. It can no longer be asked.
        """
        if self.ended is not None:
            raise DriverError(self.ended)
        request = {"id": next(self._ids), "op": op, **members}
        try:
            with anyio.fail_after(self.seconds):
                answer = await self._exchange(request)
            told = read_answer(op, answer)
        except TimeoutError as error:
            raise self._give_up(f"the driver did not answer `{op}` within {self.seconds:g} s") from error
        except DriverError as error:
            raise self._give_up(str(error)) from error
        return told

    async def aclose(self) -> None:
        """Let the driver go, and end it with all that it started."""
        if self.ended is None and self.hello:
            self.seconds = min(self.seconds, 1)
            with suppress(DriverError):
                await self.ask("bye")
        self.ended = self.ended or "the driver was let go"
        await self._process.end()

    async def _introduce(self) -> None:
        unknown = f"frobnicate-{secrets.token_hex(8)}"
        told = await self.ask(unknown)
        if not told.unsupported:
            raise DriverError(
                f"the driver cannot be trusted: it answered {unknown}, which nobody knows, with {told.describe()};"
                f' have it answer {{"id": …, "unsupported": true}} to every `op` that it does not know'
            )
        told = await self.ask("hello", suite="tools-search-conformance", contract=CONTRACT_VERSION)
        if told.ok is None:
            raise DriverError(f"the driver answers `hello` with {told.describe()}")
        self.hello = told.ok

    async def _exchange(self, request: JsonObject) -> JsonObject:
        line = encode(request)
        self.note(f"to the driver: {line.decode()[:_NOTED]}")
        try:
            await self._process.write(line + b"\n")
            return await self._answer_to(request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead, anyio.EndOfStream) as error:
            await self._process.settle()
            raise DriverError(f"the driver ended at `{request['op']}`: {plain(self._process.obituary())}") from error

    async def _answer_to(self, request: JsonObject) -> JsonObject:
        try:
            line = await self._lines.receive_until(b"\n", _LIMITS.message_bytes)
        except anyio.DelimiterNotFound as error:
            raise DriverError(f"the driver wrote a line of more than {_LIMITS.message_bytes} bytes") from error
        shown = line[:_NOTED].decode("utf-8", errors="replace")
        self.note(f"from the driver: {shown}")
        try:
            answer = as_object(decode(line, _LIMITS))
        except MalformedError as error:
            raise DriverError(f"the driver wrote a line that is no JSON ({error}): {plain(shown, most=100)}") from error
        if answer is None or answer.get("id") != request["id"]:
            raise DriverError(
                f"the driver answered `{request['op']}`, id {request['id']}, with: {plain(shown, most=100)}"
            )
        return answer

    def _give_up(self, reason: str) -> DriverError:
        self.ended = reason
        return DriverError(reason)
