"""Drivers: programs that operate a client, following the contract in `DRIVER.md`.

A `Driver` performs one operation at a time, with one JSON object per line, and each operation has a timeout. A
`OneShotClient` replaces it for a client that follows the official MCP suite's contract: a process for each operation.
Its requests are judged, but it does not report how it handled the answers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance.model import InapplicableError, SkipReason
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.pages import complaint
from tools_search_conformance.wire.codec import JsonObject, Limits, MalformedError, as_array, as_object, decode, encode
from tools_search_conformance.wire.display import cut, plain
from tools_search_conformance.wire.process import TargetError, TargetProcess
from tools_search_conformance.wire.record import Exchange

CONTRACT_VERSION: Final = 1

_LIMITS: Final = Limits(message_bytes=4 * 1024 * 1024, values=200_000)
_LOGGED_CHARACTERS: Final = 2000
_SCENARIOS: Final = {
    "search": ("search", "to search for the `query` of MCP_CONFORMANCE_CONTEXT, with its `limit` if it has one"),
    "search_all": ("search-all", "to search for the `query` of MCP_CONFORMANCE_CONTEXT and read every page"),
    "list_tools": ("list-tools", "to list all tools"),
    "find_and_call": (
        "call",
        "to search for the `query` of MCP_CONFORMANCE_CONTEXT, read every page, and call the tool `name` with "
        "`arguments`",
    ),
}
"""A one-shot client's scenario and task, by operation."""
_ONE_SHOT_CHUNKS: Final = 1024
"""Maximum bytes that a one-shot client can write to stdout, which is not read."""

Note = Callable[[str], None]
"""Called with a line for the wire log."""


class DriverError(TargetError):
    """The driver cannot be started, reached or trusted; the message says what to fix in it."""


class NoDriverFeatureError(InapplicableError):
    """The driver does not support what the check needs, such as reporting how a client handles an answer."""

    kind: SkipReason = "driver-feature"


@dataclass(frozen=True)
class Outcome:
    """An operation's outcome, as the driver reports it; raises `NoDriverFeatureError` if it reports none."""

    answer: JsonObject | None
    """The complete answer, or `None` for a client that does not report outcomes."""
    searches: tuple[Exchange, ...] = ()
    """The searches that the peers received during the operation."""

    @property
    def reported(self) -> bool:
        """Whether the driver reported how the client handled the answers."""
        return self.answer is not None

    @property
    def ok(self) -> JsonObject | None:
        """The result, on success."""
        return self._member("ok")

    @property
    def error(self) -> JsonObject | None:
        """The error, on failure."""
        return self._member("error")

    def _member(self, name: str) -> JsonObject | None:
        if self.answer is None:
            raise NoDriverFeatureError("a one-shot client does not report what it made of the answers")
        return self.answer.get(name)

    @property
    def unsupported(self) -> bool:
        """Whether the driver or the client does not support the operation."""
        return self.answer is not None and "unsupported" in self.answer

    @property
    def tools(self) -> list[JsonObject]:
        """The tools that the client found, as it reported them; empty if the operation failed."""
        found = as_array((self.ok or {}).get("tools")) or []
        return [tool for tool in map(as_object, found) if tool is not None]

    @property
    def names(self) -> list[str]:
        """Their names, in order."""
        return [str(tool.get("name")) for tool in self.tools]

    @property
    def failed(self) -> list[str]:
        """The servers that the client reports as failed, in a federation."""
        return [str(name) for name in as_array((self.ok or {}).get("failed")) or []]

    def describe(self) -> str:
        """Return a short description of the outcome."""
        if self.answer is None:
            return "nothing that a one-shot client reports"
        if self.error is not None:
            return f"the error {str(self.error['message'])[:200]!r}"
        if self.unsupported:
            return "unsupported"
        return f"the tools {cut(str(self.names), 500)}" if "tools" in (self.ok or {}) else "success"


@cache
def contract_schema() -> JsonObject:
    """Return the contract's JSON Schema."""
    return json.loads((files(__package__ or "") / "driver.schema.json").read_bytes())


def read_answer(op: str, answer: JsonObject) -> Outcome:
    """Parse a driver's answer to `op`; raises `DriverError` if it violates the contract."""
    if op == "hello" and "sdk" in answer and "ok" not in answer:
        # The members of `hello` are also accepted without the surrounding `ok`.
        answer = {"id": answer["id"], "ok": {name: value for name, value in answer.items() if name != "id"}}
    shapes = contract_schema()["$defs"]
    wrong = complaint(answer, shapes["answer"], shapes)
    if wrong is None and "ok" in answer:
        wrong = complaint(answer["ok"], shapes["ok"].get(op, {"type": "object"}), shapes)
    if wrong is not None:
        raise DriverError(f"the driver's answer to `{op}` is not one of DRIVER.md: {wrong}")
    return Outcome(answer)


async def start_driver(options: Options, tasks: TaskGroup, note: Note) -> AnyDriver:
    """Start the driver or one-shot client in `options`; `note` gets every line, in both directions.

    Raises:
        DriverError: It cannot be started, or violates the contract, including the rule for unknown operations.
    """
    if options.one_shot:
        return OneShotClient(options, tasks, note)
    try:
        process = await TargetProcess.start(options.argv, tasks=tasks, env=options.env, cwd=options.cwd)
    except TargetError as error:
        raise DriverError(str(error)) from error
    driver = Driver(process, seconds=options.start_timeout, note=note)
    try:
        await driver.introduce()
    except BaseException:
        await driver.aclose()
        raise
    driver.seconds = options.timeout
    return driver


class Driver:
    """A driver's process."""

    def __init__(self, process: TargetProcess, *, seconds: float, note: Note) -> None:
        self.seconds = seconds
        """Timeout in seconds for an operation."""
        self.ended: str | None = None
        """Why the driver cannot be used any more; `None` while it can."""
        self.hello: JsonObject = {}
        self._note = note
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._ids = count(1)

    @property
    def features(self) -> frozenset[str]:
        """Everything the driver supports beyond the required operations."""
        return frozenset(map(str, self.hello.get("features", ())))

    async def introduce(self) -> None:
        """Ask the driver what it supports; raises `DriverError` if it violates the contract."""
        unknown = f"frobnicate-{secrets.token_hex(8)}"
        outcome = await self.ask(unknown)
        if not outcome.unsupported:
            raise DriverError(
                f"the driver cannot be trusted: it answered {unknown}, which nobody knows, with {outcome.describe()};"
                f' have it answer {{"id": …, "unsupported": true}} to every `op` that it does not know'
            )
        outcome = await self.ask("hello", suite="tools-search-conformance", contract=CONTRACT_VERSION)
        if outcome.ok is None:
            raise DriverError(f"the driver answers `hello` with {outcome.describe()}")
        self.hello = outcome.ok

    async def ask(self, op: str, **members: Any) -> Outcome:
        """Perform an operation and return its outcome; after a `DriverError`, the driver is not used again."""
        if self.ended is not None:
            raise DriverError(self.ended)
        try:
            with anyio.fail_after(self.seconds):
                answer = await self._exchange({"id": next(self._ids), "op": op, **members})
            return read_answer(op, answer)
        except TimeoutError as error:
            self.ended = f"the driver did not answer `{op}` within {self.seconds:g} s"
            raise DriverError(self.ended) from error
        except DriverError as error:
            self.ended = str(error)
            raise

    async def aclose(self) -> None:
        """Send the driver a goodbye, and end it with all processes that it started."""
        if self.ended is None and self.hello:
            self.seconds = min(self.seconds, 1)
            with suppress(DriverError):
                await self.ask("bye")
        self.ended = self.ended or "the driver was let go"
        await self._process.end()

    async def _exchange(self, request: JsonObject) -> JsonObject:
        op, line = request["op"], encode(request)
        self._note(f"to the driver: {line.decode()[:_LOGGED_CHARACTERS]}")
        try:
            await self._process.write(line + b"\n")
            line = await self._lines.receive_until(b"\n", _LIMITS.message_bytes)
        except anyio.DelimiterNotFound as error:
            raise DriverError(f"the driver wrote a line of more than {_LIMITS.message_bytes} bytes") from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead, anyio.EndOfStream) as error:
            await self._process.settle()
            raise DriverError(f"the driver ended at `{op}`: {plain(self._process.how_it_ended())}") from error
        shown = line[:_LOGGED_CHARACTERS].decode("utf-8", errors="replace")
        self._note(f"from the driver: {shown}")
        shown = plain(shown, most=100)
        try:
            answer = as_object(decode(line, _LIMITS))
        except MalformedError as error:
            message = f"the driver wrote a line that is not JSON ({error}): {shown}; what it logs belongs on stderr"
            raise DriverError(message) from error
        if answer is None or answer.get("id") != request["id"]:
            raise DriverError(f"the driver answered `{op}`, id {request['id']}, with: {shown}")
        return answer


class OneShotClient:
    """A client that follows the official suite's contract: one process and one operation per connection."""

    features: Final = frozenset({"http"})

    def __init__(self, options: Options, tasks: TaskGroup, note: Note) -> None:
        self.seconds = options.timeout
        self.ended: str | None = None
        self.hello: JsonObject = {"sdk": "one-shot client", "version": "unknown"}
        self._options = options
        self._tasks = tasks
        self._note = note
        self.expected: str | None = None
        """A description of the client's last task."""
        self._connection: Mapping[str, Any] | None = None

    async def ask(self, op: str, **members: Any) -> Outcome:
        """Run the client for `op`, once per connection; connecting and closing are part of that run.

        Raises:
            DriverError: It cannot be started, or does not exit in time.
            NoDriverFeatureError: The contract does not have the operation, or only allows one per connection.
        """
        if op in {"connect", "close"}:
            self._connection = members if op == "connect" else None
            return Outcome({"id": 0, "ok": {}})
        if op not in _SCENARIOS:
            raise NoDriverFeatureError(f"one-shot clients cannot be asked for this: `{op}`")
        if self._connection is None:
            raise NoDriverFeatureError("one-shot clients do one thing on a connection, and this takes more")
        target, era, self._connection = self._connection["target"], self._connection["era"], None
        name, purpose = _SCENARIOS[op]
        scenario = f"tools-search/{name}"
        self.expected = f"in the scenario {scenario} the client is {purpose}"
        context = json.dumps({**({} if "name" in members else {"name": scenario}), **members})
        env = {
            **self._options.env,
            "MCP_CONFORMANCE_SCENARIO": scenario,
            "MCP_CONFORMANCE_PROTOCOL_VERSION": era,
            "MCP_CONFORMANCE_CONTEXT": context,
        }
        argv = [*self._options.argv, target["url"]]
        process = await TargetProcess.start(argv, tasks=self._tasks, env=env, cwd=self._options.cwd)
        self._note(f"to the client: {scenario} {context}")
        written = 0
        try:
            with anyio.fail_after(self.seconds):
                async for _ in process.stdout:
                    written += 1
                    if written > _ONE_SHOT_CHUNKS:
                        raise DriverError("the client writes to its stdout without end")
                await process.settle()
        except TimeoutError as error:
            raise DriverError(f"the client did not end within {self.seconds:g} s") from error
        finally:
            self._note(f"from the client: {process.how_it_ended()}; its stderr ends: {process.stderr_tail(500)}")
            await process.end()
        return Outcome(None)

    async def aclose(self) -> None:
        """Do nothing: every process has exited."""


AnyDriver = Driver | OneShotClient
