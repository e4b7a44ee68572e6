"""Sends the same request to many servers concurrently, so that a slow server does not hold up the others for long.

Each request runs in its own task, so that a caller can stop waiting for a slow server without losing its answer. For
starting, and for each method of a connection, a server is in one of three states:

    in time -> backed off       it was late (a strike): it is not asked for a while, longer after each strike
    backed off -> on trial      the backoff is over: it is asked again, but waited for only as long as a probe takes
    on trial -> backed off      it is late again
    backed off, on trial -> in time     it answers, late or not, even with an error

This only affects callers with a deadline no longer than those that were missed: for any other, the server is in time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup
from mcp_ext_search_primitives import RESOURCES
from mcp_ext_search_primitives.types import ResourcesSettings
from mcp_ext_tools_search.types import TOOLS, Primitive
from tools_search_hosts.counts import number_of

from tools_search_client.errors import (
    RESOLVABLE,
    Failure,
    HostError,
    InvalidServerResultError,
    LocalError,
    ServerError,
    ServerTimeoutError,
    SessionLostError,
)
from tools_search_client.found import Found, ServerReport
from tools_search_client.servers.discovery import Answered
from tools_search_client.servers.host_connection import HostConnection
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.supervision import Backoff, SupervisedServer

_AT_ONCE: Final = 10
"""Enough to hide network latency without flooding a small server."""

_PROBE_SECONDS: Final = 0.25
"""How long to wait for a server on trial, so that a recovered server is noticed quickly."""

_SLOW_START_SECONDS: Final = 1.0
"""A start that fails sooner than this is cheap, so it does not count as a strike."""

_KEPT_SECONDS: Final = 60.0
"""How long a late answer is kept in case the same request is made again."""

MAX_PARTIAL: Final = 10_000
"""The most to rank of a list that broke off, because its caller's deadline may be over."""

_MAX_KEPT: Final = 4
"""Maximum late answers to keep per server, since each can have the size of two messages."""

_ROOM_FOR_GROWTH: Final = 2
"""Wait for a search up to this multiple of the last search's duration, even if that exceeds the grace period."""

_logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

Method: TypeAlias = str
"""A request method; a server's speed is tracked for each one."""


async def in_parallel(function: Callable[[Item], Awaitable[Result]], items: Sequence[Item]) -> list[Result]:
    """Return the results of `function` for each item, in order, running a few concurrently.

    If the function raises, the others are cancelled, and the first exception is raised as is, not in a group.
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


async def ask_connected(
    server: SupervisedServer | HostConnection, ask: Callable[[ServerTools], Awaitable[Result]]
) -> Result:
    """Ask a server, once more if it refuses because it no longer knows the session, as after a restart."""
    tools = await server.tools()
    try:
        return await ask(tools)
    except SessionLostError:
        return await ask(await server.tools(instead_of=tools))


@dataclass(frozen=True, slots=True)
class Question(Generic[Value]):
    """A request for every server."""

    ask: Callable[[str, ServerTools], Awaitable[Value]]
    """Asks the server with the given name."""

    subject: Callable[[str], Hashable]
    """Returns the subject for the named server; requests with equal subjects have the same answer."""

    method: Callable[[str, ServerTools], Method | None]
    """Returns the method used for the named server; `None` if nothing has to be sent."""

    partly: Callable[[str, tuple[Any, ...]], Value] | None = None
    """Returns the value of the named server's answer from what it listed before a later page of its list failed, or was
    late."""

    primitive: Primitive[Any] = TOOLS
    """What is listed."""

    ends_early: bool = False
    """Whether to stop waiting for a search that takes much longer than the others."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """One server's answer: a value or a failure, or both if a later page of its list failed or was late."""

    server: str
    milliseconds: float
    tools: ServerTools | None
    """The server's tools, if it was connected."""
    value: Value | None = None
    error: ServerError | HostError | None = None

    @property
    def failure(self) -> Failure | None:
        """Why there is no value, or only a part of it."""
        return self.error and Failure.of(self.error)

    def report(
        self, *, hits: int = 0, found: Found | Answered | None = None, primitive: Primitive[Any] = TOOLS
    ) -> ServerReport:
        """Return the report on this server, with the number of tools or other items it found."""
        discovery = self.tools and self.tools.discovery(primitive)
        asked = found or discovery
        contents: bool | None = None
        if primitive is RESOURCES and isinstance(found, Answered) and discovery is not None:
            settings, is_whole = discovery.settings, found.mode == "search" and not found.is_unread
            contents = is_whole and isinstance(settings, ResourcesSettings) and bool(settings.contents)
        return ServerReport(
            server=self.server,
            mode=asked.mode if asked else None,
            era=self.tools.era if self.tools else None,
            milliseconds=round(self.milliseconds, 1),
            hits=len(found.tools) if isinstance(found, Found) else hits,
            left_out=discovery.left_out if discovery else 0,
            fallback=found.fallback if found else None,
            failure=self.failure,
            contents=contents,
        )


@dataclass(slots=True)
class _Record:
    """A server's record for starting or for one method."""

    strikes: int = 0
    """Number of consecutive strikes."""

    struck_at: float = -math.inf
    rests_until: float = -math.inf
    seconds: float = 0.0
    """Duration of the last answer in seconds."""

    error: ServerError | HostError | None = None
    patience: float = -math.inf
    """The longest deadline of the callers who waited in vain."""

    def is_late_for(self, deadline: float) -> bool:
        """Return whether a caller with this deadline is unlikely to get an answer in time."""
        return self.strikes > 0 and deadline <= self.patience

    def note_answer(self, seconds: float) -> None:
        self.strikes, self.rests_until, self.seconds, self.error = 0, -math.inf, seconds, None
        self.patience = -math.inf

    def note_late(self, began: float, error: ServerError | HostError, backoff: Backoff, patience: float) -> None:
        """Count one strike, however many concurrent requests were waiting."""
        self.error, self.patience = error, max(self.patience, patience)
        if began >= self.struck_at:
            self.strikes += 1
            self.struck_at = anyio.current_time()
            self.rests_until = self.struck_at + backoff.after(self.strikes)


@dataclass(eq=False, slots=True)
class _AskedServer:
    """A server and its records."""

    supervised: SupervisedServer | HostConnection
    starting: _Record = field(default_factory=_Record)
    methods: dict[Method, _Record] = field(default_factory=dict["Method", _Record])
    """The record of each method on the connection `known`."""
    late: dict[Hashable, _Asked[Any]] = field(default_factory=dict[Hashable, "_Asked[Any]"])
    """Requests that callers stopped waiting for, answered or not."""
    known: ServerTools | None = None

    def connected(self) -> ServerTools | None:
        """Return the tools, and discard the records of an earlier connection."""
        tools = self.supervised.connected
        if tools is not None and tools is not self.known:
            self.known = tools
            self.methods.clear()
            self.late = {key: late for key, late in self.late.items() if late.tools in (None, tools)}
        return tools


@dataclass(eq=False, slots=True)
class _Asked(Generic[Value]):
    """A request to one server.

        sent -> answered        there is a value or an error; `ended` and `answer` are set
        sent -> cancelled       its last caller was cancelled, and nobody needs the answer
        sent -> late            the time that it was worth waiting for is over (`_given_up`)
        late -> answered        the next caller with the same request gets the answer

    While the server is backed off, the next caller waits for the late request instead of sending another one.
    """

    name: str
    server: _AskedServer
    question: Question[Value]
    key: Hashable
    """The key shared by requests that have the same answer."""
    record: _Record | None
    """The record of what the server is doing; `None` if nothing is sent."""
    began: float = field(default_factory=anyio.current_time)
    sent: float = field(default_factory=anyio.current_time)
    """When it was sent to the server: later than `began` if that had to be started."""
    ended: float | None = None
    tools: ServerTools | None = None
    method: Method | None = None
    answer: Answer[Value] | None = None
    waiting: int = 0
    """Number of callers waiting for it."""
    is_late: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def put_to(self, tools: ServerTools) -> None:
        """Record that the server is connected."""
        self.tools = tools
        self.method = self.question.method(self.name, tools)
        self.record = None if self.method is None else self.server.methods.setdefault(self.method, _Record())


@dataclass(eq=False, slots=True)
class Fanout:
    """Sends requests to servers in the task group `tasks`, where they keep running after callers stop waiting."""

    tasks: TaskGroup
    grace: float
    backoff: Backoff
    authorization: Callable[[], str]
    _servers: dict[str, _AskedServer] = field(default_factory=dict[str, _AskedServer], init=False)
    _progressed: anyio.Event = field(default_factory=anyio.Event, init=False)
    """Set when any server has been started or answers, and then replaced by a new event."""
    _is_closed: bool = field(default=False, init=False)

    def close(self) -> None:
        """End all requests in progress. Their callers, and everyone who asks afterwards, get a `LocalError`."""
        self._is_closed = True
        self._progressed.set()

    def require_open(self) -> None:
        """Raise a `LocalError` after `close`."""
        if self._is_closed:
            raise LocalError("the federation is closed")

    async def ask(self, question: Question[Value], servers: Sequence[str], *, deadline: float) -> list[Answer[Value]]:
        """Ask all servers concurrently and return their answers in the order of `servers`.

        A server that fails, is late, or is backed off because it was late before gives an answer with a failure. A
        server that is removed meanwhile gives none. Waits at most `deadline` seconds; `math.inf` means no limit.

        Raises:
            LocalError: `close` was called, possibly meanwhile.
        """
        self.require_open()
        began = anyio.current_time()
        asked = [self._begun(name, question, deadline) for name in servers]
        for request in asked:
            request.waiting += 1
        try:
            # Again after each start and answer, which can change how long to wait.
            while anyio.current_time() < (until := self._worth_waiting_until(asked, began, deadline)):
                with anyio.CancelScope(deadline=until):
                    await self._progressed.wait()
                self.require_open()
            seconds = anyio.current_time() - began
            waited = round(seconds, 1) if seconds < deadline else deadline
            staying = [request for request in asked if self._servers.get(request.name) is request.server]
            return [request.answer or self._given_up(request, waited, deadline) for request in staying]
        finally:
            for request in asked:
                request.waiting -= 1
                if not request.waiting and not request.is_late:  # nobody needs it; late answers are kept
                    request.scope.cancel()

    def add(self, name: str, server: SupervisedServer | HostConnection) -> None:
        """Add a server, or replace the one with that name."""
        self._servers[name] = _AskedServer(server)

    def remove(self, name: str) -> None:
        """Remove a server."""
        del self._servers[name]

    def drop(self, server: str) -> None:
        """Discard a server's late answers, because its tools changed."""
        if (asked := self._servers.get(server)) is not None:  # `None` if it was removed meanwhile
            asked.late.clear()

    def _begun(self, name: str, question: Question[Value], deadline: float) -> _Asked[Value]:
        """Send a request to a server, unless it is already in progress or answered, or the server is backed off."""
        server = self._servers[name]
        tools = server.connected()
        asked = _Asked(name, server, question, (self.authorization(), question.subject(name)), server.starting)
        if tools is not None:
            asked.put_to(tools)
        late = server.late.get(asked.key)
        if late is not None and late.ended is not None:
            del server.late[asked.key]  # one caller gets it, and the server is asked again after that
            if late.answer and late.answer.error is None and asked.began - late.ended < _KEPT_SECONDS:
                return late
        record = asked.record
        error = record.error if record and record.is_late_for(deadline) and asked.began < record.rests_until else None
        if error is None:
            self.tasks.start_soon(self._run, asked, name=f"asking {name!r}")
        elif late is not None and late.ended is None:
            return late
        else:
            if record is not None and isinstance(error, ServerTimeoutError):
                seconds = number_of(round(record.rests_until - asked.began, 1), "second")
                error = ServerTimeoutError(f"{error}; it is not asked again for {seconds}")
            asked.ended = asked.began
            asked.answer = Answer(name, 0.0, tools, None, error)
        return asked

    async def _run(self, asked: _Asked[Any]) -> None:
        """Get the answer; a server's errors become part of it."""
        value: Any = None
        error: ServerError | HostError | None = None
        with asked.scope:
            try:

                async def ask(tools: ServerTools) -> Any:
                    asked.sent = anyio.current_time()
                    asked.server.starting.note_answer(asked.sent - asked.began)
                    asked.server.connected()  # for its effect: records of an earlier connection do not count here
                    asked.put_to(tools)
                    self._wake()  # if it was starting, what it does now may be worth less time
                    return await asked.question.ask(asked.name, tools)

                value = await ask_connected(asked.server.supervised, ask)
            except (ServerError, HostError) as own:
                error = own
                if isinstance(own, ServerError) and own.listed and asked.question.partly is not None:
                    value = asked.question.partly(asked.name, own.listed)
            except Exception as unforeseen:  # one server's failure must not lose the other servers' answers
                _logger.exception("unexpected error while asking %r", asked.name)
                reason = f"the answer cannot be used: {type(unforeseen).__name__}"
                error = InvalidServerResultError(reason)
        if asked.scope.cancelled_caught:
            return
        asked.ended = anyio.current_time()
        seconds = asked.ended - asked.began
        asked.answer = Answer(asked.name, seconds * 1000, asked.tools, value, error)
        if (record := asked.record) is not None:
            is_timeout = isinstance(error, ServerTimeoutError)
            if error is None:
                record.note_answer(asked.ended - asked.sent)
            elif not is_timeout and asked.tools is not None:  # a refusal is still an answer
                record.note_answer(seconds)
            # A timeout, or a failed start. If it is late, its strike was counted when its caller gave up.
            elif (
                (is_timeout or seconds >= _SLOW_START_SECONDS)
                and not asked.is_late
                and not isinstance(error, RESOLVABLE)
            ):
                record.note_late(asked.began, error, self.backoff, math.inf)
        self._wake()

    def _wake(self) -> None:
        """Let the callers who wait decide again how long to wait."""
        # Replaced first, so that callers who wake up wait for what comes after this.
        progressed, self._progressed = self._progressed, anyio.Event()
        progressed.set()

    def _given_up(self, asked: _Asked[Value], seconds: float, deadline: float) -> Answer[Value]:
        """Return an answer that says that the server is late; its actual answer is still kept when it arrives."""
        late = asked.server.late
        late[asked.key] = asked
        for key in list(late)[:-_MAX_KEPT]:
            del late[key]
        doing = "starting" if asked.tools is None else "answering"
        message = f"still {doing} after {number_of(seconds, 'second')}{asked.server.supervised.quotation()}"
        error, value = ServerTimeoutError(message), None
        if asked.tools is not None and asked.question.partly is not None:
            error.listed = asked.tools.discovery(asked.question.primitive).listed_so_far
            value = asked.question.partly(asked.name, error.listed) if error.listed else None
        if asked.record is not None and not asked.is_late:
            asked.record.note_late(asked.began, error, self.backoff, deadline)
        asked.is_late = True
        return Answer(asked.name, (anyio.current_time() - asked.began) * 1000, asked.tools, value, error)

    def _worth_waiting_until(self, asked: Sequence[_Asked[Any]], began: float, deadline: float) -> float:
        """Return until when to wait for the slowest server; a time in the past if all have answered."""
        unfinished = [request for request in asked if request.ended is None]
        if not unfinished:
            return -math.inf
        if math.isinf(deadline):
            return math.inf
        last = max((request.ended for request in asked if request.ended is not None), default=began)
        most_answered = 2 * len(unfinished) <= len(asked)
        times: list[float] = []
        for request in unfinished:
            record = request.record
            if record is not None and (request.is_late or record.is_late_for(deadline) or record.seconds > deadline):
                times.append(began + min(deadline, _PROBE_SECONDS))
            elif (
                record is not None
                and most_answered
                and request.question.ends_early
                and (request.method or "").endswith("/search")
            ):
                patience = max(self.grace, _ROOM_FOR_GROWTH * record.seconds)
                times.append(min(began + deadline, max(last, request.sent) + patience))
            else:
                times.append(began + deadline)
        return max(times)
