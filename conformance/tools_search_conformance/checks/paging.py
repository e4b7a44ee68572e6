"""Order, pages and cursors: every match once, in finitely many pages, by cursors that hold for their own search."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import explore_walks, judge_surveys, judge_walks, shared_whole
from tools_search_conformance.target.pages import Listing, Page, Walk
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import MODERN

_MOST_PAGES: Final = 60
_MOST_PAGES_READ_ON: Final = 250
_REPEATS: Final = 3
_MADE_UP: Final = (
    "",
    "no such cursor",
    "AAAA",
    "null",
    "-1",
    "undefined",
    base64.b64encode(b'{"offset":1}').decode(),
    base64.urlsafe_b64encode(b'{"query":"anything","offset":10}').decode().rstrip("="),
    "🔧\x00\u202e",
    "../../etc/passwd",
    "A" * 5000,
)


async def _walks(bench: Bench) -> list[Walk]:
    """Walk a query with several matches in pages of several sizes."""
    query = await bench.query_with_two_matches()
    matches = len(dict.fromkeys((await bench.server.whole(query)).names))
    # Limits from five upwards where possible, since few servers rank a handful of tools in another way than many.
    few = max(2, matches // _MOST_PAGES)
    limits = {max(1, matches - 1), max(1, matches // 2), max(5, few), few}
    walks = [await bench.server.whole(query, limit) for limit in bench.some(sorted(limits), 2) if limit < matches]
    several = any(len(walk.pages) > 1 for walk in walks)
    bench.require(several, f"no search for {query!r} had a second page", walks[0].last)
    return walks


@server_check(
    title="The pages together hold every match",
    sends="A query in one large page; in pages of several sizes; and from their first pages on without a limit; "
    "generated queries and limits.",
    passes="The same tools however a first page is read on from, and none missing between others.",
)
async def pages_complete(bench: Bench) -> None:
    def judge(walk: Walk, whole: Walk) -> None:
        # Which tools match may depend on the limit, so a tool that comes after the last tool found is not missed here.
        lost = _missing_between(whole.names, walk.names)
        bench.expect(not lost, walk.last, f"{lost} lost between pages of {walk.limit}", case=walk.case)

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk, await shared_whole(bench, walk.query))

    walks = await _walks(bench)
    whole = await bench.server.whole(walks[0].query)
    listed = {*(await bench.vocabulary()).names}
    for walk in walks:
        judge(walk, whole)
        with suppress(UnverifiableError):  # that limits may differ is for limit-may-vary to judge
            pages = await _read_on(bench, walk)
            if len(pages) > 1 and pages[-1].next_cursor:
                continue  # in a large catalog the rest is longer than is worth reading
            found = listed.intersection(walk.names)
            read_on = listed.intersection(name for page in pages for name in page.names)
            for missing, how in (
                (found - read_on, "without a limit"),
                (read_on - set(walk.names), f"under limit {walk.limit}"),
            ):
                message = f"{sorted(missing)} lost when reading on {how}"
                bench.expect(not missing, pages[-1].exchange, message, case=walk.case)
    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [*map(judge, survey.walks, survey.wholes)])


async def _read_on(bench: Bench, walk: Walk) -> list[Page]:
    """Return the first page of a walk, and the pages after it without a limit."""
    pages = [await bench.server.page(walk.query, limit=walk.limit)]
    while (cursor := pages[-1].next_cursor) and len(pages) <= _MOST_PAGES_READ_ON:
        pages.append(await bench.server.page(walk.query, cursor=cursor))
    return pages


def _missing_between(whole: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return the names missing in `found` before its last tool, where it has the order of `whole`."""
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

    for walk in await _walks(bench):
        judge(walk)
    await judge_walks(bench, judge)


async def _walks_of_every_kind(bench: Bench, most: int) -> list[Walk]:
    """Walk queries with many, some and no matches, in small pages and as the server likes."""
    words = await bench.vocabulary()
    query, others = next(iter(words.broad(1)), words.name_query), bench.some(words.sample(4), 1)
    few = max(1, len(words.tools) // _MOST_PAGES)
    limits = bench.some((max(5, few), few, None), 2)
    cases = [*((query, limit) for limit in limits), *((other, max(5, few)) for other in others)]
    walks = [await bench.server.walk(*case, most=most) for case in cases]
    with suppress(UnverifiableError):  # that no match is no error is for no-match-empty to judge
        walks.append(await bench.server.walk(NONSENSE, max(5, few), most=most))
    return walks


@server_check(
    title="A search ends after finitely many pages, the last of which has no `nextCursor`",
    sends="Queries with and without matches, every cursor followed.",
    passes="A page without `nextCursor` after no more pages than the catalog could fill twice.",
)
async def pages_end(bench: Bench) -> None:
    most = 2 * len((await bench.vocabulary()).tools) + 10
    for walk in await _walks_of_every_kind(bench, most):
        pages = f"after {len(walk.pages)} page{'s' * (len(walk.pages) != 1)}"
        message = f"a nextCursor that was followed already {pages}" if walk.again else f"still a nextCursor {pages}"
        bench.expect(walk.ended, walk.last, message, case=walk.case)


@server_check(
    title="No `nextCursor` is empty",
    sends="Queries with and without matches, every cursor followed.",
    passes="Each `nextCursor` is absent or has a character.",
    level="ADVICE",
)
async def cursor_nonempty(bench: Bench) -> None:
    for walk in await _walks_of_every_kind(bench, 40):
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

    limit = await bench.server.large_limit()
    for query in bench.some((await bench.query_with_matches(), *(await bench.vocabulary()).sample(8))):
        first = await bench.server.page(query, limit=limit)
        for _ in range(_REPEATS - 1):
            await repeat(first, query, limit)
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
    differ = "identical requests differ, so that nothing can be compared; see deterministic"
    bench.applies(whole.names == again.names, differ)
    count = len(whole.names)
    for limit in bench.some((1, 2, 3, 5, max(1, count - 1), count + 1)):
        page = await bench.server.page(query, limit=limit)
        message = f"the page under limit {limit} is no beginning of the full sequence"
        begins = page.names == whole.names[: len(page.names)]
        bench.expect(begins, page.exchange, message, case=f"query {query!r}, limit {limit}")
    # Where pages of middling size lose tools, paging is at fault, which pages-complete reports.
    middling = await bench.server.whole(query, max(1, count - 1))
    if set(middling.names) == set(whole.names) and count <= _MOST_PAGES:
        small = await bench.server.whole(query, 1)
        lost = set(whole.names) - set(small.names)
        bench.expect(not lost, small.last, f"{sorted(lost)} do not match under limit 1", case=small.case)
    await explore_walks(bench, lambda walk, _: _expect_beginning(bench, walk))


async def _expect_beginning(bench: Bench, walk: Walk) -> None:
    first, whole = walk.pages[0], await shared_whole(bench, walk.query)
    begins = first.names == whole.names[: len(first.names)]
    if not begins and (await bench.server.whole(walk.query)).names != whole.names:
        return  # identical requests differ; see deterministic
    what = f"the page under limit {walk.limit} is no beginning of the full sequence"
    bench.expect(begins, first.exchange, what, case=walk.case)


async def _issued(bench: Bench, query: str | None = None) -> tuple[JsonObject, str]:
    """Return the params of a first page and the cursor of its second one, which nothing has been asked with.

    Raises:
        InapplicableError: The server lists a single tool, and so issues none.
        UnverifiableError: The server issued none.
    """
    query = query or await bench.query_with_matches()
    page = await bench.server.page(query, limit=1)
    if not page.next_cursor:
        several = len((await bench.nonempty_listing()).tools) > 1
        bench.applies(several, "the server lists a single tool, and issues no cursor")
    bench.require(bool(page.next_cursor), f"a search for {query!r} under limit 1 has one page", page.exchange)
    return {"query": query, "limit": 1}, str(page.next_cursor)


@server_check(
    title="A cursor that this server did not issue is refused",
    sends="Made-up cursors: the empty string, words, encoded offsets, unusual characters, 5,000 letters.",
    passes="Error -32602 for each.",
)
async def cursor_forged(bench: Bench) -> None:
    for made_up in bench.some(_MADE_UP):
        first, cursor = await _issued(bench)
        good = {**first, "cursor": cursor}
        await bench.refused_cursor({**good, "cursor": made_up}, good, f"cursor {made_up[:60]!a}")


@server_check(
    title="A cursor that was answered is answered again",
    sends="A first page, and the request for the second one twice.",
    passes="A result for each.",
    level="SHOULD",
)
async def cursor_repeated(bench: Bench) -> None:
    first, cursor = await _issued(bench)
    following = {**first, "cursor": cursor}
    once = await bench.server.search(following)
    bench.require(once.result is not None, f"the second page was answered by {once.describe()}", once)
    await bench.served(following, "a cursor that was answered before")


@server_check(
    title="A cursor that was altered is refused",
    sends="A genuine cursor with a character exchanged, cut in half, doubled, or with the numbers in it raised.",
    passes="Error -32602 for each.",
)
async def cursor_tampered(bench: Bench) -> None:
    _, cursor = await _issued(bench)
    for number in bench.some(range(sum(1 for _ in _alterations(cursor)))):
        first, cursor = await _issued(bench)
        for altered, how in islice(_alterations(cursor), number, number + 1):
            if altered == cursor:
                continue
            case = f"a genuine cursor {how} ({altered[:80]!a})"
            try:
                await bench.refused_cursor({**first, "cursor": altered}, {**first, "cursor": cursor}, case)
            except ViolationError:
                # It may have become the cursor of another page, such as 3 of 2, which is as genuine as any.
                pages = (await bench.server.walk(first["query"], first["limit"])).pages
                if altered not in {page.next_cursor for page in pages}:
                    raise


def _alterations(cursor: str) -> Iterator[tuple[str, str]]:
    # The last characters of base64 may hold bits that mean nothing.
    places = [i for i in range(max(1, len(cursor) - 2)) if cursor[i].isascii() and cursor[i].isalnum()]
    for share in (0.05, 0.25, 0.5, 0.75, 0.9) if places else ():
        place = min(places, key=lambda i: abs(i - int(len(cursor) * share)))
        yield cursor[:place] + _next(cursor[place]) + cursor[place + 1 :], f"with character {place + 1} exchanged"
    if len(cursor) > 1:
        yield cursor[: len(cursor) // 2], "cut in half"
    yield cursor + cursor, "doubled"
    if (raised := _raise_numbers(cursor)) != cursor:
        yield raised, "with its numbers raised"
    for urlsafe in (False, True):
        text = _from_base64(cursor, urlsafe=urlsafe)
        if text is not None and (raised := _raise_numbers(text)) != text:
            encoded = base64.b64encode(raised.encode(), b"-_" if urlsafe else None).decode()
            padded = cursor.endswith("=") or len(cursor) % 4 == 0
            yield encoded if padded else encoded.rstrip("="), "with the numbers inside its base64 raised"


def _next(character: str) -> str:
    for ring in ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        if character in ring:
            return ring[(ring.index(character) + 1) % len(ring)]
    return character


def _raise_numbers(text: str) -> str:
    return re.sub(r"(?<![\w.])\d{1,6}(?![\w.])", lambda found: str(int(found[0]) + 1), text)


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
    sends="Genuine cursors with queries other than their own: other words, white space, case, order, composition.",
    passes="Error -32602 for each.",
)
async def cursor_other_query(bench: Bench) -> None:
    words, (first, _) = await bench.vocabulary(), await _issued(bench)
    query: str = first["query"]
    others = [word for word in words.broad(4) if word != query][:2]
    others += [f"{query} {NONSENSE}", f" {query}", f"{query}\t", query.swapcase(), f"{query} {query}"]
    cases = [(query, other) for other in bench.some(others)]
    for pair in bench.some(words.pairs(2), 1):
        one, other = pair.split()
        cases += [(pair, f"{other} {one}"), (pair, f"{one}  {other}")]
    cases += [(word, unicodedata.normalize("NFD", word)) for word in bench.some(words.composed(2), 1)]
    for query, other in cases:
        if (await bench.server.page(query, limit=1)).next_cursor and other != query:
            first, cursor = await _issued(bench, query)
            good = {**first, "cursor": cursor}
            await bench.refused_cursor({**good, "query": other}, good, f"a cursor of {query!r} with {other!r}")


@server_check(
    title="A cursor of `tools/list` is refused",
    sends="The `nextCursor` of a `tools/list` page with a search.",
    passes="Error -32602.",
)
async def cursor_of_list(bench: Bench) -> None:
    listing = await bench.server.listing()
    bench.applies(listing.cursor is not None, "tools/list has a single page, and so no cursor")
    query = await bench.name_query()
    await bench.refused({"query": query, "cursor": listing.cursor}, {"query": query}, "a cursor of tools/list")
