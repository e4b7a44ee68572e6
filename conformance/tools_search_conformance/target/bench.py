"""What the body of a check works with, in one cell: a line to the target, and the expectations that it is judged by."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio

from tools_search_conformance.run.setting import Opening, Setting
from tools_search_conformance.target.expectations import Expectations
from tools_search_conformance.target.link import Params
from tools_search_conformance.target.pages import Listing, Page, Walk, read_page
from tools_search_conformance.target.reading import Reader
from tools_search_conformance.target.surveys import Survey
from tools_search_conformance.target.target import Target
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary
from tools_search_conformance.verdict import (
    LeftOutError,
    UnverifiableError,
    VerdictError,
    ViolationError,
)
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.record import Exchange, Recorder

__all__ = ["INVALID_PARAMS", "MISSING_CAPABILITY", "Bench"]

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021

Found = TypeVar("Found")
Case = TypeVar("Case")

_ROUNDS: Final = 3
_ENOUGH: Final = 60


class Bench(Reader, Expectations):
    """One cell's workbench."""

    def __init__(self, setting: Setting, target: Target, recorder: Recorder, opening: Opening | None = None) -> None:
        Reader.__init__(self, setting, target, recorder, opening)
        Expectations.__init__(self)
        self._broadest: str | None = None
        self._most = 0
        self._plain: str | None = None
        self.walked: dict[tuple[str, int | None], Walk] = {}
        """Walks that several checks judge, by query and limit."""
        self.walked_over: Listing | None = None
        """What was listed when they were walked."""
        self.surveys: list[Survey | UnverifiableError] | None = None
        """What the target makes of generated catalogs, or why that cannot be found out."""
        self._beside: dict[str, Bench] = {}
        self._control_before: Params | None = None
        self._control_exchange: Exchange | None = None

    @asynccontextmanager
    async def fresh(self, *, catalog: str = "core", capabilities: Params = DECLARED) -> AsyncGenerator[Bench]:
        """Give a bench like this one, whose connection nobody has used, on a fixture serving `catalog`.

        Raises:
            LeftOutError: that takes another start, and the run is a brief one.
        """
        self._start_for(catalog)
        other = Bench(self.setting, self._target, self.recorder)
        other.patience = self.patience
        try:
            await other.connect(catalog, capabilities)
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other
        except VerdictError as verdict:
            verdict.catalog = verdict.catalog or catalog
            raise
        finally:
            self.judged += other.judged
            self.deaths += other.deaths
            await other.aclose()

    @asynccontextmanager
    async def beside(self, name: str, opening: Opening) -> AsyncGenerator[Bench]:
        """Give the bench `name`, opened as `opening` says when it is first asked for and kept until this one closes.

        Checks that need the same fixture share it: starting one is what takes longest.

        Raises:
            LeftOutError: the run is a brief one.
        """
        self._start_for(name)
        other = self._beside.get(name)
        if other is None:
            other = self._beside[name] = Bench(self.setting, self._target, self.recorder, opening)
        other.judged, other.deaths = [], []
        try:
            await other.connection()
            yield other
        finally:
            self.judged += other.judged
            self.deaths += other.deaths

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file where fixtures find it, in place of the one of that name."""
        self._target.place(catalog, document)

    async def aclose(self) -> None:
        """Close the connection and every bench beside this one, all at the same time: a process may take a second."""
        beside, self._beside = self._beside, {}
        async with anyio.create_task_group() as closing:
            for other in beside.values():
                closing.start_soon(other.aclose)
            await super().aclose()

    async def vocabulary(self) -> Vocabulary:
        """Return the words of what the target lists."""
        return Vocabulary.of((await self.listing()).tools)

    async def sandwich(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree; return the listing and what `act` found meanwhile.

        Raises:
            UnverifiableError: the listing changed each time.
            ViolationError: of `act`, if the listing was the same before and after.
        """
        before = await self.listing()
        for _ in range(_ROUNDS):
            try:
                found = await act(before)
            except ViolationError:
                if (after := await self._relisted()) is None or after.same_as(before):
                    raise
            else:
                after = await self.listing()
                if after.same_as(before):
                    return before, found
            before = after
        raise UnverifiableError("what tools/list returns changed while it was compared; see list-unchanged")

    async def _relisted(self) -> Listing | None:
        try:
            return await self.listing()
        except UnverifiableError:
            return None  # what was broken broke it, too

    def can_start(self, catalog: str) -> bool:
        """Tell whether `fresh` gives a bench, which takes another start of the target except where HTTP has it running.

        A brief run starts it once.
        """
        return not self.setting.brief or (self.cell.transport == "http" and catalog == "core")

    def _start_for(self, catalog: str) -> None:
        if not self.can_start(catalog):
            raise LeftOutError("takes another start of the server; --effort default runs it")

    def some(self, cases: Sequence[Case], most: int = 3) -> Sequence[Case]:
        """Return the cases to try: all of them, or in a brief run at most `most`, from everywhere among them."""
        if not self.setting.brief or len(cases) <= most:
            return cases
        return [cases[number * (len(cases) - 1) // max(1, most - 1)] for number in range(most)]

    async def plain(self) -> str:
        """Return a query that matches something, unless the target lists no tool at all: a tool's name.

        Raises:
            UnverifiableError: it finds nothing, and what a check would see in such results shows little.
        """
        if self._plain is None:
            words = await self.vocabulary()
            exchange = await self.search({"query": words.plain})
            if exchange.result is not None and words.tools:
                found = (await self.first(words.plain)).tools
                self.require(bool(found), f"{words.plain!r}, the name of a tool, finds nothing; see exact-name-first")
            self._plain = words.plain
        return self._plain

    async def require_no_match_served(self) -> None:
        """Go on only where a query that matches nothing is no error, as odd queries often do.

        Raises:
            UnverifiableError: it is one.
        """
        exchange = await self.search({"query": NONSENSE})
        self.require(exchange.result is not None, "a query without matches is refused; see no-match-empty", exchange)

    async def stocked(self) -> Listing:
        """Return the listing of a target that has a tool.

        Raises:
            InapplicableError: it has none.
        """
        listing = await self.listing()
        self.applies(bool(listing.tools), "the server lists no tool")
        return listing

    async def broadest(self) -> str:
        """Return the query that was found to have most matches, one at least.

        Raises:
            InapplicableError: the target lists no tool.
            UnverifiableError: no query that was tried matches anything.
        """
        if self._broadest is None:
            words = Vocabulary.of((await self.stocked()).tools).broad()
            plenty = await self.plenty()
            counts = {word: len({*(await self.walk(word, plenty, most=_ENOUGH)).names}) for word in words}
            best = max(counts, key=lambda word: counts[word], default=None)
            if best is None or not counts[best]:
                raise UnverifiableError(f"no query matched a tool; tried {words}. A richer catalog would help")
            self._broadest, self._most = best, counts[best]
        return self._broadest

    async def fertile(self) -> str:
        """Return the query that was found to have most matches, two at least.

        Raises:
            InapplicableError: the target lists fewer than two tools.
            UnverifiableError: no query that was tried matches more than one tool.
        """
        self.applies(len((await self.stocked()).tools) > 1, "the server lists a single tool")
        query = await self.broadest()
        self.require(self._most > 1, f"no query matched two tools; tried {query!r} last. A richer catalog would help")
        return query

    async def served(self, params: Params, case: str, **dress: Any) -> Page:
        """Expect a search to be answered with a page.

        Raises:
            ViolationError: it was not.
        """
        exchange = await self.search(params, **dress)
        self.expect(exchange.result is not None, exchange, f"{case} was answered by {exchange.describe()}", case=case)
        return read_page(exchange, case)

    async def refused(
        self,
        bad: Params,
        mended: Params,
        case: str,
        *,
        code: int | tuple[int, ...] = INVALID_PARAMS,
        **dress: Any,
    ) -> Exchange:
        """Expect `bad`, dressed as `ask` dresses it, to be refused with `code` for that in which `mended` is other.

        Raises:
            UnverifiableError: `mended`, dressed as it should be, is refused as well: nothing was shown.
            ViolationError: `bad` was served, left without an answer, or refused with another code.
        """
        await self._control(mended, case)
        exchange = await self.search(bad, **dress)
        self._expect_code(exchange, case, *(code if isinstance(code, tuple) else (code,)))
        await self._control(mended, case)
        return exchange

    async def refused_cursor(self, bad: Params, mended: Params, case: str) -> None:
        """Expect `bad` to be refused as `refused` does, sending `mended` once: its cursor may hold only once."""
        exchange = await self.search(bad)
        served = f"{case} was answered by {exchange.describe()} instead of error {INVALID_PARAMS}"
        self.expect(exchange.result is None, exchange, served, case=case)
        await self._control(mended, case)
        self._expect_code(exchange, case, INVALID_PARAMS)

    def _expect_code(self, exchange: Exchange, case: str, *codes: int) -> None:
        refusal = exchange.error
        self.expect(
            refusal is not None and refusal.code in codes,
            exchange,
            f"{case} was answered by {exchange.describe()} instead of error {' or '.join(map(str, codes))}",
            case=case,
        )

    async def _control(self, params: Params, case: str) -> None:
        if self._control_before == params and self._control_exchange is self.recorder.last:
            return  # the one after the refusal before this one has just been served
        exchange = await self.search(params)
        self.require(
            exchange.result is not None,
            f"the same request with {case} mended was answered by {exchange.describe()}",
            exchange,
        )
        self._control_before, self._control_exchange = params, exchange
