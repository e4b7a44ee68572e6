"""Result: the shape of a page and of everything in it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from tools_search_spec import EXTENSION_ID, PRIMITIVES

from tools_search_conformance.catalogs import COMMON, WORDS, document, made_tool
from tools_search_conformance.checks.matching import chosen
from tools_search_conformance.model import UnverifiableError, grouped
from tools_search_conformance.target.bench import Bench, queries_beyond, server_check
from tools_search_conformance.target.generated import judge_pages, judge_surveys
from tools_search_conformance.target.list_bench import once
from tools_search_conformance.target.pages import Page, Survey, complaint, page_schema
from tools_search_conformance.target.primitives import TOOLS, items_in, key_in, primitive_of
from tools_search_conformance.target.vocabulary import NONSENSE, Vocabulary, is_query
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, json_text
from tools_search_conformance.wire.eras import DECLARED, MODERN
from tools_search_conformance.wire.record import Exchange

_SAMPLE: Final = 8
_MANY: Final = 50
_MORE_PAGES: Final = 5
_SEVERAL: Final = 3
_LARGE: Final = 10
_OF_ANOTHER_MEANING: Final = frozenset({*(primitive.member for primitive in PRIMITIVES), "nextCursor", "ttlMs"})
_VIEWS: Final[tuple[tuple[int | None, int], ...]] = ((1, 0), (3, 0), (6, 0), (None, 0), (1, 1), (-1, -1))
"""Pages that may contain the number of matches: the page's limit, and the number of tools before it.

Negative numbers count from the number of matches: that is a last page with one tool.
"""
_Totals: TypeAlias = dict[int, list[Page | None]]
"""The pages of the views, by number of matches."""

_COUNTS: Final = re.compile(
    r"\b_?(?:(?:total|count|hit|matche?|found|result)(?:s|ed)?|(?:total|num(?:ber)?_?(?:of)?|match|result|hit|tool|item|"
    r"resource|template|prompt)s?_?(?:total|count|hit|match(?:e|es)?|found|result|tool|item|resource|template|prompt)s?)"
    r"\b",
    re.IGNORECASE,
)
"""Names of members that hold a number of matches, in any part of a path, such as `total`, `hits` or `matchCount`."""
_COUNT_IN_WORDS: Final = re.compile(
    r"(?<![\w.-])([0-9]{1,9}) (?:\w+ ){0,3}(?:tool|match|result|hit|item|resource|template|prompt)"
)
_CACHE_MEMBERS: Final = {
    "type": "object",
    "required": ["ttlMs", "cacheScope"],
    "properties": {"ttlMs": {"type": "integer", "minimum": 0}, "cacheScope": {"enum": ["public", "private"]}},
}


@once
async def _searches(bench: Bench) -> list[Exchange]:
    """Return searches of every kind: broad, narrow, and without a match; first and later pages."""
    words, search = await bench.vocabulary(), bench.server.search
    beyond = await queries_beyond(bench)
    queries = [words.key_query, *bench.some(words.sample(_SAMPLE - len(beyond))), *beyond]
    exchanges = await bench.each(({"query": query} for query in (*queries, f" {words.key_query}\n")), search)
    nothing = await bench.each(({"query": NONSENSE}, {"query": NONSENSE, "limit": 1}), search)
    # no-match-empty judges whether these are served.
    exchanges += [each for each in nothing if each.result is not None]
    exchanges.append(await search(exchanges[0].params))  # its `ttlMs` may be the remaining time of a cached answer
    for query in queries[1:]:
        exchanges.append(await search({"query": query, "limit": _MANY}))
        pages = [page async for page in _pages(bench, query)]
        exchanges += pages
        if len(pages) > 1:
            break
    return exchanges


async def _pages(bench: Bench, query: str) -> AsyncGenerator[Exchange]:
    """Yield the first three pages of a search with limit 1, and then larger ones up to the last."""
    params: JsonObject = {"query": query}
    for limit in (1, 1, 1, *[_MANY] * _MORE_PAGES):
        exchange = await bench.server.search({**params, "limit": limit})
        if exchange.result is None and (limit == _MANY or params.get("cursor") == ""):
            return  # limit-may-vary judges errors, and pages-end the end of the pages
        yield exchange
        cursor = (exchange.result or {}).get("nextCursor")
        if not isinstance(cursor, str):
            return
        params["cursor"] = cursor


@once
async def _of_nothing(bench: Bench) -> Exchange:
    """Return a search of an empty catalog, which a server may answer without really searching."""
    return await bench.server.search({"query": "anything"})


async def _judge_of_nothing(bench: Bench, judge: Callable[[Exchange], None]) -> None:
    if bench.may_serve("empty"):
        async with bench.serving("empty") as other:
            exchange = await _of_nothing(other)
            if exchange.result is not None:  # no-match-empty judges errors
                judge(exchange)


def _require_finds(bench: Bench, exchanges: list[Exchange]) -> None:
    found = any(map(items_in, exchanges))
    queries = list(dict.fromkeys(exchange.sent["params"]["query"] for exchange in exchanges))
    bench.require(found, f"none of the queries {queries} found anything", exchanges[0])


async def _judge_results(bench: Bench, judge: Callable[[Exchange], None]) -> None:
    """Judge searches of every kind, and generated ones. Some of them must have found something."""
    exchanges = await _searches(bench)
    _require_finds(bench, exchanges)
    for exchange in exchanges:
        if exchange.result is not None:
            judge(exchange)
    await _judge_of_nothing(bench, judge)
    await judge_pages(bench, lambda page, _: judge(page.exchange))


@server_check(
    title="A search result conforms to the schema",
    sends="Various searches, with and without matches; their first, later and last pages; on a fixture with an empty"
    " catalog, any word.",
    passes="A result whose `tools` are definitions and whose `nextCursor`, if present, is a string.",
)
async def result_schema(bench: Bench) -> None:
    def expect_shape(exchange: Exchange) -> None:
        query = exchange.sent["params"]["query"]
        bench.require_result(exchange, f"a search for {query!r}")
        wrong = complaint(exchange.result, page_schema(bench.cell.era, bench.primitive))
        bench.expect(
            wrong is None, exchange, f"the result does not conform to the schema at {wrong}", case=f"query {query!r}"
        )

    # A result without `tools` finds nothing, but is judged too. Results come first, because the first error ends the
    # check as unverified.
    exchanges = await _searches(bench)
    for exchange in sorted(exchanges, key=lambda one: one.result is None):
        expect_shape(exchange)
    _require_finds(bench, exchanges)
    # Only in the legacy era, an output schema must be the schema of an object.
    tools = chosen(bench, (await bench.server.known_listing()).items)
    names = [tool["name"] for tool in tools if "outputSchema" in tool]
    for page in await bench.each(filter(is_query, names), lambda name: bench.server.first(name, limit=1)):
        expect_shape(page.exchange)

    def judge(survey: Survey) -> None:
        for _, exchange in survey.named:
            if exchange.result is not None:
                expect_shape(exchange)

    await judge_surveys(bench, judge)
    await _judge_of_nothing(bench, expect_shape)


@server_check(
    title='`resultType` is "complete"',
    sends="Various searches; on a fixture with an empty catalog, any word.",
    passes='`resultType: "complete"` in each result.',
    eras=(MODERN,),
)
async def result_type(bench: Bench) -> None:
    def judge(exchange: Exchange) -> None:
        kind = (exchange.result or {}).get("resultType")
        if kind != "input_required":  # no-input-required finds requests for input
            bench.expect(kind == "complete", exchange, f"resultType is {kind!r} instead of 'complete'")

    await _judge_results(bench, judge)


@server_check(
    title="A modern result says how long and for whom it may be cached",
    sends="Various searches; on a fixture with an empty catalog, any word.",
    passes="`ttlMs`, an integer of at least 0, and `cacheScope`, `public` or `private`, in each result.",
    eras=(MODERN,),
)
async def cache_hints(bench: Bench) -> None:
    def judge(exchange: Exchange) -> None:
        wrong = complaint(exchange.result, _CACHE_MEMBERS)
        bench.expect(wrong is None, exchange, f"the cache hints do not conform to the schema at {wrong}")

    await _judge_results(bench, judge)


@server_check(
    title="A search never asks for input",
    sends="Vague and ordinary searches from a client that declares elicitation and sampling, so it could be asked.",
    passes="No result is an `InputRequiredResult`.",
    eras=(MODERN,),
)
async def no_input_required(bench: Bench) -> None:
    able: JsonObject = {**DECLARED, "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    for query in ("something", NONSENSE, await bench.query_with_matches()):
        exchange = await bench.server.search({"query": query}, capabilities=able)
        result = exchange.result or {}
        asks = result.get("resultType") == "input_required" or "inputRequests" in result
        bench.expect(
            not asks, exchange, "the search got a request for input instead of a result", case=f"query {query!r}"
        )


@server_check(
    title="Hit metadata conforms to the schema",
    sends="Various searches.",
    passes="Where `_meta` of a tool has the extension identifier, its value is an object with valid `score`, `matched`"
    " and `group`.",
)
async def hit_metadata(bench: Bench) -> None:
    def judge(exchange: Exchange) -> None:
        for item in filter(None, map(as_object, items_in(exchange))):
            meta = as_object(item.get("_meta")) or {}
            if EXTENSION_ID in meta:
                wrong = complaint(meta[EXTENSION_ID], "HitMetadata")
                message = (
                    f"the hit metadata of {key_in(item, bench.method)!r} does not conform to the schema at {wrong}"
                )
                bench.expect(wrong is None, exchange, message)

    await _judge_results(bench, judge)
    bench.applies(bool(bench.recorder.judged), "the server sends no hit metadata; it is optional")


@server_check(
    title="Only `tools` reveals the number of matches",
    sends="Queries, if possible with different numbers of matches, with several limits and without one, and without a"
    " match; first, second and last pages; on a fixture, other catalogs too.",
    passes="No member of the results or of hit metadata always equals the number of matches or of remaining matches: as"
    " a number, in a text, as the length of an array, or as the number or sum of an object's members. No member with a"
    " name or text of a count, such as `total`, does so only on pages that contain all matches, or none.",
)
async def no_match_count(bench: Bench) -> None:
    items = (await bench.nonempty_listing()).items
    bench.applies(len(items) > 1, f"the server lists a single {bench.noun}, so there is no number to reveal")
    words = Vocabulary(items, bench.primitive.key).broad(12)
    several = [" ".join(words[:count]) for count in (2, 4, 8)]
    totals = await _totals(bench, [*words, *several])
    await _expect_no_count_on_whole_pages(bench, words, [page for views in totals.values() for page in views if page])
    if len(totals) < 2 and bench.profile == "fixture" and bench.primitive is TOOLS:
        totals |= await _totals_of_other_catalogs(bench, totals)
    bench.require(max(totals, default=0) > 1, f"no query matched two {bench.noun}s; a richer catalog would help")
    views = bench.some(_VIEWS, 1)
    if len(totals) == 1:
        _expect_no_rest_counted(bench, totals, views)
        return
    firsts = [page for seen in totals.values() if (page := seen[0]) is not None]
    positions = {path for page in firsts for path, value in _added(page) if value == 1}
    # A server may only report a count for few matches or for many. Fewer than three numbers may be equal by chance.
    few, many = ({n for n in totals if (n > _LARGE) is large} for large in (False, True))
    for counts in (set(totals), *(part for part in (few, many) if len(part) >= _SEVERAL)):
        for view, (_, before) in enumerate(views):
            pages = [(n, before, page) for n in counts if (page := totals[n][view]) is not None]
            if len(pages) > 1:  # what one page holds may be anything
                _expect_no_count(bench, pages, positions if before < 0 else set())


async def _totals_of_other_catalogs(bench: Bench, totals: _Totals) -> _Totals:
    """Return other numbers of matches than `totals`, if a large catalog or else one of two tools has them."""
    async with bench.serving("large") as other:
        others = await _totals(other, (await other.vocabulary()).broad(3))
    if len(totals | others) < 2:
        # A server that always finds a few nearest tools finds fewer in a catalog of two.
        bench.place("pair", document([made_tool(word) for word in WORDS[:2]]))
        async with bench.fresh(catalog="pair") as other:
            others |= await _totals(other, [COMMON])
    return others


def _expect_no_rest_counted(bench: Bench, totals: _Totals, views: Sequence[tuple[int | None, int]]) -> None:
    """Expect no count where every query matches as many, perhaps all: the rest still differs from page to page."""
    ((count, seen),) = totals.items()
    pages = [(count, before, page) for (_, before), page in zip(views, seen, strict=True) if page is not None]
    for later in (False, True):  # the rest may be counted otherwise there
        _expect_no_count(bench, [each for each in pages if each[1] == 0 or (later and each[1] > 0)], set())


def _expect_no_count(bench: Bench, pages: Sequence[tuple[int, int, Page]], positions: Collection[str]) -> None:
    """Expect that no member of these pages is always the number of matches, or the rest of it.

    With each page come the number of matches and how many of them are on earlier pages; below zero, none remain.
    Members in `positions` may be positions among the matches, which on a last page equal their number.
    """
    for gone, what in ((1, "the number of remaining matches"), (0, "the number of matches")):
        if gone and any(before < 0 for _, before, _ in pages):
            continue  # there are none, and any zero would reveal it
        numbers = [count - gone * (before + len(page.items)) for count, before, page in pages]
        places = [{path for path, v in _added(page) if v == n} for n, (_, _, page) in zip(numbers, pages, strict=True)]
        everywhere = sorted(set[str].intersection(*places).difference(positions))
        held = ", ".join(everywhere)
        if len({*numbers}) < 2:
            same = f"the only number of matches that was seen, {numbers[0]}, is also in {held}, perhaps by chance"
            bench.require(not everywhere, same, pages[0][2].exchange)
        for _, _, page in pages:
            bench.expect(not everywhere, page.exchange, f"the result reveals {what} in {held}")


async def _expect_no_count_on_whole_pages(bench: Bench, queries: Sequence[str], others: Sequence[Page]) -> None:
    """Expect that no count of all matches is on pages that contain them all, or none, if it is on no other page.

    There it also equals the length of the page, so only members count whose names or texts say what they are.
    """
    elsewhere = {place for page in others for place, _ in _counted(page)}
    limit = await bench.server.large_limit()
    for query in (NONSENSE, *bench.some(queries, 1)) if others else ():
        with suppress(UnverifiableError):  # no-match-empty judges whether a search without a match may fail
            page = await bench.server.page(query, limit=limit)
            if page.next_cursor is None:
                held = {place for place, number in _counted(page) if number == len(page.items)} - elsewhere
                message = f"a page with all {len(page.items)} matches reveals their number in {', '.join(sorted(held))}"
                bench.expect(not held, page.exchange, message, case=f"query {query!r}, limit {limit}")


def _counted(page: Page) -> Iterator[tuple[str, Any]]:
    """Yield the numbers that a search adds to its items and whose name or text says that they count something."""
    for path, number in _added(page):
        if path.startswith("result.") and _COUNTS.search(path, len("result.")):
            yield re.sub(r"\[\d+\]", "", path), number
    added = {name: value for name, value in (page.exchange.result or {}).items() if name not in _OF_ANOTHER_MEANING}
    yield from (("a text", int(found[1])) for found in _COUNT_IN_WORDS.finditer(json_text(added)))


async def _totals(bench: Bench, queries: list[str]) -> _Totals:
    """Return the pages of `_VIEWS` by number of matches, as far as more matches follow them."""

    async def view(case: tuple[str, int, int | None, int]) -> Page | None:
        query, count, limit, before = case
        limit = count + limit if limit and limit < 0 else limit
        page = await bench.server.page(query, limit=limit)
        if before and page.next_cursor is not None:
            page = await bench.server.page(query, limit=limit, cursor=page.next_cursor)
        return page if before + len(page.items) < count or limit == 1 else None

    async def count(query: str) -> tuple[int, str]:
        return len({*(await bench.server.whole(query)).keys}), query

    counted = dict(reversed(await bench.each(queries, count)))
    views = bench.some(_VIEWS, 1)
    cases = [(query, n, limit, before) for n, query in counted.items() if n > 1 for limit, before in views]
    pages = await bench.each(cases, view)
    return grouped((n, page) for (_, n, _, _), page in zip(cases, pages, strict=True))


def _added(page: Page) -> Iterator[tuple[str, Any]]:
    """Yield the numbers that a search adds to its items, with their places, except those with a known meaning."""
    for name, member in (page.exchange.result or {}).items():
        if name not in _OF_ANOTHER_MEANING:
            yield from _numbers(member, f"result.{name}")
    member = primitive_of(page.exchange.method).member
    for place, item in enumerate(page.items):
        hit = as_object((as_object(item.get("_meta")) or {}).get(EXTENSION_ID)) or {}
        for name in hit.keys() - {"matched"}:  # the number of matched fields may equal that of matches by chance
            yield from _numbers(hit[name], f"result.{member}[{place}]._meta[{EXTENSION_ID!r}].{name}")


def _numbers(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every number with its place, also those in texts, lengths of arrays, and counts and sums of members."""
    if isinstance(value, str):
        # Digits within a word are part of an id, which may contain any number by chance.
        yield from ((path, int(digits)) for digits in re.findall(r"(?<![\w.-])[0-9]{1,9}(?![\w-])", value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
    elif (items := as_array(value)) is not None:
        yield f"the length of {path}", len(items)
        for place, item in enumerate(items):
            yield from _numbers(item, f"{path}[{place}]")
    elif members := as_object(value):
        for name, member in members.items():
            yield from _numbers(member, f"{path}.{name}")
        yield f"the number of members of {path}", len(members)
        with suppress(TypeError):
            yield f"the sum of {path}", sum(members.values())
