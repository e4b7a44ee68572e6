"""What the body of a check works with, in one cell: requests, pages, listings, and the expectations it is judged by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from tools_search_spec import METHOD

from tools_search_conformance.model import Cell, Effort, Profile
from tools_search_conformance.pages import Listing, Page, Walk, read_page
from tools_search_conformance.target import Target
from tools_search_conformance.verdict import InapplicableError, UnverifiableError, ViolationError
from tools_search_conformance.vocabulary import Vocabulary
from tools_search_conformance.wire.connection import Connection, RefusedError
from tools_search_conformance.wire.eras import DECLARED
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange, Recorder

__all__ = ["INVALID_PARAMS", "MISSING_CAPABILITY", "PLENTY", "Bench", "Params"]

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021

PLENTY: Final = 1000
"""A limit beyond what most servers fill."""

Params = Mapping[str, Any]
Found = TypeVar("Found")

_MOST_STARTS: Final = 40
_ROUNDS: Final = 3


class Bench:
    """One cell's workbench. All checks of the cell share its connection, which is opened again when it has ended."""

    def __init__(
        self, cell: Cell, target: Target, recorder: Recorder, *, profile: Profile, effort: Effort, seed: int, timeout: float
    ) -> None:
        self.cell = cell
        self.profile: Profile = profile
        self.effort: Effort = effort
        self.seed = seed
        self.timeout = timeout
        """Seconds that one request may take."""
        self.recorder = recorder
        self.judged: list[int] = []
        """Numbers of the exchanges that expectations were tested against."""
        self._target = target
        self._connection: Connection | None = None
        self._starts = 0
        self._fertile: str | None = None

    # Connections

    async def connection(self) -> Connection:
        """Return the cell's connection, opened anew if it has ended.

        Raises:
            TargetError, RefusedError: the target cannot be reached, or no longer speaks this era.
        """
        if self._connection is not None and self._connection.transport.ended is None:
            return self._connection
        await self.aclose()
        self._connection = await self._open("core", DECLARED)
        return self._connection

    @asynccontextmanager
    async def fresh(self, *, catalog: str = "core", capabilities: Params = DECLARED) -> AsyncIterator[Bench]:
        """Give a bench like this one, whose connection nobody has used, on a fixture serving `catalog`."""
        other = Bench(
            self.cell, self._target, self.recorder,
            profile=self.profile, effort=self.effort, seed=self.seed, timeout=self.timeout,
        )  # fmt: skip
        try:
            other._connection = await self._open(catalog, capabilities)
        except RefusedError as error:
            raise UnverifiableError(f"a second connection was refused: {error}", error.exchange) from error
        try:
            yield other
        finally:
            self.judged += other.judged
            await other.aclose()

    async def opening(self) -> tuple[Connection, Exchange]:
        """Return the connection and the exchange that opened it."""
        connection = await self.connection()
        assert connection.opening is not None  # noqa: S101 - set by open
        return connection, connection.opening

    @property
    def malformed(self) -> list[str]:
        """What arrived on the current connection and was no message, oldest first."""
        return self._connection.transport.malformed if self._connection else []

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def _open(self, catalog: str, capabilities: Params) -> Connection:
        self._starts += 1
        if self._starts > _MOST_STARTS:
            raise TargetError("the target had to be started too often; see the wire log")
        transport = await self._target.connect(self.recorder.note, catalog if self.profile == "fixture" else None)
        connection = Connection(transport, self.cell.era, self.recorder, capabilities=capabilities)
        try:
            await connection.open(self._target.start_seconds)
        except BaseException:
            await connection.aclose()
            raise
        return connection

    # Requests

    async def ask(
        self,
        method: str,
        params: Params | None = None,
        *,
        capabilities: Params | None = None,
        headers: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
    ) -> Exchange:
        """Send any request and return the exchange, whatever came of it; `timeout` shortens the wait for it."""
        connection = await self.connection()
        return await connection.request(
            method, params, timeout=timeout or self.timeout, capabilities=capabilities, headers=headers
        )

    async def search(self, params: Params, **dress: Any) -> Exchange:
        """Send `tools/search` with exactly these params, dressed as `ask` dresses it."""
        return await self.ask(METHOD, params, **dress)

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of a search that the draft allows.

        Raises:
            UnverifiableError: the search was refused or its result is not well-formed.
        """
        params: dict[str, Any] = {"query": query}
        if limit is not None:
            params["limit"] = limit
        if cursor is not None:
            params["cursor"] = cursor
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(self, query: str, limit: int | None = None, *, most: int = 250) -> Walk:
        """Return the pages of one search, up to `most` of them."""
        pages = [await self.page(query, limit=limit)]
        while pages[-1].next_cursor is not None and len(pages) < most:
            pages.append(await self.page(query, limit=limit, cursor=pages[-1].next_cursor))
        return Walk(query, limit, tuple(pages), ended=pages[-1].next_cursor is None)

    async def whole(self, query: str, limit: int | None = PLENTY) -> Walk:
        """Return all pages of one search.

        Raises:
            UnverifiableError: as `page`, or the pages do not end.
        """
        walk = await self.walk(query, limit)
        if not walk.ended:
            raise UnverifiableError(f"the pages of a search for {query!r} do not end; see pages-end", walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return all that `tools/list` lists.

        Raises:
            UnverifiableError: it was refused, is not well-formed or does not end.
        """
        tools, cursor, seen = list[dict[str, Any]](), None, None
        for _ in range(2000):
            page = read_page(await self.ask("tools/list", {} if cursor is None else {"cursor": cursor}), "tools/list")
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(tools), page.exchange, seen)
            seen = seen or cursor
        raise UnverifiableError("tools/list does not end")

    async def vocabulary(self) -> Vocabulary:
        """Return the words of what the target lists."""
        return Vocabulary.of((await self.listing()).tools)

    async def sandwich(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree; return the listing and what `act` found meanwhile.

        Raises:
            UnverifiableError: the listing changed each time.
        """
        before = await self.listing()
        for _ in range(_ROUNDS):
            found = await act(before)
            after = await self.listing()
            if after.same_as(before):
                return before, found
            before = after
        raise UnverifiableError("what tools/list returns changed while it was compared; see list-unchanged")

    async def fertile(self) -> str:
        """Return the query that was found to have most matches.

        Raises:
            UnverifiableError: no query that was tried matches more than one tool.
        """
        if self._fertile is None:
            words = (await self.vocabulary()).broad()
            counts = {word: len(dict.fromkeys((await self.whole(word)).names)) for word in words}
            best = max(counts, key=lambda word: counts[word], default=None)
            if best is None or counts[best] < 2:  # noqa: PLR2004 - one match makes no two pages
                raise UnverifiableError(f"no query matched two tools; tried {words}. A richer catalogue would help")
            self._fertile = best
        return self._fertile

    # Judging

    def expect(self, condition: bool, exchange: Exchange, message: str, *, case: str | None = None) -> None:
        """Test one expectation against an exchange. What was never tested cannot pass.

        Raises:
            ViolationError: it does not hold.
        """
        if exchange.replied:
            self.judged.append(exchange.number)
        if not condition:
            raise ViolationError(message, exchange, case)

    def require(self, condition: bool, message: str, exchange: Exchange | None = None) -> None:
        """Go on only where the rule can be exercised.

        Raises:
            UnverifiableError: it cannot.
        """
        if not condition:
            raise UnverifiableError(message, exchange)

    def applies(self, condition: bool, message: str) -> None:
        """Go on only where the target has the optional part that the rule is about.

        Raises:
            InapplicableError: it has not.
        """
        if not condition:
            raise InapplicableError(message)

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
        code: int = INVALID_PARAMS,
        headers: Mapping[str, str | None] | None = None,
    ) -> Exchange:
        """Expect `bad`, sent with `headers`, to be refused with `code`, for that in which it differs from `mended`.

        Raises:
            UnverifiableError: `mended`, sent with headers as they should be, is refused as well: nothing was shown.
            ViolationError: `bad` was served, left without an answer, or refused with another code.
        """
        await self._control(mended, case)
        exchange = await self.search(bad, headers=headers)
        refusal = exchange.error
        self.expect(
            refusal is not None and refusal.code == code,
            exchange,
            f"{case} was answered by {exchange.describe()} instead of error {code}",
            case=case,
        )
        await self._control(mended, case)
        return exchange

    async def _control(self, params: Params, case: str) -> None:
        exchange = await self.search(params)
        self.require(
            exchange.result is not None,
            f"the same request with {case} mended was answered by {exchange.describe()}",
            exchange,
        )
