"""Order, pages and cursors: every match once, in finitely many pages, by cursors that hold for their own search."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import chain, takewhile
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final

from tools_search_conformance.checks.parameters import refused_by_empty
from tools_search_conformance.model import InapplicableError, UnverifiableError, ViolationError
from tools_search_conformance.target.bench import INVALID_PARAMS, Bench, early_page, once, server_check
from tools_search_conformance.target.generated import explore_walks, judge_surveys, judge_walks, shared_whole
from tools_search_conformance.target.pages import Listing, Page, Survey, Walk, read_page
from tools_search_conformance.target.primitives import EVERY_METHOD, TEMPLATES, TOOLS, items_in, key_in, params_of_use
from tools_search_conformance.target.server import Opening
from tools_search_conformance.target.vocabulary import NONSENSE, is_query, terms
from tools_search_conformance.wire.codec import JsonObject, json_text
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

KEY_VARIABLE: Final = "TOOLS_SEARCH_CURSOR_KEY"
"""The environment variable that holds the secret that the replicas of a fixture share."""

_KEY: Final = "the replicas of a fixture share this secret of 64 characters ..."
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
_PLACES: Final = 32
"""In how many places of a cursor a character is exchanged."""
_BASE64: Final = f"{ascii_uppercase}{ascii_lowercase}{digits}"
_SEPARATORS: Final = "#?&;,:/|~!@$*+ \\^`'\"()<>[]{}%=_-"
_OTHER_ALPHABET: Final = str.maketrans("-_+/", "+/-_")
_RAISED_BY: Final = (1, -1, 100_000)
_FEW_CHARACTERS: Final = 4
_TO_FULL_WIDTH: Final = 0xFEE0
"""From a printable ASCII character to its full-width form, which NFKC makes the same."""
_LONG_QUERY: Final = 1024
_HALF_QUERY: Final = 508
"""Characters of half a long query, without the symbols that make it differ from others."""
_OTHER_ENDS: Final = ("2 \u00e9 \u8239", "1 \u00e8 \u8239", "1 \u00e9 \u95f8", "1 \u00e9 9", "1 e \u8239", "1 \u00e9")
# Symbols are no terms. They distinguish queries that were sent before.
_MARKS: Final = (" \u21a9\u2318", " \u2318\u21a9", " \u2325\u21a9")
_REPLICA_PAGES: Final = 4
_TOGETHER: Final = 4
_ROUNDS: Final = 3
_ATTEMPTS: Final = 2
_DIFFER: Final = "the same request returns different sequences, so limits cannot be compared; see deterministic"
_BOUND_PAGES: Final = (3, 4, 5)
_MADE_UP: Final = (
    "",
    "no such cursor",
    "AAAA",
    "A",
    " ",
    "null",
    "-1",
    "0",
    "1",
    "10",
    "99999999999999999999",
    "undefined",
    "start",
    "MTA=",
    "/////w==",
    "00000000-0000-4000-8000-000000000000",
    base64.b64encode(b'{"offset":1}').decode(),
    base64.urlsafe_b64encode(b'{"query":"anything","offset":10}').decode().rstrip("="),
    *(base64.b64encode(text).decode() for text in (b"null", b"[]", b"{}", b'"1"', b"\xff\xfe", b"1:1", b"[" * 6000)),
    "eyJvIjoxfQ.AAAA",
    "AAAA.BBBB.CCCC",
    "AAAA.\u00e9",
    "1:AAAA",
    ".",
    "%",
    "0123456789abcdef" * 2,
    "{}",
    "🔧\x00\u202e",
    "../../etc/passwd",
    "A" * 5000,
    "A" * 50_000,
)


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
    " other limits; the same on a fixture's catalog of 120 tools, there also with limits above the largest page; second"
    " pages of queries in capitals, surrounded by"
    " white space, decomposed, or long; pages of one and of two for an item's key; generated queries and limits.",
    passes="The same tools however a first page is continued, with none missing in between; new cursors of one query"
    " are not refused while those of another query are honored.",
    methods=EVERY_METHOD,
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
        return None if page.next_cursor is None else await bench.server.search(following)

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
    " catalog of 120 tools, there also with limits above the largest page; generated queries and limits.",
    passes="The pages of one search have no tool in common.",
    methods=EVERY_METHOD,
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
    sends="Queries with and without matches, following every cursor; two of them on a fixture's catalog of 120 tools,"
    " one of which in pages of one tool.",
    passes="A page without `nextCursor` comes within twice as many pages as the catalog could fill.",
    methods=EVERY_METHOD,
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
    methods=EVERY_METHOD,
)
async def cursor_nonempty(bench: Bench) -> None:
    for walk in await _walks_of_every_kind(bench):
        for page in walk.pages:
            bench.expect(page.next_cursor != "", page.exchange, "nextCursor is the empty string", case=walk.case)


@server_check(
    title="A search with matches does not end with an empty page",
    sends="A query in pages of several sizes, some of which divide its matches evenly.",
    passes="The last page contains a tool.",
    methods=EVERY_METHOD,
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
    methods=EVERY_METHOD,
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
    methods=EVERY_METHOD,
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
    sends="A query with limits from 1 to more than its number of matches, and on a fixture's catalog of 120 tools with"
    " limits above the largest page; an item's key with limits 1 and 2 and in large pages; generated queries and"
    " limits.",
    passes="Each first page is a prefix of the full sequence; small pages together contain what large ones do.",
    methods=EVERY_METHOD,
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


async def _expect_old_cursor_refused(bench: Bench) -> None:
    """Expect the cursor of an early search to return the second page, or to be refused like any invalid cursor."""
    first = await early_page(bench) if bench.primitive is TOOLS else None
    if first is None or first.next_cursor is None:
        return
    case = "a cursor issued many searches ago"
    exchange = await bench.server.search({**first.exchange.params, "cursor": first.next_cursor})
    if exchange.result is None:
        bench.expect_code(exchange, case)
    else:
        again = [key for key in read_page(exchange, case).keys if key in first.keys]
        message = f"{case} returned tools of the first page again: {again}"
        sent = first.exchange.params
        if again and (await bench.server.page(sent["query"], limit=sent.get("limit"))).keys != first.keys:
            return  # the order has changed; see deterministic
        bench.expect(not again, exchange, message, case=case)


async def _second_page(bench: Bench, query: str | None = None) -> JsonObject:
    """Return the params of a second page, with an unused cursor. Inapplicable with a single tool."""
    query = query or await bench.query_with_matches()
    _, cursor = await bench.page_with_cursor(query)
    return {"query": query, "limit": 1, "cursor": cursor}


@server_check(
    title="A cursor that this server did not issue is refused",
    sends="Made-up cursors: the empty string, words, numbers, base64, unusual characters, 50,000 letters; some of them"
    " with a query without matches. An unused cursor of one of the first searches of the run.",
    passes="Error -32602 for each; for the old cursor, the second page or error -32602.",
    methods=EVERY_METHOD,
)
async def cursor_forged(bench: Bench) -> None:
    await _expect_old_cursor_refused(bench)

    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        return [({**good, "cursor": made_up}, f"cursor {made_up[:60]!a}") for made_up in _MADE_UP]

    if len((await bench.nonempty_listing()).items) > 1:
        await bench.refused_cursors(lambda: _second_page(bench), vary)
    else:  # a single page has no cursor
        only = {"query": await bench.query_with_matches()}
        await bench.refused_each(bench.some(vary(only), 4), only)
    with suppress(UnverifiableError):  # no-match-empty judges whether it may fail
        cases = [
            ({"query": NONSENSE, "cursor": made_up}, f"cursor {made_up!a} for a query without matches")
            for made_up in bench.some(_MADE_UP[1:4], 1)
        ]
        await bench.refused_each(cases, {"query": NONSENSE})
    # A server may answer a query that is a name before it looks at other parameters.
    named = {"query": await bench.key_query()}
    cases = [({**named, "cursor": made_up}, f"cursor {made_up!a} for a name") for made_up in _MADE_UP[1:2]]
    await bench.refused_each(cases, named)
    await refused_by_empty(bench, [({"query": "anything", "cursor": _MADE_UP[1]}, f"cursor {_MADE_UP[1]!a}")])


@server_check(
    title="A cursor can be used more than once",
    sends="A first page, then the request for its second page twice, and a third time after another search.",
    passes="A result for each.",
    methods=EVERY_METHOD,
)
async def cursor_repeated(bench: Bench) -> None:
    following = await _second_page(bench)
    once = await bench.server.search(following)
    if bench.recorder.has_followed(bench.method, following["query"], following["cursor"]):  # each search may issue it
        bench.expect_result(once, "a cursor that got a page earlier, and was issued again,")
    bench.require_result(once, "the second page")
    await bench.served(following, "a cursor sent a second time")
    # Another search in between must not invalidate the cursor: a server may keep only the last search.
    await bench.server.search({"query": NONSENSE})
    await bench.served(following, "a cursor sent a third time after another search")


@server_check(
    title="An altered cursor is refused",
    sends="A genuine cursor with one character changed, at each of several positions; cut, doubled or extended; in"
    " another spelling of base64; with the case of its letters swapped; without its signature, if it is a JWT; with the"
    " numbers in it raised or lowered; or with a punctuation mark and another part before or after it, as in a URL.",
    passes="Error -32602 for each.",
    methods=EVERY_METHOD,
)
async def cursor_tampered(bench: Bench) -> None:
    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        cursor = good["cursor"]
        return [
            ({**good, "cursor": altered}, f"a genuine cursor {how} ({altered[:80]!a})")
            for altered, how in (*_alterations(cursor), *bench.share(_parted(cursor)))
        ]

    while True:
        try:
            return await bench.refused_cursors(lambda: _second_page(bench), vary)
        except ViolationError as violation:
            # The altered cursor may be the genuine one of another page, such as page 3 instead of 2.
            sent: JsonObject = violation.exchange.sent["params"] if violation.exchange else {}
            if "limit" not in sent or bench.recorder.has_issued(bench.method, sent["query"], sent["cursor"]):
                raise
            await bench.server.walk(sent["query"], sent["limit"])
            if not bench.recorder.has_issued(bench.method, sent["query"], sent["cursor"]):
                raise


def _alterations(cursor: str) -> Iterator[tuple[str, str]]:
    yield from _exchanged(cursor)
    if len(cursor) > 1:
        yield cursor[: len(cursor) // 2], "cut in half"
    if len(cursor) > _FEW_CHARACTERS:
        yield cursor[:-_FEW_CHARACTERS], f"without its last {_FEW_CHARACTERS} characters"
        yield cursor[_FEW_CHARACTERS:], f"without its first {_FEW_CHARACTERS} characters"
    yield cursor + cursor, "doubled"
    yield f"{cursor}AAAA", "with a suffix"
    yield f"{cursor}0", "with one more digit"  # many decoders ignore it, because it is not a whole byte
    yield f"{cursor}.AAAA", "with another dot-separated part"
    yield f"AAAA{cursor}", "with a prefix"
    yield f"0{cursor}", "with a leading zero"
    yield f"{cursor}\u00e9", "with a non-ASCII letter appended"
    # Many base64 decoders accept both alphabets, and ignore padding and line breaks.
    yield cursor.removesuffix("=") if cursor.endswith("=") else f"{cursor}=", "with other padding"
    yield f"{cursor}\n", "with a line break appended"
    yield f'"{cursor}"', "in quotes"
    yield f"{cursor}\0AAAA", "with NUL and a suffix"
    if cursor:
        yield f"%{ord(cursor[0]):02X}{cursor[1:]}", "with a character escaped as in a URL"
        if "!" <= cursor[0] <= "~":
            yield chr(ord(cursor[0]) + _TO_FULL_WIDTH) + cursor[1:], "with a full-width character"  # alike in NFKC
    if (other := cursor.translate(_OTHER_ALPHABET)) != cursor:
        yield other, "in the other alphabet of base64"
    parts = re.split(r"(?<=[^\w=+/-])", cursor)
    head, last = "".join(parts[:-1]), parts[-1]  # the last part may be a signature
    if head and len(last) > _FEW_CHARACTERS:
        yield head + last[_FEW_CHARACTERS:], f"without the first {_FEW_CHARACTERS} characters of its last part"
    for before, part in dict.fromkeys((("", cursor), (head, last))):
        if part.swapcase() != part:  # a different string, even if it has the same meaning in hexadecimal
            yield before + part.swapcase(), f"with the case of its last {number_of(len(part), 'character')} swapped"
    yield from ((unsigned, "as a JWT without signature") for unsigned in _unsigned(cursor))
    yield from ((extended, "with another part in its base64") for extended in _extended(cursor))
    for more in _RAISED_BY:
        how = f"{'raised' if more > 0 else 'lowered'} by {abs(more)}"
        yield from ((raised, f"with {numbers} {how}") for raised, numbers in _raised(cursor, more))


def _parted(cursor: str) -> Iterator[tuple[str, str]]:
    """Yield cursors as parts of longer texts, which a server may read like a URL, a path or a list."""
    for mark in _SEPARATORS:
        yield f"{cursor}{mark}AAAA", f"with {mark!r} and a suffix"
        yield f"AAAA{mark}{cursor}", f"with a prefix and {mark!r}"
    yield from ((f"{cursor}{mark}", f"with {mark!r} appended") for mark in "/,;:#?&")


def _exchanged(cursor: str) -> Iterator[tuple[str, str]]:
    places = [i for i, character in enumerate(cursor) if character in _BASE64]
    if places:
        last = places[-1]
        other = _BASE64[_BASE64.index(cursor[last]) ^ 1]  # the same bytes for many base64 decoders
        yield cursor[:last] + other + cursor[last + 1 :], f"with the lowest bit of character {last + 1} flipped"
    for place in dict.fromkeys((*places[:: -(-len(places) // _PLACES) or 1], *places[-2:])):
        ring = next(ring for ring in (digits, ascii_lowercase, ascii_uppercase) if cursor[place] in ring)
        other = ring[(ring.index(cursor[place]) + 1) % len(ring)]
        if place > 0 and not cursor[place + 1 : place + 2].isalnum():
            # The low bits of the last base64 character may have no meaning, so this changes a high one.
            other = _BASE64[(_BASE64.index(cursor[place]) + 32) % len(_BASE64)]
        yield cursor[:place] + other + cursor[place + 1 :], f"with character {place + 1} changed"


def _unsigned(cursor: str) -> Iterator[str]:
    """Yield a JWT whose header names the algorithm `none`, which some libraries accept without a signature."""
    head, *payload = cursor.split(".")
    for urlsafe in (False, True):
        text = _from_base64(head, urlsafe=urlsafe)
        if (
            text is not None
            and len(payload) > 1
            and (header := re.sub(r'("alg"\s*:\s*)"\w+"', r'\1"none"', text)) != text
        ):
            yield f"{base64.urlsafe_b64encode(header.encode()).decode().rstrip('=')}.{payload[0]}."


def _extended(cursor: str) -> Iterator[str]:
    """Yield cursors with one more part after each separator that occurs in the text that a cursor encodes."""
    for urlsafe in (False, True):
        text = _from_base64(cursor, urlsafe=urlsafe)
        for separator in dict.fromkeys(re.findall(r"[^\w\s]", text or "")) if cursor.isprintable() else ():
            yield _to_base64(f"{text}{separator}AAAA", cursor, urlsafe=urlsafe)


def _raised(cursor: str, more: int) -> Iterator[tuple[str, str]]:
    if (raised := _raise_numbers(cursor, more)) != cursor:
        yield raised, "its numbers"
    for urlsafe in (False, True):
        text = _from_base64(cursor, urlsafe=urlsafe)
        if text is not None and (raised := _raise_numbers(text, more)) != text:
            yield _to_base64(raised, cursor, urlsafe=urlsafe), "the numbers in its base64"


def _raise_numbers(text: str, more: int) -> str:
    return re.sub(r"(?<![\w.])\d{1,6}(?![\w.])", lambda found: str(int(found[0]) + more), text)


def _to_base64(text: str, like: str, *, urlsafe: bool) -> str:
    encoded = base64.b64encode(text.encode(), b"-_" if urlsafe else None).decode()
    return encoded if like.endswith("=") or len(like) % 4 == 0 else encoded.rstrip("=")


def _from_base64(cursor: str, *, urlsafe: bool) -> str | None:
    if urlsafe and not re.search("[-_]", cursor):
        return None
    usual = cursor.replace("-", "+").replace("_", "/") if urlsafe else cursor
    try:
        return base64.b64decode(usual + "=" * (-len(usual) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


@server_check(
    title="A cursor issued for another query is refused",
    sends="Genuine cursors with another query than their own: other words, some of the same length, with the same"
    " beginning or end, or with the same hash; the query with other white space, line ends, case, order, Unicode"
    " composition, punctuation, escapes, digits or leading zeros. Cursors of later pages too.",
    passes="Error -32602 for each.",
    methods=EVERY_METHOD,
)
async def cursor_other_query(bench: Bench) -> None:
    words = await bench.vocabulary()
    query: str = (await _second_page(bench))["query"]
    await _refused_with_others(bench, query, [*_others(query, words.broad(40)), words.key_query])
    cases = [(f" {query} ", [query, f" {query}", f"{query} "]), (query.upper(), [query])]
    for pair in bench.some(words.pairs(2), 1):
        one, other = pair.split()
        spaced = [f"{one}  {other}", f"{one}\u00a0{other}", f"{one}\t{other}", f"{one}, {other}", f"{one}_{other}"]
        cases += [(pair, [f"{other} {one}", one, other, *spaced]), (f"{one}  {other}", [pair])]
    for word in bench.some(words.composed(2), 1):
        decomposed = unicodedata.normalize("NFD", word)
        bare = "".join(c for c in decomposed if not unicodedata.combining(c))
        cases += [(word, [decomposed, bare]), (decomposed, [word])]
    # Symbols are no terms, so they leave matches even if a server requires most terms to match.
    half = f"{query} " * (_HALF_QUERY // (len(query) + 1))
    altered = [f"\u2021{half}\u2020{half}\u2020", f"\u2020{half}\u2021{half}\u2020"]
    altered += [f"\u2020{half}\u2020{half}\u2021", f"\u2020{half}\u2020{half}"]
    cases += [
        (f"\u2020{half}\u2020{half}\u2020", altered),
        (f"{query} 1 \u00e9 \u8239", [f"{query} {end}" for end in _OTHER_ENDS]),
    ]
    cases.append((f"{query} 🔧", [f"{query} 🔨"]))
    broad = " ".join(words.broad(3))  # several, since a server may require most of the terms to match
    cases.append((f"{broad} 1", [f"{broad} 01", f"{broad} \u0661"]))
    cases.append((f"{query}\n\u2021", [f"{query}{ends}\u2021" for ends in ("\r\n", "\r", " ")]))
    symbols = ("!\u00a1", "\u2021!", "\u2020\u00a1")  # one with an equal low byte, one with equal low bits, and another
    cases.append((f"{query} \u2021\u00a1", [f"{query} {other}" for other in symbols]))
    escaped = ("\u2021+&!", "\u2021 &%21", "\u2021 &amp;!", "\u2021 &\\!")
    cases.append((f"{query} \u2021 &!", [f"{query} {other}" for other in escaped]))
    await bench.each(bench.some(cases, 2), lambda case: _refused_with_others(bench, *case))
    # Cursors of later pages are bound to the query too, with any limit. A used cursor may no longer be valid.
    good = await _second_page(bench, query)
    for number in _BOUND_PAGES:
        last = (await bench.server.walk(query, 1, most=number - 1)).pages[-1]
        if (cursor := last.next_cursor) is not None and (cursor or await _is_followed(bench, last.exchange)):
            bad = {"query": f"{query} {NONSENSE}", "cursor": cursor, **({"limit": 50} if number % 2 else {})}
            case = f"the cursor of page {number} with another query"
            await bench.refused_cursor(bad, {**good, "cursor": cursor}, case)


def _others(query: str, words: Sequence[str]) -> list[str]:
    """Return queries that differ from `query`, some of them only in ways that a sloppy comparison misses."""
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in query)
    as_long = [word for word in words if len(word) == len(query) and word != query]
    return [
        *[word for word in words if word != query][:2],
        *as_long[:1],
        query[::-1],
        query[:-1],
        f"{query[:-1]}q",
        f"q{query[1:]}",
        f"{query} {NONSENSE}",
        f"{NONSENSE} {query}",
        f"{query}s",
        f"the {query}",
        f"{query} of",
        f"{query} {query}",
        query.swapcase(),
        wide,
        f" {query}",
        *(f"{query}{more}" for more in ("\t", "\u3000", "\x00", "!", "\u200b", "\u0301", "\ufe0f", " \u8239")),
        f'"{query}"',
        *_of_same_hash(query),
    ]


def _of_same_hash(text: str) -> list[str]:
    """Return a text with the same hash as `text` in some languages (`31 * hash + unit`), if there is one."""
    places = (at for at in range(len(text) - 1) if "!" <= text[at] < "z" and "a" <= text[at + 1] <= "z")
    pairs = ((at, chr(ord(text[at]) + 1) + chr(ord(text[at + 1]) - 31)) for at in places)
    return [text[:at] + pair + text[at + 2 :] for at, pair in pairs][:1]


async def _is_followed(bench: Bench, first: Exchange) -> bool:
    """Return whether an empty cursor returns another page. If it means the end instead, pages-end judges that."""
    following = await bench.server.search({**first.params, "cursor": ""})
    keys, before = ([key_in(item, bench.method) for item in items_in(each)] for each in (following, first))
    return following.result is not None and keys != before


async def _refused_with_others(bench: Bench, query: str, others: Sequence[str]) -> None:
    """Expect a cursor of `query`, if it has several pages, to be refused with each of the other queries.

    A server that binds cursors to less than the query issues one cursor for several queries. Where an earlier search
    for another query has returned it too, it is genuine for both, so only a query that was never sent before decides.
    """
    for mark in ("", *_MARKS):
        issued = await _refused_with_new(bench, f"{query}{mark}", [f"{other}{mark}" for other in others])
        others = [other.removesuffix(mark) for other in issued]
        if not others:
            return


async def _refused_with_new(bench: Bench, query: str, others: Sequence[str]) -> list[str]:
    """Do so for the queries that were not issued the same cursor, and return the others."""
    params = {"query": query, "limit": 1}
    first = await bench.server.search(params)  # other checks judge whether it is served
    cursor: Any = (first.result or {}).get("nextCursor")
    if cursor is None or (cursor == "" and not await _is_followed(bench, first)):
        return []
    unused: list[JsonObject] = [{**params, "cursor": cursor}]

    async def issue() -> JsonObject:
        return unused.pop() if unused else await _second_page(bench, query)

    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        shown = f"{query[:60]!r}"
        different = [other for other in dict.fromkeys(others) if other != query]
        return [
            ({**good, "query": o}, f"a cursor of the query {shown} with {o if len(o) < 60 else o[:60] + '…'!r}")
            for o in different
        ]

    await bench.refused_cursors(issue, vary)
    return [other for other in others if other != query and bench.recorder.has_issued(bench.method, other, cursor)]


@server_check(
    title="A cursor of `tools/list` is refused",
    sends="Searches with the `nextCursor` of a `tools/list` page, one of them for the name of that method; where"
    " possible, on a fixture's catalog of 120 tools.",
    passes="Error -32602 for each.",
    methods=EVERY_METHOD,
)
async def cursor_of_list(bench: Bench) -> None:
    async with bench.serving("large") if bench.may_serve("large") else nullcontext(bench) as large:
        # Other lists may be longer than a page in this catalog only.
        others = [large.searching(each.primitive) for each in bench.others_served if large is not bench]
        for other in dict.fromkeys((bench, large, *others)):
            if (cursor := await _cursor_of_list(other)) is not None:
                for query in (await other.key_query(), other.list_method):
                    case = f"a cursor of {other.list_method} with the query {query!r}"
                    await other.refused({"query": query, "cursor": cursor}, {"query": query}, case)
    bench.applies(bool(bench.recorder.judged), f"{bench.list_method} returns a single page, which has no cursor")


async def _cursor_of_list(bench: Bench) -> str | None:
    first = await bench.server.ask(bench.list_method, {})
    with suppress(UnverifiableError):  # a server may have no list of templates
        return read_page(first, bench.list_method).next_cursor
    return None


@server_check(
    title="A cursor of one method is refused by every other",
    sends="For each other search that the server supports, the cursor of its second page, with its query, and that of"
    " its list.",
    passes="Error -32602 for each.",
    methods=EVERY_METHOD,
)
async def cursor_other_method(bench: Bench) -> None:
    bench.applies(bool(bench.others_served), "the server supports no other search")
    for issuer in bench.others_served:
        with suppress(UnverifiableError, InapplicableError):  # it may have no second page
            query = await issuer.query_with_matches()
            _, cursor = await issuer.page_with_cursor(query)
            good = {"query": query, "limit": 1}
            await bench.refused({**good, "cursor": cursor}, good, f"a cursor of {issuer.method}")
        if (cursor := await _cursor_of_list(issuer)) is not None:
            good = {"query": await bench.key_query()}
            await bench.refused({**good, "cursor": cursor}, good, f"a cursor of {issuer.list_method}")
    bench.applies(bool(bench.recorder.judged), "no other search has a second page")


@server_check(
    title="A cursor that was refused is not honored again",
    sends=f"The request for a second page, {_ROUNDS} times in turn on each of {_TOGETHER} connections.",
    passes="No page after error -32602, as would come from another process behind the same URL.",
    transports=("http",),
    methods=EVERY_METHOD,
)
async def cursor_at_every_request(bench: Bench) -> None:
    query = await bench.query_with_matches()
    for attempt in range(_ATTEMPTS):  # a search by another client may issue the same cursor again
        page, cursor = await bench.page_with_cursor(query)
        again = await _honored_again(bench, {"query": query, "limit": 1, "cursor": cursor})
        message = f"a page came after an error {INVALID_PARAMS} for the same cursor; are there several processes behind"
        message += " this URL that each refuse the cursors of the others?"
        bench.expect(again is None or attempt < _ATTEMPTS - 1, again or page.exchange, message)


async def _honored_again(bench: Bench, following: JsonObject) -> Exchange | None:
    """Return a page that comes although its cursor was refused before."""
    refused = False
    for _ in range(_ROUNDS):
        answers = await bench.server.at_once([following] * _TOGETHER, seconds=bench.options.timeout)
        if refused and (pages := [each for each in answers if each.result is not None]):
            return pages[0]
        refused = refused or any(each.error_code == INVALID_PARAMS for each in answers)
    return None


@server_check(
    title="Every replica honors a cursor that one of them issued",
    sends=f"The first page of a search to one of two processes with the same {KEY_VARIABLE}, then the following pages"
    " to each in turn; once starting with either process, the second time with larger pages.",
    passes="Each page continues where the other process left off.",
    fixture_feature="replicas",
    methods=EVERY_METHOD,
)
async def cursor_at_every_replica(bench: Bench) -> None:
    # Over HTTP, equal environments share one process, so the second one gets another variable.
    environments: list[dict[str, str]] = [{}, {"TOOLS_SEARCH_REPLICA": "2"}]
    replicas = [
        await bench.fixture(f"replica {number}", Opening(env={KEY_VARIABLE: _KEY, **env}))
        for number, env in enumerate(environments)
    ]
    query = await replicas[0].query_with_two_matches()
    # The second time in larger steps, up to the last matches.
    matches = len((await replicas[0].server.whole(query)).keys)
    limits = 1, max(1, matches // (_REPLICA_PAGES + 1))
    followed = set[tuple[Bench, str]]()
    for (one, other), limit in zip((replicas, replicas[::-1]), limits, strict=True):
        page, cursor = await one.page_with_cursor(query, limit=limit)
        seen, turns = set(page.keys), [other, one]
        for number in range(_REPLICA_PAGES):
            case = f"a cursor of another replica for the query {query!r}"
            replica = turns[number % 2]
            try:
                page = await replica.served({"query": query, "limit": limit, "cursor": cursor}, case)
            except ViolationError:
                used = (replica, cursor) in followed  # cursor-repeated judges that
                bench.require(not used, "a replica refuses a cursor that it has honored before")
                raise
            followed.add((replica, cursor))
            # If their orders differ, deterministic judges that. A replica that starts over repeats tools.
            again = [name for name in page.keys if name in seen]
            message = f"a page repeats {bench.noun}s that another replica already returned: {again}"
            bench.expect(not again, page.exchange, message, case=case)
            seen.update(page.keys)
            if page.next_cursor is None or not (page.next_cursor or await _is_followed(replica, page.exchange)):
                break
            cursor = page.next_cursor
