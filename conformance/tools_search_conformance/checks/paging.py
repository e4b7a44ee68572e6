"""Order and pages: every match once, in finitely many pages, and the same sequence again."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, takewhile
from typing import Final

from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import explore_walks, judge_surveys, judge_walks, shared_whole
from tools_search_conformance.target.list_bench import once
from tools_search_conformance.target.pages import Listing, Page, Survey, Walk, read_page
from tools_search_conformance.target.primitives import TEMPLATES, params_of_use
from tools_search_conformance.target.vocabulary import NONSENSE, is_query, terms
from tools_search_conformance.wire.codec import json_text
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_MAX_PAGES: Final = 40
_MANY_PAGES: Final = 150
_ENOUGH_PAGES: Final = 30
_MIXED_LIMITS: Final = (3, 1, 7, 2, 50)
_SMALL_LIMITS: Final = (4, 2, 3, 6, 8, 10)
_FEW_PAGES: Final = 4
_SEVERAL: Final = 7
_PARAMS: Final = ("query", "limit", "cursor")
_REPEATS: Final = 3
_SHOWN: Final = 5
"""How many names a message shows of a sequence."""
_LONG_QUERY: Final = 1024
_DIFFER: Final = "the same request returns different sequences, so limits cannot be compared; see deterministic"


@once
async def _walks(bench: Bench) -> list[Walk]:
    """Read all pages of a query with several matches, in several page sizes."""
    query = await bench.query_with_two_matches()
    matches = len(dict.fromkeys((await bench.server.whole(query)).keys))
    # Pages of one tool unless there are too many, but also limits of five and more, because a server may rank a handful
    # of tools in another way.
    one_by_one = matches <= _MANY_PAGES and not bench.server.concurrency.slow
    few = 1 if one_by_one else max(1, matches // _MAX_PAGES)
    limits = {max(1, matches - 1), max(1, -(-matches // 2)), max(5, few), few} if matches <= _MAX_PAGES else {few}
    limits = [limit for limit in bench.some(sorted(limits), 2) if limit < matches]
    walks = await bench.each(limits, lambda limit: bench.server.whole(query, limit))
    walks += [walk for walk in [await bench.server.walk(query, most=_ENOUGH_PAGES)] if walk.ended]
    several = any(len(walk.pages) > 1 for walk in walks)
    bench.require(several, f"no search for {query!r} had a second page", walks[0].last if walks else None)
    return walks


@once
async def _first_pages(bench: Bench) -> list[Walk]:
    """Return the first pages of a query under limits of all kinds, where they do not take long."""
    if bench.server.concurrency.slow:
        return []
    query, limits = (await _walks(bench))[0].query, bench.some(_SMALL_LIMITS, 1)
    return await bench.each(limits, lambda limit: bench.server.walk(query, limit, most=_FEW_PAGES))


@once
async def _walks_above_maximum(bench: Bench) -> list[Walk]:
    """Read a search in the largest pages: exactly, and with limits just above and far above.

    Returns nothing if one page contains all matches. A server may begin the next page after `limit` tools, although it
    returned fewer.
    """
    query = await bench.query_with_two_matches()

    async def walk(limit: int) -> Walk | None:
        with suppress(UnverifiableError):  # limit-clamped judges whether a server accepts a limit
            return await bench.server.walk(query, limit, most=_MANY_PAGES)
        return None

    largest = await bench.server.page(query, limit=await bench.server.large_limit())
    most = len(largest.items)
    if largest.next_cursor is None or not most:
        return []
    exact, *above = await bench.each((most, most + 1, 2 * most), walk)
    return [] if exact is None else [exact, *filter(None, above)]


@once
async def _walks_read_on(bench: Bench) -> list[tuple[Walk, Walk, str]]:
    """Return pairs of walks over a search, the second with other limits on later pages, and these limits in words."""

    async def read_on(case: tuple[Walk, Sequence[int | None], str]) -> list[tuple[Walk, Walk, str]]:
        walk, later, how = case
        with suppress(UnverifiableError):  # limit-may-vary judges errors
            try:
                other = await bench.server.walk(walk.query, first=walk.pages[0], later=later)
            except UnverifiableError:  # a cursor may hold only once
                other = await bench.server.walk(walk.query, walk.limit, later=later)
            if other.ended:  # in a large catalog, reading the rest would take too long
                return [(walk, other, how)]
        return []

    ways: list[tuple[Sequence[int | None], str]] = [
        ([None], "without a limit"), (_MIXED_LIMITS, f"with limits {_MIXED_LIMITS} in turn"),
    ]  # fmt: skip
    walks = await _walks(bench)
    cases = [(walk, limits, how) for walk in walks for limits, how in ways]
    rests = [(walk, len(walk.keys) - len(walk.pages[0].keys) - 1) for walk in walks]
    cases += [(walk, [rest], f"with limit {rest}, which leaves one match") for walk, rest in rests if rest > 1]
    return [*chain(*await bench.each(cases, read_on))]


@server_check(
    title="The pages of a search together contain every match",
    sends="A query in one large page; in pages of several sizes; its first pages continued without a limit and with"
    " other limits; the same on a fixture's catalog of 130 tools, there also with limits above the largest page; second"
    " pages of queries in capitals, surrounded by"
    " white space, decomposed, or long; pages of one and of two for an item's key; generated queries and limits.",
    passes="The same tools however a first page is continued, with none missing in between; new cursors of one query"
    " are not refused while those of another query are honored.",
)
async def pages_complete(bench: Bench) -> None:
    async def judge_walk(walk: Walk, _: Listing) -> None:
        await _expect_none_lost_if_repeatable(bench, walk, await shared_whole(bench, walk.query))

    async def judge_read_on(bench: Bench) -> None:
        walks = await _walks(bench)
        whole = await bench.server.whole(walks[0].query)
        listed = {*(await bench.vocabulary()).keys}
        for walk in walks:
            _expect_none_lost(bench, walk, whole)
        for walk in await _first_pages(bench):  # a few tools may be in the same order by chance
            await _expect_none_lost_if_repeatable(bench, walk, whole)
        for walk, other, how in await _walks_read_on(bench):
            found, read_on = listed.intersection(walk.keys), listed.intersection(other.keys)
            for missing, when in ((found - read_on, how), (read_on - found, "with the limit of the first page")):
                message = f"no page contains {sorted(missing)} if later pages are requested {when}"
                bench.expect(not missing, other.last, message, case=walk.case)

    await judge_read_on(bench)
    if bench.first_cell and bench.may_serve("large"):
        async with bench.serving("large") as large:
            await judge_read_on(large)
            await _expect_none_lost_after_name(large)
            await _expect_none_lost_of_many(large, [large.searching(each.primitive) for each in bench.others_served])
    await _expect_none_lost_after_name(bench)
    await _expect_own_cursors_honored(bench)
    await explore_walks(bench, judge_walk)

    def judge_survey(survey: Survey) -> None:
        for walk, whole in zip(survey.walks, survey.wholes, strict=True):
            _expect_none_lost(bench, walk, whole)

    await judge_surveys(bench, judge_survey)


def _expect_none_lost(bench: Bench, walk: Walk, whole: Walk) -> None:
    # The limit may affect which tools match, so tools after the last one found do not count as missing, and none do
    # if the order differs.
    in_order = [name for name in whole.keys if name in walk.keys] == list(dict.fromkeys(walk.keys))
    until = whole.keys.index(walk.keys[-1]) if in_order and walk.keys else 0
    lost = [name for name in whole.keys[:until] if name not in walk.keys]
    message = f"no page contains {lost}, which the same query returns with a larger limit"
    bench.expect(not lost, walk.last, message, case=walk.case)


async def _expect_none_lost_of_many(bench: Bench, others: Sequence[Bench]) -> None:
    """Expect no match to be lost after the largest pages, nor between pages of other lists, where there are many."""
    for walk in (above := await _walks_above_maximum(bench))[1:]:
        await _expect_none_lost_if_repeatable(bench, walk, above[0])
    for by in others:
        with suppress(UnverifiableError):  # the check judges smaller catalogs of these
            query = next(iter((await by.vocabulary()).broad(1)), "anything")
            _expect_none_lost(by, await by.server.whole(query, _SEVERAL), await by.server.whole(query))


async def _expect_none_lost_if_repeatable(bench: Bench, walk: Walk, whole: Walk) -> None:
    try:
        _expect_none_lost(bench, walk, whole)
    except ViolationError:
        again = await bench.server.walk(walk.query, walk.limit, most=len(walk.pages))
        if again.keys == walk.keys and (await bench.server.whole(walk.query, whole.limit)).keys == whole.keys:
            raise  # otherwise, deterministic finds it


@once
async def _walks_of_name(bench: Bench) -> tuple[Walk, Walk] | None:
    """Search for the key that shares the most terms with others, in pages of one and of two."""
    words = await bench.vocabulary()
    if not (keys := [key for key in words.keys if is_query(key)]):
        return None
    query = max(keys, key=lambda key: sum(words.frequency[term] for term in terms(key)))
    return await bench.server.walk(query, 1, most=3), await bench.server.walk(query, 2, most=2)


async def _expect_none_lost_after_name(bench: Bench) -> None:
    """Expect no match to be skipped after the one that comes first because the query is its key."""
    if (walks := await _walks_of_name(bench)) is None:
        return
    one_by_one, in_pairs = walks
    query = in_pairs.query
    common = [key for key in one_by_one.keys if key in in_pairs.keys]
    before_last = one_by_one.keys[: one_by_one.keys.index(common[-1])] if common else []
    if lost := [key for key in before_last if key not in common]:  # unless the two searches differ in their order
        whole = await bench.server.walk(query, 2, most=_MANY_PAGES)
        lost = [key for key in lost if whole.ended and key not in whole.keys]
    message = f"pages with limit 2 skip {lost}, which pages with limit 1 contain"
    bench.expect(not lost, in_pairs.last, message, case=in_pairs.case)


async def _expect_own_cursors_honored(bench: Bench) -> None:
    """Expect cursors of unusual spellings of a query to be honored, if those of the plain query always are."""
    plain = await bench.query_with_two_matches()

    async def second_page(query: str) -> Exchange | None:
        page = await bench.server.page(query, limit=1)
        following = {**page.exchange.params, "cursor": page.next_cursor}
        return await bench.server.search(following) if page.next_cursor else None  # pages-end judges an empty one

    async def expect_honored(query: str) -> None:
        for times in range(_REPEATS):
            exchange, control = await second_page(query), await second_page(plain)
            if exchange is None or exchange.result is not None or control is None or control.result is None:
                return  # a server may cease to honor its cursors at any time
            what = f"{_REPEATS} times, a new cursor of the query {query[:60]!r} got {exchange.describe()}"
            message = f"{what}, but one of the query {plain!r} got a page"
            bench.expect(times < _REPEATS - 1, exchange, message, case=f"query {query!r:.100}")

    composed = [unicodedata.normalize("NFD", word) for word in (await bench.vocabulary()).composed(1)]
    long = f"{plain} {NONSENSE * _LONG_QUERY}"[:_LONG_QUERY]
    odd = (plain.upper(), f" {plain}\n", f"{plain}  {plain}", f"{plain}, 🔧 \x00", long, *composed)
    for query in bench.some(odd, 1):
        with suppress(UnverifiableError):  # query-unusual-characters judges errors
            await expect_honored(query)


@server_check(
    title="No match is on two pages of a search",
    sends="A query in pages of several sizes, also with limits that change from page to page; the same on a fixture's"
    " catalog of 130 tools, there also with limits above the largest page; generated queries and limits.",
    passes="The pages of one search have no tool in common.",
)
async def pages_disjoint(bench: Bench) -> None:
    def judge(walk: Walk) -> None:
        seen: set[str] = set()
        for number, page in enumerate(walk.pages, start=1):
            twice = seen & set(page.keys)
            message = f"page {number} repeats {bench.noun}s of earlier pages: {sorted(twice)}"
            bench.expect(not twice, page.exchange, message, case=walk.case)
            seen.update(page.keys)

    async def judge_read_on(bench: Bench) -> None:
        read_on = [other for _, other, _ in await _walks_read_on(bench)]
        for walk in (*await _walks(bench), *await _first_pages(bench), *read_on):
            judge(walk)

    await judge_read_on(bench)
    if bench.first_cell and bench.may_serve("large"):
        async with bench.serving("large") as large:
            await judge_read_on(large)
            for walk in await _walks_above_maximum(large):
                judge(walk)
    await judge_walks(bench, judge)


@once
async def _walks_of_every_kind(bench: Bench) -> list[Walk]:
    """Read the pages of queries with many, some and no matches, with small limits and without one."""
    words = await bench.vocabulary()
    most = 2 * len(words.items) + 10
    query, others = next(iter(words.broad(1)), words.key_query), bench.some(words.sample(4), 1)
    few = max(1, len(words.items) // _MAX_PAGES)
    limits = bench.some((max(5, few), few, None), 2)
    cases = [*((query, limit) for limit in limits), *((other, max(5, few)) for other in (*others, words.key_query))]
    walks = await bench.each(cases, lambda case: bench.server.walk(*case, most=most))
    with suppress(UnverifiableError):  # no-match-empty judges whether it may fail
        walks.append(await bench.server.walk(NONSENSE, max(5, few), most=most))
    return walks


@server_check(
    title="A search ends after finitely many pages, the last of which has no `nextCursor`",
    sends="Queries with and without matches, following every cursor; two of them on a fixture's catalog of 130 tools,"
    " one of which in pages of one tool.",
    passes="A page without `nextCursor` comes within twice as many pages as the catalog could fill.",
)
async def pages_end(bench: Bench) -> None:
    def judge(walk: Walk, on: Bench = bench) -> None:
        pages = f"after {len(walk.pages)} page{'s' * (len(walk.pages) != 1)}"
        message = (
            f"{pages}, the nextCursor is one that was already followed"
            if walk.again
            else f"{pages}, there is still a nextCursor"
        )
        on.expect(walk.ended, walk.last, message, case=walk.case)

    if bench.first_cell and bench.may_serve("large"):
        async with bench.serving("large") as large:
            words = await large.vocabulary()
            most = 2 * len(words.items)
            for query in words.broad(1):
                judge(await large.server.walk(query, await large.server.large_limit(), most=most), large)
            if not large.server.concurrency.slow:
                judge(await large.server.walk(await large.query_with_two_matches(), 1, most=most), large)
    for walk in await _walks_of_every_kind(bench):
        judge(walk)
        if walk.pages[-1].next_cursor == "":  # an empty string is a cursor, unlike no `nextCursor`
            after = await bench.server.search({"query": walk.query, "cursor": ""})
            bench.expect_result(after, "the last page has an empty nextCursor, and following it", case=walk.case)


@server_check(
    title="`nextCursor` is never an empty string",
    sends="Queries with and without matches, following every cursor.",
    passes="Each `nextCursor` is absent or has at least one character.",
)
async def cursor_nonempty(bench: Bench) -> None:
    for walk in await _walks_of_every_kind(bench):
        for page in walk.pages:
            bench.expect(page.next_cursor != "", page.exchange, "nextCursor is the empty string", case=walk.case)


@server_check(
    title="A search with matches does not end with an empty page",
    sends="A query in pages of several sizes, some of which divide its matches evenly.",
    passes="The last page contains a tool.",
)
async def last_page_nonempty(bench: Bench) -> None:
    query = await bench.query_with_two_matches()
    matches = len(dict.fromkeys((await bench.server.whole(query)).keys))
    known = {walk.limit: walk for walk in await _walks(bench)}
    limits = [limit for limit in bench.some((5, 1, 2, 3, matches), 2) if limit <= matches <= _MAX_PAGES * limit]
    others = await bench.each([n for n in limits if n not in known], lambda n: bench.server.whole(query, n))
    for walk in [*(known[n] for n in limits if n in known), *others]:
        if len(walk.pages) > 1:
            bench.expect(
                bool(walk.pages[-1].items), walk.last, "the last page of a search with matches is empty", case=walk.case
            )
    bench.require(bool(bench.recorder.judged), f"no search for {query!r} had a second page")


@server_check(
    title="All pages of a search have the same `cacheScope`",
    sends="A query in pages of several sizes.",
    passes="Every page has the `cacheScope` of the first one.",
    eras=(MODERN,),
)
async def cache_scope_stable(bench: Bench) -> None:
    for walk in await _walks(bench):
        first = (walk.pages[0].exchange.result or {}).get("cacheScope")
        for page in walk.pages[1:]:
            scope = (page.exchange.result or {}).get("cacheScope")
            message = f"cacheScope is {scope!r} but was {first!r} on the first page"
            bench.expect(scope == first, page.exchange, message, case=walk.case)


@server_check(
    title="Identical requests return the identical sequence of tools",
    sends="Various queries without a limit, with a large one and with a small one, three times each, and second pages;"
    " one of them after a found tool was used; each again on another connection; generated queries twice.",
    passes="The same names in the same order.",
)
async def deterministic(bench: Bench) -> None:
    async def repeat(first: Page, *, by: Bench = bench) -> None:
        params = {name: value for name, value in first.exchange.sent["params"].items() if name in _PARAMS}
        exchange = await by.server.search(params)
        names = read_page(exchange, "a repeated request").keys
        where = "" if by is bench else " on another connection"
        case = ", ".join(f"{name} {value!r:.100}" for name, value in params.items())
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first.keys, names, strict=False)))
        after = f"after the first {same}, " if same else ""
        one, other = first.keys[same : same + _SHOWN], names[same : same + _SHOWN]
        message = f"{after}the same request returned {one} and then{where} {other}"
        bench.expect(names == first.keys, exchange, message, case=case)

    async def repeat_often(first: Page) -> None:
        with suppress(UnverifiableError):  # a cursor may hold only once
            for _ in range(_REPEATS - 1):
                await repeat(first)

    large, query = await bench.server.large_limit(), await bench.query_with_matches()
    queries = bench.some((query, *(await bench.vocabulary()).sample(8)))
    firsts = await bench.each(queries, lambda each: bench.server.page(each, limit=large))
    for limit in bench.some((None, 4, max(1, len(firsts[0].keys) - 1)), 1):
        page = await bench.server.page(query, limit=limit)
        firsts.append(page)
        if page.next_cursor:
            firsts.append(await bench.server.page(query, limit=limit, cursor=page.next_cursor))
    await bench.each(firsts, repeat_often)
    plain = [item for item in firsts[0].items if "x-mcp-header" not in json_text(item)]
    # The use of a found tool must not change the sequence either.
    if bench.profile == "fixture" and bench.primitive is not TEMPLATES and plain:
        await bench.server.ask(bench.primitive.use_method, params_of_use(plain[0], bench.primitive))
        await repeat(firsts[0])
    if bench.profile == "fixture" and bench.can_start("core"):
        async with bench.another() as other:
            await other.server.known_listing()  # as on the first one
            alone = [first for first in firsts if "cursor" not in first.exchange.sent["params"]]
            await other.each(alone, lambda first: repeat(first, by=other))
    await explore_walks(bench, lambda walk, _: repeat(walk.pages[0]))


@server_check(
    title="`limit` changes only where pages end",
    sends="A query with limits from 1 to more than its number of matches, and on a fixture's catalog of 130 tools with"
    " limits above the largest page; an item's key with limits 1 and 2 and in large pages; generated queries and"
    " limits.",
    passes="Each first page is a prefix of the full sequence; small pages together contain what large ones do.",
)
async def limit_only_cuts(bench: Bench) -> None:
    async def judge_walk(walk: Walk, _: Listing) -> None:
        first, whole = walk.pages[0], await shared_whole(bench, walk.query)
        begins = first.keys == whole.keys[: len(first.keys)]
        if not begins and (await bench.server.whole(walk.query)).keys != whole.keys:
            return  # identical requests differ; see deterministic
        what = f"the first page with limit {walk.limit} is not a prefix of the full sequence"
        bench.expect(begins, first.exchange, what, case=walk.case)

    query = await bench.query_with_two_matches()
    whole, again = await bench.server.whole(query), await bench.server.whole(query)
    bench.applies(whole.keys == again.keys, _DIFFER)
    count = len(whole.keys)
    short = list[tuple[str, Page]]()
    limits = bench.some((1, 2, 3, 5, 7, 10, 20, 100, 1000, None, max(1, count - 1), count + 1))
    pages = await bench.each(limits, lambda limit: bench.server.page(query, limit=limit))
    for limit, page in zip(limits, pages, strict=True):
        which = f"with limit {limit}" if limit else "without a limit"
        message = f"the first page {which} is not a prefix of the full sequence"
        begins = page.keys == whole.keys[: len(page.keys)]
        if not begins:
            bench.applies((await bench.server.page(query, limit=limit)).keys == page.keys, _DIFFER)
        bench.expect(begins, page.exchange, message, case=f"query {query!r}, {which}")
        if page.next_cursor is None and page.items:
            short.append((which, page))
    for which, page in short:
        lost = set(whole.keys) - set(page.keys)
        message = f"a search {which} ends without {sorted(lost)}, which match with a larger limit"
        bench.expect(not lost, page.exchange, message, case=f"query {query!r}, {which}")
    # If larger pages after the same first page contain more tools, paging is at fault, and pages-complete reports that.
    if count <= _MAX_PAGES:
        known = list[Walk]()
        with suppress(UnverifiableError):
            known = await _walks(bench)
        small = next((walk for walk in known if walk.limit == 1), None) or await bench.server.whole(query, 1)
        if lost := set(whole.keys) - set(small.keys):
            other = await bench.server.walk(query, first=small.pages[0])
            fault_of_paging = bool(set(other.keys) - set(small.keys))
            message = f"a search with limit 1 ends without {sorted(lost)}, which match with a larger limit"
            bench.expect(fault_of_paging, small.last, message, case=small.case)
    if bench.first_cell and bench.may_serve("large"):
        async with bench.serving("large") as large:
            await _expect_none_lost_above_maximum(large)
    await _expect_none_lost_of_name(bench)
    await explore_walks(bench, judge_walk)


async def _expect_none_lost_above_maximum(bench: Bench) -> None:
    """Expect searches with limits above the largest page not to end before others do."""
    walks = await _walks_above_maximum(bench)
    for walk in walks[1:]:
        lost = set(walks[0].keys) - set(walk.keys) if walk.ended else set[str]()
        if lost and walk.keys == walks[0].keys[: len(walk.keys)]:  # otherwise, pages-complete finds the gap
            again = await bench.server.walk(walk.query, walk.limit, most=len(walk.pages))
            bench.applies(again.keys == walk.keys, _DIFFER)
            message = f"a search with limit {walk.limit} ends without {sorted(lost)}, which match with a smaller limit"
            bench.expect(False, walk.last, message, case=walk.case)


async def _expect_none_lost_of_name(bench: Bench) -> None:
    """Expect searches for a key that end after a small page to contain what large pages contain."""
    for walk in await _walks_of_name(bench) or ():
        first, every = walk.pages[0], await shared_whole(bench, walk.query)
        lost = [key for key in every.keys if key not in first.keys] if first.next_cursor is None else list[str]()
        if lost:
            again = await bench.server.page(walk.query, limit=walk.limit), await bench.server.whole(walk.query)
            bench.applies(again[0].next_cursor is None and again[1].keys == every.keys, _DIFFER)
        message = f"a search with limit {walk.limit} ends without {lost}, which match with a larger limit"
        bench.expect(not lost, first.exchange, message, case=walk.case)
