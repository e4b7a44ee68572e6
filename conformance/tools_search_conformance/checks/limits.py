"""Request: `limit`, the upper bound of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from tools_search_conformance.properties import explore, limits, queries
from tools_search_conformance.registry import check
from tools_search_conformance.shape import advertised

if TYPE_CHECKING:
    from tools_search_conformance.bench import Bench

__all__: list[str] = []

_INVALID: Final[tuple[Any, ...]] = (0, -1, -(2**31), 2.5, 0.5, -3.0, True, False, "3", "", None, [], [3], {})
_DEFAULT_MOST: Final = 20


@check(
    "limit-honoured",
    title="A page holds at most `limit` tools",
    sends="A query with several matches under limits 1, 2, 3, 5 and 7; generated queries and limits; all pages.",
    passes="No page holds more tools than its limit.",
)
async def honours_limit(bench: Bench) -> None:
    async def judge(case: tuple[str, int]) -> None:
        query, limit = case
        for page in (await bench.walk(query, limit, most=12)).pages:
            excess = f"{len(page.tools)} tools under limit {limit}"
            bench.expect(len(page.tools) <= limit, page.exchange, excess, case=f"query {query!r}, limit {limit}")

    fertile = await bench.fertile()
    matches = len((await bench.whole(fertile)).names)
    for limit in (limit for limit in (1, 2, 3, 5, 7) if limit < matches):
        await judge((fertile, limit))
    await explore(bench, st.tuples(queries(await bench.vocabulary()), limits()), judge)


@check(
    "limit-clamped",
    title="A `limit` above the server's own maximum is clamped silently",
    sends="Limits of 101, 10,000, 2^31 and 2^53 - 1.",
    passes="A result for each, never an error.",
)
async def clamps_large_limits(bench: Bench) -> None:
    for limit in (101, 10_000, 2**31, 2**53 - 1):
        await bench.served({"query": "anything", "limit": limit}, f"limit {limit}")


@check(
    "max-limit-honoured",
    title="No page is larger than the advertised `maxLimit`",
    sends="Broad queries without a limit and with one above `maxLimit`.",
    passes="No page holds more than `maxLimit` tools.",
)
async def honours_its_own_maximum(bench: Bench) -> None:
    most = (advertised(await bench.connection()) or {}).get("maxLimit")
    bench.applies(isinstance(most, int) and not isinstance(most, bool), "the settings have no maxLimit")
    assert isinstance(most, int)  # noqa: S101 - told above
    for query in (await bench.fertile(), *(await bench.vocabulary()).broad()):
        for limit in (None, most + 1):
            for page in (await bench.walk(query, limit, most=30)).pages:
                bench.expect(
                    len(page.tools) <= most,
                    page.exchange,
                    f"{len(page.tools)} tools where maxLimit is {most}",
                    case=f"query {query!r}, limit {limit}",
                )


@check(
    "default-limit",
    title="Without `limit` a page holds at most 20 tools",
    sends="Broad queries without a limit.",
    passes="No page holds more than 20 tools.",
    level="SHOULD",
)
async def bounds_pages_by_default(bench: Bench) -> None:
    for query in (await bench.fertile(), *(await bench.vocabulary()).broad()):
        page = await bench.page(query)
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
    for value in _INVALID:
        await bench.refused(
            {"query": "anything", "limit": value}, {"query": "anything", "limit": 3}, f"limit {value!r}"
        )


@check(
    "limit-integral-float",
    title="An integer is an integer however it is spelled",
    sends="`limit` as the JSON number 2.0.",
    passes="A result with at most two tools.",
)
async def accepts_integral_floats(bench: Bench) -> None:
    query = await bench.fertile()
    page = await bench.served({"query": query, "limit": 2.0}, "limit 2.0")
    bench.expect(len(page.tools) <= 2, page.exchange, f"{len(page.tools)} tools under limit 2.0")


@check(
    "limit-may-vary",
    title="`limit` may differ from page to page",
    sends="A first page under limit 1, the next one, by its cursor, under limit 3 and without any.",
    passes="A result for each, within its own limit.",
)
async def lets_limit_vary(bench: Bench) -> None:
    query = await bench.fertile()
    first = await bench.page(query, limit=1)
    bench.require(first.next_cursor is not None, f"a search for {query!r} under limit 1 has one page", first.exchange)
    following = {"query": query, "cursor": first.next_cursor}
    await bench.served(following, "the second page without the first one's limit")
    page = await bench.served({**following, "limit": 3}, "the second page under another limit")
    bench.expect(len(page.tools) <= 3, page.exchange, f"{len(page.tools)} tools under limit 3")
