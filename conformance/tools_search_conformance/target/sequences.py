"""Requests in any order against a model of the server: Hypothesis composes the steps and cuts what fails to the fewest.

What the server keeps is modelled by very little: the listing, and for each search that was begun the tools it has
brought and the cursor that comes next. No step may change what another one is answered.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio.from_thread
import anyio.to_thread
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, precondition, rule, run_state_machine_as_test
from tools_search_spec import METHOD

from tools_search_conformance.checks.matching import is_query
from tools_search_conformance.target.pages import Listing, Page, bare
from tools_search_conformance.target.properties import limits, queries
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.verdict import UnverifiableError, ViolationError
from tools_search_conformance.wire.codec import JsonObject, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__ = ["Change", "explore_sequences"]

_SEQUENCES: Final = 100
_SEQUENCES_WITH_CHANGES: Final = 15
_STEPS: Final = 20
_SUPPRESSED: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
_REFUSED: Final[tuple[JsonObject, ...]] = ({}, {"query": " "}, {"query": "a", "limit": 0}, {"query": "a", "cursor": 5})

_Brought = TypeVar("_Brought")

Change = Callable[[Listing], Coroutine[Any, Any, Listing]]
"""Takes what a fixture lists, changes its catalog, and returns what it lists then."""


@dataclass(eq=False)
class _Search:
    """A search that was begun."""

    query: str
    over: Listing
    """What was listed at that time."""
    cursor: str | None
    found: set[str]
    answered: list[str] = field(default_factory=list[str])
    """Cursors that were followed."""


async def explore_sequences(bench: Bench, change: Change | None = None) -> None:
    """Try sequences of requests until one is answered otherwise than the model has it, or there are enough.

    Raises:
        ViolationError: of the shortest sequence that was found; its case names the steps.
        UnverifiableError: as `Bench.sandwich`.
    """

    async def search(listing: Listing) -> None:
        seen: list[ViolationError] = []
        count = _SEQUENCES if change is None else _SEQUENCES_WITH_CHANGES
        try:
            await anyio.to_thread.run_sync(_run, _machine(bench, listing, change, seen), bench, count)
        except (Flaky, FlakyFailure) as error:
            if not seen:
                raise
            first = seen[0]
            told = ViolationError(f"{first.message} (not every time)", first.exchange, first.case)
            told.steps = first.steps
            raise told from error

    if change is None:
        await bench.sandwich(search)
    else:
        await search(await bench.listing())


async def _abandon(bench: Bench, params: JsonObject) -> None:
    """Send a search and cancel it at once. What comes of it is not judged, but what comes after it is."""
    connection, seconds = await bench.connection(), bench.setting.seconds
    number = connection.next_id()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(connection.request, METHOD, params, seconds=seconds, with_id=number))
        await anyio.lowlevel.checkpoint()
        if connection.era != MODERN or bench.cell.transport != "http":
            await connection.cancel(number, seconds)
        tasks.cancel_scope.cancel()  # over modern HTTP, closing the response is how a client cancels


def _run(machine: type[RuleBasedStateMachine], bench: Bench, count: int) -> None:
    name = f"{bench.setting.seed} {bench.cell.name} {bench.recorder.check}"
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType] - untyped
        seed(zlib.crc32(name.encode()))(machine),
        settings=settings(
            max_examples=count,
            stateful_step_count=_STEPS,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=_SUPPRESSED,
        ),
    )


def _machine(  # noqa: C901 - a class of short rules that share what they are about
    bench: Bench, listed: Listing, change: Change | None, seen: list[ViolationError]
) -> type[RuleBasedStateMachine]:
    words = Vocabulary.of(listed.tools)
    # Most queries are broad and most limits small, so that there are pages to go on to.
    asked = st.sampled_from(words.broad(4) or ["anything"]) | queries(words)
    few = st.integers(min_value=1, max_value=3) | st.none() | limits()
    names = [name for name in words.names if is_query(name)] or ["anything"]

    now = [listed]  # a catalog stays as a sequence has left it

    class Sequence(RuleBasedStateMachine):
        """One sequence; the steps stand in its rules."""

        begun = Bundle("begun")

        def __init__(self) -> None:
            super().__init__()
            self.listing = now[0]
            self.steps: list[str] = []
            self.exchanges: list[Exchange] = []

        @rule()
        def list_tools(self) -> None:
            listing = self._do("list", bench.listing)
            if listing is not None:
                self._expect(listing.same_as(self.listing), listing.exchange, "tools/list returned something else")

        @rule(target=begun, query=asked, limit=few)
        def search(self, query: str, limit: int | None) -> Any:
            page = self._do(f"search {query!r}, limit {limit}", lambda: bench.page(query, limit=limit))
            if page is None:
                return multiple()  # pyright: ignore[reportUnknownVariableType] - of nothing
            self._judge(page, limit)
            return _Search(query, self.listing, page.next_cursor, set(page.names))

        @rule(name=st.sampled_from(names))
        def search_by_name(self, name: str) -> None:
            page = self._do(f"search {name!r}", lambda: bench.first(name))
            if page is not None and name in self.listing.by_name:
                brought = f"{page.names[:1]} came first instead of {name!r}"
                self._expect(page.names[:1] == [name], page.exchange, brought)

        @rule(search=begun, limit=few)
        def next_page(self, search: _Search, limit: int | None) -> None:
            if not (cursor := search.cursor) or search.over is not self.listing:
                return
            step = f"next page of {search.query!r}, limit {limit}"
            page = self._do(step, lambda: bench.page(search.query, limit=limit, cursor=cursor))
            if page is None:
                return
            self._judge(page, limit)
            again = sorted(search.found.intersection(page.names))
            self._expect(not again, page.exchange, f"{again} on an earlier page already")
            search.found.update(page.names)
            search.answered.append(cursor)
            search.cursor = page.next_cursor

        @rule(search=begun, limit=few)
        def repeat_a_cursor(self, search: _Search, limit: int | None) -> None:
            if not search.answered or search.over is not self.listing:
                return
            step = f"first cursor of {search.query!r} again, limit {limit}"
            page = self._do(step, lambda: bench.page(search.query, limit=limit, cursor=search.answered[0]))
            if page is not None:
                self._judge(page, limit)

        @rule(search=begun, other=asked)
        def cursor_with_another_query(self, search: _Search, other: str) -> None:
            if not search.cursor or other == search.query:
                return
            params = {"query": other, "cursor": search.cursor}
            exchange = self._do(f"cursor of {search.query!r} with {other!r}", lambda: bench.search(params))
            if exchange is not None:
                self._expect(exchange.result is None, exchange, "a cursor of another query was served")

        @rule(query=asked)
        def abandon_a_search(self, query: str) -> None:
            self._do(f"search {query!r}, cancelled", lambda: _abandon(bench, {"query": query}))

        @rule(params=st.sampled_from(_REFUSED))
        def refused_request(self, params: JsonObject) -> None:
            exchange = self._do(f"refused {json_text(params)}", lambda: bench.search(params))
            if exchange is not None:
                self._expect(exchange.result is None, exchange, f"the params {json_text(params)} were served")

        @precondition(lambda self: change is not None)
        @rule()
        def change_catalog(self) -> None:
            if change is not None:
                now[0] = self._do("change of the catalog", partial(change, self.listing)) or self.listing
                self.listing = now[0]

        def _judge(self, page: Page, limit: int | None) -> None:
            unlisted = [name for name in page.names if name not in self.listing.by_name]
            self._expect(not unlisted, page.exchange, f"{unlisted} found, but not on the list")
            self._expect(len({*page.names}) == len(page.names), page.exchange, "a tool twice on a page")
            excess = f"{len(page.tools)} tools under limit {limit}"
            self._expect(limit is None or len(page.tools) <= limit, page.exchange, excess)
            other = [t["name"] for t in page.tools if not same(bare(t), bare(self.listing.by_name[t["name"]]))]
            self._expect(not other, page.exchange, f"{other} found otherwise than listed")

        def _do(self, step: str, act: Callable[[], Coroutine[Any, Any, _Brought]]) -> _Brought | None:
            """Take a step and return what it brought, `None` where that is no answer to judge."""
            self.steps.append(step)
            with bench.recorder.keeping() as exchanges:
                try:
                    return anyio.from_thread.run(act)
                except UnverifiableError:
                    return None
                finally:
                    self.exchanges += exchanges

        def _expect(self, condition: bool, exchange: Exchange, message: str) -> None:
            try:
                bench.expect(condition, exchange, message, case="; ".join(self.steps))
            except ViolationError as violation:
                violation.steps = tuple(self.exchanges)
                seen.append(violation)
                raise

    return Sequence
