"""Request: which parameters are refused and with which data, which must not be refused, and `limit`."""

from __future__ import annotations

from typing import Any, Final

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import INVALID_PARAMS, Bench, server_check
from tools_search_conformance.target.generated import judge_walks
from tools_search_conformance.target.pages import Walk, advertised_settings, complaint
from tools_search_conformance.target.properties import explore, texts
from tools_search_conformance.wire.codec import Spelled, as_object, integer, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_OTHER_TYPES: Final[tuple[Any, ...]] = (None, 5, 2.5, True, [], ["anything"], {}, {"text": "anything"})
_BLANK: Final = ("", " ", "\t\r\n", "\u00a0", "\u1680", "\u2003\u3000", "\u0085", "\u2028\u2029", "\u202f\u205f")
_LONG: Final = (1025, 2000, 3000, 10_000, 100_000)
_CONTENT_TOO_LARGE: Final = 413
_INVALID_LIMITS: Final[tuple[Any, ...]] = (0, -1, -(2**31), 2.5, 0.5, -3.0, True, False, "3", "", None, [], [3], {})
_DEFAULT_LIMIT: Final = 20
_SURROGATES: Final = ("\ud800", "any\udfffthing", "\udc00\ud800")
_UNUSUAL: Final = {
    "NUL": "anything\x00",
    "C1 controls": "any\x80\x84\x86\x9fthing",
    "directional marks": "any\u200e\u200f\u061cthing",
    "control characters": "\x01\x02any\x1b[31mthing\x7f",
    "a control character that is no white space": "\x1c",
    "a zero width space, which is no White_Space": "\u200b",
    "a byte order mark, which is no White_Space": "\ufeff",
    "bidi marks": "\u202eanything\u2066\u2069",
    "white space of other kinds": "any\u0085\u00a0\u1680\u202f\u205f\u3000thing",
    "line separators": "any\u2028thing\u2029",
    "combining marks": "a\u0301\u0327\u0323nything",
    "astral characters": "\U0001d51e\U0001d52b\U0001d536 \U0001f527\U0001f9d1\u200d\U0001f527",
    "right-to-left and CJK text": "ابحث عن أداة 检索工具",
    "noncharacters and the last code point": "\ufffe\uffff\U0010ffff",
    "quotes, backslashes and brackets": "\"any\\thing' [({*+?^$|.%_`--;</>",
    "regular expression that explodes": "(a+)+$ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    "one punctuation mark": "?",
}
_INVALID_MEMBERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("query", {"query": 5}),
    ("query", {"query": " "}),
    ("limit", {"limit": 0}),
    ("limit", {"limit": "3"}),
    ("cursor", {"cursor": 5}),
    ("cursor", {"cursor": "no such cursor"}),
)


async def _second_page(bench: Bench) -> tuple[str, str] | None:
    """Return a broad query and the cursor of its second page under limit 1, if one of two has such a page."""
    for query in (await bench.vocabulary()).broad(2):
        if cursor := (await bench.server.page(query, limit=1)).next_cursor:
            return query, cursor
    return None


@server_check(
    title="A search without `query` is refused",
    sends="`tools/search` without `query`, with and without other members.",
    passes="Error -32602.",
)
async def query_missing(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    await bench.refused({}, good, "params without query")
    await bench.refused({"limit": 3}, {"limit": 3, **good}, "params with limit but no query")
    await bench.refused({"Query": "anything"}, good, "`Query` in place of `query`")
    if (page := await _second_page(bench)) is not None:
        bad = {"limit": 1, "cursor": page[1]}
        await bench.refused(bad, good, "params with a genuine cursor but no query")


@server_check(
    title="A `query` that is no string is refused",
    sends="`query` as null, number, boolean, array and object.",
    passes="Error -32602 for each.",
)
async def query_type(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for value in bench.some(_OTHER_TYPES):
        await bench.refused({"query": value}, good, f"query {json_text(value)}")


@server_check(
    title="A `query` of nothing but white space is refused",
    sends="The empty string and strings of White_Space characters, non-ASCII ones included.",
    passes="Error -32602 for each.",
)
async def query_blank(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for value in bench.some(_BLANK):
        await bench.refused({"query": value}, good, f"query {value!a}")


@server_check(
    title="A `query` of 1,024 characters is served; a longer one is served or refused with -32602",
    sends="1,024 scalar values of one, three and four bytes each; then 1,025 to 100,000.",
    passes="A result for 1,024, however many bytes they take; a result or error -32602 for more.",
)
async def query_long(bench: Bench) -> None:
    await bench.require_no_match_served()
    for character in ("x", "語", "🔧"):
        query = ("anything " + character * 1024)[:1024]
        await bench.served({"query": query}, f"a query of 1,024 characters, most of them {character!r}")
    for length in _LONG:
        exchange = await bench.server.search({"query": ("anything " * (length // 9 + 1))[:length]})
        if exchange.answer.status == _CONTENT_TOO_LARGE:  # the body was refused, and no search with it
            continue
        case, error = f"query of {length:,} characters", exchange.error
        fitting = exchange.result is not None or (error is not None and error.code == INVALID_PARAMS)
        bench.expect(fitting, exchange, f"a {case} was answered by {exchange.describe()}", case=case)


@server_check(
    title="Every Unicode scalar value is ordinary input",
    sends="Queries with NUL, controls, bidi marks, astral characters, noncharacters; generated ones.",
    passes="A result for each.",
)
async def query_unusual_characters(bench: Bench) -> None:
    async def serve(query: str) -> None:
        await bench.served({"query": query}, f"the query {query!a}")

    await bench.require_no_match_served()
    good = {"query": await bench.name_query()}
    for what, query in bench.some([*_UNUSUAL.items()], 5):
        await bench.served({"query": query}, f"a query with {what} ({query!a})")
        after = await bench.server.search(good)
        message = f"after a query with {what}, a plain one got {after.describe()}"
        bench.expect(after.result is not None, after, message)
    await explore(bench, texts(), serve)


@server_check(
    title="A message with unpaired surrogates does not end the server",
    sends="Queries with unpaired surrogates, escaped in JSON, which may be refused or dropped; a plain one after each.",
    passes="A result for each plain query, from the same process.",
    level="ADVICE",
)
async def surrogates_survived(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for query in bench.some(_SURROGATES, 1):
        case = f"query {query!a}"
        sent = await bench.server.ask("tools/search", {"query": query}, seconds=0.25)
        deaths = [ended for ended, _ in bench.recorder.deaths]
        bench.expect(not deaths, sent, f"after the {case}, {', '.join(deaths)}", case=case)
        after = await bench.server.search(good)
        bench.expect(after.result is not None, after, f"after the {case}, a plain one got {after.describe()}")


@server_check(
    title="Everything sent is valid JSON in UTF-8, whatever the query",
    sends="Queries with unpaired surrogates, which may be refused or dropped; a plain one after each.",
    passes="Nothing but valid messages, and a result for each plain query.",
)
async def valid_json(bench: Bench) -> None:
    before = len(bench.server.malformed)
    for query in bench.some((*_SURROGATES, "any\x00\x1bthing\u2028", "\ufffe\U0010ffff"), 2):
        await bench.server.ask("tools/search", {"query": query}, seconds=0.25)
        bench.recorder.deaths.clear()  # that it survives is for surrogates-survived to judge
        after = await bench.server.search({"query": await bench.name_query()})
        bench.require(after.replied, f"a plain search got {after.describe()}", after)
        found = bench.server.malformed[before:]
        bench.expect(not found, after, f"after the query {query!a} this came: {found[:1]}", case=f"query {query!a}")


@server_check(
    title="Unknown members of `params` change nothing",
    sends="A search, and the same one with members that this draft does not know.",
    passes="The same tools.",
)
async def unknown_members_ignored(bench: Bench) -> None:
    query = await bench.name_query()
    names, again = (await bench.server.page(query)).names, (await bench.server.page(query)).names
    extras: tuple[dict[str, Any], ...] = (
        {"_meta": {"com.example/trace": "1", "progressToken": 7}},
        {"filters": {"group": "no such group"}, "detail": "name_only"},
        {"offset": 1, "max_results": 1, "x": None, "deep": [[{"y": [1]}]]},
    )
    for extra in extras:
        page = await bench.served({"query": query, **extra}, f"a search with the unknown members {sorted(extra)}")
        # Order is only a SHOULD: where two plain searches differ, a third difference shows nothing.
        if same(names, again):
            changed = f"the unknown members {sorted(extra)} changed the result"
            bench.expect(same(page.names, names), page.exchange, changed)


@server_check(
    title="A `cursor` that is no string is refused",
    sends="`cursor` as null, number, boolean, array and object.",
    passes="Error -32602 for each.",
)
async def cursor_type(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for value in bench.some(_OTHER_TYPES):
        await bench.refused({**good, "cursor": value}, good, f"cursor {json_text(value)}")


async def _refusals(bench: Bench) -> list[tuple[str, Exchange]]:
    """Return the member at fault and the exchange of each invalid request that was refused as such."""
    good = {"query": await bench.name_query()}
    exchanges = [("query", await bench.server.search({}))]
    exchanges += [(field, await bench.server.search({**good, **bad})) for field, bad in _INVALID_MEMBERS]
    refusals = [(field, found) for field, found in exchanges if found.error and found.error.code == INVALID_PARAMS]
    bench.require(bool(refusals), f"no invalid request was refused with {INVALID_PARAMS}", exchanges[-1][1])
    return refusals


@server_check(
    title="A refusal says which member is wrong, and why",
    sends="Searches with one invalid member each.",
    passes="`data` with the strings `field`, the member at fault, and `reason` in each -32602.",
    level="SHOULD",
)
async def error_data(bench: Bench) -> None:
    for field, exchange in await _refusals(bench):
        data = exchange.error.data if exchange.error else None
        case = f"params {json_text(exchange.params)}"
        wrong = complaint(data, "InvalidParamsData")
        bench.expect(wrong is None, exchange, f"the error's data is malformed at {wrong}", case=case)
        named = (as_object(data) or {}).get("field")
        bench.expect(named == field, exchange, f"the error's data blames {named!r} for `{field}`", case=case)


@server_check(
    title="A refusal has HTTP status 400",
    sends="Searches with one invalid member each, over modern Streamable HTTP.",
    passes="HTTP status 400 with each -32602.",
    level="ADVICE",
    eras=(MODERN,),
    transports=("http",),
)
async def invalid_params_status(bench: Bench) -> None:
    for _, exchange in await _refusals(bench):
        status = exchange.answer.status
        bench.expect(status == 400, exchange, f"HTTP status {status} with error {INVALID_PARAMS}")


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

    query = await bench.query_with_matches()
    matches = len((await bench.server.walk(query, await bench.server.large_limit(), most=12)).names)
    for limit in bench.some([limit for limit in (1, 2, 3, 5, 7) if limit < matches], 1):
        judge(await bench.server.walk(query, limit, most=12))
    await judge_walks(bench, judge)


@server_check(
    title="A `limit` above the server's own maximum is clamped silently",
    sends="A tool's name under limits of 101, 10,000, 2^31 and 2^53 - 1.",
    passes="A result for each, never an error, that finds what a small limit finds.",
)
async def limit_clamped(bench: Bench) -> None:
    query = await bench.name_query()
    few = await bench.server.first(query, limit=3)
    for limit in bench.some((101, 10_000, 2**31, 2**53 - 1)):
        case = f"limit {limit}"
        await bench.served({"query": query, "limit": limit}, case)
        page = await bench.server.first(query, limit=limit)
        kept = bool(page.tools) or not few.tools
        bench.expect(kept, page.exchange, f"nothing is found under {case}", case=case)


@server_check(
    title="No page is larger than the advertised `maxLimit`",
    sends="Broad queries without a limit and with one above `maxLimit`, to a fixture of 120 tools.",
    passes="No page holds more than `maxLimit` tools.",
)
async def max_limit_honored(bench: Bench) -> None:
    most = integer((advertised_settings(await bench.server.connection()) or {}).get("maxLimit")) or 0
    bench.applies(most > 0, "the settings have no maxLimit")
    if bench.profile == "fixture":
        async with bench.fresh(catalog="large") as other:
            await _exceed(other, most)
    else:
        await _exceed(bench, most)


async def _exceed(bench: Bench, most: int) -> None:
    await bench.nonempty_listing()
    matches = 0
    for query in (await bench.vocabulary()).broad(3):
        for limit in (None, most + 1, 10 * most):
            try:
                walk = await bench.server.walk(query, limit, most=30)
            except UnverifiableError:
                continue  # that a large limit is no error is for limit-clamped to judge
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
        message = f"{len(page.tools)} tools on a page without limit"
        bench.expect(len(page.tools) <= _DEFAULT_LIMIT, page.exchange, message, case=f"query {query!r}")


@server_check(
    title="A `limit` that is no integer of at least 1 is refused",
    sends="Zero, negative numbers, fractions, booleans, strings, null, an array and an object.",
    passes="Error -32602 for each.",
)
async def limit_invalid(bench: Bench) -> None:
    good = {"query": await bench.name_query(), "limit": 3}
    for value in bench.some(_INVALID_LIMITS, 5):
        await bench.refused({**good, "limit": value}, good, f"limit {json_text(value)}")
    if (page := await _second_page(bench)) is not None:
        query, cursor = page
        for value in bench.some((0, -1, 2.5, "3", True), 1):
            bad = {"query": query, "limit": value, "cursor": cursor}
            await bench.refused(bad, good, f"limit {json_text(value)} with a cursor")


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
        bench.require(bool(first.next_cursor), f"a search for {query!r} under limit 1 has one page", first.exchange)
        page = await bench.served({"query": query, "cursor": first.next_cursor, **other}, f"the second page {case}")
        bench.expect(len(page.tools) <= other.get("limit", len(page.tools)), page.exchange, f"more than 3 tools {case}")
