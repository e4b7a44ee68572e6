"""Callers that see different tools: a tool that a caller may not see leaves no trace in the answers to that caller.

Over HTTP, the fixture hides some tools from the caller of one token. That caller is compared with one of another
fixture, whose catalog never had those tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.catalogs import COMMON, WORDS, document, made_tool, name_of
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import advertised_settings, read_page
from tools_search_conformance.target.server import Opening
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_TOKEN: Final = "restricted"  # noqa: S105 - it opens nothing
_CATALOG: Final = "callers"

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
    {"query": _SHARED_WORD, "limit": 1},
    {"query": "anvli"},  # a server that corrects spelling may correct it to a word of its tools
    {"query": _SECRET},
    {"query": _HIDDEN[-1]},
    {"query": NONSENSE},
    # These are refused.
    {"query": ""},
    {"query": _SECRET, "limit": 0},
    {"query": _SECRET, "cursor": "no such cursor"},
)


async def _callers(bench: Bench) -> tuple[Bench, Bench]:
    """Return a bench that sees every tool, and one of a caller from whom some are hidden.

    Raises:
        UnverifiableError: The fixture does not hide them from its listing.
    """
    bench.place(_CATALOG, document([*_HIDDEN_TOOLS, *_VISIBLE_TOOLS], hidden={_TOKEN: _HIDDEN}))
    authorization = {"Authorization": f"Bearer {_TOKEN}"}
    everyone = await bench.fixture("any caller", Opening(catalog=_CATALOG))
    restricted = await bench.fixture("restricted caller", Opening(catalog=_CATALOG, headers=authorization))
    await _require_listed(everyone, _HIDDEN_TOOLS + _VISIBLE_TOOLS, "a caller without a token")
    await _require_listed(restricted, _VISIBLE_TOOLS, "the restricted caller")
    return everyone, restricted


async def _reference(bench: Bench, name: str) -> Bench:
    """Return a bench whose fixture never had the hidden tools.

    Raises:
        UnverifiableError: The fixture does not list the others.
    """
    bench.place(name, document(_VISIBLE_TOOLS))
    other = await bench.fixture(name, Opening(catalog=name))
    await _require_listed(other, _VISIBLE_TOOLS, "a caller without a token")
    return other


async def _require_listed(bench: Bench, tools: Sequence[JsonObject], whose: str) -> None:
    # Each fixture that is compared has been listed, so that none is ahead of another.
    listing = await bench.server.listing()
    wrong = f"tools/list does not show {whose} what the catalog file says; see the feature `callers`"
    bench.require(set(listing.by_name) == {tool["name"] for tool in tools}, wrong, listing.exchange)


@server_check(
    title="`cacheScope` is private where callers see different tools",
    sends="A search without a token, and with that of a caller who sees fewer tools.",
    passes='`cacheScope` is `"private"` for each.',
    eras=(MODERN,),
    transports=("http",),
    fixture_feature="callers",
)
async def cache_scope_varying(bench: Bench) -> None:
    for other in await _callers(bench):
        exchange = (await other.server.page(COMMON)).exchange
        scope = (exchange.result or {}).get("cacheScope")
        other.expect(scope == "private", exchange, f"cacheScope is {scope!r}, but callers see different tools")


@server_check(
    title="Tools that a caller may not see leave no trace in the answers to that caller",
    sends="`server/discover` or `initialize` and the same searches, good ones and bad ones, by a caller from whom two"
    " thirds of the tools are hidden, and to a fixture that does not have these tools.",
    passes="The same settings, where `catalogSize` may be absent; the same tools in the same order with the same hit"
    " metadata, a next page where there is one, and the same error texts.",
    transports=("http",),
    fixture_feature="callers",
)
async def hidden_tools_inert(bench: Bench) -> None:
    _, restricted = await _callers(bench)
    reference, again = await _reference(bench, "callers-visible"), await _reference(bench, "callers-visible-again")
    compared = await _compare_settings(restricted, reference, again)
    for params in _SEARCHES:
        exchange, expected = await restricted.server.search(params), await reference.server.search(params)
        difference = _difference(exchange, expected)
        # A server whose answers differ without a hidden tool shows nothing by differing here.
        if difference is not None:
            repeated = [await other.server.search(params) for other in (reference, again, reference, again)]
            if any(_difference(answer, expected) is not None for answer in repeated):
                continue
        compared += 1
        case = f"{json_text(params)}, by a caller from whom {len(_HIDDEN)} tools are hidden"
        message = f"without the hidden tools the answer is another one: {difference}"
        restricted.expect(difference is None, exchange, message, case=case)
    restricted.require(compared > 0, "two fixtures of one catalog give different answers without any hidden tool")


async def _compare_settings(restricted: Bench, reference: Bench, again: Bench) -> int:
    """Expect the settings of `reference`, with or without `catalogSize`; return how many were compared, one or none."""
    connection, opening = await restricted.server.opening()
    shown = advertised_settings(connection)
    expected = advertised_settings(await reference.server.connection())
    repeated = same(advertised_settings(await again.server.connection()), expected)
    if expected and "catalogSize" not in (shown or {}):
        expected = {name: value for name, value in expected.items() if name != "catalogSize"}
    if not repeated and not same(shown, expected):
        return 0
    message = f"without the hidden tools the settings are {expected!r:.300} instead of {shown!r:.300}"
    restricted.expect(same(shown, expected), opening, message, case=f"a caller from whom {len(_HIDDEN)} are hidden")
    return 1


def _difference(exchange: Exchange, expected: Exchange) -> str | None:
    """Return the difference between two answers that should reveal the same."""
    one, other = _revealed(exchange), _revealed(expected)
    what = next((name for name in one if not same(one[name], other[name])), None)
    return None if what is None else f"{what} {one[what]!r:.300} instead of {other[what]!r:.300}"


def _revealed(exchange: Exchange) -> dict[str, Any]:
    result, error = exchange.result or {}, exchange.error
    refusal = None if error is None else [error.code, error.message, error.data]
    return {"tools": result.get("tools"), "nextCursor": "nextCursor" in result, "error": refusal}


@server_check(
    title="A tool that a caller may not see cannot be called, whatever was found",
    sends="A search that finds a tool, and `tools/call` of it, which is served; then the same call with the token of a"
    " caller from whom it is hidden, and to whom another one is served.",
    passes="An error, or a result with `isError`.",
    transports=("http",),
    fixture_feature="callers",
)
async def call_authorized(bench: Bench) -> None:
    everyone, restricted = await _callers(bench)
    found = await everyone.server.first(_SECRET)
    everyone.require(_SECRET in found.names, f"{_SECRET!r} is not found; see exact-name-first", found.exchange)
    for other, name in ((everyone, _SECRET), (restricted, name_of(_SHARED_WORD))):
        call, served = await _call(other, name)
        other.require(served, f"{name!r} is not hidden, but its call got {call.describe()}; see callable", call)
    call, served = await _call(restricted, _SECRET)
    message = f"{_SECRET!r} was called by a caller from whom it is hidden"
    restricted.expect(not served, call, message, case=_SECRET)


async def _call(bench: Bench, name: str) -> tuple[Exchange, bool]:
    call = await bench.server.ask("tools/call", {"name": name, "arguments": {}})
    return call, call.result is not None and call.result.get("isError") is not True


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
        first = await everyone.server.page(query, limit=1)
        everyone.require(bool(first.next_cursor), f"{query!r} under limit 1 has one page", first.exchange)
        cursor, case = first.next_cursor, f"a cursor of another caller, for {query!r}"
        for _ in _HIDDEN_TOOLS:
            exchange = await restricted.server.search({"query": query, "cursor": cursor})
            if exchange.result is None:
                break
            page = read_page(exchange, case)
            shown = [name for name in page.names if name in _HIDDEN]
            restricted.expect(not shown, exchange, f"{shown} are hidden from this caller", case=case)
            if not (cursor := page.next_cursor):
                break
        await restricted.served({"query": query}, "a search after one with the cursor of another caller")
