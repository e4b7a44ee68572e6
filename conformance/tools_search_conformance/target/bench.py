"""The bench of a server check, in one cell: the server under test, queries that suit it, and further fixtures."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial, wraps
from typing import Any, Final

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.model import (
    SERVER_PREFIX,
    Cell,
    LeftOutError,
    UnverifiableError,
    VerdictError,
    ViolationError,
    rule_of,
)
from tools_search_conformance.run.judging import Case, Found, Timeouts, Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.run.rows import is_base
from tools_search_conformance.target.pages import Listing, Page, SharedCases, read_page
from tools_search_conformance.target.server import ChangedError, Concurrency, Opening, Params, Server, busy_seconds
from tools_search_conformance.target.target import Target
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import DECLARED, LEGACY, OLDER, UNDECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021
_INVALID: Final = (INVALID_PARAMS,)

_ROUNDS: Final = 3
_LOOK_SECONDS: Final = 0.05
_WATCHED_SECONDS: Final = 5.0
_ENOUGH_PAGES: Final = 60
_MAX_BYTES_SHARED: Final = 16 * 1024 * 1024
"""How much memory answers may take for those of earlier checks to be kept."""
_JUDGES_OF_STATE: Final = frozenset(
    {"any-sequence", "declaration-per-request", "list-unchanged", "refusal-changes-nothing"}
)
_TOLD_APART: Final = 8
"""How many outcomes of a cell are tried again on another connection."""


class Bench(Workbench):
    """One cell's workbench.

    A method that returns a query, a page or a listing raises `UnverifiableError` where the server cannot be brought to
    what the method promises, and `InapplicableError` where the server lists too few tools for it. One that may start
    another server raises `LeftOutError` where that is too much for a brief run.
    """

    def __init__(
        self,
        options: Options,
        cell: Cell,
        target: Target,
        recorder: Recorder,
        opening: Opening | None = None,
        timeouts: Timeouts | None = None,
        concurrency: Concurrency | None = None,
        *,
        first_cell: bool = True,
    ) -> None:
        super().__init__(options, cell, recorder)
        self.server = Server(options, cell, target, recorder, opening, timeouts, concurrency)
        self.first_cell = first_cell
        self.shared = SharedCases()
        self.first_search: tuple[str | None, Exchange] | None = None
        """Whether the first search of all left the listing as it was, and the exchange that ended the listing after."""
        self.early_death: tuple[str, Exchange] | None = None
        """How the target ended by itself before any check, at its first search perhaps, and the exchange before it."""
        self.has_served = False
        """Whether a search has been answered by a result; served-where-advertised finds out."""
        self._target = target
        self._name_query: str | None = None
        self._query_with_matches: tuple[str, int] | None = None
        self._fixtures: dict[str, Bench] = {}
        self._control: tuple[Params, Exchange] | None = None
        self._words: Vocabulary | None = None
        self.faults_of_state: list[ViolationError] = []
        """What checks have found that an earlier request was the cause of."""
        self._told_apart = 0

    @property
    def listing_seconds(self) -> float:
        """How long a whole listing was seen to take."""
        return self.server.listing_seconds

    async def perform(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run the body of a check, again where `tools/list` changed meanwhile.

        What a check found counts only if the list is as it was when the check compared with it.
        """
        for _ in range(_ROUNDS):
            basis = self.server.last_listing
            try:
                return await self._with_state_told_apart(body)
            except ViolationError:
                if (compared := self.server.last_listing) is None or await self.lists_steadily(compared):
                    raise
            except UnverifiableError:
                # It may lack a tool that was there when the listing was asked for, long ago.
                compared = self.server.last_listing
                if compared is None or compared is not basis or await self._lists(compared):
                    raise
            self._forget_choices()
        raise UnverifiableError("what tools/list returns changed when anything was found; see list-unchanged")

    async def _with_state_told_apart(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run the body of a check, and keep what it found for any-sequence where an earlier request is the cause."""
        try:
            await body()
        except (ViolationError, UnverifiableError) as verdict:
            fault = None if verdict in self.faults_of_state else await self._fault_of_state(verdict)
            if fault is None:
                raise
            self.faults_of_state.append(fault)
            self._forget_choices()
            await self.server.aclose()  # so that the checks that follow meet a server that is as it was
            message = f"{fault.message}; see any-sequence"
            raise UnverifiableError(message, verdict.exchange, consequence_of="any-sequence") from verdict

    async def _fault_of_state(self, verdict: VerdictError) -> ViolationError | None:
        """Return the fault if the deciding search, without a cursor, fails again here and not on a new connection."""
        exchange = verdict.exchange
        if exchange is None or verdict.catalog is not None or not exchange.replied or not self._may_tell_state_apart():
            return None  # the catalog is named where the connection was a new one
        if exchange.sent["method"] != METHOD or "cursor" in exchange.params or busy_seconds(exchange) is not None:
            return None
        if exchange.error is None and (isinstance(verdict, UnverifiableError) or is_base(self.recorder.check)):
            return None  # what the base protocol refuses may be served for what the SDK remembers: no search did that
        self._told_apart += 1
        try:
            if _outcome(await self._send_again(exchange)) != _outcome(exchange):
                return None
            async with self.fresh(own_process=True) as other:
                alone = await other._send_again(exchange)
        except (VerdictError, RefusedError, TargetError):
            return None
        if not alone.replied or _outcome(alone) == _outcome(exchange):
            return None
        if isinstance(verdict, UnverifiableError) and alone.result is None:
            return None
        first = f"as the first search of another connection, the same one was answered by {alone.describe()}"
        message = f"{verdict.message}; but {first}: an earlier request changed it"
        fault = ViolationError(message, exchange, verdict.case)
        fault.steps = tuple(self.recorder.leading_to(exchange))
        return fault

    def _may_tell_state_apart(self) -> bool:
        wanted = any(check.rule == "any-sequence" for check in self.options.selection.wanted(self.cell))
        judges_state = rule_of(self.recorder.check) in _JUDGES_OF_STATE
        return wanted and not judges_state and self.can_start("core") and self._told_apart < _TOLD_APART

    async def _send_again(self, exchange: Exchange) -> Exchange:
        connection = await self.server.connection()
        number = exchange.sent["id"]
        message = {**exchange.sent, "id": connection.next_id() if isinstance(number, int) else number}
        return await connection.resend(message, exchange.headers, seconds=self.options.timeout)

    async def lists_steadily(self, listing: Listing) -> bool:
        """Return whether `listing` is what is listed now.

        A live server is watched for some seconds, once and after each change: its list may come and go meanwhile.
        """
        until = time.monotonic() + (0 if self.profile == "fixture" or self.server.steady else _WATCHED_SECONDS)
        while await self._lists(listing):
            if time.monotonic() >= until:
                self.server.steady = True
                return True
            await anyio.sleep(_LOOK_SECONDS)
        return False

    async def _lists(self, listing: Listing) -> bool:
        try:
            return (await self.server.listing()).same_as(listing)
        except ChangedError:
            return False
        except (UnverifiableError, RefusedError, TargetError):
            return True  # the fault that was found breaks the listing, too

    def _forget_choices(self) -> None:
        """Forget the queries and answers that suited another listing."""
        self._name_query = self._query_with_matches = self.shared.walked_over = None
        self.shared.walks.clear()
        self.shared.answers.clear()

    async def each(self, cases: Iterable[Case], act: Callable[[Case], Awaitable[Found]]) -> list[Found]:
        """Act on the cases side by side where the server is slow and bears that: on as many as it has turns for.

        What failed among others is tried again alone, and counts only if it fails then.
        """
        concurrency, waiting = self.server.concurrency, list(cases)
        if concurrency.most == 1 or len(waiting) == 1:
            return await super().each(waiting, act)
        brought: dict[int, Found] = {}

        async def attempt(place: int) -> None:
            with suppress(VerdictError, RefusedError, TargetError):
                brought[place] = await act(waiting[place])

        async with anyio.create_task_group() as tasks:
            for place in range(len(waiting)):
                tasks.start_soon(attempt, place)
        for place in (place for place in range(len(waiting)) if place not in brought):
            with concurrency.one_by_one():
                brought[place] = await act(waiting[place])
        return [brought[place] for place in range(len(waiting))]

    async def once(self, name: str, make: Callable[[], Awaitable[Found]]) -> Found:
        """Return what `make` brings, asked for once in a cell: several checks judge the same answers.

        It is asked for again where the list has changed since then, or where answers take much memory.
        """
        listing, answers = await self.server.known_listing(), self.shared.answers
        if name not in answers or not (listing is answers[name][0] or listing.same_as(answers[name][0])):
            if self.recorder.held > _MAX_BYTES_SHARED:
                answers.clear()
            answers[name] = listing, await make()
        return answers[name][1]

    @asynccontextmanager
    async def fresh(
        self, *, catalog: str = "core", capabilities: Params = DECLARED, own_process: bool = False
    ) -> AsyncGenerator[Bench]:
        """Give a bench like this one, on a new connection to a fixture serving `catalog`.

        With `own_process` that is also over HTTP one that nobody has asked for anything, where the suite starts it and
        the run is not a brief one.
        """
        self._require_start(catalog)
        env = self._own_process(self.recorder.check) if own_process else {}
        other = self._bench(Opening(catalog=catalog, capabilities=capabilities, env=env), self.server.timeouts)
        try:
            async with self._opened(other, catalog):
                yield other
        finally:
            await other.aclose()

    def older(self) -> AbstractAsyncContextManager[Bench]:
        """Give a bench on a connection that asks for an older revision of the legacy era to each check."""
        return self._kept(Opening(revision=OLDER), "older")

    def undeclaring(self) -> AbstractAsyncContextManager[Bench]:
        """Give a bench like `fresh` with its own process, of a client that declares nothing, to each check."""
        return self._kept(Opening(capabilities=UNDECLARED, env=self._own_process("undeclaring")), "undeclaring")

    @asynccontextmanager
    async def another(self, *, unasked: Collection[str] = ()) -> AsyncGenerator[Bench]:
        """Give a bench on another connection to the usual fixture, which nobody has asked for the methods `unasked`.

        Checks of a fixture share it on stdio, where each connection is a start, until one of them ends early; over HTTP
        they share a process that nobody has asked for a listing.
        """
        known = self._fixtures.get("another")
        if known is not None and not known.server.asked.isdisjoint(unasked):
            await self._fixtures.pop("another").aclose()
        opening = Opening(env=self._own_process("another") if unasked else {})
        kept = self.profile == "fixture" if self.cell.transport == "stdio" else bool(unasked)
        async with self._kept(opening, "another") if kept else self.fresh() as other:
            yield other

    @asynccontextmanager
    async def serving(self, catalog: str) -> AsyncGenerator[Bench]:
        """Give a bench of the fixture that serves `catalog` to every check of this cell."""
        async with self._opened(await self.fixture(catalog, Opening(catalog=catalog)), catalog) as other:
            yield other

    @asynccontextmanager
    async def _kept(self, opening: Opening, name: str) -> AsyncGenerator[Bench]:
        """Give the bench `name`, which is kept until a check that uses it ends early."""
        self._require_start("core")
        other = self._fixtures.setdefault(name, self._bench(opening, self.server.timeouts))
        try:
            async with self._opened(other, "core"):
                yield other
        except BaseException:
            await self._fixtures.pop(name).aclose()
            raise

    @asynccontextmanager
    async def _opened(self, other: Bench, catalog: str) -> AsyncGenerator[Bench]:
        """Give another bench, connected; what is found with it was seen on `catalog`."""
        try:
            await other.server.connection()
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other
        except VerdictError as verdict:
            verdict.catalog = verdict.catalog or catalog
            raise

    def _own_process(self, name: str) -> dict[str, str]:
        """Return the environment of a process that is shared under this name only; on stdio each bench has its own."""
        shared = self.cell.transport == "stdio" or self.options.effective_brief
        return {} if shared else {"TOOLS_SEARCH_START": name}

    async def fixture(self, name: str, opening: Opening) -> Bench:
        """Return the bench `name`, opened as `opening` says when it is first asked for and kept until this one closes.

        Checks that need the same fixture share it: starting one is what takes longest.
        """
        self._require_start(name)
        if name not in self._fixtures:
            self._fixtures[name] = self._bench(opening)
        await self._fixtures[name].server.connection()
        return self._fixtures[name]

    def _bench(self, opening: Opening, timeouts: Timeouts | None = None) -> Bench:
        own = self.options, self.cell, self._target, self.recorder
        return Bench(*own, opening, timeouts, self.server.concurrency)

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file where fixtures find it, in place of the one of that name."""
        self._target.place(catalog, document)

    async def aclose(self) -> None:
        """Close the connection and every fixture, all at the same time: a process may take a second."""
        fixtures, self._fixtures = self._fixtures, {}
        async with anyio.create_task_group() as closing:
            for other in fixtures.values():
                closing.start_soon(other.aclose)
            await self.server.aclose()

    def can_start(self, catalog: str) -> bool:
        """Return whether `fresh` may start the target: a brief run starts it once, except where HTTP has it running."""
        return not self.options.effective_brief or (self.cell.transport == "http" and catalog == "core")

    def may_serve(self, catalog: str) -> bool:
        """Return whether it is the turn of this cell to start the target with another catalog than the usual one."""
        return self.profile == "fixture" and self.can_start(catalog) and self.has_turn(0)

    @property
    def starts_freely(self) -> bool:
        """Whether another connection is no start of the server, or no other cell of the run has them without."""
        return self.cell.transport == "http" or not self.options.http_argv

    def _require_start(self, catalog: str) -> None:
        if not self.can_start(catalog):
            raise LeftOutError("takes another start of the server; --effort default runs it")

    def has_turn(self, number: int) -> bool:
        """Return whether a case of this number is for this cell: one of half of them where a run has four.

        Every transport and every era gets all of them then. A deep run has all of them in each cell.
        """
        options, cell = self.options, self.cell
        if options.effort == "deep" or not (options.argv and options.http_argv) or len(options.eras) == 1:
            return True
        return (number + (cell.transport == "http") + (cell.era == LEGACY)) % 2 == 0

    def share(self, cases: Iterable[Case]) -> list[Case]:
        """Return those of many like cases that are for this cell, by `has_turn`; of a brief run's few, all."""
        return [case for number, case in enumerate(cases) if self.options.effective_brief or self.has_turn(number)]

    def some(self, cases: Sequence[Case], most: int = 3) -> Sequence[Case]:
        """Return the cases to try: all of them, or in a brief run at most `most`, from everywhere among them."""
        if not self.options.effective_brief or len(cases) <= most:
            return cases
        return [cases[number * (len(cases) - 1) // max(1, most - 1)] for number in range(most)]

    async def vocabulary(self) -> Vocabulary:
        """Return the words of the target's listing, which this connection asked for once."""
        tools = (await self.server.known_listing()).tools
        if self._words is None or self._words.tools is not tools:
            self._words = Vocabulary(tools)
        return self._words

    async def nonempty_listing(self) -> Listing:
        """Return the listing of a target that has a tool, which this connection asked for once."""
        listing = await self.server.known_listing()
        self.applies(bool(listing.tools), "the server lists no tool")
        return listing

    async def with_stable_listing(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree; return the listing and the value of `act` in between.

        A `ViolationError` of `act` counts only if the listing was the same before and after.
        """
        before = await self.server.known_listing()
        for _ in range(_ROUNDS):
            try:
                found = await act(before)
            except ViolationError:
                try:
                    after = await self.server.listing()
                except UnverifiableError:
                    after = before  # the fault that `act` has found breaks the listing, too
                if after.same_as(before):
                    raise
            else:
                after = await self.server.listing()
                if after.same_as(before):
                    return before, found
            before = after
        raise UnverifiableError("what tools/list returns changed while it was compared; see list-unchanged")

    async def name_query(self) -> str:
        """Return a tool's name, a query that matches something unless the target lists no tool at all."""
        if self._name_query is None:
            words = await self.vocabulary()
            name = words.name_query
            if (await self.server.search({"query": name})).result is not None and words.tools:
                found = (await self.server.first(name)).tools
                self.require(bool(found), f"{name!r}, the name of a tool, finds nothing; see exact-name-first")
            self._name_query = name
        return self._name_query

    async def query_with_matches(self) -> str:
        """Return the query with most matches of some that were tried, one at least."""
        return (await self._most_matches())[0]

    async def query_with_two_matches(self) -> str:
        """Return the query with most matches of some that were tried, two at least."""
        self.applies(len((await self.nonempty_listing()).tools) > 1, "the server lists a single tool")
        query, count = await self._most_matches()
        self.require(count > 1, f"no query matched two tools; tried {query!r} last. A richer catalog would help")
        return query

    async def _most_matches(self) -> tuple[str, int]:
        if self._query_with_matches is None:
            await self.nonempty_listing()
            words = (await self.vocabulary()).broad()
            limit = await self.server.large_limit()
            walks = await self.each(words, lambda word: self.server.walk(word, limit, most=_ENOUGH_PAGES))
            best = max(walks, key=lambda walk: len({*walk.names}))
            self.require(bool(best.names), f"no query matched a tool; tried {words}. A richer catalog would help")
            self._query_with_matches = best.query, len({*best.names})
        return self._query_with_matches

    async def page_with_cursor(self, query: str, *, limit: int = 1) -> tuple[Page, str]:
        """Return the first page of a search that has more of them, and the cursor of the next one."""
        page = await self.server.page(query, limit=limit)
        if not page.next_cursor:
            several = len((await self.nonempty_listing()).tools) > 1
            self.applies(several, "the server lists a single tool, and issues no cursor")
            raise UnverifiableError(f"a search for {query!r} under limit {limit} has one page", page.exchange)
        return page, page.next_cursor

    async def pages_from(self, query: str, cursor: str, case: str, *, most: int) -> AsyncGenerator[Page]:
        """Yield the pages of a search from `cursor` on, up to `most`, until one is refused or has no cursor."""
        following: str | None = cursor
        for _ in range(most):
            exchange = await self.server.search({"query": query, "cursor": following})
            if exchange.result is None:
                return
            yield (page := read_page(exchange, case))
            if not (following := page.next_cursor):
                return

    async def require_no_match_served(self) -> None:
        """Go on only where a query that matches nothing is no error, as odd queries often match nothing."""
        exchange = await self.server.search({"query": NONSENSE})
        self.require(exchange.result is not None, "a query without matches is refused; see no-match-empty", exchange)

    async def served(self, params: Params, case: str, **overrides: Any) -> Page:
        """Expect a search, sent with `overrides` as `Server.ask` has them, to be answered with a page."""
        exchange = await self.server.search(params, **overrides)
        self.expect(exchange.result is not None, exchange, f"{case} was answered by {exchange.describe()}", case=case)
        return read_page(exchange, case)

    async def next_served(self, page: Page, case: str, **more: Any) -> None:
        """Expect the page after `page`, if there is one, asked for with `more` members, or its cursor to be refused.

        A server may cease to honor its cursors at any time.
        """
        if page.next_cursor:
            exchange = await self.server.search({**page.exchange.params, **more, "cursor": page.next_cursor})
            refused = exchange.error is not None and exchange.error.code == INVALID_PARAMS
            message = f"{case} was answered by {exchange.describe()}"
            self.expect(refused or exchange.result is not None, exchange, message, case=case)

    async def refused(
        self, bad: Params, good: Params, case: str, *, codes: Sequence[int] = _INVALID, **overrides: Any
    ) -> Exchange:
        """Expect `bad`, sent with `overrides`, to be refused with one of `codes` because of its difference from `good`.

        `UnverifiableError` says that `good`, sent without overrides, is refused as well, so that nothing was shown.
        """
        await self._require_served(good, case)
        exchange = await self.server.search(bad, **overrides)
        self.expect_code(exchange, case, codes)
        await self._require_served(good, case)
        return exchange

    async def refused_each(self, cases: Sequence[tuple[Params, str]], good: Params) -> None:
        """Expect each of the `cases`, params and words for them, to be refused as one is by `refused`.

        `good` is sent before all of them and after: a server that it has stopped serving shows that as well then.
        """

        async def refuse(case: tuple[Params, str]) -> None:
            self.expect_code(await self.server.search(case[0]), case[1])

        await self._require_served(good, cases[0][1])
        await self.each(cases, refuse)
        await self._require_served(good, cases[-1][1])

    async def refused_cursor(self, bad: Params, good: Params, case: str) -> None:
        """Expect `bad` to be refused as `refused` does, sending `good` once: its cursor may hold only once."""
        exchange = await self.server.search(bad)
        if exchange.result is not None:
            self.expect_code(exchange, case)
        await self._require_served(good, case)
        self.expect_code(exchange, case)

    async def refused_cursors(
        self, issue: Callable[[], Awaitable[JsonObject]], vary: Callable[[JsonObject], Sequence[tuple[JsonObject, str]]]
    ) -> None:
        """Expect each variation of what `issue` returns, params with a genuine cursor, to be refused as such.

        All are sent with one cursor, and each with its own only where that leaves open what is wrong: a cursor may hold
        only once.
        """
        good = await issue()
        cases = {place: case for place, case in enumerate(self.some(vary(good))) if not self._is_genuine(case[0])}
        exchanges = await self.each(cases.values(), lambda case: self.server.search(case[0]))
        for exchange, (_, case) in zip(exchanges, cases.values(), strict=True):
            if exchange.result is not None:
                self.expect_code(exchange, case)
        wrong = [exchange.error is None or exchange.error.code != INVALID_PARAMS for exchange in exchanges]
        if not any(wrong) and (await self.server.search(good)).result is not None:
            for exchange, (_, case) in zip(exchanges, cases.values(), strict=True):
                self.expect_code(exchange, case)
            return
        for number, place in enumerate(cases):
            if wrong[number] or not any(wrong):
                good = await issue()
                bad, case = (varied := self.some(vary(good)))[min(place, len(varied) - 1)]
                if not self._is_genuine(bad):
                    await self.refused_cursor(bad, good, case)

    def _is_genuine(self, params: Params) -> bool:
        """Return whether a search for this query has brought this cursor, which may come to be by chance."""
        return self.recorder.has_issued(params["query"], params["cursor"])

    def expect_code(self, exchange: Exchange, case: str, codes: Sequence[int] = _INVALID) -> None:
        """Expect an exchange to be refused with one of `codes`."""
        wanted = " or ".join(map(str, codes))
        message = f"{case} was answered by {exchange.describe()} instead of error {wanted}"
        self.expect(exchange.error is not None and exchange.error.code in codes, exchange, message, case=case)

    async def _require_served(self, params: Params, case: str) -> None:
        if self._control is not None and self._control[0] == params and self._control[1] is self.recorder.last:
            return  # it was served just now, after the refusal before this one
        exchange = await self.server.search(params)
        message = f"the same request with {case} corrected was answered by {exchange.describe()}"
        self.require(exchange.result is not None, message, exchange)
        self._control = params, exchange


def _outcome(exchange: Exchange) -> tuple[str, list[Any]]:
    tools = as_array((exchange.result or {}).get("tools")) or []
    return exchange.describe(), [(as_object(tool) or {}).get("name") for tool in tools]


def once(make: Callable[[Bench], Awaitable[Found]]) -> Callable[[Bench], Awaitable[Found]]:
    """Have what the decorated function brings asked for once in a cell, as by `Bench.once`."""

    @wraps(make)
    async def asked_once(bench: Bench) -> Found:
        return await bench.once(make.__name__, partial(make, bench))

    return asked_once


SERVER_CHECKS: Final = Registry[Bench](SERVER_PREFIX)
"""Every check of servers; `tools_search_conformance.checks` declares them all."""

server_check = SERVER_CHECKS.check
