"""Sequences of requests, each of which must get the same answer as on its own.

Hypothesis generates sequences of steps, compares the server with a model, and shrinks a sequence that fails. The model
is small: the listing, and for each open search the tools found so far and the next cursor. No step may change the
answer to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import combinations, permutations
from typing import Any, Final, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
from hypothesis import Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, precondition, rule, run_state_machine_as_test
from tools_search_spec import METHOD

from tools_search_conformance.checks.changes import changing, other_catalog
from tools_search_conformance.checks.consistency import has_worked, queries_for_adapted, without_times
from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.list_bench import INVALID_PARAMS
from tools_search_conformance.target.pages import Listing, Page, bare
from tools_search_conformance.target.primitives import TEMPLATES, TOOLS, items_in, keys_in, params_of_use
from tools_search_conformance.target.properties import hypothesis_seed, limits, queries, quietly, search_in_thread
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary, is_query
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, json_text, same
from tools_search_conformance.wire.eras import DECLARED, MODERN
from tools_search_conformance.wire.record import Exchange

_CONTINUED: Final = 2
"""Number of further pages of each fixed search: a server may keep a search for only one."""
_SEQUENCES: Final = 100
_SEQUENCES_WITH_CHANGES: Final = 15
_STEPS: Final = 20
_WORDS: Final = 12
_LONG: Final = f"{NONSENSE} " * 55
_NOT_SO_LONG: Final = f"{NONSENSE[::-1]} " * 50
"""Texts that fill most of a query and that no tool has."""
_MANY: Final = 50
_HASHED: Final = 7
"""Number of base-31 digits that can represent any 32-bit number."""
_GAPS: Final = ((1, 0.5), (2, 0.5), (4, 0.5), (3, 0.5))
"""Numbers of other searches, and seconds, between repetitions. The numbers have no short period."""
_RESTS: Final = ((0, 0.0), (1, 3.0), (2, 3.0))
"""The same for a connection that has been idle since the declarations were checked."""
_SECOND: Final = 1.1
_REFUSED: Final[tuple[JsonObject, ...]] = ({}, {"query": " "}, {"query": "a", "limit": 0}, {"query": "a", "cursor": 5})

_Brought = TypeVar("_Brought")

Change = Callable[[Listing], Coroutine[Any, Any, Listing]]
"""Takes a fixture's listing, changes its catalog, and returns the new listing."""


@server_check(
    title="No request changes the answer to another one, in any sequence",
    sends="Searches that are interleaved, continued, repeated and refused. To a fixture, `tools/call`,"
    " `server/discover`, the second page of `tools/list`, `resources/read`, `prompts/get` and invalid searches,"
    " each after several searches and refusals; calls of what was not listed, before and after a search finds it;"
    " over HTTP, the same search by clients of both eras, in turn and at once; similar long queries, queries with"
    " the same hash, params that are equal once they are joined, one query with several limits, and the same queries"
    " by other methods, to another process in another order. With `--effort deep`, generated sequences of searches and"
    " listings, interleaved and cancelled, with changes of the catalog if the fixture can be reloaded. Requests that"
    " failed in other checks, again on this connection and as the first search on another one.",
    passes="Each answer is one that a model of the list and of the searches so far allows, and is the same on both"
    " connections.",
)
async def any_sequence(bench: Bench) -> None:
    for fault in bench.faults_of_state:
        raise fault
    await bench.nonempty_listing()
    async with bench.fresh() if bench.can_start("core") else nullcontext(bench) as other:
        # A live server's tools are not called, and they may change at any time.
        of_fixture = bench.profile == "fixture" and bench.primitive is TOOLS
        discovers = of_fixture and bench.cell.era == MODERN
        before = [await other.server.ask("server/discover", {}) for _ in range(2 * discovers)]
        if of_fixture:
            await _expect_others_kept(other, bench.others_served)
        if bench.can_start("core") and bench.primitive is TOOLS:
            await _expect_alike_told_apart(bench)
            if of_fixture and bench.has_turn(0):
                await _expect_used_alike(bench)
        # A bench on another connection has none for the other methods yet.
        await _interleave(other, [other.searching(each.primitive) for each in bench.others_served])
        if discovers:
            after = await other.server.ask("server/discover", {})
            *earlier, now = [(each.result or {}).get("capabilities") for each in (*before, after)]
            message = f"server/discover returned the capabilities {json_text(earlier[0]):.300} before searches with and"
            message += f" without a limit, and {json_text(now):.300} after them"
            other.expect(same(earlier[0], now) or not same(*earlier), after, message)
        if discovers and bench.cell.transport == "http" and len(bench.options.eras) > 1 and bench.can_start("core"):
            with suppress(UnverifiableError):  # the server may not support that era
                async with bench.of_legacy_client() as legacy:
                    await _expect_eras_apart(bench, legacy)
    if bench.options.effort == "deep":
        await _explore_sequences(bench)
        if "reload" in bench.options.fixture_features and bench.primitive is TOOLS:
            reloaded = await changing(bench)
            await _explore_sequences(reloaded, partial(other_catalog, reloaded))


@dataclass(frozen=True)
class _Other:
    """A request whose answer no search may change, and searches to try."""

    method: str
    params: JsonObject
    searches: Sequence[tuple[Bench, JsonObject]]


async def _expect_others_kept(bench: Bench, served: Sequence[Bench]) -> None:
    """Expect other requests to get the same answer after any search, refused or not, or after none."""
    others = await _other_requests(bench, served)
    # What a search changes for good shows only in comparison with what was answered before the first one.
    before_any = [[await bench.server.ask(other.method, other.params) for _ in range(2)] for other in others]
    for other, before in zip(others, before_any, strict=True):
        await _expect_other_kept(bench, other, before)


async def _other_requests(bench: Bench, served: Sequence[Bench]) -> list[_Other]:
    tools = [tool for tool in (await bench.nonempty_listing()).items if "x-mcp-header" not in json_text(tool)]
    names = [tool["name"] for tool in tools if is_query(tool["name"])]
    bench.require(bool(names), "no tool has a name that is a valid query")
    queries: list[JsonObject] = [{"query": query} for query in dict.fromkeys((names[0], names[-1], NONSENSE))]
    refused: tuple[JsonObject, ...] = ({"query": NONSENSE, "limit": 0}, {"query": NONSENSE, "cursor": "none"})
    searches = [(bench, each) for each in (*queries, *refused)]
    schema = as_object(next(tool for tool in tools if tool["name"] == names[-1]).get("inputSchema")) or {}
    call = {"name": names[-1], "arguments": (as_array(schema.get("examples")) or [{}])[0]}
    others = [_Other("tools/call", call, searches)]  # first, before anything was found
    if bench.cell.era == MODERN:
        others.append(_Other("server/discover", {}, searches))
    cursor = ((await bench.server.ask("tools/list", {})).result or {}).get("nextCursor")
    if isinstance(cursor, str):
        others.append(_Other("tools/list", {"cursor": cursor}, searches))
    for each in served if bench.has_turn(0) else ():
        if (primitive := each.primitive) is not TEMPLATES:
            for item in (await each.server.known_listing()).items[:1]:
                own = (bench.searching(primitive), {"query": str(item[primitive.key])})
                others.append(_Other(primitive.use_method, params_of_use(item, primitive), [*searches[:1], own]))
    return others + [_Other(METHOD, params, [search]) for params, search in zip(refused, searches[:2], strict=True)]


async def _expect_other_kept(bench: Bench, other: _Other, before: Sequence[Exchange]) -> None:
    method, params = other.method, other.params
    (first, meta), again = (_lasting(method, exchange) for exchange in before)
    for by, search in other.searches:
        await by.server.search(search)
        last = await bench.server.ask(method, params)
        now, meta_now = _lasting(method, last)
        if same(first, again[0]):
            message = f"{method} returned {json_text(first):.200} before a search and {json_text(now):.200} after it"
            bench.expect(same(first, now), last, message, case=f"{method}, after a search for {search!r}")
        if same(meta, again[1]) and not same(meta, meta_now):
            await anyio.sleep(_SECOND)  # a time in the answer is then different
            _, meta_later = _lasting(method, await bench.server.ask(method, params))
            what = "the error" if last.result is None else "the _meta"
            message = f"after a search, {what} of {method} is {json_text(meta_now):.200}"
            message += f" instead of {json_text(meta):.200}"
            bench.expect(not same(meta_later, meta_now), last, message, case=method)


def _lasting(method: str, exchange: Exchange) -> tuple[Any, Any]:
    """Return what no search may change in an answer, and what may contain a time: its `_meta`, or an error's texts."""
    if exchange.result is None or method == "tools/list":  # list-unchanged judges listings
        error = exchange.error
        # What is wrong with a response may vary.
        shown = exchange.describe() if exchange.replied else "no response"
        return shown, None if error is None else [error.message, error.data]
    return without_times(exchange.result), exchange.result.get("_meta")


async def _expect_used_alike(bench: Bench) -> None:
    """Expect an item not to be usable only after a search has found it, where nothing was listed."""
    async with bench.fresh(own_process=True) as other:
        for each in [bench, *bench.others_served]:
            primitive, items = each.primitive, (await each.server.known_listing()).items
            plain = [item for item in items if "x-mcp-header" not in json_text(item) and is_query(item[primitive.key])]
            for item in plain[-1:] if primitive is not TEMPLATES else ():
                use, params, key = primitive.use_method, params_of_use(item, primitive), item[primitive.key]
                before = [await other.server.ask(use, params) for _ in range(2)]
                await other.searching(primitive).server.search({"query": key})
                after = await other.server.ask(use, params)
                message = f"{use} of {key!r} got {before[0].describe()} before a search for it, and a result after it"
                unchanged = not has_worked(after) or any(map(has_worked, before))
                other.expect(unchanged, after, message, case=f"{key}, not listed before")


async def _expect_alike_told_apart(bench: Bench) -> None:
    """Expect queries that are easily confused to get the same answers in any order.

    They are sent in one order on this connection, and in the other to another process, which has been idle. The same
    search is also sent twice in a row there.
    """
    words = (await bench.vocabulary()).broad(_WORDS)
    every = [*combinations(words, 2)]
    pairs = [pair for pair in every if len(pair[0]) == len(pair[1])] or every
    async with bench.undeclaring() as other:
        await other.server.known_listing()  # as on this one
        await _expect_repeated(other, await bench.query_with_matches(), _RESTS, words[-1])
        for first, second in pairs[:1]:
            for query in (first, second, f"{_NOT_SO_LONG} {first}", f"{_NOT_SO_LONG} {second}"):
                found = [_names(await _ask(by, query)) for by in (bench, other) * 2]
                if any(names != found[0] for names in found):
                    return  # each process, or each search, may have its own order; see deterministic
            alike = (f"{_LONG} {first}", f"{_LONG} {second}"), (f"{first} {_LONG}", f"{second} {_LONG}")
            hashed = f"{NONSENSE} {first}"
            queries = (*alike, (hashed, _with_hash_of(hashed, second)))
            params: list[tuple[JsonObject, JsonObject]] = [({"query": a}, {"query": b}) for a, b in queries]
            params.append(({"query": first, "limit": 11}, {"query": f"{first}1", "limit": 1}))  # equal if joined
            for pair in params:
                answers = [await _ask(bench, **each) for each in pair]
                for each, here in zip(pair[::-1], answers[::-1], strict=True):
                    there = await _ask(other, **each)
                    shown, wanted = _names(here), _names(there)
                    message = (
                        f"the search returned {shown[:5]}, but after the same requests in another order {wanted[:5]}"
                    )
                    bench.expect(shown == wanted, here, message, case=f"params {json_text(each):.1100}")
            await _expect_none_lost_after_first_limit(bench, other)
            here = [bench, *bench.others_served]
            for number, (each, earlier) in enumerate(permutations(here, 2)):
                keys = [key for key in (await each.vocabulary()).keys if is_query(key)] or [first]
                query = keys[number % len(keys)]  # even a server that finds little finds it
                answer = await _ask(each, query)
                await _ask(other.searching(earlier.primitive), query)
                after = await _ask(other.searching(each.primitive), query)
                shown, wanted = _names(after)[:1], _names(answer)[:1]
                message = f"{each.method} returned {wanted} first, but after the same query by {earlier.method} {shown}"
                bench.expect(shown == wanted, answer, message, case=f"query {query!r}")


async def _expect_none_lost_after_first_limit(bench: Bench, other: Bench) -> None:
    """Expect a search not to keep only as many matches as its first request asks for; `other` is another process."""
    query = f" {await bench.query_with_matches()} "  # that one itself was sent with a large limit
    await _ask(bench, query, limit=1)
    few, many = await _ask(bench, query, limit=_MANY), await _ask(other, query, limit=_MANY)
    ended = few.result is not None and many.result is not None and "nextCursor" not in few.result
    lost = [name for name in _names(many) if ended and name not in _names(few)]
    message = f"after the same search with limit 1, the search ends without {lost[:5]}, which it finds at first"
    bench.expect(not lost, few, message, case=f"params {json_text(few.params)}")


def _with_hash_of(text: str, other: str) -> str:
    """Return `other` with a word added, so that both texts have the same hash in some languages."""

    def hashed(of: str) -> int:
        units = of.encode("utf-16-be")
        return reduce(lambda value, at: value * 31 + int.from_bytes(units[at : at + 2]), range(0, len(units), 2), 0)

    lowest = f"{other} {'@' * _HASHED}"
    missing = (hashed(text) - hashed(lowest)) % 2**32
    digits = [missing // 31**place % 31 for place in reversed(range(_HASHED))]
    return f"{other} {''.join(chr(ord('@') + digit) for digit in digits)}"


async def _interleave(bench: Bench, others: Sequence[Bench]) -> None:
    query = await bench.query_with_matches()
    other = next((word for word in (await bench.vocabulary()).broad(2) if word != query), "anything")
    first = await bench.server.search({"query": query})
    bench.require_result(first, f"a search for {query!r}")
    # A search for one of the compared tools, but not the first, which servers might then rank first.
    keys = [*(await bench.vocabulary()).keys, *_names(first)[1:]]
    named = next((key for key in keys[::-1] if is_query(key)), other)
    again = await bench.server.search({"query": query})
    plain = [await _interrupted(bench, query, None) for _ in range(2)]
    found = any(map(items_in, plain[0]))
    bench.require(found, f"the query {query!r} found nothing", first)
    # The order is only a SHOULD: if it varies anyway, another difference proves nothing.
    same_twice = [*map(_names, [first, *plain[0]])] == [*map(_names, [again, *plain[1]])]
    if not same_twice:
        await _expect_repeated(bench, query, _GAPS, named)
    bench.applies(same_twice, "identical requests return different tools even in the same order; see deterministic")
    last, case = plain[0][-1], f"query {query!r}, after the same one with limit 1"
    message = f"the search returned {_names(first)}, but after the same search with limit 1 {_names(last)}"
    bench.expect(_names(last) == _names(first), last, message, case=case)
    betweens: tuple[JsonObject, ...] = (
        {"query": other, "limit": 1}, {"query": named}, {"query": " "}, {"query": query, "limit": 2},
        {"query": query, "cursor": "none"},
    )  # fmt: skip
    same_of_others = [(each, {"query": query, "limit": 1}) for each in others]
    for by, between in [*((bench, between) for between in betweens), *same_of_others]:
        exchanges = await _interrupted(bench, query, between, by)
        for before, exchange in zip(plain[0], exchanges, strict=False):
            where = "" if by is bench else f" of {by.method}"
            case = f"params {json_text(exchange.params)}, after {json_text(between)}{where}"
            shown, wanted = _names(exchange), _names(before)
            message = f"the search returned {wanted}, but after another search in between {shown}"
            bench.expect(shown == wanted, exchange, message, case=case)
        await _expect_same_hits(bench, query, plain, exchanges, f"after {json_text(between)}")


async def _expect_eras_apart(bench: Bench, legacy: Bench) -> None:
    """Expect the same pages if a client of the other era sends the same search in between."""
    for query in await queries_for_adapted(legacy):
        for own, other in ((bench, legacy), (legacy, bench)):
            plain = [await _interrupted(own, query, None) for _ in range(2)]
            between: JsonObject = {"query": query, "limit": 1}
            exchanges = await _interrupted(own, query, between, other)
            await _expect_same_hits(own, query, plain, exchanges, f"after the same search of era {other.cell.era}")
            found = await own.server.search_amid(other.server, {"query": query})
            if found.result is not None:  # the server may be too busy
                exchanges = [*plain[0][:-1], found]
                await _expect_same_hits(own, query, plain, exchanges, f"amid the same ones of era {other.cell.era}")


async def _expect_same_hits(
    bench: Bench, query: str, plain: Sequence[Sequence[Exchange]], exchanges: Sequence[Exchange], after: str
) -> None:
    """Expect searches that returned the same tools as the `plain` ones to return them with the same members too."""
    if all(same(items_in(before), items_in(exchange)) for before, exchange in zip(plain[0], exchanges, strict=False)):
        return
    later = [await _interrupted(bench, query, None) for _ in range(2)][-1]  # scores may vary with the time
    for exchange, *unchanged in zip(exchanges, *plain, later, strict=False):
        expected = items_in(unchanged[0])
        kept = same(items_in(exchange), expected) or not all(same(items_in(each), expected) for each in unchanged)
        message = "the search returned other definitions or hit metadata than without the search in between"
        bench.expect(kept, exchange, message, case=f"params {json_text(exchange.params)}, {after}")


async def _expect_repeated(bench: Bench, query: str, between: Sequence[tuple[int, float]], other: str) -> None:
    """Expect a search not to get a different answer whenever it is sent twice in a row.

    `between` has the number of searches for `other`, and the seconds, before each pair.
    """
    rows = list[tuple[Exchange, Exchange]]()
    for searches, seconds in between:
        for _ in range(searches):
            await bench.server.search({"query": other})
        await anyio.sleep(seconds)
        rows.append((await _ask(bench, query), await _ask(bench, query)))
        if _names(rows[-1][0]) == _names(rows[-1][1]):
            return
    firsts, seconds_ = ([_names(row[place]) for row in rows] for place in (0, 1))
    steady = all(names == firsts[0] for names in firsts) and all(names == seconds_[0] for names in seconds_)
    message = f"each time the same search was sent twice in a row, it returned {firsts[0]} and then {seconds_[0]}"
    bench.expect(not steady, rows[-1][1], message, case=f"query {query!r}, twice in a row")


async def _ask(bench: Bench, query: str, **more: Any) -> Exchange:
    """Send a search with `more` params, on any connection of the client."""
    return await bench.server.search({"query": query, **more}, capabilities=DECLARED)


async def _interrupted(bench: Bench, query: str, between: JsonObject | None, by: Bench | None = None) -> list[Exchange]:
    """Send a search: its first pages, each after `between` (sent `by` a bench), and then a page without a limit.

    If a cursor is refused that expires in this time anyway, return only the pages before it.
    """
    exchanges, params, began = list[Exchange](), {"query": query, "limit": 1}, anyio.current_time()
    for _ in range(1 + _CONTINUED):
        if between is not None:
            await (by or bench).server.search(between)
        exchanges.append(await bench.server.search(params))
        refused = between is not None and "cursor" in params and exchanges[-1].error_code == INVALID_PARAMS
        if refused and await _expires(bench, query, len(exchanges) - 1, anyio.current_time() - began):
            return exchanges[:-1]
        cursor: Any = (exchanges[-1].result or {}).get("nextCursor")
        if not isinstance(cursor, str):
            break
        params = {"query": query, "limit": 1, "cursor": cursor}
    return [*exchanges, await bench.server.search({"query": query})]


async def _expires(bench: Bench, query: str, pages: int, seconds: float) -> bool:
    """Return whether the cursor after a number of pages is refused some seconds later, with no search in between."""
    params: JsonObject = {"query": query, "limit": 1}
    for _ in range(pages):
        cursor = ((await bench.server.search(params)).result or {}).get("nextCursor")
        params = {"query": query, "limit": 1, "cursor": cursor}
    await anyio.sleep(seconds)
    return (await bench.server.search(params)).error_code == INVALID_PARAMS


def _names(exchange: Exchange) -> list[Any]:
    """Return the keys of the items in a result, or a short description of an answer without a result."""
    return keys_in(exchange) if exchange.result is not None else [exchange.describe()]


@dataclass(eq=False)
class _Search:
    """An open search."""

    query: str
    over: Listing
    """The listing when it began."""
    cursor: str | None
    found: set[str]
    answered: list[str] = field(default_factory=list[str])
    """Cursors that were followed."""


async def _explore_sequences(bench: Bench, change: Change | None = None) -> None:
    """Try sequences of requests until an answer differs from the model, or enough were tried."""
    unlisted = await bench.finds_unlisted()

    async def search(listing: Listing) -> None:
        seen, ended = list[ViolationError](), list[Exception]()
        sequence = _machine(bench, listing, change, seen, ended, may_be_unlisted=unlisted)
        machine = hypothesis_seed(bench, bench.recorder.check)(sequence)
        enough = settings(
            quietly(_SEQUENCES if change is None else _SEQUENCES_WITH_CHANGES),
            stateful_step_count=_STEPS,
            verbosity=Verbosity.quiet,
        )

        def run() -> None:
            run_state_machine_as_test(machine, settings=enough)  # pyright: ignore[reportUnknownMemberType] - untyped

        await search_in_thread(run, seen, ended)

    if change is None:
        await bench.with_stable_listing(search)
    else:
        await search(await bench.server.listing())


async def _abandon(bench: Bench, params: JsonObject) -> None:
    """Send a search and cancel it at once. Only the requests after it are judged."""
    connection, seconds = await bench.server.connection(), bench.options.timeout
    number = connection.next_id()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(connection.request, bench.method, params, seconds=seconds, with_id=number))
        await anyio.lowlevel.checkpoint()
        if connection.era != MODERN or bench.cell.transport != "http":
            await connection.cancel(number, seconds)
        tasks.cancel_scope.cancel()  # over modern HTTP, closing the response is how a client cancels


def _machine(  # noqa: C901 - a class of short rules that share what they are about
    bench: Bench,
    listed: Listing,
    change: Change | None,
    seen: list[ViolationError],
    ended: list[Exception],
    *,
    may_be_unlisted: bool,
) -> type[RuleBasedStateMachine]:
    words = Vocabulary(listed.items, bench.primitive.key)
    # Half of the queries are broad and half of the limits small, so that searches have further pages. A deferred
    # strategy counts as one alternative.
    asked = st.sampled_from(words.broad(4) or ["anything"]) | st.deferred(lambda: queries(words))
    few = st.integers(min_value=1, max_value=3) | st.deferred(lambda: st.none() | limits())
    names = [name for name in words.keys if is_query(name)] or ["anything"]

    now = [listed]  # the catalog stays changed after a sequence

    class Sequence(RuleBasedStateMachine):
        """One sequence, with a rule for each kind of step."""

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
                changed = f"{bench.list_method} returned something else than before"
                self._expect(listing.same_as(self.listing), listing.exchange, changed)

        @rule(target=begun, query=asked, limit=few)
        def search(self, query: str, limit: int | None) -> Any:
            page = self._page(f"search {query!r}, limit {limit}", query, limit)
            if page is None or page.next_cursor is None:  # there is no further page
                return multiple()  # pyright: ignore[reportUnknownVariableType] - of nothing
            return _Search(query, self.listing, page.next_cursor, set(page.keys))

        @rule(name=st.sampled_from(names))
        def search_by_name(self, name: str) -> None:
            page = self._do(f"search {name!r}", lambda: bench.server.first(name))
            if page is not None and name in self.listing.by_key:
                message = f"a search for the name {name!r} returned {page.keys[:1]} first"
                self._expect(page.keys[:1] == [name], page.exchange, message)

        @rule(search=begun, limit=few)
        def next_page(self, search: _Search, limit: int | None) -> None:
            if (cursor := search.cursor) is None or search.over is not self.listing:
                return
            page = self._page(f"next page of {search.query!r}, limit {limit}", search.query, limit, cursor)
            if page is not None:
                again = sorted(search.found.intersection(page.keys))
                message = f"a later page repeats {bench.noun}s of earlier pages: {again}"
                self._expect(not again, page.exchange, message)
                search.found.update(page.keys)
                search.answered.append(cursor)
                search.cursor = page.next_cursor

        @rule(search=begun, limit=few)
        def repeat_a_cursor(self, search: _Search, limit: int | None) -> None:
            if search.answered and search.over is self.listing:
                step = f"the first cursor of {search.query!r} again, limit {limit}"
                self._page(step, search.query, limit, search.answered[0])

        @rule(search=begun, other=asked)
        def cursor_with_another_query(self, search: _Search, other: str) -> None:
            issued = search.cursor is not None and bench.recorder.has_issued(bench.method, other, search.cursor)
            if search.cursor is not None and not issued and other != search.query:
                params = {"query": other, "cursor": search.cursor}
                step = f"a cursor of {search.query!r} with {other!r}"
                self._refused(step, params, "a cursor of another query got a result")

        @rule(query=asked)
        def abandon_a_search(self, query: str) -> None:
            self._do(f"search {query!r}, cancelled", lambda: _abandon(bench, {"query": query}))

        @rule(params=st.sampled_from(_REFUSED))
        def refused_request(self, params: JsonObject) -> None:
            shown = json_text(params)
            self._refused(f"invalid params {shown}", params, f"a search with the invalid params {shown} got a result")

        @precondition(lambda self: change is not None)
        @rule()
        def change_catalog(self) -> None:
            if change is not None:
                now[0] = self._do("change of the catalog", partial(change, self.listing)) or self.listing
                self.listing = now[0]

        def _page(self, step: str, query: str, limit: int | None, cursor: str | None = None) -> Page | None:
            """Judge a single page of a search, and return it."""
            page = self._do(step, lambda: bench.server.page(query, limit=limit, cursor=cursor))
            if page is None:
                return None
            unlisted = [name for name in page.keys if name not in self.listing.by_key]
            known = may_be_unlisted or not unlisted
            self._expect(known, page.exchange, f"these were found but are not listed: {unlisted}")
            twice = f"a page contains a {bench.noun} more than once: {page.keys}"
            self._expect(len({*page.keys}) == len(page.keys), page.exchange, twice)
            excess = f"a page with limit {limit} contains {len(page.items)} {bench.noun}s"
            self._expect(limit is None or len(page.items) <= limit, page.exchange, excess)
            other = [
                key
                for key, item in zip(page.keys, page.items, strict=True)
                if not any(same(bare(item), bare(each)) for each in self.listing.all_by_key.get(key, [item]))
            ]
            self._expect(not other, page.exchange, f"these were found with another definition than listed: {other}")
            return page

        def _refused(self, step: str, params: JsonObject, message: str) -> None:
            exchange = self._do(step, lambda: bench.server.search(params))
            if exchange is not None:
                self._expect(exchange.result is None, exchange, message)

        def _do(self, step: str, act: Callable[[], Coroutine[Any, Any, _Brought]]) -> _Brought | None:
            """Take a step and return its outcome; `None` if there is none to judge."""
            if ended:
                return None
            self.steps.append(step)
            with bench.recorder.keeping() as exchanges:
                try:
                    return anyio.from_thread.run(act)
                except UnverifiableError:
                    return None
                except Exception as error:  # such as the target's exit: further steps prove nothing
                    ended.append(error)
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
