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
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup
from mcp_ext_tools_search.types import TOOLS, Primitive

from tools_search_client.errors import (
    Failure,
    HostError,
    InvalidServerResultError,
    ServerError,
    ServerTimeoutError,
)
from tools_search_client.found import Found, ServerReport
from tools_search_client.servers.discovery import Answered, ServerTools
from tools_search_client.servers.host_connection import HostConnection
from tools_search_client.servers.supervision import Backoff, SupervisedServer

_AT_ONCE: Final = 10
"""Enough to hide the time of a network, and no flood for a small server."""

_PROBE_SECONDS: Final = 0.25
"""How long a server that was late before is waited for, so that one that recovered is noticed at once."""

_SLOW_START_SECONDS: Final = 1.0
"""An attempt to start that fails sooner costs nobody anything, so that the next one is waited for as well."""

_KEPT_SECONDS: Final = 60.0
"""How long a late answer is kept for the same question asked again."""

_MAX_KEPT: Final = 16
"""Late answers that are kept of one server."""

_ROOM_FOR_GROWTH: Final = 2
"""A search is waited for this many times as long as the last one took, also where that is longer than the grace."""

_logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

Method: TypeAlias = str
"""A request method, at each of which a server is quick or slow."""


async def in_parallel(function: Callable[[Item], Awaitable[Result]], items: Sequence[Item]) -> list[Result]:
    """Return `function` of each item, in the order of `items`, running a few of them at the same time.

    What the function raises ends the others, and is raised as it is: the first error, and no group of them.
    """
    results: dict[int, Result] = {}
    errors: list[Exception] = []
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def run(position: int, item: Item) -> None:
        async with limiter:
            try:
                results[position] = await function(item)
            except Exception as error:
                errors.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for position, item in enumerate(items):
            tasks.start_soon(run, position, item)
    if errors:
        raise errors[0]
    return [results[position] for position in range(len(items))]


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


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """One server's answer: a value or a failure."""

    server: str
    milliseconds: float
    tools: ServerTools | None
    """The server's tools, where it was connected."""
    value: Value | None = None
    error: ServerError | HostError | None = None

    @property
    def failure(self) -> Failure | None:
        """Why there is no value."""
        return self.error and Failure.of(self.error)

    def report(
        self, *, hits: int = 0, found: Found | Answered | None = None, primitive: Primitive[Any] = TOOLS
    ) -> ServerReport:
        """Return the report on this server, which found so many tools or other items, or these."""
        discovery = self.tools and self.tools.discovery(primitive)
        return ServerReport(
            server=self.server,
            mode=found.mode if found else discovery.mode if discovery else None,
            era=self.tools.era if self.tools else None,
            milliseconds=round(self.milliseconds, 1),
            hits=len(found.tools) if isinstance(found, Found) else hits,
            left_out=discovery.left_out if discovery else 0,
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

    error: ServerError | HostError | None = None

    def note_answer(self, seconds: float) -> None:
        self.strikes, self.rests_until, self.seconds, self.error = 0, -math.inf, seconds, None

    def note_late(self, began: float, error: ServerError | HostError, backoff: Backoff) -> None:
        """Count one strike, however many questions were kept waiting at the same time."""
        if began >= self.struck_at:
            self.strikes += 1
            self.struck_at = anyio.current_time()
            self.rests_until = self.struck_at + backoff.after(self.strikes)
            self.error = error


@dataclass(eq=False, slots=True)
class _AskedServer:
    """One server, and how it has done."""

    supervised: SupervisedServer | HostConnection
    starting: _Record = field(default_factory=_Record)
    methods: dict[Method, _Record] = field(default_factory=dict["Method", _Record])
    """How the methods have done on the connection `known`."""
    late: dict[Hashable, _Asked[Any]] = field(default_factory=dict[Hashable, "_Asked[Any]"])
    """Questions that nobody waited for any longer, with or without their answers."""
    known: ServerTools | None = None

    def connected(self) -> ServerTools | None:
        """Return the tools, and forget what was known of a connection before this one."""
        tools = self.supervised.connected
        if tools is not None and tools is not self.known:
            self.known = tools
            self.methods.clear()
            self.late = {key: one for key, one in self.late.items() if one.tools in (None, tools)}
        return tools


@dataclass(eq=False, slots=True)
class _Asked(Generic[Value]):
    """One question to one server, on its way."""

    name: str
    server: _AskedServer
    question: Question[Value]
    key: Hashable
    """What it has in common with questions that have the same answer."""
    record: _Record | None
    """The record of what the server is busy with; `None` where nothing is sent."""
    began: float = field(default_factory=anyio.current_time)
    ended: float | None = None
    tools: ServerTools | None = None
    method: Method | None = None
    answer: Answer[Value] | None = None
    waiting: int = 0
    """How many callers wait for it."""
    is_late: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def put_to(self, tools: ServerTools) -> None:
        """Note that the server is connected."""
        self.tools = tools
        self.method = self.question.method(self.name, tools)
        self.record = None if self.method is None else self.server.methods.setdefault(self.method, _Record())


class Fanout:
    """Puts questions to servers, in `tasks`, where they run also when nobody waits for them any longer."""

    def __init__(
        self,
        tasks: TaskGroup,
        *,
        grace: float,
        backoff: Backoff,
        authorization: Callable[[], str],
    ) -> None:
        self._servers: dict[str, _AskedServer] = {}
        self._tasks = tasks
        self._grace = grace
        self._backoff = backoff
        self._authorization = authorization
        self._answered = anyio.Event()
        """The next answer of any server; another event takes its place then."""

    async def ask(self, question: Question[Value], servers: Sequence[str], *, deadline: float) -> list[Answer[Value]]:
        """Ask every server at once and return the answers in the order of `servers`.

        A server that fails, is late or is left alone because it was late before is an answer with a failure. One that
        is removed meanwhile gives none. Nobody
        waits longer than `deadline` seconds; `math.inf` means as long as the servers take.
        """
        began = anyio.current_time()
        asked = [self._begun(name, question) for name in servers]
        for one in asked:
            one.waiting += 1
        try:
            while anyio.current_time() < (until := self._worth_waiting_until(asked, began, deadline)):
                with anyio.CancelScope(deadline=until):
                    await self._answered.wait()
            seconds = anyio.current_time() - began
            waited = round(seconds, 1) if seconds < deadline else deadline
            staying = [one for one in asked if self._servers.get(one.name) is one.server]
            return [one.answer or self._given_up(one, waited) for one in staying]
        finally:
            for one in asked:
                one.waiting -= 1
                if not one.waiting and not one.is_late:  # nobody wants it; a late answer is kept
                    one.scope.cancel()

    def add(self, name: str, server: SupervisedServer | HostConnection) -> None:
        """Know one more server, or another one of that name."""
        self._servers[name] = _AskedServer(server)

    def remove(self, name: str) -> None:
        """Know a server no longer."""
        del self._servers[name]

    def drop(self, server: str) -> None:
        """Forget late answers of a server, because its tools changed."""
        if (asked := self._servers.get(server)) is not None:  # it may have been removed meanwhile
            asked.late.clear()

    def _begun(self, name: str, question: Question[Value]) -> _Asked[Value]:
        """Put the question to a server, unless it is under way or answered already, or the server is left alone."""
        server = self._servers[name]
        tools = server.connected()
        asked = _Asked(name, server, question, (self._authorization(), question.subject(name)), server.starting)
        if tools is not None:
            asked.put_to(tools)
        late = server.late.get(asked.key)
        if late is not None and late.ended is not None:
            del server.late[asked.key]
            if late.answer and late.answer.error is None and asked.began - late.ended < _KEPT_SECONDS:
                return late
        record = asked.record
        error = record.error if record is not None and asked.began < record.rests_until else None
        if error is None:
            self._tasks.start_soon(self._run, asked, name=f"asking {name!r}")
        elif late is not None and late.ended is None:
            return late
        else:
            if isinstance(error, ServerTimeoutError):
                error = ServerTimeoutError(f"left alone for a moment: {error}")
            asked.ended = asked.began
            asked.answer = Answer(name, 0.0, tools, None, error)
        return asked

    async def _run(self, asked: _Asked[Any]) -> None:
        """Bring about the answer; what the server does wrong is part of it."""
        value: Any = None
        error: ServerError | HostError | None = None
        sent = asked.began
        with asked.scope:
            try:
                tools = await asked.server.supervised.tools()
                sent = anyio.current_time()
                asked.server.starting.note_answer(sent - asked.began)
                asked.server.connected()
                asked.put_to(tools)
                value = await asked.question.ask(asked.name, tools)
            except (ServerError, HostError) as own:
                error = own
            except Exception as unforeseen:  # the boundary between servers: none may lose the others their answers
                _logger.exception("asking %r failed in an unforeseen way", asked.name)
                reason = f"the answer could not be used: {type(unforeseen).__name__}"
                error = InvalidServerResultError(reason)
        if asked.scope.cancelled_caught:
            return
        asked.ended = anyio.current_time()
        seconds = asked.ended - asked.began
        asked.answer = Answer(asked.name, seconds * 1000, asked.tools, value, error)
        record = asked.record
        if record is not None and error is None:
            record.note_answer(asked.ended - sent)
        elif record is not None and error is not None:
            is_slow_start = asked.tools is None and seconds >= _SLOW_START_SECONDS
            if not isinstance(error, ServerTimeoutError) and asked.tools is not None:  # it refuses, but it answers
                record.note_answer(seconds)
            elif (isinstance(error, ServerTimeoutError) or is_slow_start) and not asked.is_late:
                record.note_late(asked.began, error, self._backoff)
        answered, self._answered = self._answered, anyio.Event()
        answered.set()

    def _given_up(self, asked: _Asked[Value], seconds: float) -> Answer[Value]:
        """Return that the server is late; its answer is still taken."""
        late = asked.server.late
        late[asked.key] = asked
        for key in list(late)[:-_MAX_KEPT]:
            del late[key]
        doing = "starting" if asked.tools is None else "answering"
        message = f"still {doing} after {seconds:g} seconds{asked.server.supervised.quotation()}"
        error = ServerTimeoutError(message)
        if asked.record is not None and not asked.is_late:
            asked.record.note_late(asked.began, error, self._backoff)
        asked.is_late = True
        return Answer(asked.name, (anyio.current_time() - asked.began) * 1000, asked.tools, None, error)

    def _worth_waiting_until(self, asked: Sequence[_Asked[Any]], began: float, deadline: float) -> float:
        """Return until when the slowest server is waited for; the past where all have answered."""
        unfinished = [one for one in asked if one.ended is None]
        if not unfinished:
            return -math.inf
        if math.isinf(deadline):
            return math.inf
        last = max((one.ended for one in asked if one.ended is not None), default=began)
        most_answered = 2 * len(unfinished) <= len(asked)
        times: list[float] = []
        for one in unfinished:
            record = one.record
            if record is not None and (one.is_late or record.strikes or record.seconds > deadline):
                times.append(began + min(deadline, _PROBE_SECONDS))
            elif (
                record is not None
                and most_answered
                and one.question.ends_early
                and (one.method or "").endswith("/search")
            ):
                patience = max(self._grace, _ROOM_FOR_GROWTH * record.seconds)
                times.append(min(began + deadline, last + patience))
            else:
                times.append(began + deadline)
        return max(times)
