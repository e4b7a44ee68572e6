"""The same question to many servers at once: each answers, fails or is late, and none holds up the others for long.

A question runs in a task of its own, so that a caller can stop waiting for a slow server without losing its answer.
For starting, and for each method of a connection, a server is in one of three states:

    in time -> resting      somebody waited for it in vain (a strike): it is left alone, for longer after each strike
    resting -> on trial     the rest is over: it is asked again, and waited for only as long as a probe takes
    on trial -> resting     it is late again
    resting, on trial -> in time    it answers, late or not, be it with an error
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from tools_search_client.errors import InvalidServerResultError, ServerError, ServerTimeoutError
from tools_search_client.found import Failure, Found, ServerReport
from tools_search_client.servers.discovery import ServerTools
from tools_search_client.servers.supervision import Backoff, SupervisedServer

_AT_ONCE: Final = 10
"""Enough to hide the time of a network, and no flood for a small server."""

Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_parallel(
    function: Callable[[Item], Awaitable[Result]], items: Sequence[Item], *, at_once: int = _AT_ONCE
) -> list[Result]:
    """Return `function` of each item, in the order of `items`, running at most `at_once` of them at the same time."""
    results: dict[int, Result] = {}
    limiter = anyio.CapacityLimiter(at_once)

    async def run(position: int, item: Item) -> None:
        async with limiter:
            results[position] = await function(item)

    if len(items) == 1:  # no group, so that what the function raises is raised as it is
        return [await function(items[0])]
    async with anyio.create_task_group() as tasks:
        for position, item in enumerate(items):
            tasks.start_soon(run, position, item)
    return [results[position] for position in range(len(items))]


_logger = logging.getLogger(__name__)

Value = TypeVar("Value")

Method: TypeAlias = Literal["tools/search", "tools/list"]

_PROBE_SECONDS: Final = 0.25
"""How long a server that was late before is waited for, so that one that recovered is noticed at once."""

_SLOW_START_SECONDS: Final = 1.0
"""An attempt to start that fails sooner costs nobody anything, so that the next one is waited for as well."""

_KEPT_SECONDS: Final = 60.0
"""How long a late answer is kept for the same question asked again."""

_MOST_KEPT: Final = 16
"""Late answers that are kept of one server."""

_ROOM_FOR_GROWTH: Final = 2
"""A search is waited for this many times as long as the last one took, also where that is longer than the grace."""


@dataclass(frozen=True, slots=True)
class Question(Generic[Value]):
    """A question to every server."""

    ask: Callable[[str, ServerTools], Awaitable[Value]]
    """Asks the server of that name."""

    subject: Callable[[str], Hashable]
    """The subject for the server of that name: questions with equal subjects have the same answer."""

    method: Callable[[str, ServerTools], Method | None]
    """The method that the question takes at the server of that name; `None` where nothing has to be sent."""

    ends_early: bool = False
    """Whether the others are not kept waiting for a search that takes much longer than theirs."""


def by_listing(_: str, tools: ServerTools, /) -> Method:
    """Return the method of a question that takes a listing; for `Question`."""
    return "tools/list"


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """One server's answer: a value or a failure."""

    server: str
    milliseconds: float
    tools: ServerTools | None
    """The server's tools, where it was connected."""
    value: Value | None = None
    failure: Failure | None = None

    def report(self, *, hits: int = 0, found: Found | None = None) -> ServerReport:
        """Return the report on this server."""
        return ServerReport(
            server=self.server,
            mode=found.mode if found else self.tools.mode if self.tools else None,
            era=self.tools.era if self.tools else None,
            milliseconds=round(self.milliseconds, 1),
            hits=hits,
            left_out=self.tools.left_out if self.tools else 0,
            fallback=found.fallback if found else None,
            failure=self.failure,
        )


@dataclass(slots=True)
class _Record:
    """How a server has done at one thing: at starting, or at one method."""

    strikes: int = 0
    """How many times in a row it was waited for in vain."""

    struck_at: float = -math.inf
    rests_until: float = -math.inf
    seconds: float = 0.0
    """How long the last answer took."""

    failure: Failure | None = None

    def note_answer(self, seconds: float) -> None:
        self.strikes, self.rests_until, self.seconds, self.failure = 0, -math.inf, seconds, None

    def note_late(self, began: float, failure: Failure, backoff: Backoff) -> None:
        """Count one strike, however many questions were kept waiting at the same time."""
        if began < self.struck_at:
            return
        self.strikes += 1
        self.struck_at = anyio.current_time()
        self.rests_until = self.struck_at + backoff.after(self.strikes)
        self.failure = failure


@dataclass(eq=False, slots=True)
class _AskedServer:
    """One server, and how it has done."""

    supervised: SupervisedServer
    starting: _Record = field(default_factory=_Record)
    methods: dict[Method, _Record] = field(default_factory=dict["Method", _Record])
    late: dict[Hashable, _Asked[Any]] = field(default_factory=dict[Hashable, "_Asked[Any]"])
    """Questions that nobody waited for any longer, with or without their answers."""

    _tools: ServerTools | None = None

    def connected(self) -> ServerTools | None:
        """Return the tools, and forget what was known of a connection before this one."""
        tools = self.supervised.connected
        if tools is not None and tools is not self._tools:
            self._tools = tools
            self.methods.clear()
            self.late = {key: one for key, one in self.late.items() if one.tools in (None, tools)}
        return tools

    def record(self, method: Method) -> _Record:
        return self.methods.setdefault(method, _Record())


class _Asked(Generic[Value]):
    """One question to one server, on its way."""

    def __init__(self, name: str, server: _AskedServer, question: Question[Value], backoff: Backoff) -> None:
        self.name, self.server, self.question, self.backoff = name, server, question, backoff
        self.began: Final = anyio.current_time()
        self.ended: float | None = None
        self.tools: ServerTools | None = None
        self.record: _Record | None = server.starting
        """Of what it is busy with; `None` where nothing is sent."""
        self.method: Method | None = None
        self.answer: Answer[Value] | None = None
        self.waiting: list[Callable[[], None]] = []
        self.is_late = False
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Bring about the answer; what the server does wrong is part of it."""
        with self._scope:
            try:
                self._end(value=await self._value())
            except ServerError as error:
                self._end(failure=Failure.of(error))
            except Exception as error:  # the boundary between servers: none may lose the others their answers
                _logger.exception("asking %r failed in an unforeseen way", self.name)
                reason = f"the answer could not be used: {type(error).__name__}"
                self._end(failure=Failure.of(InvalidServerResultError(reason)))

    def give_up(self, seconds: float) -> Answer[Value]:
        """Return that the server is late; its answer is still taken."""
        doing = "starting" if self.tools is None else "answering"
        message = f"still {doing} after {seconds:g} seconds{self.server.supervised.quotation()}"
        failure = Failure.of(ServerTimeoutError(message))
        if self.record is not None and not self.is_late:
            self.record.note_late(self.began, failure, self.backoff)
        self.is_late = True
        return Answer(self.name, (anyio.current_time() - self.began) * 1000, self.tools, None, failure)

    def leave(self, wake: Callable[[], None]) -> None:
        """Stop waiting; a question that nobody waits for is withdrawn, unless it is late."""
        self.waiting.remove(wake)
        if not self.waiting and not self.is_late:
            self._scope.cancel()

    def refuse(self, record: _Record) -> None:
        """Answer at once that the server is left alone."""
        kind, message = ("timeout", "") if record.failure is None else (record.failure.kind, record.failure.message)
        self.ended = self.began
        self.answer = Answer(self.name, 0.0, self.tools, None, Failure(kind, f"left alone for a moment: {message}"))

    async def _value(self) -> Value:
        self.tools = await self.server.supervised.tools()
        began = anyio.current_time()
        self.server.starting.note_answer(began - self.began)
        self.server.connected()
        self.method = self.question.method(self.name, self.tools)
        self.record = None if self.method is None else self.server.record(self.method)
        value = await self.question.ask(self.name, self.tools)
        if self.record is not None:
            self.record.note_answer(anyio.current_time() - began)
        return value

    def _end(self, *, value: Value | None = None, failure: Failure | None = None) -> None:
        self.ended = anyio.current_time()
        seconds = self.ended - self.began
        if failure is not None and self.record is not None:
            self._note(failure, self.record, seconds)
        self.answer = Answer(self.name, seconds * 1000, self.tools, value, failure)
        for wake in self.waiting:
            wake()

    def _note(self, failure: Failure, record: _Record, seconds: float) -> None:
        if failure.kind == "timeout" or (self.tools is None and seconds >= _SLOW_START_SECONDS):
            if not self.is_late:
                record.note_late(self.began, failure, self.backoff)
        elif self.tools is not None:  # it refuses, but it answers
            record.note_answer(seconds)


class Fanout:
    """Puts questions to servers.

    Args:
        servers: By name.
        tasks: Where questions run, also when nobody waits for them any longer.
        grace: Seconds that a search is still waited for when most of the others have answered.
        backoff: How long a server is left alone that was waited for in vain.
        authorization: Names the authorization of the moment; a late answer is only given to the one that asked.
    """

    def __init__(
        self,
        servers: Mapping[str, SupervisedServer],
        tasks: TaskGroup,
        *,
        grace: float,
        backoff: Backoff,
        authorization: Callable[[], str],
    ) -> None:
        self._servers = {name: _AskedServer(server) for name, server in servers.items()}
        self._tasks = tasks
        self._grace = grace
        self._backoff = backoff
        self._authorization = authorization

    async def ask(
        self, question: Question[Value], servers: Sequence[str], *, deadline: float | None
    ) -> list[Answer[Value]]:
        """Ask every server at once and return the answers in the order of `servers`.

        A server that fails, is late or is left alone because it was late before is an answer with a failure. Nobody
        waits longer than `deadline` seconds; `None` means as long as the servers take.
        """
        began = anyio.current_time()
        wakeup = _Wakeup()
        asked = [self._begun(name, question) for name in servers]
        for one in asked:
            one.waiting.append(wakeup.wake)
        try:
            while self._is_worth_waiting(asked, began, deadline, wakeup):
                await wakeup.wait()
            seconds = anyio.current_time() - began
            waited = round(seconds, 1) if deadline is None or seconds < deadline else deadline
            return [one.answer or self._given_up(one, waited) for one in asked]
        finally:
            for one in asked:
                one.leave(wakeup.wake)

    def drop(self, server: str) -> None:
        """Forget late answers of a server, because its tools changed."""
        self._servers[server].late.clear()

    def _begun(self, name: str, question: Question[Value]) -> _Asked[Value]:
        server = self._servers[name]
        tools = server.connected()
        asked = _Asked(name, server, question, self._backoff)
        record: _Record | None = server.starting
        if tools is not None:
            asked.tools, asked.method = tools, question.method(name, tools)
            asked.record = record = None if asked.method is None else server.record(asked.method)
        late = server.late.get(self._key(asked))
        if late is not None and late.ended is not None:
            del server.late[self._key(asked)]
            if late.answer and late.answer.failure is None and anyio.current_time() - late.ended < _KEPT_SECONDS:
                return late
        is_resting = record is not None and anyio.current_time() < record.rests_until
        if is_resting and late is not None and late.ended is None:
            return late
        if is_resting and record is not None:
            asked.refuse(record)
        else:
            self._tasks.start_soon(asked.run, name=f"asking {name!r}")
        return asked

    def _given_up(self, asked: _Asked[Value], seconds: float) -> Answer[Value]:
        late = asked.server.late
        late[self._key(asked)] = asked
        for key in list(late)[:-_MOST_KEPT]:
            del late[key]
        return asked.give_up(seconds)

    def _key(self, asked: _Asked[Any]) -> Hashable:
        return self._authorization(), asked.question.subject(asked.name)

    def _is_worth_waiting(
        self, asked: Sequence[_Asked[Any]], began: float, deadline: float | None, wakeup: _Wakeup
    ) -> bool:
        unfinished = [one for one in asked if one.ended is None]
        if not unfinished:
            return False
        last = max((one.ended for one in asked if one.ended is not None), default=began)
        most_answered = 2 * len(unfinished) <= len(asked)
        wakeup.until = max(self._patience(one, began, deadline, last if most_answered else None) for one in unfinished)
        return anyio.current_time() < wakeup.until

    def _patience(self, one: _Asked[Any], began: float, deadline: float | None, last: float | None) -> float:
        """Return until when a server is waited for; `last` is when the last of the others answered, if most have."""
        if deadline is None:
            return math.inf
        record = one.record
        if record is not None and (one.is_late or record.strikes or record.seconds > deadline):
            return began + min(deadline, _PROBE_SECONDS)
        if last is not None and record is not None and one.question.ends_early and one.method == "tools/search":
            return min(began + deadline, last + max(self._grace, _ROOM_FOR_GROWTH * record.seconds))
        return began + deadline


class _Wakeup:
    """Wakes one caller when a server answered, or at a time."""

    def __init__(self) -> None:
        self.until = math.inf
        self._woken = anyio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        self._woken = anyio.Event()
        with anyio.CancelScope(deadline=self.until):
            await self._woken.wait()
