"""Many searches at one time: those in flight together are answered as each is alone, or the server says it is busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import Page, read_page
from tools_search_conformance.target.server import busy_seconds
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.codec import JsonObject, json_text
from tools_search_conformance.wire.record import Exchange

_IN_FLIGHT: Final = 32
_FEWER: Final = (_IN_FLIGHT, 8, 2)
"""How many are sent at once, where more are refused: a server bounds its searches, and how is up to it."""
_BURST: Final = 64
"""How many are sent at once to find out what a server answers that is too busy."""
_WORDS: Final = 9
_LIMITS: Final = (None, 1, 3)
_AGAIN: Final = 3
_REFUSED_BY_HTTP: Final = frozenset({429, 503})
_INTERNAL: Final = -32603
_SERVER_ERRORS: Final = range(-32099, -31999)
_BAD: Final[tuple[JsonObject, ...]] = (
    {"query": " "}, {"query": 5}, {"limit": 0}, {"limit": "3"}, {"cursor": "no such cursor"},
)  # fmt: skip


def _searches(words: Vocabulary) -> list[JsonObject]:
    """Return searches for different words under different limits, and invalid ones among them."""
    queries = [*words.sample(_WORDS), *filter(str.strip, words.names), words.name_query]
    good: list[JsonObject] = [
        {"query": query} if limit is None else {"query": query, "limit": limit}
        for place, query in enumerate(queries)
        for limit in (_LIMITS if place < _WORDS else (2,))
    ]
    bad = [{"query": words.name_query, **wrong} for wrong in _BAD]
    searches = good[: _IN_FLIGHT - len(bad)]
    for place, search in enumerate(bad):
        searches.insert(6 * place + 1, search)  # beside a good one also where only two are sent at once
    return searches


@server_check(
    title="Searches in flight together are answered as each alone",
    sends=f"Up to {_IN_FLIGHT} searches, some of them invalid, one after another; then all before any is answered, or"
    f" {_FEWER[1]} or {_FEWER[2]} at a time where more are refused as too many.",
    passes="To each the answer that it got alone, with its own id, unless the server was too busy; where answers vary"
    " of themselves, listed tools only and no more than `limit`.",
)
async def concurrent_searches(bench: Bench) -> None:
    listing = await bench.nonempty_listing()
    searches = bench.some(_searches(Vocabulary(listing.tools)), 12)
    first = await bench.server.search(searches[0])
    bench.require(first.result is not None, f"a search got {first.describe()}", first)
    answers = [first, *[await bench.server.search(params) for params in searches[1:]]]
    alone = [exchange for exchange in answers if not _names_no_request(exchange)]
    bench.applies(any(map(_names, alone)), "no first page of a search holds a tool, so that there is nothing to mix up")
    patience = bench.options.timeout + sum(exchange.milliseconds for exchange in alone) / 1000
    together = await _together(bench, alone, patience)
    differing: list[tuple[Exchange, Exchange]] = []
    taken = [pair for pair in zip(alone, together, strict=True) if not _too_many(*pair)]
    refused = "of searches at once, each is refused as one too many; see busy-refusal"
    bench.require(any(map(_names, (exchange for _, exchange in taken))), refused, together[-1])
    for before, exchange in taken:
        lost = f"alone it was answered by {before.describe()}, among others by {exchange.describe()}"
        bench.expect(exchange.replied or not before.replied, exchange, lost, case=_case(exchange))
        within = _within_limit(exchange) or not _within_limit(before)
        bench.expect(within, exchange, "among others the page is larger than its limit", case=_case(exchange))
        if not _agree(before, exchange):
            differing.append((before, exchange))
    varies = False
    for before, exchange in differing:
        again = [await bench.server.search(_params(exchange)) for _ in range(_AGAIN)]
        varies = varies or not all(_agree(before, other) for other in again)
    for before, exchange in differing:
        told = _told(before), _told(exchange)
        different = f"alone it was answered by {told[0]}, among others by {told[1]}"
        kept = varies and _keeps_bounds(exchange, {*listing.by_name} | _names(before))
        bench.expect(kept, exchange, different, case=_case(exchange))


def _names_no_request(exchange: Exchange) -> bool:
    """Tell whether an answer has no id, and so is lost among others; that is what id-echoed is about."""
    return exchange.answer.message is not None and exchange.answer.message.get("id") is None


async def _together(bench: Bench, alone: Sequence[Exchange], patience: float) -> list[Exchange]:
    """Send the searches again in flight together, as many as are served, and return their exchanges in this order."""
    searches = [_params(exchange) for exchange in alone]
    together: list[Exchange] = []
    for most in _FEWER:
        together = []
        for start in range(0, len(searches), most):
            together += await bench.server.at_once(searches[start : start + most], seconds=patience)
        if not any(map(_too_many, alone, together)):
            break
    return together


def _too_many(alone: Exchange, exchange: Exchange) -> bool:
    """Tell whether a search that was answered otherwise alone may have been refused because of the others.

    With which error that is allowed is what busy-refusal is about.
    """
    code = exchange.error.code if exchange.error else None
    refused = exchange.answer.status in _REFUSED_BY_HTTP or code == _INTERNAL or code in _SERVER_ERRORS
    return refused and alone.describe() != exchange.describe()


def _params(exchange: Exchange) -> JsonObject:
    return {name: value for name, value in exchange.sent["params"].items() if name != "_meta"}


def _case(exchange: Exchange) -> str:
    return f"params {json_text(_params(exchange))}"


def _page(exchange: Exchange) -> Page | None:
    return read_page(exchange, "a search") if exchange.result is not None else None


def _names(exchange: Exchange) -> set[str]:
    page = _page(exchange)
    return set(page.names) if page else set()


def _told(exchange: Exchange) -> str:
    page = _page(exchange)
    return f"the tools {page.names}" if page else exchange.describe()


def _agree(one: Exchange, other: Exchange) -> bool:
    """Tell whether two answers to one request are the same, apart from where a server chooses to end its page."""
    pages = _page(one), _page(other)
    if pages[0] is None or pages[1] is None:
        return one.describe() == other.describe()
    shorter, longer = sorted((pages[0], pages[1]), key=lambda page: len(page.names))
    as_long = len(shorter.names) == len(longer.names)
    return longer.names[: len(shorter.names)] == shorter.names and (as_long or shorter.next_cursor is not None)


def _within_limit(exchange: Exchange) -> bool:
    limit: Any = exchange.sent["params"].get("limit")
    page = _page(exchange)
    return page is None or not isinstance(limit, int) or len(page.names) <= limit


def _keeps_bounds(exchange: Exchange, known: set[str]) -> bool:
    page = _page(exchange)
    return page is not None and {*page.names} <= known


@server_check(
    title="A server that is too busy says so, and for how long",
    sends=f"{_BURST} searches before any is answered, some of which may be too many.",
    passes=f"To each a result, or error {_INTERNAL} whose `data` has an integer `retryAfterMs` of at least 0.",
)
async def busy_refusal(bench: Bench) -> None:
    words = await bench.vocabulary()
    queries = dict.fromkeys([words.name_query, *bench.some(words.broad())])
    alone = {query: await bench.server.search({"query": query}) for query in queries}
    served = [query for query, exchange in alone.items() if exchange.result is not None]
    bench.require(
        bool(served),
        f"a search for {words.name_query!r} got {alone[words.name_query].describe()}",
        alone[words.name_query],
    )
    burst: list[JsonObject] = [{"query": served[number % len(served)]} for number in range(_BURST)]
    patience = bench.options.timeout + _BURST * max(alone[query].milliseconds for query in served) / 1000
    exchanges = [
        exchange
        for exchange in await bench.server.at_once(burst, seconds=patience)
        # What stands before a server may refuse HTTP requests, whatever they ask for.
        if exchange.answer.status not in _REFUSED_BY_HTTP
    ]
    for exchange in exchanges:
        if exchange.replied:
            await _expect_result_or_busy(bench, exchange)
    bench.require(bool(exchanges), f"{_BURST} requests at once are all refused by HTTP status")
    silent = [exchange for exchange in exchanges if not exchange.replied]
    bench.require(not silent, f"of {_BURST} searches at once, {len(silent)} got no response", (silent or [None])[0])


async def _expect_result_or_busy(bench: Bench, exchange: Exchange) -> None:
    if exchange.result is None and busy_seconds(exchange) is None:
        again = await bench.server.search(_params(exchange))
        bench.require(again.result is not None, f"alone, the same search got {again.describe()}", again)
    told = exchange.describe()
    if exchange.error is not None and exchange.error.code == _INTERNAL:
        told = f"{told} with the data {json_text(exchange.error.data)}"
    what = f"one of {_BURST} searches at once was answered by {told}, the same search alone by a result"
    fitting = exchange.result is not None or busy_seconds(exchange) is not None
    bench.expect(fitting, exchange, what, case=f"{_BURST} searches at once")
