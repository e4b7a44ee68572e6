"""Request: which parameters are refused, and which must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.properties import explore, texts
from tools_search_conformance.registry import check
from tools_search_conformance.wire.codec import same

if TYPE_CHECKING:
    from tools_search_conformance.bench import Bench

__all__: list[str] = []

_GOOD: Final[dict[str, Any]] = {"query": "anything"}
_OTHER_TYPES: Final[tuple[Any, ...]] = (None, 5, 2.5, True, [], ["anything"], {}, {"text": "anything"})
_BLANK: Final = ("", " ", "\t\r\n", "\u00a0", "\u1680", "\u2003\u3000", "\u0085", "\u2028\u2029", "\u202f\u205f")

_UNUSUAL: Final = {
    "NUL": "anything\x00",
    "control characters": "\x01\x02any\x1b[31mthing\x7f",
    "a control character that is no white space": "\x1c",
    "a zero width space, which is no White_Space": "\u200b",
    "a byte order mark, which is no White_Space": "\ufeff",
    "bidi marks": "\u202eanything\u2066\u2069",
    "line separators": "any\u2028thing\u2029",
    "combining marks": "a\u0301\u0327\u0323nything",
    "astral characters": "\U0001d51e\U0001d52b\U0001d536 \U0001f527\U0001f9d1\u200d\U0001f527",
    "right-to-left and CJK text": "ابحث عن أداة 检索工具",
    "noncharacters and the last code point": "\ufffe\uffff\U0010ffff",
    "quotes, backslashes and brackets": "\"any\\thing' [({*+?^$|.%_`--;</>",
    "regular expression that explodes": "(a+)+$ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    "one punctuation mark": "?",
}


@check(
    "query-missing",
    title="A search without `query` is refused",
    sends="`tools/search` without `query`, with and without other members.",
    passes="Error -32602.",
)
async def refuses_a_missing_query(bench: Bench) -> None:
    await bench.refused({}, _GOOD, "params without query")
    await bench.refused({"limit": 3}, {"limit": 3, **_GOOD}, "params with limit but no query")
    await bench.refused({"Query": "anything"}, _GOOD, "`Query` in place of `query`")


@check(
    "query-type",
    title="A `query` that is no string is refused",
    sends="`query` as null, number, boolean, array and object.",
    passes="Error -32602 for each.",
)
async def refuses_a_query_of_another_type(bench: Bench) -> None:
    for value in _OTHER_TYPES:
        await bench.refused({"query": value}, _GOOD, f"query {value!r}")


@check(
    "query-blank",
    title="A `query` of nothing but white space is refused",
    sends="The empty string and strings of White_Space characters, non-ASCII ones included.",
    passes="Error -32602 for each.",
)
async def refuses_a_blank_query(bench: Bench) -> None:
    for value in _BLANK:
        await bench.refused({"query": value}, _GOOD, f"query {value!a}")


@check(
    "query-long",
    title="A `query` of 1,024 characters is served; a longer one is served or refused with -32602",
    sends="1,024 scalar values of one, three and four bytes each; then 5,000.",
    passes="A result for 1,024, however many bytes they take; a result or error -32602 for more.",
)
async def serves_long_queries(bench: Bench) -> None:
    for character in ("x", "語", "🔧"):
        query = ("anything " + character * 1024)[:1024]
        await bench.served({"query": query}, f"a query of 1,024 characters, most of them {character!r}")
    exchange = await bench.search({"query": "anything " * 555})
    bench.expect(
        exchange.result is not None or (exchange.error is not None and exchange.error.code == -32602),
        exchange,
        f"a query of 4,995 characters was answered by {exchange.describe()}",
        case="query of 4,995 characters",
    )


@check(
    "query-unusual-characters",
    title="Every Unicode scalar value is ordinary input",
    sends="Queries with NUL, controls, bidi marks, astral characters, noncharacters; generated ones.",
    passes="A result for each.",
)
async def serves_unusual_characters(bench: Bench) -> None:
    async def serve(query: str) -> None:
        await bench.served({"query": query}, f"the query {query!a}")

    for what, query in _UNUSUAL.items():
        await bench.served({"query": query}, f"a query with {what} ({query!a})")
        after = await bench.search(_GOOD)
        bench.expect(after.result is not None, after, f"after a query with {what}, a plain one got {after.describe()}")
    await explore(bench, texts(), serve)


@check(
    "unknown-members-ignored",
    title="Unknown members of `params` change nothing",
    sends="A search, and the same one with members that this draft does not know.",
    passes="The same tools.",
)
async def ignores_unknown_members(bench: Bench) -> None:
    query = await bench.fertile()
    plain, again = await bench.page(query), await bench.page(query)
    extras: tuple[dict[str, Any], ...] = (
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


@check(
    "cursor-type",
    title="A `cursor` that is no string is refused",
    sends="`cursor` as null, number, boolean, array and object.",
    passes="Error -32602 for each.",
)
async def refuses_a_cursor_of_another_type(bench: Bench) -> None:
    for value in _OTHER_TYPES:
        await bench.refused({**_GOOD, "cursor": value}, _GOOD, f"cursor {value!r}")
