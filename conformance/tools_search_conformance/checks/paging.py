"""Order and pages: every match once, in finitely many pages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import explore_walks, judge_surveys, shared_whole
from tools_search_conformance.target.pages import Listing, Page, Walk
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.eras import MODERN

_MOST_PAGES: Final = 60
_REPEATS: Final = 3


async def _walks(bench: Bench) -> list[Walk]:
    """Walk a query with several matches in small pages, in large ones, and as the server likes."""
    query = await bench.query_with_two_matches()
    matches = len(dict.fromkeys((await bench.server.whole(query)).names))
    # Limits from five upwards where possible, since few servers rank a handful of tools in another way than many.
    few = max(2, matches // _MOST_PAGES)
    limits = {max(1, matches - 1), max(1, matches // 2), max(5, few), few}
    walks = [await bench.server.whole(query, limit) for limit in bench.some(sorted(limits), 2) if limit < matches]
    bench.require(
        any(len(walk.pages) > 1 for walk in walks), f"no search for {query!r} had a second page", walks[0].last
    )
    return walks


@server_check(
    title="The pages together hold every match",
    sends="A query in one large page; in pages of several sizes; and from first pages of those on without a limit; "
    "generated queries and limits.",
    passes="The same tools however a first page is read on from, and none missing between others.",
)
async def pages_complete(bench: Bench) -> None:
    walks = await _walks(bench)
    query = walks[0].query
    whole = await bench.server.whole(query)
    listed = {*(await bench.vocabulary()).names}
    for walk in walks:
        # Which tools match may depend on the limit, so what comes after the last tool found is not missed here.
        lost = _missing_between(whole.names, walk.names)
        bench.expect(not lost, walk.last, f"{lost} lost between pages of {walk.limit}", case=walk.case)
        first = await bench.server.page(query, limit=walk.limit)
        with suppress(UnverifiableError):  # that limits may differ is what limit-may-vary is about
            rest = await _onward(bench, query, first.next_cursor) if first.next_cursor else []
            if rest and rest[-1].next_cursor:
                continue  # in a large catalog the rest is longer than is worth reading
            read_on = listed.intersection(first.names).union(*(listed.intersection(page.names) for page in rest))
            last = rest[-1].exchange if rest else first.exchange
            for missing, how in (
                (listed.intersection(walk.names) - read_on, "without a limit"),
                (read_on - set(walk.names), f"under limit {walk.limit}"),
            ):
                bench.expect(not missing, last, f"{sorted(missing)} lost when reading on {how}", case=walk.case)

    def judge(walk: Walk, whole: Walk) -> None:
        lost = _missing_between(whole.names, walk.names)
        bench.expect(not lost, walk.last, f"{lost} lost between pages of {walk.limit}", case=walk.case)

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk, await shared_whole(bench, walk.query))

    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [judge(*pair) for pair in zip(survey.walks, survey.wholes, strict=True)])


async def _onward(bench: Bench, query: str, cursor: str) -> list[Page]:
    pages = [await bench.server.page(query, cursor=cursor)]
    while (following := pages[-1].next_cursor) and len(pages) < 250:
        pages.append(await bench.server.page(query, cursor=following))
    return pages


def _missing_between(whole: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return what is missing in `found` before its last tool, where it has the order of `whole`."""
    in_order = [name for name in whole if name in found] == list(dict.fromkeys(found))
    until = whole.index(found[-1]) if in_order and found else 0
    return [name for name in whole[:until] if name not in found]


@server_check(
    title="No match occurs on two pages",
    sends="A query in pages of several sizes; generated queries and limits.",
    passes="The pages of one search have no tool in common.",
)
async def pages_disjoint(bench: Bench) -> None:
    def judge(walk: Walk) -> None:
        seen: set[str] = set()
        for page in walk.pages:
            twice = seen & set(page.names)
            bench.expect(not twice, page.exchange, f"{sorted(twice)} on an earlier page already", case=walk.case)
            seen.update(page.names)

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk)

    for walk in await _walks(bench):
        judge(walk)
    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [judge(walk) for walk in survey.walks])


@server_check(
    title="A search ends after finitely many pages, the last of which has no `nextCursor`",
    sends="Queries with and without matches, every cursor followed.",
    passes="A page without `nextCursor` after no more pages than the catalog could fill twice.",
)
async def pages_end(bench: Bench) -> None:
    most = 2 * len((await bench.vocabulary()).tools) + 10
    for walk in await _every_kind(bench, most):
        pages = f"after {len(walk.pages)} page{'s' * (len(walk.pages) != 1)}"
        message = f"a nextCursor that was followed already {pages}" if walk.again else f"still a nextCursor {pages}"
        bench.expect(walk.ended, walk.last, message, case=walk.case)


async def _every_kind(bench: Bench, most: int) -> list[Walk]:
    """Walk queries with many, some and no matches, in small pages and as the server likes."""
    words = await bench.vocabulary()
    query, others = next(iter(words.broad(1)), words.name_query), bench.some(words.sample(4), 1)
    few = max(1, len(words.tools) // _MOST_PAGES)
    walks = [await bench.server.walk(query, limit, most=most) for limit in bench.some((max(5, few), few, None), 2)]
    walks += [await bench.server.walk(other, max(5, few), most=most) for other in others]
    with suppress(UnverifiableError):  # that no match is no error is what no-match-empty is about
        walks.append(await bench.server.walk(NONSENSE, max(5, few), most=most))
    return walks


@server_check(
    title="No `nextCursor` is empty",
    sends="Queries with and without matches, every cursor followed.",
    passes="Each `nextCursor` is absent or has a character.",
    level="ADVICE",
)
async def cursor_nonempty(bench: Bench) -> None:
    for walk in await _every_kind(bench, 40):
        for page in walk.pages:
            bench.expect(page.next_cursor != "", page.exchange, "nextCursor is the empty string", case=walk.case)


@server_check(
    title="A search with matches does not end with an empty page",
    sends="A query in pages of several sizes, some of which divide its matches evenly.",
    passes="The last page holds a tool.",
    level="ADVICE",
)
async def last_page_nonempty(bench: Bench) -> None:
    query = await bench.query_with_two_matches()
    matches = len(dict.fromkeys((await bench.server.whole(query)).names))
    for limit in bench.some((5, 1, 2, 3, matches), 2):
        walk = await bench.server.whole(query, limit) if limit <= matches <= _MOST_PAGES * limit else None
        if walk is not None and len(walk.pages) > 1:
            bench.expect(bool(walk.pages[-1].tools), walk.last, "the last page is empty", case=walk.case)
    bench.require(bool(bench.recorder.judged), f"no search for {query!r} had a second page")


@server_check(
    title="All pages of a search have the same `cacheScope`",
    sends="A query in pages of several sizes.",
    passes="One `cacheScope` for all pages.",
    eras=(MODERN,),
)
async def cache_scope_stable(bench: Bench) -> None:
    for walk in await _walks(bench):
        first = (walk.pages[0].exchange.result or {}).get("cacheScope")
        for page in walk.pages[1:]:
            scope = (page.exchange.result or {}).get("cacheScope")
            bench.expect(scope == first, page.exchange, f"cacheScope {scope!r} after {first!r}", case=walk.case)


@server_check(
    title="Identical requests get the identical sequence",
    sends="Queries of every kind, three times each; generated ones twice.",
    passes="The same names in the same order.",
    level="SHOULD",
)
async def deterministic(bench: Bench) -> None:
    async def repeat(first: Page, query: str, limit: int) -> None:
        page = await bench.server.page(query, limit=limit)
        message = f"{page.names[:5]} after {first.names[:5]}"
        bench.expect(page.names == first.names, page.exchange, message, case=f"query {query!r}, limit {limit}")

    for query in bench.some((await bench.query_with_matches(), *(await bench.vocabulary()).sample(8))):
        first = await bench.server.page(query, limit=await bench.server.large_limit())
        for _ in range(_REPEATS - 1):
            await repeat(first, query, await bench.server.large_limit())
    await explore_walks(bench, lambda walk, _: repeat(walk.pages[0], walk.query, walk.limit or 1))


@server_check(
    title="`limit` only cuts pages",
    sends="A query under limits from 1 up to beyond its matches; generated queries and limits.",
    passes="Each first page begins the full sequence; small pages together hold what large ones do.",
    level="SHOULD",
)
async def limit_only_cuts(bench: Bench) -> None:
    query = await bench.query_with_two_matches()
    whole, again = await bench.server.whole(query), await bench.server.whole(query)
    bench.applies(
        whole.names == again.names, "identical requests differ, so that nothing can be compared; see deterministic"
    )
    count = len(whole.names)
    for limit in bench.some((1, 2, 3, 5, max(1, count - 1), count + 1)):
        page = await bench.server.page(query, limit=limit)
        bench.expect(
            page.names == whole.names[: len(page.names)],
            page.exchange,
            f"the page under limit {limit} is no beginning of the full sequence",
            case=f"query {query!r}, limit {limit}",
        )
    # Where pages of middling size lose tools, paging is at fault, which pages-complete tells.
    middling = await bench.server.whole(query, max(1, count - 1))
    if set(middling.names) == set(whole.names) and count <= _MOST_PAGES:
        small = await bench.server.whole(query, 1)
        lost = set(whole.names) - set(small.names)
        bench.expect(not lost, small.last, f"{sorted(lost)} do not match under limit 1", case=small.case)
    await explore_walks(bench, lambda walk, _: _begin_the_whole(bench, walk))


async def _begin_the_whole(bench: Bench, walk: Walk) -> None:
    first, whole = walk.pages[0], await shared_whole(bench, walk.query)
    begins = first.names == whole.names[: len(first.names)]
    if not begins and (await bench.server.whole(walk.query)).names != whole.names:
        return  # identical requests differ; see deterministic
    what = f"the page under limit {walk.limit} is no beginning of the full sequence"
    bench.expect(begins, first.exchange, what, case=walk.case)
