"""Callers that see different tools: a tool that a caller may not see leaves no trace in the answers to that caller.

Over HTTP, the fixture hides some tools from the caller of one token. That caller is compared with one of another
fixture, whose catalog never had those tools.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.catalogs import COMMON, WORDS, document, made_tool, name_of
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import advertised_settings
from tools_search_conformance.target.server import Opening
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_TOKEN: Final = "restricted"  # noqa: S105 - it opens nothing
_AUTHORIZED: Final = {"Authorization": f"Bearer {_TOKEN}"}
_CATALOG: Final = "callers"
_CACHE_HINTS: Final = frozenset({"ttlMs", "cacheScope"})
_MAIN: Final = frozenset({"tools", "nextCursor", "error"})

_SHARED_WORD: Final = WORDS[0]
"""The word of one visible tool that nearly every hidden one has too, so that its weight would reveal them."""

# A server may take its topics from the groups.
_VISIBLE_TOOLS: Final = [made_tool(word, _meta={EXTENSION_ID: {"group": "tools of the meadow"}}) for word in WORDS]
_HIDDEN_TOOLS: Final = [
    made_tool(
        f"{_SHARED_WORD}_{number}",
        description=f"Hides {number} {_SHARED_WORD} behind another {_SHARED_WORD}, far from any {COMMON}"
        " and out of sight.",
        _meta={EXTENSION_ID: {"group": "what is hidden"}},
    )
    for number in range(20)
]
_HIDDEN: Final = [tool["name"] for tool in _HIDDEN_TOOLS]
_SECRET: Final = _HIDDEN[0]

_SEARCHES: Final[tuple[JsonObject, ...]] = (
    {"query": COMMON},
    {"query": COMMON, "limit": 3},
    {"query": COMMON, "limit": len(_VISIBLE_TOOLS)},
    *({"query": f"{_SHARED_WORD} {word}"} for word in WORDS[1:4]),
    {"query": f"{COMMON} {WORDS[1]}"},
    {"query": _SHARED_WORD, "limit": 1},
    {"query": "anvli"},  # a server that corrects spelling may correct it to a word of its tools
    {"query": _SECRET},
    {"query": _HIDDEN[-1]},
    {"query": "hides behind sight"},  # words of hidden tools alone
    {"query": NONSENSE},
    # These are refused.
    {"query": ""},
    {"query": _SECRET, "limit": 0},
    {"query": _SECRET, "cursor": "no such cursor"},
)


async def _fixture(bench: Bench, name: str, opening: Opening, tools: Sequence[JsonObject], whose: str) -> Bench:
    """Return the bench of a fixture whose listing shows a caller these tools."""
    other = await bench.fixture(name, opening)
    # Each fixture that is compared has been listed, so that none is ahead of another.
    wanted = {tool["name"] for tool in tools}
    listing = await other.server.listing()
    if set(listing.by_name) != wanted:  # one that takes a caller for the one before shows that in searches, too
        listing = await other.server.listing()
    wrong = f"tools/list does not show {whose} what the catalog file says; see the feature `callers`"
    other.require(set(listing.by_name) == wanted, wrong, listing.exchange)
    return other


async def _callers(bench: Bench) -> tuple[Bench, Bench]:
    """Return a bench that sees every tool, and one of a caller from whom some are hidden."""
    every = [*_HIDDEN_TOOLS, *_VISIBLE_TOOLS]
    bench.place(_CATALOG, document(every, hidden={_TOKEN: _HIDDEN}))
    anyone = Opening(catalog=_CATALOG)
    everyone = await _fixture(bench, "any caller", anyone, every, "a caller without a token")
    opening = replace(anyone, headers=_AUTHORIZED)
    return everyone, await _fixture(bench, "restricted caller", opening, _VISIBLE_TOOLS, "the restricted caller")


async def _reference(bench: Bench, name: str) -> Bench:
    """Return a bench whose fixture never had the hidden tools."""
    bench.place(name, document(_VISIBLE_TOOLS))
    return await _fixture(bench, name, Opening(catalog=name), _VISIBLE_TOOLS, "a caller without a token")


@server_check(
    title="`cacheScope` is private where callers see different tools",
    sends="Searches without a token, and with that of a caller who sees fewer tools: first and second pages, many"
    " matches, one and none.",
    passes='`cacheScope` is `"private"` on each page.',
    eras=(MODERN,),
    transports=("http",),
    fixture_feature="callers",
)
async def cache_scope_varying(bench: Bench) -> None:
    for other in await _callers(bench):
        first = await other.server.page(COMMON, limit=1)
        pages = [first, *[await other.server.page(query) for query in (COMMON, NONSENSE, name_of(_SHARED_WORD))]]
        if first.next_cursor:
            pages.append(await other.server.page(COMMON, limit=1, cursor=first.next_cursor))
        for page in pages:
            scope = (page.exchange.result or {}).get("cacheScope")
            wrong = f"cacheScope is {scope!r}, but callers see different tools"
            other.expect(scope == "private", page.exchange, wrong, case=f"params {json_text(page.exchange.params)}")


@server_check(
    title="Tools that a caller may not see leave no trace in the answers to that caller",
    sends="`server/discover` or `initialize` and the same searches, good ones and bad ones, by a caller from whom two"
    " thirds of the tools are hidden, and to a fixture that does not have these tools.",
    passes="The same settings, where `catalogSize` may be absent; the same tools in the same order with the same hit"
    " metadata, a next page where there is one, the same other members, and the same error texts; to each of two"
    " callers on one connection what it gets on its own.",
    transports=("http",),
    fixture_feature="callers",
)
async def hidden_tools_inert(bench: Bench) -> None:
    everyone, restricted = await _callers(bench)
    reference = await _reference(bench, "callers-visible")
    compared = await _compare_settings(bench, restricted, reference)
    for params in _SEARCHES:
        await everyone.server.search(params)  # whose answer may be kept
        exchange, expected = await restricted.server.search(params), await reference.server.search(params)
        difference = _difference(exchange, expected)
        # A server whose answers differ without a hidden tool shows nothing by differing here.
        if difference is not None:
            again = await _reference(bench, "callers-visible-again")
            repeated = [await other.server.search(params) for other in (reference, again, reference, again)]
            varying = set[str]().union(*(_differing(answer, expected) for answer in repeated))
            if not varying.isdisjoint(_MAIN):
                continue
            varying |= _differing(await restricted.server.search(params), exchange) - _MAIN  # such as a time
            difference = _difference(exchange, expected, varying)
        compared += 1
        case = f"{json_text(params)}, by a caller from whom {len(_HIDDEN)} tools are hidden"
        message = f"without the hidden tools the answer {difference}"
        restricted.expect(difference is None, exchange, message, case=case)
    restricted.require(compared > 0, "two fixtures of one catalog give different answers without any hidden tool")
    if bench.cell.era == MODERN:  # a legacy session may be that of one caller
        await _expect_callers_told_apart(everyone, restricted)


async def _expect_callers_told_apart(everyone: Bench, restricted: Bench) -> None:
    """Expect two callers whose requests come by one connection, in turns, to be answered as each is on its own."""
    for params in _SEARCHES[:3]:
        for other, headers in ((everyone, _AUTHORIZED), (restricted, {"Authorization": None})) * 2:
            own = await (restricted if other is everyone else everyone).server.search(params)
            exchanges = list[Exchange]()
            for _ in range(2):
                await other.server.search(params)
                exchanges.append(await other.server.search(params, headers=headers))
            exchange, again = exchanges
            varying = _differing(exchange, again) | (_differing(exchange, own) - _MAIN)
            difference = _difference(exchange, own, varying)
            message = f"on a connection of its own, the answer {difference}"
            other.expect(difference is None, exchange, message, case=f"{json_text(params)}, after another caller")


async def _compare_settings(bench: Bench, restricted: Bench, reference: Bench) -> int:
    """Expect the settings of `reference`, with or without `catalogSize`; return how many were compared, one or none."""
    connection, opening = await restricted.server.opening()
    shown = advertised_settings(connection)
    expected = advertised_settings(await reference.server.connection())
    comparable = expected
    if expected and "catalogSize" not in (shown or {}):
        comparable = {name: value for name, value in expected.items() if name != "catalogSize"}
    if not same(shown, comparable):
        again = await _reference(bench, "callers-visible-again")
        if not same(advertised_settings(await again.server.connection()), expected):
            return 0
    expected = comparable
    message = f"without the hidden tools the settings are {expected!r:.300} instead of {shown!r:.300}"
    restricted.expect(same(shown, expected), opening, message, case=f"a caller from whom {len(_HIDDEN)} are hidden")
    return 1


def _revealed(exchange: Exchange) -> JsonObject:
    result, error = exchange.result or {}, exchange.error
    refusal = None if error is None else [error.code, error.message, error.data]
    more = {name: value for name, value in result.items() if name not in _CACHE_HINTS}  # callers may differ in these
    return {**more, "tools": result.get("tools"), "nextCursor": "nextCursor" in result, "error": refusal}


def _differing(exchange: Exchange, expected: Exchange) -> set[str]:
    """Return the members of what two answers reveal that are not the same."""
    one, other = _revealed(exchange), _revealed(expected)
    return {name for name in {*one, *other} if not same(one.get(name), other.get(name))}


def _difference(exchange: Exchange, expected: Exchange, ignored: Collection[str] = ()) -> str | None:
    """Return what `expected` is or has in place of what `exchange` reveals, where that is not the same."""
    one, other = _revealed(exchange), _revealed(expected)
    if (exchange.result is None) != (expected.result is None):
        return f"is {expected.describe()} instead of {exchange.describe()}"
    what = min(_differing(exchange, expected).difference(ignored), default=None)
    return None if what is None else f"has {what} {other.get(what)!r:.300} instead of {one.get(what)!r:.300}"


@server_check(
    title="A tool that a caller may not see cannot be called, whatever was found",
    sends="A search that finds a tool, and `tools/call` of it, which is served; then the same call with the token of a"
    " caller from whom it is hidden, and to whom another one is served.",
    passes="An error, or a result with `isError`.",
    transports=("http",),
    fixture_feature="callers",
)
async def call_authorized(bench: Bench) -> None:
    async def call(other: Bench, name: str, **overrides: Any) -> tuple[Exchange, bool]:
        exchange = await other.server.ask("tools/call", {"name": name, "arguments": {}}, **overrides)
        return exchange, exchange.result is not None and exchange.result.get("isError") is not True

    everyone, restricted = await _callers(bench)
    found = await everyone.server.first(_SECRET)
    everyone.require(_SECRET in found.names, f"{_SECRET!r} is not found; see exact-name-first", found.exchange)
    for other, name in ((everyone, _SECRET), (everyone, _HIDDEN[-1]), (restricted, name_of(_SHARED_WORD))):
        exchange, served = await call(other, name)
        answer = exchange.describe()
        other.require(served, f"{name!r} is not hidden, but its call got {answer}; see callable", exchange)
    for name in (_SECRET, _SECRET, _HIDDEN[-1]):
        exchange, served = await call(restricted, name)
        restricted.expect(not served, exchange, f"{name!r} was called by a caller from whom it is hidden", case=name)
    if bench.cell.era == MODERN:  # a legacy session may be that of one caller
        exchange, served = await call(everyone, _SECRET, headers=_AUTHORIZED)
        message = f"{_SECRET!r} was called by a caller from whom it is hidden, on the connection of another one"
        everyone.expect(not served, exchange, message, case=_SECRET)


@server_check(
    title="The cursor of another caller is no way to hidden tools",
    sends="A first page whose caller sees every tool, and its cursor with the token of a caller who does not; the pages"
    " that follow.",
    passes="Tools that this caller may see, or a refusal.",
    transports=("http",),
    fixture_feature="callers",
)
async def cursor_other_caller(bench: Bench) -> None:
    everyone, restricted = await _callers(bench)
    for query in (_SECRET, COMMON):
        _, cursor = await everyone.page_with_cursor(query)
        case = f"a cursor of another caller, for {query!r}"
        async for page in restricted.pages_from(query, cursor, case, most=len(_HIDDEN_TOOLS)):
            shown = [name for name in page.names if name in _HIDDEN]
            restricted.expect(not shown, page.exchange, f"{shown} are hidden from this caller", case=case)
        await restricted.served({"query": query}, "a search after one with the cursor of another caller")
