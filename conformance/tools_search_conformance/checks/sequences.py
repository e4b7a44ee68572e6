"""Sequences of requests: each is answered as if it had come alone.

Hypothesis composes sequences of steps, tries them against a model of the server, and cuts one that fails to the fewest
steps. The model keeps very little: the listing, and for each search that was begun the tools it has brought and the
cursor that comes next. No step may change the answer to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import anyio.from_thread
import anyio.lowlevel
from hypothesis import Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, precondition, rule, run_state_machine_as_test
from tools_search_spec import METHOD

from tools_search_conformance.checks.changes import changing, other_catalog
from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import Listing, Page, bare
from tools_search_conformance.target.properties import (
    SUPPRESSED,
    hypothesis_seed,
    limits,
    queries,
    search_in_thread,
)
from tools_search_conformance.target.vocabulary import Vocabulary, is_query
from tools_search_conformance.wire.codec import JsonObject, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_CONTINUED: Final = 2
"""How often each fixed search is continued: a server may keep a search for just one more page."""
_SEQUENCES: Final = 100
_SEQUENCES_WITH_CHANGES: Final = 15
_STEPS: Final = 20
_REFUSED: Final[tuple[JsonObject, ...]] = ({}, {"query": " "}, {"query": "a", "limit": 0}, {"query": "a", "cursor": 5})

_Brought = TypeVar("_Brought")

Change = Callable[[Listing], Coroutine[Any, Any, Listing]]
"""Takes what a fixture lists, changes its catalog, and returns what it lists then."""


@server_check(
    title="No request changes what another one is answered, in any sequence",
    sends="Searches that are interleaved, continued, repeated, mixed up, cancelled, and listings; generated sequences"
    " of them, with changes of the catalog where the fixture can be reloaded.",
    passes="Each answer is what a model of the listing and of the searches so far allows.",
    efforts=("deep",),
)
async def any_sequence(bench: Bench) -> None:
    bench.require(bool((await bench.nonempty_listing()).tools), "the list is empty")
    one, other = [*(await bench.vocabulary()).broad(2), "anything"][:2]
    listing = await bench.server.listing()
    betweens: tuple[JsonObject, ...] = ({"query": other, "limit": 1}, {"query": " "}, {"query": one, "limit": 2})
    for between in betweens:
        page, found = await bench.server.page(one, limit=1), set[str]()
        for _ in range(_CONTINUED):
            found.update(page.names)
            await bench.server.search(between)
            if not page.next_cursor:
                break
            case = f"query {one!r}, limit 1, continued after {between}"
            page = await bench.served({"query": one, "limit": 1, "cursor": page.next_cursor}, case)
            again = sorted(found.intersection(page.names))
            bench.expect(not again, page.exchange, f"{again} on an earlier page already", case=case)
    after = await bench.server.listing()
    bench.expect(after.same_as(listing), after.exchange, "tools/list returned something else after searches")
    await _explore_sequences(bench)
    if "reload" in bench.options.fixture_features:
        reloaded = await changing(bench)
        await _explore_sequences(reloaded, partial(other_catalog, reloaded))


@dataclass(eq=False)
class _Search:
    """A search that was begun."""

    query: str
    over: Listing
    """The listing at that time."""
    cursor: str | None
    found: set[str]
    answered: list[str] = field(default_factory=list[str])
    """Cursors that were followed."""


async def _explore_sequences(bench: Bench, change: Change | None = None) -> None:
    """Try sequences of requests until one is answered otherwise than the model has it, or there are enough.

    Raises:
        ViolationError: of the shortest sequence that was found; its case names the steps.
        UnverifiableError: As `Bench.with_stable_listing`.
    """

    async def search(listing: Listing) -> None:
        seen: list[ViolationError] = []
        count = _SEQUENCES if change is None else _SEQUENCES_WITH_CHANGES
        machine = _machine(bench, listing, change, seen)
        await search_in_thread(partial(_run, machine, bench, count), seen)

    if change is None:
        await bench.with_stable_listing(search)
    else:
        await search(await bench.server.listing())


async def _abandon(bench: Bench, params: JsonObject) -> None:
    """Send a search and cancel it at once. It is not judged, but the requests after it are."""
    connection, seconds = await bench.server.connection(), bench.options.timeout
    number = connection.next_id()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(connection.request, METHOD, params, seconds=seconds, with_id=number))
        await anyio.lowlevel.checkpoint()
        if connection.era != MODERN or bench.cell.transport != "http":
            await connection.cancel(number, seconds)
        tasks.cancel_scope.cancel()  # over modern HTTP, closing the response is how a client cancels


def _run(machine: type[RuleBasedStateMachine], bench: Bench, count: int) -> None:
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType] - untyped
        hypothesis_seed(bench, bench.recorder.check)(machine),
        settings=settings(
            max_examples=count,
            stateful_step_count=_STEPS,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=SUPPRESSED,
        ),
    )


def _machine(  # noqa: C901 - a class of short rules that share what they are about
    bench: Bench, listed: Listing, change: Change | None, seen: list[ViolationError]
) -> type[RuleBasedStateMachine]:
    words = Vocabulary(listed.tools)
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
            listing = self._do("list", bench.server.listing)
            if listing is not None:
                self._expect(listing.same_as(self.listing), listing.exchange, "tools/list returned something else")

        @rule(target=begun, query=asked, limit=few)
        def search(self, query: str, limit: int | None) -> Any:
            page = self._do(f"search {query!r}, limit {limit}", lambda: bench.server.page(query, limit=limit))
            if page is None:
                return multiple()  # pyright: ignore[reportUnknownVariableType] - of nothing
            self._judge(page, limit)
            return _Search(query, self.listing, page.next_cursor, set(page.names))

        @rule(name=st.sampled_from(names))
        def search_by_name(self, name: str) -> None:
            page = self._do(f"search {name!r}", lambda: bench.server.first(name))
            if page is not None and name in self.listing.by_name:
                brought = f"{page.names[:1]} came first instead of {name!r}"
                self._expect(page.names[:1] == [name], page.exchange, brought)

        @rule(search=begun, limit=few)
        def next_page(self, search: _Search, limit: int | None) -> None:
            if not (cursor := search.cursor) or search.over is not self.listing:
                return
            step = f"next page of {search.query!r}, limit {limit}"
            page = self._do(step, lambda: bench.server.page(search.query, limit=limit, cursor=cursor))
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
            page = self._do(step, lambda: bench.server.page(search.query, limit=limit, cursor=search.answered[0]))
            if page is not None:
                self._judge(page, limit)

        @rule(search=begun, other=asked)
        def cursor_with_another_query(self, search: _Search, other: str) -> None:
            if not search.cursor or other == search.query:
                return
            params = {"query": other, "cursor": search.cursor}
            exchange = self._do(f"cursor of {search.query!r} with {other!r}", lambda: bench.server.search(params))
            if exchange is not None:
                self._expect(exchange.result is None, exchange, "a cursor of another query was served")

        @rule(query=asked)
        def abandon_a_search(self, query: str) -> None:
            self._do(f"search {query!r}, cancelled", lambda: _abandon(bench, {"query": query}))

        @rule(params=st.sampled_from(_REFUSED))
        def refused_request(self, params: JsonObject) -> None:
            exchange = self._do(f"refused {json_text(params)}", lambda: bench.server.search(params))
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
