"""Request: `limit`, the upper bound of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.run.registry import check
from tools_search_conformance.target.pages import Listing, Walk
from tools_search_conformance.target.shape import advertised, integer
from tools_search_conformance.target.surveys import judge_generated
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.target.walks import explore_walks
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import Spelled, json_text

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__: list[str] = []

_INVALID: Final[tuple[Any, ...]] = (0, -1, -(2**31), 2.5, 0.5, -3.0, True, False, "3", "", None, [], [3], {})
_DEFAULT_MOST: Final = 20


@check(
    "limit-honored",
    title="A page holds at most `limit` tools",
    sends="A query with several matches under limits 1, 2, 3, 5 and 7; generated queries and limits; all pages.",
    passes="No page holds more tools than its limit.",
)
async def honours_limit(bench: Bench) -> None:
    def judge(walk: Walk) -> None:
        for page in walk.pages:
            excess = f"{len(page.tools)} tools under limit {walk.limit}"
            bench.expect(len(page.tools) <= (walk.limit or 0), page.exchange, excess, case=walk.case)

    async def judge_walk(walk: Walk, _: Listing) -> None:
        judge(walk)

    query = await bench.broadest()
    matches = len((await bench.walk(query, await bench.plenty(), most=12)).names)
    for limit in bench.some([limit for limit in (1, 2, 3, 5, 7) if limit < matches], 1):
        judge(await bench.walk(query, limit, most=12))
    await explore_walks(bench, judge_walk)
    await judge_generated(bench, lambda survey: [judge(walk) for walk in (*survey.walks, *survey.wholes)])


@check(
    "limit-clamped",
    title="A `limit` above the server's own maximum is clamped silently",
    sends="A tool's name under limits of 101, 10,000, 2^31 and 2^53 - 1.",
    passes="A result for each, never an error, that finds what a small limit finds.",
)
async def clamps_large_limits(bench: Bench) -> None:
    query = await bench.plain()
    few = await bench.first(query, limit=3)
    for limit in bench.some((101, 10_000, 2**31, 2**53 - 1)):
        await bench.served({"query": query, "limit": limit}, f"limit {limit}")
        page = await bench.first(query, limit=limit)
        kept = bool(page.tools) or not few.tools
        bench.expect(kept, page.exchange, f"nothing is found under limit {limit}", case=f"limit {limit}")


@check(
    "max-limit-honored",
    title="No page is larger than the advertised `maxLimit`",
    sends="Broad queries without a limit and with one above `maxLimit`, to a fixture of 120 tools.",
    passes="No page holds more than `maxLimit` tools.",
)
async def honours_its_own_maximum(bench: Bench) -> None:
    most = integer((advertised(await bench.connection()) or {}).get("maxLimit"))
    bench.applies(most is not None and most > 0, "the settings have no maxLimit")
    assert most is not None  # noqa: S101 - told above
    if bench.profile == "fixture":
        async with bench.fresh(catalog="large") as other:
            await _exceed(other, most)
    else:
        await _exceed(bench, most)


async def _exceed(bench: Bench, most: int) -> None:
    matches = 0
    for query in Vocabulary.of((await bench.stocked()).tools).broad(3):
        for limit in (None, most + 1, 10 * most):
            try:
                walk = await bench.walk(query, limit, most=30)
            except UnverifiableError:
                continue  # that a large limit is no error is what limit-clamped is about
            matches = max(matches, len({*walk.names}))
            for page in walk.pages:
                message = f"{len(page.tools)} tools where maxLimit is {most}"
                bench.expect(len(page.tools) <= most, page.exchange, message, case=walk.case)
    bench.applies(matches > most, f"no query matches more than {matches} tools, and maxLimit is {most}")


@check(
    "default-limit",
    title="Without `limit` a page holds at most 20 tools",
    sends="Broad queries without a limit.",
    passes="No page holds more than 20 tools.",
    level="SHOULD",
)
async def bounds_pages_by_default(bench: Bench) -> None:
    for query in bench.some((await bench.broadest(), *(await bench.vocabulary()).broad())):
        page = await bench.first(query)
        bench.expect(
            len(page.tools) <= _DEFAULT_MOST,
            page.exchange,
            f"{len(page.tools)} tools on a page without limit",
            case=f"query {query!r}",
        )


@check(
    "limit-invalid",
    title="A `limit` that is no integer of at least 1 is refused",
    sends="Zero, negative numbers, fractions, booleans, strings, null, an array and an object.",
    passes="Error -32602 for each.",
)
async def refuses_invalid_limits(bench: Bench) -> None:
    good = {"query": await bench.plain(), "limit": 3}
    for value in bench.some(_INVALID, 5):
        await bench.refused({**good, "limit": value}, good, f"limit {json_text(value)}")
    for query in (await bench.vocabulary()).broad(2):
        if cursor := (await bench.page(query, limit=1)).next_cursor:
            for value in bench.some((0, -1, 2.5, "3", True), 1):
                bad = {"query": query, "limit": value, "cursor": cursor}
                await bench.refused(bad, good, f"limit {json_text(value)} with a cursor")
            break


@check(
    "limit-integral-float",
    title="An integer `limit` is accepted however it is written",
    sends="`limit` as the JSON numbers 3, 3.0 and 3e0.",
    passes="A result with at most three tools for each.",
)
async def accepts_integral_floats(bench: Bench) -> None:
    words = await bench.vocabulary()
    for query in (words.plain, *words.broad(1)):
        for spelled in (3, 3.0, Spelled("3e0")):
            page = await bench.served({"query": query, "limit": spelled}, f"limit {spelled!r}")
            bench.expect(len(page.tools) <= 3, page.exchange, f"{len(page.tools)} tools under limit {spelled!r}")


@check(
    "limit-may-vary",
    title="`limit` may differ from page to page",
    sends="A first page under limit 1, the next one, by its cursor, under limit 3 and without any.",
    passes="A result for each, within its own limit.",
)
async def lets_limit_vary(bench: Bench) -> None:
    query = await bench.fertile()
    for other, case in (({}, "without the first one's limit"), ({"limit": 3}, "under another limit")):
        first = await bench.page(query, limit=1)
        cursor = first.next_cursor
        bench.require(bool(cursor), f"a search for {query!r} under limit 1 has one page", first.exchange)
        page = await bench.served({"query": query, "cursor": cursor, **other}, f"the second page {case}")
        bench.expect(len(page.tools) <= other.get("limit", len(page.tools)), page.exchange, f"more than 3 tools {case}")
