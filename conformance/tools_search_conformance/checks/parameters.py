"""Request: which parameters are refused, and which must not be."""

from __future__ import annotations

from typing import Any, Final

from tools_search_conformance.target.bench import INVALID_PARAMS, Bench, server_check
from tools_search_conformance.target.properties import explore, texts
from tools_search_conformance.wire.codec import json_text, same

_OTHER_TYPES: Final[tuple[Any, ...]] = (None, 5, 2.5, True, [], ["anything"], {}, {"text": "anything"})
_BLANK: Final = ("", " ", "\t\r\n", "\u00a0", "\u1680", "\u2003\u3000", "\u0085", "\u2028\u2029", "\u202f\u205f")

_LONG: Final = (1025, 2000, 3000, 10_000, 100_000)
_CONTENT_TOO_LARGE: Final = 413

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
    for query in (await bench.vocabulary()).broad(2):
        if cursor := (await bench.server.page(query, limit=1)).next_cursor:
            await bench.refused({"limit": 1, "cursor": cursor}, good, "params with a genuine cursor but no query")
            break


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
        bench.expect(
            exchange.result is not None or (exchange.error is not None and exchange.error.code == INVALID_PARAMS),
            exchange,
            f"a query of {length:,} characters was answered by {exchange.describe()}",
            case=f"query of {length:,} characters",
        )


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
        bench.expect(after.result is not None, after, f"after a query with {what}, a plain one got {after.describe()}")
    await explore(bench, texts(), serve)


@server_check(
    title="A message with unpaired surrogates ends nothing",
    sends="Queries with unpaired surrogates, escaped in JSON, which may be refused or dropped; a plain one after each.",
    passes="A result for each plain query, from the same process.",
    level="ADVICE",
)
async def surrogates_survived(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for query in bench.some(("\ud800", "any\udfffthing", "\udc00\ud800"), 1):
        sent = await bench.server.ask("tools/search", {"query": query}, seconds=0.25)
        gone = [ended for ended, _ in bench.recorder.deaths]
        bench.expect(not gone, sent, f"after the query {query!a}, {', '.join(gone)}", case=f"query {query!a}")
        after = await bench.server.search(good)
        bench.expect(after.result is not None, after, f"after the query {query!a}, a plain one got {after.describe()}")


@server_check(
    title="Unknown members of `params` change nothing",
    sends="A search, and the same one with members that this draft does not know.",
    passes="The same tools.",
)
async def unknown_members_ignored(bench: Bench) -> None:
    query = await bench.name_query()
    plain, again = await bench.server.page(query), await bench.server.page(query)
    extras: tuple[dict[str, Any], ...] = (
        {"_meta": {"com.example/trace": "1", "progressToken": 7}},
        {"filters": {"group": "no such group"}, "detail": "name_only"},
        {"offset": 1, "max_results": 1, "x": None, "deep": [[{"y": [1]}]]},
    )
    for extra in extras:
        page = await bench.served({"query": query, **extra}, f"a search with the unknown members {sorted(extra)}")
        # Order is only a SHOULD: where two plain searches differ, a third difference shows nothing.
        if same(plain.names, again.names):
            bench.expect(
                same(page.names, plain.names), page.exchange, f"the unknown members {sorted(extra)} changed the result"
            )


@server_check(
    title="A `cursor` that is no string is refused",
    sends="`cursor` as null, number, boolean, array and object.",
    passes="Error -32602 for each.",
)
async def cursor_type(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    for value in bench.some(_OTHER_TYPES):
        await bench.refused({**good, "cursor": value}, good, f"cursor {json_text(value)}")
