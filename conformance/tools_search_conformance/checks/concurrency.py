"""Concurrent searches, and cancellation.

Concurrent searches get the same answers as single ones, or the server says that it is busy. A cancelled search gets no
answer, and other requests are not affected. The fixture delays searches so that they can be cancelled, and later
answers prove that the cancelled search got none.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from tools_search_conformance.checks.consistency import without_times
from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import Page, read_page
from tools_search_conformance.target.primitives import TOOLS
from tools_search_conformance.target.server import Opening, busy_seconds
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.codec import JsonObject, json_text
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.record import RATE_LIMITED, Exchange

_IN_FLIGHT: Final = 32
_FEW_IN_FLIGHT: Final = 14
_OF_EACH: Final = 2
_FEWER: Final = (_IN_FLIGHT, 8, 2)
"""Numbers of concurrent searches to try if more are refused: servers may limit them in any way."""
_BURST: Final = 64
"""Number of concurrent searches that shows how a busy server answers."""
_PERIOD: Final = 1.5
"""Seconds after which a server that limits requests per second may serve again."""
_WORDS: Final = 9
_LIMITS: Final = (None, 1, 3)
_REPEATS: Final = 3
_CONTINUED: Final = 6
"""Number of searches for different queries that are continued concurrently."""
_LISTINGS: Final = 6
"""How often a list has to be the same without searches, since one in any order can be the same by chance."""
_LIST_PAGES: Final = 3
"""Maximum number of a list's pages to request among searches."""
_INTERNAL: Final = -32603
_SERVER_ERRORS: Final = range(-32099, -31999)
_BAD: Final[tuple[JsonObject, ...]] = (
    {"query": " "}, {"query": 5}, {"limit": 0}, {"limit": "3"}, {"cursor": "no such cursor"},
)  # fmt: skip

DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"
_DELAY_MS: Final = 250
_OF_NO_REQUEST: Final = "of no request"
_NOT_DELAYED_MS: Final = 0.9 * _DELAY_MS  # clocks differ
_IN_TIME_SECONDS: Final = _DELAY_MS / 2 / 1000
"""Maximum time from a search to its cancellation for which no answer is expected, even on a busy machine."""
_TRIES: Final = 4
"""Maximum number of searches to cancel until one cancellation is in time, because a busy machine may be late."""
_CANCELLED_TOGETHER: Final = 40
"""Number of concurrent searches to cancel: more than most pools have places."""


def _searches(words: Vocabulary) -> list[JsonObject]:
    """Return searches for different words with different limits, mixed with invalid ones."""
    queries = [*words.sample(_WORDS), *filter(str.strip, words.keys), words.key_query]
    good: list[JsonObject] = [
        {"query": query} if limit is None else {"query": query, "limit": limit}
        for place, query in enumerate(queries)
        for limit in (_LIMITS if place < _WORDS else (2,))
    ]
    searches = good[: _IN_FLIGHT - len(_BAD)]
    for place, wrong in enumerate(_BAD):
        # Next to a valid one even if only two are sent at once.
        searches.insert(6 * place + 1, {"query": words.key_query, **wrong})
    return searches


@server_check(
    title="Concurrent searches get the same answers as single ones",
    sends=f"Up to {_IN_FLIGHT} searches, some of them invalid, one after another; then all of them concurrently, or"
    f" {_FEWER[1]} or {_FEWER[2]} at a time if the server is too busy for more; `tools/list` together with them. The"
    " second pages of some of them concurrently. A few searches by each method concurrently, and over HTTP on two"
    " connections with the same ids.",
    passes="Each search gets the answer that it got alone, with its own id, unless the server is too busy; if answers"
    " vary even alone, only listed tools and no more than `limit`. Each second page continues its own search; its"
    " cursor is not refused time after time while that of a search alone is honored. `tools/list` returns what it"
    " returns alone.",
)
async def concurrent_searches(bench: Bench) -> None:
    listing = await bench.nonempty_listing()
    searches = _searches(Vocabulary(listing.items, bench.primitive.key))
    searches = bench.some(searches, 12) if bench.primitive is TOOLS else searches[:_FEW_IN_FLIGHT]
    first = await bench.server.search(searches[0])
    bench.require_result(first, "a search")
    answers = [first, *[await bench.server.search(params) for params in searches[1:]]]
    # An answer without an id cannot be distinguished from others; id-echoed finds it.
    alone = [each for each in answers if each.answer.message is None or each.answer.message.get("id") is not None]
    bench.applies(any(map(_names, alone)), "every first page is empty, so there is nothing to mix up")
    send = _send_amid_listings if bench.primitive is TOOLS else _send_together
    together = await send(bench, alone)
    taken = [pair for pair in zip(alone, together, strict=True) if not _too_many(*pair)]
    refused = "the server refuses every concurrent search as one too many; see busy-refusal"
    lost = "every concurrent search found nothing" if taken else refused
    bench.require(any(_names(exchange) for _, exchange in taken), lost, together[-1])
    for before, exchange in taken:
        case = f"params {json_text(exchange.params)}"
        lost = f"alone, the search got {before.describe()}; among other searches, {exchange.describe()}"
        bench.expect(exchange.replied or not before.replied, exchange, lost, case=case)
        within = _within_limit(exchange) or not _within_limit(before)
        large = (
            f"among other searches, a page with limit {exchange.params.get('limit')} contains {len(_names(exchange))}"
        )
        bench.expect(within, exchange, f"{large} {bench.noun}s", case=case)
    differing = [(before, exchange) for before, exchange in taken if not _agree(before, exchange)]
    varies, unlisted = False, await bench.finds_unlisted()
    for before, exchange in differing:
        again = [await bench.server.search(exchange.params) for _ in range(_REPEATS)]
        varies = varies or not all(_agree(before, other) for other in again)
    for before, exchange in differing:
        different = f"alone, the search got {_described(before)}; among other searches, {_described(exchange)}"
        known = unlisted or {*_names(exchange)} <= {*listing.by_key, *_names(before)}
        kept = varies and exchange.result is not None and known
        bench.expect(kept, exchange, different, case=f"params {json_text(exchange.params)}")
    await _expect_continued_apart(bench, [exchange for _, exchange in taken])
    if bench.primitive is TOOLS:
        await _expect_methods_apart(bench)
        if bench.cell.transport == "http" and bench.can_start("core"):
            async with bench.fresh() as other:
                await _expect_callers_apart((bench, other))


async def _expect_continued_apart(bench: Bench, together: Sequence[Exchange]) -> None:
    """Expect the cursors of concurrent searches to continue the right searches, also concurrently."""
    seconds, begun, whole = bench.options.timeout, dict[str, list[Exchange]](), dict[str, list[str]]()
    for exchange in together:
        if "limit" not in exchange.params:
            whole[exchange.params["query"]] = _names(exchange)
        elif _cursor(exchange):
            begun.setdefault(exchange.params["query"], []).append(exchange)
    firsts = [each[-(number % 2)] for number, each in enumerate(begun.values())][:_CONTINUED]
    refused = list[Exchange]()
    while len(firsts) > 1:
        following = [{**first.params, "cursor": _cursor(first)} for first in firsts]
        nexts = await bench.server.at_once(following, seconds=seconds)
        pairs = [pair for pair in zip(firsts, nexts, strict=True) if not _too_many(*pair)]
        wrong = [pair for pair in pairs if not _goes_on(*pair, whole.get(pair[0].params["query"], []))]
        for first, exchange in wrong:
            alone = [await _second_page(bench, first.params) for _ in range(_REPEATS)]
            if alone[0] is None or any(each is None or not _agree(alone[0], each) for each in alone):
                return  # the order may vary, and a server may cease to honor its cursors at any time
            mixed_up = exchange.result is not None and not _agree(alone[0], exchange)
            message = f"the second page of a search was {_described(alone[0])}; requested among those of others,"
            case = f"second page for params {json_text(first.params)}, among those of other searches"
            bench.expect(not mixed_up, exchange, f"{message} {_described(exchange)}", case=case)
        # Other checks find pages that are wrong for a single search as well.
        lost = [exchange for _, exchange in wrong if exchange.result is None]
        refused += lost[:1]
        if not lost or len(refused) == _REPEATS:
            break
        begun_again = await bench.server.at_once([first.params for first in firsts], seconds=seconds)
        firsts = [first for first in begun_again if _cursor(first)]
    message = (
        f"{_REPEATS} times, one of the cursors of concurrent searches was refused, but none of the same search alone"
    )
    bench.expect(
        len(refused) < _REPEATS, (refused or together)[-1], message, case="second pages of concurrent searches"
    )


def _goes_on(first: Exchange, following: Exchange, whole: Sequence[str]) -> bool:
    """Return whether a second page can follow a first one. `whole` are the search's first tools, as far as known."""
    page, before = _page(following), _names(first)
    known = [*zip(page.keys if page else (), whole[len(before) :], strict=False)]
    return page is not None and {*before}.isdisjoint(page.keys) and all(left == other for left, other in known)


def _cursor(exchange: Exchange) -> str | None:
    page = _page(exchange)
    return page.next_cursor if page else None


async def _second_page(bench: Bench, params: JsonObject) -> Exchange | None:
    """Return the second page of a search; `None` if it has none."""
    cursor = _cursor(await bench.server.search(params))
    exchange = await bench.server.search({**params, "cursor": cursor}) if cursor else None
    return exchange if exchange and _page(exchange) else None


async def _expect_methods_apart(bench: Bench) -> None:
    """Expect concurrent searches by several methods, as hosts send them, to get the same answers as single ones."""
    benches = [bench, *bench.others_served]
    words = [[*(await each.vocabulary()).broad(_OF_EACH)] for each in benches]
    common = [query for queries in words for query in queries]
    await _expect_apart([(each, common) for each in benches], "searches by other methods")


async def _send_amid_listings(bench: Bench, alone: Sequence[Exchange]) -> list[Exchange]:
    """Repeat the searches concurrently, and expect listings among them to return the same as a single one."""
    before = [await bench.server.ask(bench.list_method, {})]
    while (cursor := (before[-1].result or {}).get("nextCursor")) and len(before) < _LIST_PAGES:
        before.append(await bench.server.ask(bench.list_method, {"cursor": cursor}))
    connection, together, listed = await bench.server.connection(), list[Exchange](), list[tuple[Exchange, Exchange]]()

    async def search() -> None:
        together.extend(await _send_together(bench, alone))

    async def list_items(alone: Exchange) -> None:
        for _ in range(2):  # until the searches have been sent
            await anyio.lowlevel.checkpoint()
        params = {name: value for name, value in alone.params.items() if name == "cursor"}
        listed.append((alone, await connection.request(bench.list_method, params, seconds=bench.options.timeout)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        for page in (before[0], *before):
            tasks.start_soon(list_items, page)
    for page, exchange in listed:
        if "cursor" in page.params and exchange.result is None:
            continue  # a server may honor the cursors of its lists once
        differs = _listed(exchange) != _listed(page) and not _too_many(page, exchange)
        again = {name: value for name, value in exchange.params.items() if name == "cursor"}
        steady = differs and all(
            [_listed(await bench.server.ask(bench.list_method, again)) == _listed(page) for _ in range(_LISTINGS)]
        )
        answer = "another page" if exchange.result is not None else exchange.describe()
        message = f"{bench.list_method}, in flight together with searches, got {answer} instead of what it gets alone"
        bench.expect(not steady, exchange, message, case=f"{bench.list_method} among searches")
    return together


def _listed(exchange: Exchange) -> str:
    """Return the parts of a listing page that do not depend on the time, as text."""
    return exchange.describe() if exchange.result is None else json_text(without_times(exchange.result))


async def _expect_callers_apart(benches: Sequence[Bench]) -> None:
    """Expect concurrent searches with the same ids on two connections to one process not to be mixed up."""
    words = (await benches[0].vocabulary()).broad(2 * _OF_EACH)
    mine = [(each, words[number::2]) for number, each in enumerate(benches)]
    await _expect_apart(mine, "searches on another connection with the same ids", same_ids=True)


async def _expect_apart(
    searches: Sequence[tuple[Bench, Sequence[str]]], others: str, *, same_ids: bool = False
) -> None:
    alone = [[await by.server.search({"query": query}) for query in queries] for by, queries in searches]
    together = dict[int, list[Exchange]]()

    async def send(place: int) -> None:
        by, queries = searches[place]
        ids = [f"apart {number}" for number in range(len(queries))] if same_ids else ()
        params = [{"query": query} for query in queries]
        together[place] = await by.server.at_once(params, seconds=by.options.timeout, ids=ids)

    async with anyio.create_task_group() as tasks:
        for place in range(len(searches)):
            tasks.start_soon(send, place)
    for place, (by, _) in enumerate(searches):
        for before, exchange in zip(alone[place], together[place], strict=True):
            different = not (_agree(before, exchange) or _too_many(before, exchange))
            steady = different and _agree(before, await by.server.search(exchange.params))
            message = f"alone, the search got {_described(before)}; among {others}, {_described(exchange)}"
            case = f"{exchange.method}, params {json_text(exchange.params)}"
            by.expect(not steady, exchange, message, case=case)


async def _send_together(bench: Bench, alone: Sequence[Exchange]) -> list[Exchange]:
    """Repeat the searches, as many at once as the server accepts, and return their exchanges in this order."""
    seconds = bench.options.timeout + sum(exchange.milliseconds for exchange in alone) / 1000
    searches = [exchange.params for exchange in alone]
    together: list[Exchange] = []
    for most in _FEWER:
        together = []
        for start in range(0, len(searches), most):
            together += await bench.server.at_once(searches[start : start + most], seconds=seconds)
        if not any(map(_too_many, alone, together)):
            break
    return together


def _too_many(alone: Exchange, exchange: Exchange) -> bool:
    """Return whether a search may have been refused because of the others; busy-refusal judges the error."""
    code = exchange.error_code
    refused = exchange.answer.status in RATE_LIMITED or code == _INTERNAL or code in _SERVER_ERRORS
    return refused and alone.describe() != exchange.describe()


def _page(exchange: Exchange) -> Page | None:
    """Return the page in an answer; `None` if it is not a page."""
    with suppress(UnverifiableError):
        return read_page(exchange, "a search")
    return None


def _names(exchange: Exchange) -> list[str]:
    page = _page(exchange)
    return page.keys if page else []


def _described(exchange: Exchange) -> str:
    return exchange.describe() if exchange.result is None else f"the page {_names(exchange)}"


def _agree(first: Exchange, other: Exchange) -> bool:
    """Return whether two answers to the same request agree, except for the length of the page."""
    pages = [page for page in (_page(first), _page(other)) if page is not None]
    if len(pages) < 2:
        return not pages and first.describe() == other.describe()
    shorter, longer = sorted(pages, key=lambda page: len(page.keys))
    as_long = len(shorter.keys) == len(longer.keys)
    return longer.keys[: len(shorter.keys)] == shorter.keys and (as_long or shorter.next_cursor is not None)


def _within_limit(exchange: Exchange) -> bool:
    limit: Any = exchange.params.get("limit")
    return not isinstance(limit, int) or len(_names(exchange)) <= limit


@server_check(
    title="A server that is too busy says when to try again",
    sends=f"{_BURST} concurrent searches, which may be too many; {_IN_FLIGHT} in a long list other than that of tools,"
    " and on a fixture that delays them. Searches"
    " that got an error in other checks, again a little later.",
    passes=f"For each, a result, or error {_INTERNAL} whose `data` has an integer `retryAfterMs` of at least 0.",
)
async def busy_refusal(bench: Bench) -> None:
    for fault in bench.faults_of_load:
        raise fault
    words = await bench.vocabulary()
    queries = dict.fromkeys([words.key_query, *bench.some(words.broad())])
    alone = {query: await bench.server.search({"query": query}) for query in queries}
    served = [query for query, exchange in alone.items() if exchange.result is not None]
    name = words.key_query
    if refused := [each for each in alone.values() if each.error is not None and busy_seconds(each) is None]:
        await anyio.sleep(_PERIOD)  # the earlier requests may have exceeded a rate limit
        again = await bench.server.search(refused[0].params)
        message = f"a search after others got {refused[0].describe()}, but the same search later got a result"
        bench.expect(again.result is None, refused[0], message, case="a search soon after others")
    bench.require(bool(served), f"a search for {name!r} got {alone[name].describe()}", alone[name])
    # All but one of a burst wait for others, which takes long in a long list.
    count = _IN_FLIGHT if bench.is_sampled else _BURST
    await _judge_burst(bench, served, count, max(alone[query].milliseconds for query in served))
    if bench.primitive is TOOLS and "delay" in bench.options.fixture_features and not bench.options.effective_brief:
        other, *keys = await _delayed(bench)  # a fast server may never have many searches in flight
        await _judge_burst(other, keys, _IN_FLIGHT, _DELAY_MS)


async def _judge_burst(bench: Bench, served: Sequence[str], count: int, milliseconds: float) -> None:
    """Expect a result or a refusal with a time for each of `count` concurrent searches, which take so long alone."""
    burst: list[JsonObject] = [{"query": served[number % len(served)]} for number in range(count)]
    seconds = bench.options.timeout + count * milliseconds / 1000
    exchanges = [
        exchange
        for exchange in await bench.server.at_once(burst, seconds=seconds)
        # A proxy in front of a server may refuse any HTTP request.
        if not exchange.answer.is_rate_limited
    ]
    for exchange in (each for each in exchanges if each.replied):
        fitting = exchange.result is not None or busy_seconds(exchange) is not None
        if not fitting:
            again = await bench.server.search(exchange.params)
            if again.result is None:  # a rate limit may only allow it in its next period
                await anyio.sleep(_PERIOD)
                again = await bench.server.search(exchange.params)
            bench.require_result(again, "the same search sent alone")
        answer = exchange.describe()
        if exchange.error is not None and exchange.error.code == _INTERNAL:
            answer = f"{answer} with the data {json_text(exchange.error.data)}"
        what = f"one of {count} concurrent searches got {answer}, but the same search alone got a result"
        bench.expect(fitting, exchange, what, case=f"{count} concurrent searches")
    bench.require(bool(exchanges), f"all of {count} concurrent searches are refused by their HTTP status")
    silent = [exchange for exchange in exchanges if not exchange.replied]
    bench.require(not silent, f"of {count} concurrent searches, {len(silent)} got no response", (silent or [None])[0])


async def _delayed(bench: Bench) -> tuple[Bench, str, str]:
    """Return a bench whose fixture delays searches, and the keys of two of its items."""
    other = await bench.fixture("delay", Opening(env={DELAY_VARIABLE: str(_DELAY_MS)}))
    key, other_key = Vocabulary((await other.nonempty_listing()).items, other.primitive.key).keys[:2]
    return other, key, other_key


async def _open_connections(connection: Connection, seconds: float) -> None:
    """Open HTTP connections for a few requests in advance, so that none overtakes another."""
    if connection.transport.name == "stdio":
        return
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(partial(connection.request, "tools/list", {}, seconds=seconds))


async def _cancel(
    bench: Bench, query: str, *, meanwhile: Sequence[str] = (), joining: Sequence[str] = (), later: Sequence[str] = ()
) -> tuple[Exchange | None, list[Exchange]]:
    """Cancel a search for `query`. Return its exchange, or `None` if it was not answered, and the other exchanges.

    Searches for `meanwhile` are sent at the same time, and those for `joining` a little later. Those for `later` are
    sent one after the other; once they are answered, the cancelled one counts as unanswered. A server is not judged if
    it only serves one search at a time, or always answers before the search can be cancelled.
    """
    connection, seconds = await bench.server.connection(), bench.options.timeout

    async def search(
        wanted: str, exchanges: list[Exchange], number: int | None = None, scope: anyio.CancelScope | None = None
    ) -> None:
        with scope or nullcontext():
            exchanges.append(await connection.request(bench.method, {"query": wanted}, seconds=seconds, with_id=number))

    async def list_tools() -> None:
        await connection.request("tools/list", {}, seconds=seconds)

    async def cancel_once(*, last: bool) -> tuple[bool, Exchange | None, list[Exchange]]:
        """Return whether the search may have ended too early, its exchange if it ended, and the other exchanges."""
        ended, others, early, late = list[Exchange](), list[Exchange](), False, False
        number, unwanted = connection.next_id(), anyio.CancelScope()

        # Nothing in this group raises because of the target, which is judged afterwards.
        async with anyio.create_task_group() as tasks:
            began = time.monotonic()
            async with anyio.create_task_group() as neighbors:
                for wanted in meanwhile:
                    neighbors.start_soon(search, wanted, others)
                tasks.start_soon(search, query, ended, number, unwanted)
                # Once both listings are answered, the earlier searches have arrived, over HTTP too. The joining ones
                # are sent in between, and arrive later on any ordered transport.
                await anyio.lowlevel.checkpoint()
                await list_tools()
                for wanted in joining:
                    neighbors.start_soon(search, wanted, others)
                await list_tools()
                early = bool(ended)
                if bench.cell.is_modern_http:
                    unwanted.cancel()
                else:
                    await connection.cancel(_OF_NO_REQUEST, seconds)
                    await connection.cancel(number, seconds)
                late = time.monotonic() - began > _IN_TIME_SECONDS
            for wanted in later if not early else ():
                await search(wanted, others)
            unwanted.cancel()
        # Only checks that wait for later searches need a cancellation in time. On another HTTP connection, it may have
        # overtaken the search, but hardly each time.
        answered = bool(later and ended and ended[0].replied)
        early = early or (answered and (late or (ended[0].result is not None and not last)))
        return early, next(iter(ended), None), others

    await _open_connections(connection, seconds)
    cancelled: Exchange | None = None
    for number in range(_TRIES):
        early, cancelled, others = await cancel_once(last=number == _TRIES - 1)
        answers = [exchange for exchange in (cancelled, *others) if exchange is not None]
        busy = next((exchange for exchange in answers if busy_seconds(exchange) is not None), None)
        at_once = [*meanwhile, *joining]
        bench.applies(busy is None or not at_once, "the server is too busy for two concurrent searches")
        bench.require(busy is None, "the server says that it is too busy to search", busy)
        if not early:
            return cancelled, others
    answered = "a search got its answer before it could be cancelled, although the fixture has the feature `delay`"
    raise UnverifiableError(answered, cancelled)


@server_check(
    title="A cancelled search gets no response",
    sends="A search, `notifications/cancelled` for it, and two more searches, one after the other.",
    passes="A response to these two and none to the cancelled one; over HTTP, an error may end its stream.",
    fixture_feature="delay",
)
async def cancelled_not_answered(bench: Bench) -> None:
    http = bench.cell.transport == "http"
    by_closing = "over modern HTTP, a client cancels a search by closing the response"
    bench.applies(not bench.cell.is_modern_http, by_closing)
    other, key, other_key = await _delayed(bench)
    _, opening = await other.server.opening()
    session = not http or "mcp-session-id" in opening.answer.headers
    other.applies(session, "the server keeps no session, so it cannot know whose search is cancelled")
    cancelled, (second, third) = await _cancel(other, key, later=(other_key, other_key))
    for exchange in (second, third):
        other.require(exchange.replied, f"a search after a cancelled one got {exchange.describe()}", exchange)
    slow = second.milliseconds >= _NOT_DELAYED_MS
    took = f"a search took only {second.milliseconds:.0f} ms with {DELAY_VARIABLE}={_DELAY_MS}"
    other.require(slow, took, second)
    # Over HTTP, the revision requires a response at the end of each stream, so an error does not count as an answer.
    answered = cancelled is not None and (cancelled.result is not None if http else cancelled.replied)
    decisive = cancelled if cancelled is not None and answered else third
    what = f"a search got {decisive.describe()} although it had been cancelled"
    other.expect(not answered, decisive, what, case=f"query {key!r}, cancelled")


@server_check(
    title="Cancelling a search does not affect another one",
    sends="Two concurrent searches, each for a tool by its name; cancellations of one of them and of an id that was"
    " never used. Then two searches for the same name, of which the first one is cancelled. Then"
    f" {_CANCELLED_TOGETHER} concurrent searches that are all cancelled; after them, `tools/list` and one more search.",
    passes="The other search gets its usual result, with its tool as the first match. After the many cancellations,"
    " the server does not stay too busy to answer.",
    fixture_feature="delay",
)
async def cancelled_leaves_others(bench: Bench) -> None:
    other, one, another = await _delayed(bench)
    for name, together in ((another, {"meanwhile": (another,)}), (one, {"joining": (one,)})):
        _, (neighbor,) = await _cancel(other, one, **together)
        which = "an identical" if name == one else "another"
        case = f"query {name!r}, while {which} search was cancelled"
        other.expect_result(neighbor, f"while {which} search was cancelled, a search")
        names = read_page(neighbor, case).keys
        message = f"while {which} search was cancelled, a search for {name!r} returned {names[:3]}"
        other.expect(names[:1] == [name], neighbor, message, case=case)
    if bench.has_turn(1):
        await _expect_served_after_many(bench, other, one)


async def _expect_served_after_many(bench: Bench, other: Bench, query: str) -> None:
    """Expect a listing and a search to be served after many concurrent searches were cancelled."""
    connection, seconds = await other.server.connection(), other.options.timeout
    numbers = [connection.next_id() for _ in range(_CANCELLED_TOGETHER)]
    async with anyio.create_task_group() as searching:
        for number in numbers:
            send = partial(connection.request, bench.method, {"query": query}, seconds=seconds, with_id=number)
            searching.start_soon(send)
        await anyio.lowlevel.checkpoint()
        await connection.request("tools/list", {}, seconds=seconds)
        if not other.cell.is_modern_http:
            async with anyio.create_task_group() as cancelling:
                for number in numbers:
                    cancelling.start_soon(connection.cancel, number, seconds)
        searching.cancel_scope.cancel()
    # A server may still process the cancelled searches, one after the other.
    patience = seconds + _CANCELLED_TOGETHER * _DELAY_MS / 1000
    listed = await other.server.ask("tools/list", {}, seconds=patience)
    after = f"after {_CANCELLED_TOGETHER} searches were cancelled"
    other.expect_result(listed, f"{after}, tools/list")
    until = time.monotonic() + patience
    while True:
        exchange = await other.server.ask(bench.method, {"query": query}, seconds=patience)
        busy = busy_seconds(exchange)
        if busy is None or time.monotonic() + busy > until:
            break
        await anyio.sleep(max(busy, _DELAY_MS / 1000))
    if busy is not None:  # a rate limit may count cancelled searches too
        async with bench.searching(TOOLS).fresh(own_process=True) as another:
            for _ in range(_CANCELLED_TOGETHER):
                await another.searching(bench.primitive).server.search({"query": query})
    other.expect_result(exchange, f"{after}, another one", case=f"query {query!r}, {after}")
