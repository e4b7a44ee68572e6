"""Request: `limit`, the upper bound of a page."""

from __future__ import annotations

from typing import Any, Final

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import explore_walks, judge_surveys
from tools_search_conformance.target.pages import Listing, Walk, advertised_settings
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.codec import Spelled, integer, json_text

_INVALID: Final[tuple[Any, ...]] = (0, -1, -(2**31), 2.5, 0.5, -3.0, True, False, "3", "", None, [], [3], {})
_DEFAULT_MOST: Final = 20


@server_check(
    title="A page holds at most `limit` tools",
    sends="A query with several matches under limits 1, 2, 3, 5 and 7; generated queries and limits; all pages.",
    passes="No page holds more tools than its limit.",
)
async def limit_honored(bench: Bench) -> None:
    def judge(walk: Walk) -> None:
        for page in walk.pages:
            excess = f"{len(page.tools)} tools under limit {walk.limit}"
            bench.expect(len(page.tools) <= (walk.limit or 0), page.exchange, excess, case=walk.case)

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk)

    query = await bench.query_with_matches()
    matches = len((await bench.server.walk(query, await bench.server.large_limit(), most=12)).names)
    for limit in bench.some([limit for limit in (1, 2, 3, 5, 7) if limit < matches], 1):
        judge(await bench.server.walk(query, limit, most=12))
    await explore_walks(bench, judge_walk)
    await judge_surveys(bench, lambda survey: [judge(walk) for walk in (*survey.walks, *survey.wholes)])


@server_check(
    title="A `limit` above the server's own maximum is clamped silently",
    sends="A tool's name under limits of 101, 10,000, 2^31 and 2^53 - 1.",
    passes="A result for each, never an error, that finds what a small limit finds.",
)
async def limit_clamped(bench: Bench) -> None:
    query = await bench.name_query()
    few = await bench.server.first(query, limit=3)
    for limit in bench.some((101, 10_000, 2**31, 2**53 - 1)):
        await bench.served({"query": query, "limit": limit}, f"limit {limit}")
        page = await bench.server.first(query, limit=limit)
        kept = bool(page.tools) or not few.tools
        bench.expect(kept, page.exchange, f"nothing is found under limit {limit}", case=f"limit {limit}")


@server_check(
    title="No page is larger than the advertised `maxLimit`",
    sends="Broad queries without a limit and with one above `maxLimit`, to a fixture of 120 tools.",
    passes="No page holds more than `maxLimit` tools.",
)
async def max_limit_honored(bench: Bench) -> None:
    most = integer((advertised_settings(await bench.server.connection()) or {}).get("maxLimit"))
    bench.applies(most is not None and most > 0, "the settings have no maxLimit")
    assert most is not None  # noqa: S101 - told above
    if bench.profile == "fixture":
        async with bench.fresh(catalog="large") as other:
            await _exceed(other, most)
    else:
        await _exceed(bench, most)


async def _exceed(bench: Bench, most: int) -> None:
    matches = 0
    for query in Vocabulary((await bench.nonempty_listing()).tools).broad(3):
        for limit in (None, most + 1, 10 * most):
            try:
                walk = await bench.server.walk(query, limit, most=30)
            except UnverifiableError:
                continue  # that a large limit is no error is what limit-clamped is about
            matches = max(matches, len({*walk.names}))
            for page in walk.pages:
                message = f"{len(page.tools)} tools where maxLimit is {most}"
                bench.expect(len(page.tools) <= most, page.exchange, message, case=walk.case)
    bench.applies(matches > most, f"no query matches more than {matches} tools, and maxLimit is {most}")


@server_check(
    title="Without `limit` a page holds at most 20 tools",
    sends="Broad queries without a limit.",
    passes="No page holds more than 20 tools.",
    level="SHOULD",
)
async def default_limit(bench: Bench) -> None:
    for query in bench.some((await bench.query_with_matches(), *(await bench.vocabulary()).broad())):
        page = await bench.server.first(query)
        bench.expect(
            len(page.tools) <= _DEFAULT_MOST,
            page.exchange,
            f"{len(page.tools)} tools on a page without limit",
            case=f"query {query!r}",
        )


@server_check(
    title="A `limit` that is no integer of at least 1 is refused",
    sends="Zero, negative numbers, fractions, booleans, strings, null, an array and an object.",
    passes="Error -32602 for each.",
)
async def limit_invalid(bench: Bench) -> None:
    good = {"query": await bench.name_query(), "limit": 3}
    for value in bench.some(_INVALID, 5):
        await bench.refused({**good, "limit": value}, good, f"limit {json_text(value)}")
    for query in (await bench.vocabulary()).broad(2):
        if cursor := (await bench.server.page(query, limit=1)).next_cursor:
            for value in bench.some((0, -1, 2.5, "3", True), 1):
                bad = {"query": query, "limit": value, "cursor": cursor}
                await bench.refused(bad, good, f"limit {json_text(value)} with a cursor")
            break


@server_check(
    title="An integer `limit` is accepted however it is written",
    sends="`limit` as the JSON numbers 3, 3.0 and 3e0.",
    passes="A result with at most three tools for each.",
)
async def limit_integral_float(bench: Bench) -> None:
    words = await bench.vocabulary()
    for query in (words.name_query, *words.broad(1)):
        for spelled in (3, 3.0, Spelled("3e0")):
            page = await bench.served({"query": query, "limit": spelled}, f"limit {spelled!r}")
            bench.expect(len(page.tools) <= 3, page.exchange, f"{len(page.tools)} tools under limit {spelled!r}")


@server_check(
    title="`limit` may differ from page to page",
    sends="A first page under limit 1, the next one, by its cursor, under limit 3 and without any.",
    passes="A result for each, within its own limit.",
)
async def limit_may_vary(bench: Bench) -> None:
    query = await bench.query_with_two_matches()
    for other, case in (({}, "without the first one's limit"), ({"limit": 3}, "under another limit")):
        first = await bench.server.page(query, limit=1)
        cursor = first.next_cursor
        bench.require(bool(cursor), f"a search for {query!r} under limit 1 has one page", first.exchange)
        page = await bench.served({"query": query, "cursor": cursor, **other}, f"the second page {case}")
        bench.expect(len(page.tools) <= other.get("limit", len(page.tools)), page.exchange, f"more than 3 tools {case}")
