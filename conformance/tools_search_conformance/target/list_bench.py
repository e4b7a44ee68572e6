"""What checks do with one list of a server: queries that suit it, searches, and what is expected of the answers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Final, TypeVar

import anyio
from tools_search_spec import Primitive

from tools_search_conformance.model import InapplicableError, UnverifiableError, VerdictError, ViolationError
from tools_search_conformance.run.judging import Case, Found, Workbench
from tools_search_conformance.target.pages import Listing, Page, SharedCases, Walk, read_page
from tools_search_conformance.target.primitives import METHODS_OF_RESOURCES, OTHERS, RESOURCES, TOOLS, noun_of
from tools_search_conformance.target.server import ChangedError, Params, Server
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary, is_query, terms
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, json_text, same
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.eras import LEGACY
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021
_INVALID: Final = (INVALID_PARAMS,)

_CASES: Final = 24
_MORE_CASES: Final = 3
"""If searches are slow, another method than `tools/search` gets at least `_CASES` cases, and this multiple of a brief
run's."""
ROUNDS: Final = 3
"""How often a check is repeated, or a comparison, while the list changes."""
_LOOK_SECONDS: Final = 0.05
IN_TIME_SECONDS: Final = 2.5
"""Maximum time for a change to show everywhere; fixtures promise two seconds."""
_WATCHED_SECONDS: Final = 5.0
_LONG_LISTING_SECONDS: Final = 5.0
_LISTINGS: Final = 6
"""How many listings have to agree until they hardly do so by chance."""
_ENOUGH_PAGES: Final = 60
_LONG_LIST: Final = 150
"""Number of items, or of matches, beyond which lists other than that of tools are sampled."""
_CONTENTS_READ: Final = 2
"""How many resources are read for terms of their content."""
_MAX_BYTES_SHARED: Final = 16 * 1024 * 1024
"""Maximum memory for keeping the answers of earlier checks."""


class ListBench(Workbench):
    """The workbench for one list on one connection.

    Methods that return a query, a page or a listing raise `UnverifiableError` if the server does not deliver what the
    method promises, and `InapplicableError` if it lists too few items.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server.options, server.cell, server.recorder)
        self.server = server
        self.shared = SharedCases()
        self._key_query: str | None = None
        self._query_with_matches: tuple[str, int] | None = None
        self._control: tuple[Params, Exchange] | None = None
        self._words: Vocabulary | None = None

    def turn_to(self, primitive: Primitive) -> None:
        """Search another list from now on, on the same connection, and forget what suits the one before."""
        self.primitive, self.server, self.shared = primitive, self.server.searching(primitive), SharedCases()
        self._control = self._words = None
        self.forget_choices()

    @property
    def list_method(self) -> str:
        """The list method."""
        return self.primitive.list_method

    @property
    def noun(self) -> str:
        """The word for one item in messages."""
        return noun_of(self.primitive)

    async def keeps_order(self, listing: Listing) -> bool:
        """Return whether the list stays in this order without a search, now and some seconds later.

        Two short listings can agree by chance.
        """
        if not await self.lists_alike(listing.in_order_of):
            return False
        await anyio.sleep(_WATCHED_SECONDS)
        return await self.lists_alike(listing.in_order_of)

    async def lists_alike(self, alike: Callable[[Listing], bool]) -> bool:
        """Return whether several listings without a search between them are all `alike`."""
        return all([alike(await self.server.listing()) for _ in range(_LISTINGS)])

    @property
    def listing_seconds(self) -> float:
        """How long a complete listing has taken."""
        return self.server.listing_seconds

    async def lists_steadily(self, listing: Listing) -> bool:
        """Return whether the server still lists `listing`.

        Watches a live server for some seconds, once and after each change, because its list can come and go.
        """
        until = time.monotonic() + (0 if self.profile == "fixture" or self.server.steady else _WATCHED_SECONDS)
        while await self.lists(listing):
            if time.monotonic() >= until:
                self.server.steady = True
                return True
            await anyio.sleep(_LOOK_SECONDS)
        return False

    async def lists(self, listing: Listing) -> bool:
        """Return whether the server lists `listing` now. A list that cannot be read counts as the same."""
        try:
            return (await self.server.listing()).same_as(listing)
        except ChangedError:
            return False
        except (UnverifiableError, RefusedError, TargetError):
            return True  # the fault that was found breaks the listing, too

    def forget_choices(self) -> None:
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

    def has_turn(self, number: int) -> bool:
        """Return whether the case with this number is for this cell, which gets half of them in a run with four cells.

        Then every transport and every era still gets all cases. A deep run has all of them in each cell, and so does a
        check that runs in fewer cells: over one transport, in one era, or for another method than `tools/search`.
        """
        own = (self.cell.transport == "http") + (self.cell.era == LEGACY)
        return not self.shares_cases or (number + own) % 2 == 0

    @property
    def shares_cases(self) -> bool:
        """Whether this cell shares its cases with others, by `has_turn`."""
        options = self.options
        alone = not (options.argv and options.http_argv) or len(options.eras) == 1
        everywhere = self.recorder.in_every_cell and self.primitive is TOOLS
        return not alone and everywhere and options.effort != "deep"

    @property
    def share_of_examples(self) -> float:
        """The share of the usual number of generated cases for this list in this cell."""
        return (1 if self.primitive is TOOLS else 1 / 5) / (2 if self.shares_cases else 1)

    def share(self, cases: Iterable[Case]) -> list[Case]:
        """Return those of many similar cases that are for this cell, by `has_turn`; in a brief run, all of its few."""
        return [case for number, case in enumerate(cases) if self.options.effective_brief or self.has_turn(number)]

    def some(self, cases: Sequence[Case], most: int = 3) -> Sequence[Case]:
        """Return the cases to try: all, or in a brief run at most `most`, spread over all of them.

        If cells share cases, returns those few and this cell's share of the rest. For methods other than `tools/search`
        of a slow server, returns a few more, different ones for each.
        """
        brief, deep = self.options.effective_brief, self.options.effort == "deep"
        if self.primitive is not TOOLS and self.server.concurrency.slow and not brief and not deep:
            step = -(-len(cases) // max(_CASES, _MORE_CASES * most)) or 1
            return cases[OTHERS.index(self.primitive) % step :: step]
        if len(cases) <= most or not (brief or self.shares_cases):
            return cases
        few = {number * (len(cases) - 1) // max(1, most - 1) for number in range(most)}
        return [case for place, case in enumerate(cases) if place in few or (not brief and self.has_turn(place))]

    async def vocabulary(self) -> Vocabulary:
        """Return the words of the target's listing, which this connection reads once."""
        items = (await self.server.known_listing()).items
        if self._words is None or self._words.items is not items:
            self._words = Vocabulary(items, self.primitive.key, _LONG_LIST if self.is_sampled else None)
        return self._words

    @property
    def is_sampled(self) -> bool:
        """Whether a few cases have to do: in a long list other than that of tools, which has the same rules."""
        listed, deep = self.server.last_listing, self.options.effort == "deep"
        return self.primitive is not TOOLS and not deep and listed is not None and len(listed.items) > _LONG_LIST

    async def nonempty_listing(self) -> Listing:
        """Return the target's non-empty listing, which this connection reads once."""
        listing = await self.server.known_listing()
        self.applies(bool(listing.items), f"the server lists no {self.noun}")
        return listing

    async def with_stable_listing(self, act: Callable[[Listing], Awaitable[Found]]) -> tuple[Listing, Found]:
        """List, act and list again until both listings agree. Return the listing and the result of `act`.

        A list that takes long to read is not read again: findings only count if it is still the same anyway.
        """
        before = await self.server.known_listing()
        if self.server.listing_seconds > _LONG_LISTING_SECONDS:
            return before, await act(before)
        for _ in range(ROUNDS):
            found = await act(before)
            after = await self.server.listing()
            if after.same_as(before):
                return before, found
            before = after
        raise self.changing()

    def changing(self) -> UnverifiableError:
        """Return why a check could not be run: with one message, so that a verdict names the reason once."""
        return UnverifiableError(
            f"what {self.list_method} returns changed during each of {ROUNDS} comparisons with searches; keep the list"
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

    async def served(self, params: Params, case: str, *, control: ListBench | None = None, **overrides: Any) -> Page:
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

    async def expect_page(self, exchange: Exchange, case: str, *, control: ListBench | None = None) -> Page:
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
        for _ in range(ROUNDS) if differing else ():
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

        Sends `good` before and after all of them, which also shows a server that stopped serving it. A case that is
        served is reported rather than one that is refused with another error.
        """

        async def refuse(case: tuple[Params, str]) -> None:
            self.expect_code(await self.server.search(case[0]), case[1])

        await self._require_served(good, cases[0][1])
        try:
            await self.each(cases, refuse)
        except ViolationError as refused_wrongly:
            if refused_wrongly.exchange is not None and refused_wrongly.exchange.result is None:
                for params, case in cases:  # one that is served is another fault, and the worse one
                    if (exchange := await self.server.search(params)).result is not None:
                        self.expect_code(exchange, case)
            raise
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


async def until(
    look: Callable[[], Awaitable[Found]], done: Callable[[Found], bool], seconds: float = IN_TIME_SECONDS
) -> Found:
    """Look again and again until what is seen is `done`, or the time is over; return what was seen last."""
    last = anyio.current_time() + seconds
    while True:
        if done(seen := await look()) or anyio.current_time() > last:
            return seen
        await anyio.sleep(_LOOK_SECONDS)


def _matches_of(walk: Walk) -> int:
    return len({*walk.keys})


AnyBench = TypeVar("AnyBench", bound=ListBench)


def once(make: Callable[[AnyBench], Awaitable[Found]]) -> Callable[[AnyBench], Awaitable[Found]]:
    """Run the decorated function once per cell, as with `Bench.once`."""

    @wraps(make)
    async def asked_once(bench: AnyBench) -> Found:
        return await bench.once(make.__name__, partial(make, bench))

    return asked_once


@once
async def content_terms(bench: ListBench) -> list[tuple[str, str]]:
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
async def early_page(bench: ListBench) -> Page | None:
    """Return the first of several pages of a search, whose cursor is only used many searches later."""
    with suppress(UnverifiableError, InapplicableError):
        query = await bench.query_with_two_matches()
        return await bench.server.page(query, limit=1)
    return None
