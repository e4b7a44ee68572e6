"""The bench for server checks in one cell: the server under test, queries that suit it, and more fixtures."""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final

import anyio
from tools_search_spec import Primitive

from tools_search_conformance import catalogs
from tools_search_conformance.model import (
    SERVER_PREFIX,
    Cell,
    Check,
    InapplicableError,
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
from tools_search_conformance.target.pages import Listing, Page, SharedCases, Walk, advertised_settings, read_page
from tools_search_conformance.target.primitives import (
    METHODS_OF_RESOURCES,
    OTHERS,
    RESOURCES,
    TOOLS,
    items_in,
    key_in,
    noun_of,
    settings_for,
)
from tools_search_conformance.target.server import ChangedError, Concurrency, Opening, Params, Server, busy_seconds
from tools_search_conformance.target.target import Target
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary, is_query, terms
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, json_text, same
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import DECLARED, LEGACY, OLDER, UNDECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021
_INVALID: Final = (INVALID_PARAMS,)

_CASES: Final = 24
_MORE_CASES: Final = 3
"""Such a method gets at least `_CASES`, and at least this multiple of a brief run's cases."""
_ROUNDS: Final = 3
_LOOK_SECONDS: Final = 0.05
_WATCHED_SECONDS: Final = 5.0
_LISTINGS: Final = 6
"""How many listings have to agree until they hardly do so by chance."""
_ENOUGH_PAGES: Final = 60
_CONTENTS_READ: Final = 2
"""How many resources are read for terms of their content."""
_MAX_BYTES_SHARED: Final = 16 * 1024 * 1024
"""Maximum memory for keeping the answers of earlier checks."""
_JUDGES_OF_STATE: Final = frozenset(
    {"any-sequence", "declaration-per-request", "list-unchanged", "refusal-changes-nothing"}
)
_JUDGES_OF_HANDSHAKES: Final = frozenset({"undeclared-legacy-served"})
_TOLD_APART: Final = 8
"""Maximum outcomes per cell to retry on another connection."""


class Bench(Workbench):
    """One cell's workbench.

    Methods that return a query, a page or a listing raise `UnverifiableError` if the server does not deliver what the
    method promises, and `InapplicableError` if it lists too few tools. Methods that can start another server raise
    `LeftOutError` if that is too much for a brief run.
    """

    SHARE_OF_OTHERS = 1 / 5

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
        first_of_target: bool = True,
    ) -> None:
        super().__init__(options, cell, recorder)
        self.server = Server(options, cell, target, recorder, opening, timeouts, concurrency)
        self.first_cell = first_cell
        self._first_of_target = first_of_target
        self.shared = SharedCases()
        self.first_search: tuple[str | None, Exchange] | None = None
        """How the list differs after the very first searches by any method, and the last exchange of that listing."""
        self.listed_first: tuple[Listing, Listing] | None = None
        """Two listings from before the first searches."""
        self.early_death: tuple[str, Exchange] | None = None
        """How the target ended before any check, perhaps at its first search, and the exchange before that."""
        self.has_served = False
        """Whether a search has returned a result; served-where-advertised or `find_others` finds out."""
        self.serves_first_alone = False
        """Whether a search on a second connection has returned no result."""
        self.first_answer: Exchange | None = None
        """For other methods than `tools/search`: the answer to the first search with a result, or to the last one."""
        self.unread = ""
        """Why there is no such answer."""
        self._target = target
        self._key_query: str | None = None
        self._query_with_matches: tuple[str, int] | None = None
        self._fixtures: dict[str, Bench] = {}
        self._control: tuple[Params, Exchange] | None = None
        self._words: Vocabulary | None = None
        self.faults_of_state: list[ViolationError] = []
        """Violations that an earlier request caused."""
        self._told_apart = 0
        self._every: dict[str, Bench] = {self.method: self}
        """The benches on this one's connections, by method."""

    @property
    def list_method(self) -> str:
        """The list method."""
        return self.primitive.list_method

    @property
    def noun(self) -> str:
        """The word for one item in messages."""
        return noun_of(self.primitive)

    @property
    def offered(self) -> list[Bench]:
        """The benches for the other methods that the server advertises, once `find_others` has found them."""
        return [bench for bench in self._every.values() if bench.primitive is not TOOLS]

    @property
    def serves_catalog(self) -> bool:
        """Whether the list is the fixture's catalog. A server's own list can be too short for many rules."""
        if self.primitive is TOOLS:
            return True
        listed, member = self.server.last_listing, self.primitive.member
        given = catalogs.items("core", member) if self.profile == "fixture" else []
        return listed is not None and bool(given) and {*listed.by_key} == {item[self.primitive.key] for item in given}

    @property
    def others_served(self) -> list[Bench]:
        """The benches for the other served methods, including the one for tools."""
        benches = [bench for bench in self._every.values() if bench.primitive is TOOLS or bench.has_served]
        return [bench for bench in benches if bench.primitive is not self.primitive]

    @property
    def performances(self) -> int:
        """How often a check can run: once for each of its methods."""
        return len(self._every)

    def searching(self, primitive: Primitive) -> Bench:
        """Return this bench for another list: on the same connections, with queries that suit that list.

        It starts no servers: checks that need other catalogs or processes use tools.
        """
        if primitive.method not in self._every:
            other = self._every[primitive.method] = copy(self)
            other.primitive, other.server, other.shared = primitive, self.server.searching(primitive), SharedCases()
            other.has_served, other.first_search, other.listed_first = False, None, None
            other._control, other._words, other._told_apart = None, None, 0
            other._forget_choices()
        return self._every[primitive.method]

    @property
    def _of_tools(self) -> Bench:
        return self.searching(TOOLS)

    async def find_others(self) -> None:
        """Find out which other searches the settings advertise, and whether the server serves them.

        Sends nothing to a server that advertises none.
        """
        settings = advertised_settings(await self.server.connection())
        others = [self.searching(each) for each in OTHERS if settings_for(settings, each) is not None]
        for other in others:
            await other.list_twice()
        for other in others:
            await other._find_served()

    async def list_twice(self) -> None:
        """Keep two listings from before the first searches."""
        with suppress(UnverifiableError):  # the checks find listings that fail
            self.listed_first = await self.server.known_listing(), await self.server.listing()

    async def note_first_search(self) -> None:
        """Record whether the list is the same as before the first searches."""
        if self.listed_first is None:
            return
        with suppress(UnverifiableError):
            (one, two), after = self.listed_first, await self.server.listing()
            kept = two.compared_to(one)(two, after) or not two.same_as(one)
            if not kept and after.same_as(two):
                kept = not await self.keeps_order(after)
            self.first_search = None if kept else after.difference_from(two), after.exchange.in_brief()

    async def keeps_order(self, listing: Listing) -> bool:
        """Return whether the list stays in this order without a search. Two short listings can agree by chance."""
        return await self.lists_alike(listing.in_order_of)

    async def lists_alike(self, alike: Callable[[Listing], bool]) -> bool:
        """Return whether several listings without a search between them are all `alike`."""
        return all([alike(await self.server.listing()) for _ in range(_LISTINGS)])

    async def _find_served(self) -> None:
        try:
            words = Vocabulary((await self.server.known_listing()).items, self.primitive.key)
            for query in (words.key_query, *words.broad(1), NONSENSE):
                self.first_answer = await self.server.search({"query": query})
                self.has_served = self.first_answer.result is not None
                if self.has_served:
                    break
        except UnverifiableError as error:
            self.unread = error.message

    @property
    def listing_seconds(self) -> float:
        """How long a complete listing has taken."""
        return self.server.listing_seconds

    async def benches_for(self, check: Check) -> Sequence[Workbench]:
        """Return the benches for those of a check's methods that the server offers and that are this cell's turn."""
        own: list[Workbench] = [self] if self.method in check.methods else []
        others = [bench for bench in self.offered if bench._is_to_judge(check)]
        if not own and not others and any(b.has_served and b.method in check.methods for b in self.offered):
            raise LeftOutError("this is judged in another cell; --effort deep judges it in each")
        return [*own, *others]

    def counts_unverified(self, verdict: UnverifiableError) -> bool:
        """Return whether a rule that could not be exercised counts as open: a server's own list can be too short."""
        return self.serves_catalog or verdict.consequence_of is not None

    async def run(self, check: Check) -> None:
        """Run the body of a check for this method."""
        await self._perform(partial(check.run, self))

    def _is_to_judge(self, check: Check) -> bool:
        """Return whether it is this cell's turn to run a check for this method; later turns are brief.

        An implementation seldom breaks a rule for one method over one transport only. So with two transports, each
        check runs for a method over one of them, in the first era spoken there, and briefly in the other era.
        """
        options: Options = self._of_tools.options
        self.options: Options = options
        if self.method not in check.methods or not self.has_served:
            return False
        spoken = {"stdio": options.argv, "http": options.http_argv or options.url}
        transports = [name for name in check.transports if spoken[name]]
        if options.effort != "deep" and self.cell.transport != transport_of(check, self.method, transports):
            return False
        if not self._first_of_target and len(check.eras) > 1 and options.effort != "deep":
            self.options = replace(options, effort="quick", brief=True)
            return not options.effective_brief
        return True

    async def _perform(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run a check's body, and repeat it if the list changed meanwhile.

        A finding counts only if the list is still the one that the check compared with.
        """
        for _ in range(_ROUNDS):
            basis = self.server.last_listing
            try:
                return await self._with_state_told_apart(body)
            except ViolationError:
                if (compared := self.server.last_listing) is None or await self.lists_steadily(compared):
                    raise
            except UnverifiableError:
                # The server might no longer have a tool of a listing that was read long ago.
                compared = self.server.last_listing
                if compared is None or compared is not basis or await self._lists(compared):
                    raise
            self._forget_choices()
        raise self._changing()

    async def _with_state_told_apart(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run a check's body. If an earlier request caused its finding, keep that for any-sequence.

        Which search gets an error because of what another client declared is for undeclared-legacy-served.
        """
        try:
            await body()
        except (ViolationError, UnverifiableError) as verdict:
            if await self._is_declared_by_others(verdict):
                await self.server.aclose()  # so that later checks begin with a handshake
                rule = "undeclared-legacy-served"
                message = f"what the latest client declared decides whether a search is served; see {rule}"
                raise UnverifiableError(message, verdict.exchange, consequence_of=rule) from verdict
            fault = None if verdict in self.faults_of_state else await self._fault_of_state(verdict)
            if fault is None:
                raise
            self.faults_of_state.append(fault)
            self._forget_choices()
            await self.server.aclose()  # so that later checks get a server without that state
            message = f"{fault.message}; see any-sequence"
            raise UnverifiableError(message, verdict.exchange, consequence_of="any-sequence") from verdict

    async def _fault_of_state(self, verdict: VerdictError) -> ViolationError | None:
        """Return the fault if the decisive search, without a cursor, fails again here but not on a new connection."""
        exchange = verdict.exchange
        if exchange is None or verdict.catalog is not None or not exchange.replied:
            return None  # findings name a catalog if their connection was new
        if exchange.method != self.method or "cursor" in exchange.params or busy_seconds(exchange) is not None:
            return None
        if exchange.error is None and (isinstance(verdict, UnverifiableError) or is_base(self.recorder.check)):
            return None  # an SDK's memory can decide what the base protocol refuses, without any search
        if not self._may_tell_apart("any-sequence", _JUDGES_OF_STATE | _JUDGES_OF_HANDSHAKES):
            return None
        try:
            if _outcome(await self._send_again(exchange)) != _outcome(exchange):
                return None
            async with self._of_tools.fresh(own_process=True) as other:
                alone = await other.searching(self.primitive)._send_again(exchange)
        except (VerdictError, RefusedError, TargetError):
            return None
        if not alone.replied or _outcome(alone) == _outcome(exchange):
            return None
        if isinstance(verdict, UnverifiableError) and alone.result is None:
            return None
        if (compared := self.server.last_listing) is not None and not await self.lists_steadily(compared):
            self.server.last_listing = compared  # for `_perform`, which repeats the check
            return None
        first = f"as the first search on another connection, the same request got {alone.describe()}"
        message = f"{verdict.message}; but {first}, so an earlier request changed the answer"
        fault = ViolationError(message, exchange, verdict.case)
        fault.steps = tuple(self.recorder.leading_to(exchange))
        return fault

    async def _is_declared_by_others(self, verdict: VerdictError) -> bool:
        """Return whether the decisive search of a legacy client fails or not as other clients declare the extension."""
        exchange = verdict.exchange
        if self.cell.era != LEGACY or self.cell.transport != "http" or exchange is None or exchange.error is None:
            return False  # on stdio, a process has one client
        if not exchange.method.endswith("/search") or "cursor" in exchange.params:
            return False
        if not self._may_tell_apart("undeclared-legacy-served", _JUDGES_OF_HANDSHAKES):
            return False
        served: list[bool] = []
        with suppress(VerdictError, RefusedError, TargetError):
            for capabilities in (DECLARED, UNDECLARED):
                async with self._of_tools.fresh(capabilities=capabilities):
                    served.append((await self._send_again(exchange)).result is not None)
        return served == [True, False]

    def _may_tell_apart(self, rule: str, judges: Collection[str]) -> bool:
        """Return whether the outcome of a check other than the `judges` may be tried again for the check of `rule`."""
        wanted = any(check.rule == rule for check in self.options.selection.wanted(self.cell))
        own = rule_of(self.recorder.check) in judges
        if not wanted or own or not self._of_tools.can_start("core") or self._told_apart >= _TOLD_APART:
            return False
        self._told_apart += 1
        return True

    async def _send_again(self, exchange: Exchange) -> Exchange:
        connection = await self.server.connection()
        number = exchange.sent["id"]
        message = {**exchange.sent, "id": connection.next_id() if isinstance(number, int) else number}
        return await connection.resend(message, exchange.headers, seconds=self.options.timeout)

    async def lists_steadily(self, listing: Listing) -> bool:
        """Return whether the server still lists `listing`.

        Watches a live server for some seconds, once and after each change, because its list can come and go.
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
        """Forget the queries and answers chosen for another listing."""
        self._key_query = self._query_with_matches = self.shared.walked_over = None
        self.shared.walks.clear()
        self.shared.answers.clear()

    async def each(self, cases: Iterable[Case], act: Callable[[Case], Awaitable[Found]]) -> list[Found]:
        """Act on the cases, concurrently if the server is slow and can handle that.

        A case that failed among others is repeated alone, and counts only if it fails then.
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
        """Return the result of `make`, which runs once per cell, so that several checks judge the same answers.

        It runs again if the list has changed since, or if the answers take much memory.
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
        """Yield a bench like this one on a new connection to a fixture that serves `catalog`.

        With `own_process`, that is a process without earlier requests over HTTP too, if the suite starts it and the
        run is not brief.
        """
        self._require_start(catalog)
        env = self._own_process(self.recorder.check) if own_process else {}
        other = self._bench(Opening(catalog=catalog, capabilities=capabilities, env=env), self.server.timeouts)
        async with aclosing(other), self._opened(other, catalog) as opened:
            yield opened

    def older(self) -> AbstractAsyncContextManager[Bench]:
        """Yield a bench on a connection that requests an older legacy revision, the same for every check.

        Its client declares the extension where an SDK of that revision can send it.
        """
        declared = {"experimental": DECLARED["extensions"]}
        return self._kept(Opening(revision=OLDER, capabilities=declared), "older")

    @asynccontextmanager
    async def of_legacy_client(self) -> AsyncGenerator[Bench]:
        """Yield a bench like `fresh` for a legacy client; over HTTP, of the same process."""
        self._require_start("core")
        other = self._bench(Opening(), self.server.timeouts, replace(self.cell, era=LEGACY))
        async with aclosing(other), self._opened(other, "core") as opened:
            yield opened

    def undeclaring(self) -> AbstractAsyncContextManager[Bench]:
        """Yield a bench like `fresh` with its own process, for a client without a declaration, to every check."""
        return self._kept(Opening(capabilities=UNDECLARED, env=self._own_process("undeclaring")), "undeclaring")

    @asynccontextmanager
    async def another(self, *, unasked: Collection[str] = ()) -> AsyncGenerator[Bench]:
        """Yield a bench on another connection to the usual fixture, which has not been asked for the methods `unasked`.

        On stdio, where each connection is a start, checks of a fixture share it until one of them ends early. Over
        HTTP, they share a process that has not been asked for a listing.
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
        """Yield a bench on the fixture that serves `catalog`; the same for every check of this cell."""
        async with self._opened(await self.fixture(catalog, Opening(catalog=catalog)), catalog) as other:
            yield other

    @asynccontextmanager
    async def _kept(self, opening: Opening, name: str) -> AsyncGenerator[Bench]:
        """Yield the bench `name`, and keep it until a check that uses it ends early."""
        self._of_tools._require_start("core")
        other = self._fixtures.setdefault(name, self._bench(opening, self.server.timeouts))
        try:
            async with self._opened(other, "core") as opened:
                yield opened
        except BaseException:
            await self._fixtures.pop(name).aclose()
            raise

    @asynccontextmanager
    async def _opened(self, other: Bench, catalog: str) -> AsyncGenerator[Bench]:
        """Yield another connected bench for the same list. Its findings name `catalog`."""
        if self._of_tools.serves_first_alone:
            rule = "served-where-advertised"
            raise UnverifiableError("the server serves no search on another connection", consequence_of=rule)
        try:
            await other.server.connection()
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other.searching(self.primitive)
        except VerdictError as verdict:
            verdict.catalog = verdict.catalog or catalog
            raise

    def _own_process(self, name: str) -> dict[str, str]:
        """Return the environment of a process that only this name shares. On stdio, each bench has its own process."""
        shared = self.cell.transport == "stdio" or self._shares_starts
        return {} if shared else {"TOOLS_SEARCH_START": name}

    async def fixture(self, name: str, opening: Opening) -> Bench:
        """Return the bench `name`, opened with `opening` on first use and kept until this bench closes.

        Checks that need the same fixture share it, because starting one takes longest.
        """
        self._of_tools._require_start(name)
        if name not in self._fixtures:
            self._fixtures[name] = self._bench(opening)
        await self._fixtures[name].server.connection()
        return self._fixtures[name].searching(self.primitive)

    def _bench(self, opening: Opening, timeouts: Timeouts | None = None, cell: Cell | None = None) -> Bench:
        own = self.options, cell or self.cell, self._target, self.recorder
        return Bench(*own, opening, timeouts, self.server.concurrency)

    def place(self, catalog: str, document: JsonObject) -> None:
        """Replace the catalog file of that name where fixtures find it."""
        self._target.place(catalog, document)

    async def aclose(self) -> None:
        """Close the connection and every fixture concurrently, since a process can take a second."""
        fixtures, self._fixtures = self._fixtures, {}
        async with anyio.create_task_group() as closing:
            for other in fixtures.values():
                closing.start_soon(other.aclose)
            await self.server.aclose()

    def can_start(self, catalog: str) -> bool:
        """Return whether `fresh` may start the target. A brief run starts it once, unless it is running over HTTP."""
        return not self._shares_starts or (self.cell.transport == "http" and catalog == "core")

    @property
    def _shares_starts(self) -> bool:
        return self.options.effective_brief or self.primitive is not TOOLS

    def may_serve(self, catalog: str) -> bool:
        """Return whether it is this cell's turn to start the target with another catalog than the usual one."""
        return self.profile == "fixture" and self.can_start(catalog) and self.has_turn(0)

    @property
    def starts_freely(self) -> bool:
        """Whether another connection does not start the server, or no other cell of the run avoids such starts."""
        free = self.cell.transport == "http" or not self.options.http_argv
        return free and self.can_start("core")

    def _require_start(self, catalog: str) -> None:
        if not self.can_start(catalog):
            raise LeftOutError("it takes another start of the server; --effort default runs it")

    def has_turn(self, number: int) -> bool:
        """Return whether the case with this number is for this cell, which gets half of them in a run with four cells.

        Then every transport and every era still gets all cases. A deep run has all of them in each cell, and so does a
        check for another method than `tools/search`, which runs in few cells.
        """
        options, cell = self.options, self.cell
        if (
            self.primitive is not TOOLS
            or options.effort == "deep"
            or not (options.argv and options.http_argv)
            or len(options.eras) == 1
        ):
            return True
        return (number + (cell.transport == "http") + (cell.era == LEGACY)) % 2 == 0

    def share(self, cases: Iterable[Case]) -> list[Case]:
        """Return those of many similar cases that are for this cell, by `has_turn`; in a brief run, all of its few."""
        return [case for number, case in enumerate(cases) if self.options.effective_brief or self.has_turn(number)]

    def some(self, cases: Sequence[Case], most: int = 3) -> Sequence[Case]:
        """Return the cases to try: all, or in a brief run at most `most`, spread over all of them.

        For methods other than `tools/search`, which gets all of them, returns a few more, different ones for each.
        """
        if self.primitive is not TOOLS and not self.options.effective_brief and self.options.effort != "deep":
            step = -(-len(cases) // max(_CASES, _MORE_CASES * most)) or 1
            return cases[OTHERS.index(self.primitive) % step :: step]
        if not self.options.effective_brief or len(cases) <= most:
            return cases
        return [cases[number * (len(cases) - 1) // max(1, most - 1)] for number in range(most)]

    async def vocabulary(self) -> Vocabulary:
        """Return the words of the target's listing, which this connection reads once."""
        items = (await self.server.known_listing()).items
        if self._words is None or self._words.items is not items:
            self._words = Vocabulary(items, self.primitive.key)
        return self._words

    async def nonempty_listing(self) -> Listing:
        """Return the target's non-empty listing, which this connection reads once."""
        listing = await self.server.known_listing()
        self.applies(bool(listing.items), f"the server lists no {self.noun}")
        return listing

    async def with_stable_listing(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree. Return the listing and the result of `act`.

        A `ViolationError` from `act` counts only if the listing was the same before and after.
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
        raise self._changing()

    def _changing(self) -> UnverifiableError:
        """Return why a check could not be run: with one message, so that a verdict names the reason once."""
        return UnverifiableError(
            f"what {self.list_method} returns changed during each of {_ROUNDS} comparisons with searches; keep the list"
            " the same for at least a few seconds at a time while the suite runs"
        )

    async def key_query(self) -> str:
        """Return an item's key: a query that matches something, unless the target lists nothing."""
        if self._key_query is None:
            words = await self.vocabulary()
            key = words.key_query
            exchange = await self.server.search({"query": key})
            if exchange.result is not None and words.items:
                page = read_page(exchange, f"a search for {key!r}")
                found = page.items or (await self.server.first(key)).items
                what = f"a search for {key!r}, the {self.primitive.key} of a {self.noun}, found nothing"
                self.require(bool(found), f"{what}; see {self.exact_check}")
            self._key_query = key
        return self._key_query

    @property
    def exact_check(self) -> str:
        """The rule of the check that searches for an item by its key."""
        return "exact-uri-first" if self.method in METHODS_OF_RESOURCES else "exact-name-first"

    async def text_of(self, uri: str) -> str:
        """Return the text content of a resource; empty if it cannot be read."""
        read = await self.server.ask("resources/read", {"uri": uri})
        parts = filter(None, map(as_object, as_array((read.result or {}).get("contents")) or []))
        return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))

    async def finds_unlisted(self) -> bool:
        """Return whether the settings say that searches for resources also return some that are not listed."""
        return self.primitive is RESOURCES and (await self.server.settings()).get("unlisted") is True

    async def wants_name_header(self) -> tuple[bool, Exchange]:
        """Return whether the server serves a search only with an `Mcp-Name` header, and the exchange without it."""
        query = (await self.vocabulary()).key_query
        named = await self.server.search({"query": query}, headers={"Mcp-Name": query})
        exchange = await self.server.search({"query": query})
        return named.result is not None and exchange.result is None, exchange

    async def query_with_matches(self) -> str:
        """Return the query with the most matches of several; at least one match."""
        return (await self._most_matches())[0]

    async def query_with_two_matches(self) -> str:
        """Return the query with the most matches of several; at least two matches."""
        self.applies(len((await self.nonempty_listing()).items) > 1, f"the server lists a single {self.noun}")
        query, count = await self._most_matches()
        self.require(count > 1, f"no query matched two {self.noun}s, not even {query!r}; a richer catalog would help")
        return query

    async def _most_matches(self) -> tuple[str, int]:
        if self._query_with_matches is None:
            await self.nonempty_listing()
            vocabulary = await self.vocabulary()
            words, keys = vocabulary.broad(), [key for key in vocabulary.keys[:2] if is_query(key)]
            limit = await self.server.large_limit()
            walks = await self.each(words, lambda word: self.server.walk(word, limit, most=_ENOUGH_PAGES))
            best = max(walks, key=_matches_of)
            if _matches_of(best) == 1 and len(keys) > 1:  # no word is in two items, but both keys may find two
                best = max(best, await self.server.walk(" ".join(keys), limit, most=_ENOUGH_PAGES), key=_matches_of)
            self.require(
                bool(best.keys), f"none of the queries {words} matched a {self.noun}; a richer catalog would help"
            )
            self._query_with_matches = best.query, _matches_of(best)
        return self._query_with_matches

    async def page_with_cursor(self, query: str, *, limit: int = 1) -> tuple[Page, str]:
        """Return the first page of a search with several pages, and the cursor of the next one."""
        page = await self.server.page(query, limit=limit)
        if not page.next_cursor:
            several = len((await self.nonempty_listing()).items) > 1
            self.applies(several, f"the server lists a single {self.noun}, so it issues no cursor")
        if page.next_cursor is None:
            raise UnverifiableError(f"a search for {query!r} with limit {limit} has only one page", page.exchange)
        return page, page.next_cursor

    async def pages_from(self, query: str, cursor: str, case: str, *, most: int) -> AsyncGenerator[Page]:
        """Yield the pages of a search from `cursor` on, up to `most`, until one is refused or has no cursor."""
        following: str | None = cursor
        for _ in range(most):
            exchange = await self.server.search({"query": query, "cursor": following})
            if exchange.result is None:
                return
            page = read_page(exchange, case)
            yield page
            if (following := page.next_cursor) is None:
                return

    async def require_no_match_served(self) -> None:
        """Continue only if a query that matches nothing is not an error, since odd queries often match nothing."""
        exchange = await self.server.search({"query": NONSENSE})
        self.require(
            exchange.result is not None, "the server refuses a query without matches; see no-match-empty", exchange
        )

    async def served(self, params: Params, case: str, *, control: Bench | None = None, **overrides: Any) -> Page:
        """Expect a page in answer to a search sent with `overrides`, as for `Server.ask`.

        A malformed page counts if the pages of `control` are well-formed, by default this bench.
        """
        return await self.expect_page(await self.server.search(params, **overrides), case, control=control)

    async def served_without_match(self, params: Params, case: str) -> None:
        """Expect a page in answer to a search without matches; one without an array counts if others have one."""
        exchange = await self.server.search(params)
        if exchange.result is not None and exchange.result.get(self.primitive.member) is None:
            query = await self.key_query()
            read_page(await self.server.search({"query": query}), f"a search for {query!r}")
            self._expect_empty(exchange, case)
        await self.expect_page(exchange, case)

    async def expect_page(self, exchange: Exchange, case: str, *, control: Bench | None = None) -> Page:
        """Expect an answer to be a page, as `served` does."""
        self.expect_result(exchange, case, case=case)
        try:
            return read_page(exchange, case)
        except UnverifiableError:
            # result-schema judges this if other searches return such a result as well.
            other = control or self
            for query in (await other.key_query(), NONSENSE):
                read_page(await other.server.search({"query": query}), f"a search for {query!r}")
            self.expect(False, exchange, f"{case} got a malformed page, and other searches do not", case=case)
            raise

    async def expect_nothing(self, params: Params, case: str) -> None:
        """Expect a search where nothing is visible to get a result with an empty array."""
        self._expect_empty(await self.server.search(params), case)

    def _expect_empty(self, exchange: Exchange, case: str) -> None:
        result, member = exchange.result, self.primitive.member
        empty = result is not None and result.get(member) == []
        answer = exchange.describe() if result is None else f"the result {json_text(result)[:200]}"
        self.expect(empty, exchange, f"{case} got {answer} instead of an empty array in `{member}`", case=case)

    async def expect_alike(self, page: Page, plain: Page, again: Callable[[], Awaitable[Page]], what: str) -> None:
        """Expect `page` to show what `plain` does, except in aspects in which the same search, sent `again`, varies.

        Order is only a SHOULD, and scores may vary: where plain searches differ, one more difference shows nothing.
        """
        differing = [name for name, value in page.aspects.items() if not same(value, plain.aspects[name])]
        for _ in range(_ROUNDS) if differing else ():
            other = (await again()).aspects
            differing = [name for name in differing if same(other[name], plain.aspects[name])]
        shown = f": {page.keys[:5]} instead of {plain.keys[:5]}" if page.keys != plain.keys else ""
        message = f"{what} changed {', '.join(differing)}{shown}"
        self.expect(not differing, page.exchange, message, case=what)

    async def next_served(self, page: Page, case: str, **more: Any) -> None:
        """Expect the page after `page`, if there is one, requested with `more` members, or a refusal of its cursor.

        A server may cease to honor its cursors at any time.
        """
        if page.next_cursor is not None:
            exchange = await self.server.search({**page.exchange.params, **more, "cursor": page.next_cursor})
            refused = exchange.error_code == INVALID_PARAMS
            message = f"{case} got {exchange.describe()}"
            self.expect(refused or exchange.result is not None, exchange, message, case=case)

    async def refused(
        self, bad: Params, good: Params, case: str, *, codes: Sequence[int] = _INVALID, **overrides: Any
    ) -> Exchange:
        """Expect the server to refuse `bad`, sent with `overrides`, with one of `codes`, as it differs from `good`.

        Raises `UnverifiableError` if it refuses `good` without overrides too, which shows nothing.
        """
        await self._require_served(good, case)
        exchange = await self.server.search(bad, **overrides)
        self.expect_code(exchange, case, codes)
        await self._require_served(good, case)
        return exchange

    async def refused_each(self, cases: Sequence[tuple[Params, str]], good: Params) -> None:
        """Expect the server to refuse each of the `cases` (params and a description), as `refused` does for one.

        Sends `good` before and after all of them, which also shows a server that stopped serving it.
        """

        async def refuse(case: tuple[Params, str]) -> None:
            self.expect_code(await self.server.search(case[0]), case[1])

        await self._require_served(good, cases[0][1])
        await self.each(cases, refuse)
        await self._require_served(good, cases[-1][1])

    async def refused_cursor(self, bad: Params, good: Params, case: str) -> None:
        """Expect a refusal of `bad`, as `refused` does, but send `good` once: its cursor might be valid only once."""
        exchange = await self.server.search(bad)
        if exchange.result is not None:
            self.expect_code(exchange, case)
        await self._require_served(good, case)
        self.expect_code(exchange, case)

    async def refused_cursors(
        self, issue: Callable[[], Awaitable[JsonObject]], vary: Callable[[JsonObject], Sequence[tuple[JsonObject, str]]]
    ) -> None:
        """Expect the server to refuse each variation of the params with a genuine cursor that `issue` returns.

        Sends all of them with one cursor, and each with its own cursor only if that leaves open what is wrong, since a
        cursor might be valid only once.
        """
        good = await issue()
        cases = {place: case for place, case in enumerate(self.some(vary(good))) if not self._is_genuine(case[0])}
        exchanges = await self.each(cases.values(), lambda case: self.server.search(case[0]))
        for exchange, (_, case) in zip(exchanges, cases.values(), strict=True):
            if exchange.result is not None:
                self.expect_code(exchange, case)
        wrong = [exchange.error_code != INVALID_PARAMS for exchange in exchanges]
        if not any(wrong) and (await self.server.search(good)).result is not None:
            for exchange, (_, case) in zip(exchanges, cases.values(), strict=True):
                self.expect_code(exchange, case)
            return
        for number, place in enumerate(cases):
            if wrong[number] or not any(wrong):
                good = await issue()
                varied = self.some(vary(good))
                bad, case = varied[min(place, len(varied) - 1)]
                if not self._is_genuine(bad):
                    await self.refused_cursor(bad, good, case)

    def _is_genuine(self, params: Params) -> bool:
        """Return whether a search for this query has returned this cursor, which can happen by chance."""
        return self.recorder.has_issued(self.method, params["query"], params["cursor"])

    def expect_code(self, exchange: Exchange, case: str, codes: Sequence[int] = _INVALID) -> None:
        """Expect a refusal with one of `codes`."""
        wanted = " or ".join(map(str, codes))
        message = f"{case} got {exchange.describe()} instead of error {wanted}"
        self.expect(exchange.error_code in codes, exchange, message, case=case)

    async def _require_served(self, params: Params, case: str) -> None:
        if self._control is not None and self._control[0] == params and self._control[1] is self.recorder.last:
            return  # it was served just now, after the refusal before this one
        exchange = await self.server.search(params)
        self.require_result(exchange, f"a valid request, sent for comparison with {case},")
        self._control = params, exchange


def transport_of(check: Check, method: str, transports: Sequence[str]) -> str:
    """Return over which of `transports` a check runs for a method other than `tools/search`.

    Its methods take turns, so that with two transports and several methods each check runs over both.
    """
    number, place = zlib.crc32(check.id.encode()), check.methods.index(method)
    return transports[(number + place) % len(transports)]


def _matches_of(walk: Walk) -> int:
    return len({*walk.keys})


def _outcome(exchange: Exchange) -> tuple[str, list[Any]]:
    return exchange.describe(), [key_in(item, exchange.method) for item in items_in(exchange)]


def once(make: Callable[[Bench], Awaitable[Found]]) -> Callable[[Bench], Awaitable[Found]]:
    """Run the decorated function once per cell, as with `Bench.once`."""

    @wraps(make)
    async def asked_once(bench: Bench) -> Found:
        return await bench.once(make.__name__, partial(make, bench))

    return asked_once


@once
async def content_terms(bench: Bench) -> list[tuple[str, str]]:
    """Return of a few resources a term of the definition and one of the content alone, if searches find content."""
    if bench.primitive is not RESOURCES or (await bench.server.settings()).get("contents") is not True:
        return []
    words, pairs = await bench.vocabulary(), list[tuple[str, str]]()
    for item in words.items[:_CONTENTS_READ]:
        own = words.distinctive(item)
        inside = {*terms(await bench.text_of(item["uri"]))}.difference(words.frequency)
        if own and inside:
            pairs.append((own[0], max(inside, key=lambda term: (len(term), term))))
    return pairs


@once
async def queries_beyond(bench: Bench) -> list[str]:
    """Return queries with terms of the other lists that the server searches, and of content.

    Their results may come from another index, which may lack properties of the usual one. A brief run sends none.
    """
    if bench.options.effective_brief:
        return []
    own, queries = (await bench.vocabulary()).frequency, list[str]()
    for other in bench.others_served:
        with suppress(UnverifiableError):
            queries += [word for word in (await other.vocabulary()).broad() if word not in own][:1]
    pairs = await content_terms(bench)
    return [*queries, *(" ".join(pair) for pair in pairs[:1]), *(inside for _, inside in pairs[1:])]


@once
async def early_page(bench: Bench) -> Page | None:
    """Return the first of several pages of a search, whose cursor is only used many searches later."""
    with suppress(UnverifiableError, InapplicableError):
        query = await bench.query_with_two_matches()
        return await bench.server.page(query, limit=1)
    return None


SERVER_CHECKS: Final = Registry[Bench](SERVER_PREFIX)
"""All server checks; `tools_search_conformance.checks` declares them."""

server_check = SERVER_CHECKS.check
