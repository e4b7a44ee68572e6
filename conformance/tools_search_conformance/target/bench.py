"""The bench of a server check, in one cell: the server under test, queries that suit it, and further fixtures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio

from tools_search_conformance.model import (
    SERVER_PREFIX,
    Cell,
    LeftOutError,
    UnverifiableError,
    VerdictError,
    ViolationError,
)
from tools_search_conformance.run.judging import Timeouts, Workbench
from tools_search_conformance.run.options import Options
from tools_search_conformance.run.registry import Registry
from tools_search_conformance.target.pages import Listing, Page, SharedCases, read_page
from tools_search_conformance.target.server import Opening, Params, Server
from tools_search_conformance.target.target import Target
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.record import Exchange, Recorder

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021

Found = TypeVar("Found")
Case = TypeVar("Case")

_ROUNDS: Final = 3
_ENOUGH_PAGES: Final = 60


class Bench(Workbench):
    """One cell's workbench."""

    def __init__(
        self,
        options: Options,
        cell: Cell,
        target: Target,
        recorder: Recorder,
        opening: Opening | None = None,
        *,
        timeouts: Timeouts | None = None,
        first_cell: bool = True,
    ) -> None:
        super().__init__(options, cell, recorder)
        self.server = Server(options, cell, target, recorder, opening=opening, timeouts=timeouts)
        self.first_cell = first_cell
        """Whether it is the first cell of a run."""
        self.shared = SharedCases()
        self.first_search: tuple[bool, Exchange] | None = None
        """Whether the first search of all left the listing as it was, and the exchange that ended the listing after."""
        self._target = target
        self._name_query: str | None = None
        self._query_with_matches: tuple[str, int] | None = None
        self._fixtures: dict[str, Bench] = {}
        self._control: tuple[Params, Exchange] | None = None

    @asynccontextmanager
    async def fresh(self, *, catalog: str = "core", capabilities: Params = DECLARED) -> AsyncGenerator[Bench]:
        """Give a bench like this one, on a new connection to a fixture serving `catalog`.

        Raises:
            LeftOutError: That takes another start, and the run is a brief one.
        """
        self._require_start(catalog)
        other = Bench(self.options, self.cell, self._target, self.recorder, timeouts=self.server.timeouts)
        try:
            await other.server.connect(catalog, capabilities)
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other
        except VerdictError as verdict:
            verdict.catalog = verdict.catalog or catalog
            raise
        finally:
            await other.aclose()

    async def fixture(self, name: str, opening: Opening) -> Bench:
        """Return the bench `name`, opened as `opening` says when it is first asked for and kept until this one closes.

        Checks that need the same fixture share it: starting one is what takes longest.

        Raises:
            LeftOutError: The run is a brief one.
        """
        self._require_start(name)
        if name not in self._fixtures:
            self._fixtures[name] = Bench(self.options, self.cell, self._target, self.recorder, opening)
        await self._fixtures[name].server.connection()
        return self._fixtures[name]

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

    def _require_start(self, catalog: str) -> None:
        if not self.can_start(catalog):
            raise LeftOutError("takes another start of the server; --effort default runs it")

    def some(self, cases: Sequence[Case], most: int = 3) -> Sequence[Case]:
        """Return the cases to try: all of them, or in a brief run at most `most`, from everywhere among them."""
        if not self.options.effective_brief or len(cases) <= most:
            return cases
        return [cases[number * (len(cases) - 1) // max(1, most - 1)] for number in range(most)]

    async def vocabulary(self) -> Vocabulary:
        """Return the words of the target's listing."""
        return Vocabulary((await self.server.listing()).tools)

    async def nonempty_listing(self) -> Listing:
        """Return the listing of a target that has a tool.

        Raises:
            InapplicableError: It has none.
        """
        listing = await self.server.listing()
        self.applies(bool(listing.tools), "the server lists no tool")
        return listing

    async def with_stable_listing(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree; return the listing and the value of `act` in between.

        Raises:
            UnverifiableError: The listing changed each time.
            ViolationError: From `act`, if the listing was the same before and after.
        """
        before = await self.server.listing()
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
        """Return a tool's name, a query that matches something unless the target lists no tool at all.

        Raises:
            UnverifiableError: It finds nothing, so that a check of results would show little.
        """
        if self._name_query is None:
            words = await self.vocabulary()
            name = words.name_query
            if (await self.server.search({"query": name})).result is not None and words.tools:
                found = (await self.server.first(name)).tools
                self.require(bool(found), f"{name!r}, the name of a tool, finds nothing; see exact-name-first")
            self._name_query = name
        return self._name_query

    async def query_with_matches(self) -> str:
        """Return the query with most matches of some that were tried, one at least.

        Raises:
            InapplicableError: The target lists no tool.
            UnverifiableError: No query that was tried matches anything.
        """
        return (await self._most_matches())[0]

    async def query_with_two_matches(self) -> str:
        """Return the query with most matches of some that were tried, two at least.

        Raises:
            InapplicableError: The target lists fewer than two tools.
            UnverifiableError: No query that was tried matches more than one tool.
        """
        self.applies(len((await self.nonempty_listing()).tools) > 1, "the server lists a single tool")
        query, count = await self._most_matches()
        self.require(count > 1, f"no query matched two tools; tried {query!r} last. A richer catalog would help")
        return query

    async def _most_matches(self) -> tuple[str, int]:
        if self._query_with_matches is None:
            words = Vocabulary((await self.nonempty_listing()).tools).broad()
            limit = await self.server.large_limit()
            walks = [await self.server.walk(word, limit, most=_ENOUGH_PAGES) for word in words]
            best, count = max(((walk.query, len({*walk.names})) for walk in walks), key=lambda each: each[1])
            self.require(count > 0, f"no query matched a tool; tried {words}. A richer catalog would help")
            self._query_with_matches = best, count
        return self._query_with_matches

    async def require_no_match_served(self) -> None:
        """Go on only where a query that matches nothing is no error, as odd queries often match nothing.

        Raises:
            UnverifiableError: It is one.
        """
        exchange = await self.server.search({"query": NONSENSE})
        self.require(exchange.result is not None, "a query without matches is refused; see no-match-empty", exchange)

    async def served(self, params: Params, case: str, **overrides: Any) -> Page:
        """Expect a search, sent with `overrides` as `Server.ask` has them, to be answered with a page.

        Raises:
            ViolationError: It was not.
        """
        exchange = await self.server.search(params, **overrides)
        self.expect(exchange.result is not None, exchange, f"{case} was answered by {exchange.describe()}", case=case)
        return read_page(exchange, case)

    async def refused(
        self, bad: Params, good: Params, case: str, *, code: int | tuple[int, ...] = INVALID_PARAMS, **overrides: Any
    ) -> Exchange:
        """Expect `bad`, sent with `overrides`, to be refused with `code` because of its difference from `good`.

        Raises:
            UnverifiableError: `good`, sent without overrides, is refused as well, so that nothing was shown.
            ViolationError: `bad` was served, left without an answer, or refused with another code.
        """
        await self._require_served(good, case)
        exchange = await self.server.search(bad, **overrides)
        self._expect_code(exchange, case, *(code if isinstance(code, tuple) else (code,)))
        await self._require_served(good, case)
        return exchange

    async def refused_cursor(self, bad: Params, good: Params, case: str) -> None:
        """Expect `bad` to be refused as `refused` does, sending `good` once: its cursor may hold only once."""
        exchange = await self.server.search(bad)
        if exchange.result is not None:
            self._expect_code(exchange, case, INVALID_PARAMS)
        await self._require_served(good, case)
        self._expect_code(exchange, case, INVALID_PARAMS)

    def _expect_code(self, exchange: Exchange, case: str, *codes: int) -> None:
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


SERVER_CHECKS: Final = Registry[Bench](SERVER_PREFIX)
"""Every check of servers; `tools_search_conformance.checks` declares them all."""

server_check = SERVER_CHECKS.check
