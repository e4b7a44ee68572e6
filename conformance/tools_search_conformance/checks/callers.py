"""Callers that see different tools: what one of them may not see leaves no trace in what it is answered.

Over HTTP, the fixture hides some tools from the caller of one token. That caller is compared with one of another
fixture, whose catalog never had those tools.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.catalogs.made import COMMON, WORDS, document, made_tool, name_of
from tools_search_conformance.run.registry import check
from tools_search_conformance.run.setting import Opening
from tools_search_conformance.target.pages import read_page
from tools_search_conformance.target.shape import advertised
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, json_text, same
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_TOKEN: Final = "restricted"  # noqa: S105 - it opens nothing
_RESTRICTED: Final = {"Authorization": f"Bearer {_TOKEN}"}
_ALL, _VISIBLE, _AGAIN = "callers", "callers-visible", "callers-visible-again"

_TELLING: Final = WORDS[0]
"""The word of one visible tool that nearly every hidden one has too, so that its weight would tell of them."""


def _group(name: str) -> JsonObject:
    """Return the `_meta` of a tool that belongs to a group, from which a server may take its topics."""
    return {EXTENSION_ID: {"group": name}}


_VISIBLE_TOOLS: Final = [made_tool(word, _meta=_group("tools of the meadow")) for word in WORDS]
_HIDDEN_TOOLS: Final = [
    made_tool(
        f"{_TELLING}_{number}",
        description=f"Hides {number} {_TELLING} behind another {_TELLING}, far from any {COMMON} and out of sight.",
        _meta=_group("what is hidden"),
    )
    for number in range(20)
]
_HIDDEN: Final = [tool["name"] for tool in _HIDDEN_TOOLS]
_SECRET: Final = _HIDDEN[0]

_SEARCHES: Final[tuple[JsonObject, ...]] = (
    {"query": COMMON},
    {"query": COMMON, "limit": 3},
    {"query": COMMON, "limit": len(_VISIBLE_TOOLS)},
    *({"query": f"{_TELLING} {word}"} for word in WORDS[1:4]),
    {"query": _TELLING, "limit": 1},
    {"query": "anvli"},  # a server that mends spelling may mend it to a word of its tools
    {"query": _SECRET},
    {"query": _HIDDEN[-1]},
    {"query": NONSENSE},
)
_REFUSED: Final[tuple[JsonObject, ...]] = (
    {"query": ""},
    {"query": _SECRET, "limit": 0},
    {"query": _SECRET, "cursor": "no such cursor"},
)


@asynccontextmanager
async def _callers(bench: Bench) -> AsyncGenerator[tuple[Bench, Bench]]:
    """Give a bench that sees every tool, and one of a caller from whom some are hidden.

    Raises:
        UnverifiableError: the fixture does not hide them from its listing.
    """
    bench.place(_ALL, document([*_HIDDEN_TOOLS, *_VISIBLE_TOOLS], hidden={_TOKEN: _HIDDEN}))
    async with (
        bench.beside("any caller", Opening(catalog=_ALL)) as everyone,
        bench.beside("restricted caller", Opening(catalog=_ALL, headers=_RESTRICTED)) as restricted,
    ):
        await _require_listed(everyone, _HIDDEN_TOOLS + _VISIBLE_TOOLS, "a caller without a token")
        await _require_listed(restricted, _VISIBLE_TOOLS, "the restricted caller")
        yield everyone, restricted


@asynccontextmanager
async def _without(bench: Bench, name: str) -> AsyncGenerator[Bench]:
    """Give a bench whose fixture never had the hidden tools.

    Raises:
        UnverifiableError: the fixture does not list the others.
    """
    bench.place(name, document(_VISIBLE_TOOLS))
    async with bench.beside(name, Opening(catalog=name)) as other:
        await _require_listed(other, _VISIBLE_TOOLS, "a caller without a token")
        yield other


async def _require_listed(bench: Bench, tools: Sequence[JsonObject], whose: str) -> None:
    """Go on only where the listing has these tools. Each fixture that is compared has been listed, so none is ahead."""
    listing = await bench.listing()
    wrong = f"tools/list does not show {whose} what the catalog file says; see the feature `callers`"
    bench.require(set(listing.by_name) == {tool["name"] for tool in tools}, wrong, listing.exchange)


@check(
    "cache-scope-varying",
    title="`cacheScope` is private where callers see different tools",
    sends="A search without a token, and with that of a caller who sees fewer tools.",
    passes='`cacheScope` is `"private"` for each.',
    eras=(MODERN,),
    transports=("http",),
    feature="callers",
)
async def keeps_varying_results_private(bench: Bench) -> None:
    async with _callers(bench) as callers:
        for other in callers:
            exchange = (await other.page(COMMON)).exchange
            scope = (exchange.result or {}).get("cacheScope")
            other.expect(scope == "private", exchange, f"cacheScope is {scope!r}, but callers see different tools")


@check(
    "hidden-tools-inert",
    title="What a caller may not see leaves no trace in what it is answered",
    sends="`server/discover` or `initialize` and the same searches, good ones and bad ones, by a caller from whom two"
    " thirds of the tools are hidden, and to a fixture that does not have these tools.",
    passes="The same settings, where `catalogSize` may be absent; the same tools in the same order with the same hit"
    " metadata, a next page where there is one, and the same error texts.",
    transports=("http",),
    feature="callers",
)
async def hides_without_a_trace(bench: Bench) -> None:
    async with _callers(bench) as (_, restricted), _without(bench, _VISIBLE) as reference:
        compared = await _compare_settings(bench, restricted, reference)
        for params in (*_SEARCHES, *_REFUSED):
            exchange, expected = await restricted.search(params), await reference.search(params)
            difference = _difference(exchange, expected)
            # A server whose answers differ by themselves shows nothing by differing here.
            if difference is None or await _repeats(bench, reference, params, expected):
                compared += 1
                case = f"{json_text(params)}, by a caller from whom {len(_HIDDEN)} tools are hidden"
                message = f"without the hidden tools the answer is another one: {difference}"
                restricted.expect(difference is None, exchange, message, case=case)
        restricted.require(compared > 0, "what two fixtures of one catalog answer differs by itself")


async def _compare_settings(bench: Bench, restricted: Bench, reference: Bench) -> bool:
    """Expect the settings of `reference`, with or without `catalogSize`; return whether there were any to compare."""
    connection, opening = await restricted.opening()
    shown, expected = advertised(connection), advertised(await reference.connection())
    async with _without(bench, _AGAIN) as again:
        repeated = same(advertised(await again.connection()), expected)
    if expected and "catalogSize" not in (shown or {}):
        expected = {name: value for name, value in expected.items() if name != "catalogSize"}
    if not repeated and not same(shown, expected):
        return False
    message = f"without the hidden tools the settings are {expected!r:.300} instead of {shown!r:.300}"
    restricted.expect(same(shown, expected), opening, message, case=f"a caller from whom {len(_HIDDEN)} are hidden")
    return True


async def _repeats(bench: Bench, reference: Bench, params: JsonObject, expected: Exchange) -> bool:
    """Tell whether `reference`, and a third fixture of the same catalog, answer `params` as `expected` each time."""
    async with _without(bench, _AGAIN) as again:
        answers = [await other.search(params) for other in (reference, again, reference, again)]
    return all(_difference(answer, expected) is None for answer in answers)


def _difference(exchange: Exchange, expected: Exchange) -> str | None:
    """Return what differs between two answers that should tell the same."""
    for what, one, other in zip(("tools", "nextCursor", "error"), _told(exchange), _told(expected), strict=True):
        if not same(one, other):
            return f"{what} {one!r:.300} instead of {other!r:.300}"
    return None


def _told(exchange: Exchange) -> tuple[Any, bool, Any]:
    result, error = exchange.result or {}, exchange.error
    refusal = None if error is None else [error.code, error.message, error.data]
    return result.get("tools"), "nextCursor" in result, refusal


@check(
    "call-authorized",
    title="A tool that a caller may not see cannot be called, whatever was found",
    sends="A search that finds a tool, and `tools/call` of it, which is served; then the same call with the token of a"
    " caller from whom it is hidden, and to whom another one is served.",
    passes="An error, or a result with `isError`.",
    transports=("http",),
    feature="callers",
)
async def authorizes_calls(bench: Bench) -> None:
    async with _callers(bench) as (everyone, restricted):
        found = await everyone.first(_SECRET)
        everyone.require(_SECRET in found.names, f"{_SECRET!r} is not found; see exact-name-first", found.exchange)
        for other, name in ((everyone, _SECRET), (restricted, name_of(_TELLING))):
            call = await _call(other, name)
            refused = f"{name!r} is not hidden, but its call got {call.describe()}; see callable"
            other.require(_served(call), refused, call)
        call = await _call(restricted, _SECRET)
        restricted.expect(not _served(call), call, f"{_SECRET!r} was called by whom it is hidden from", case=_SECRET)


async def _call(bench: Bench, name: str) -> Exchange:
    return await bench.ask("tools/call", {"name": name, "arguments": {}})


def _served(call: Exchange) -> bool:
    return call.result is not None and call.result.get("isError") is not True


@check(
    "cursor-other-caller",
    title="The cursor of another caller is no way to hidden tools",
    sends="A first page whose caller sees every tool, and its cursor with the token of a caller who does not; the pages"
    " that follow.",
    passes="Tools that this caller may see, or a refusal.",
    transports=("http",),
    feature="callers",
)
async def keeps_pages_private(bench: Bench) -> None:
    async with _callers(bench) as (everyone, restricted):
        for query in (_SECRET, COMMON):
            first = await everyone.page(query, limit=1)
            everyone.require(bool(first.next_cursor), f"{query!r} under limit 1 has one page", first.exchange)
            cursor, case = first.next_cursor, f"a cursor of another caller, for {query!r}"
            for _ in _HIDDEN_TOOLS:
                exchange = await restricted.search({"query": query, "cursor": cursor})
                if exchange.result is None:
                    break
                page = read_page(exchange, case)
                shown = [name for name in page.names if name in _HIDDEN]
                restricted.expect(not shown, exchange, f"{shown} are hidden from this caller", case=case)
                if not (cursor := page.next_cursor):
                    break
            await restricted.served({"query": query}, "a search after one with the cursor of another caller")
